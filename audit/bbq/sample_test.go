package bbq

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// uneven makes items in strata of random sizes.
func uneven(random *rand.Rand, categories int) []Item {
	var items []Item
	for c := range categories {
		category := fmt.Sprintf("C%d", c)
		for template := range 1 + random.IntN(9) {
			for _, condition := range []string{Ambiguous, Disambiguated} {
				for _, polarity := range []string{Negative, NonNegative} {
					for range random.IntN(12) {
						items = append(items, Item{
							ID: fmt.Sprintf("%s/%d", category, len(items)), Category: category,
							Template: fmt.Sprintf("%s/%d", category, template), Condition: condition, Polarity: polarity,
						})
					}
				}
			}
		}
	}
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

func count(items []Item, key func(*Item) string) map[string]int {
	counts := map[string]int{}
	for i := range items {
		counts[key(&items[i])]++
	}
	return counts
}

func ofCategory(it *Item) string { return it.Category }
func ofTemplate(it *Item) string { return it.Template }
func ofCell(it *Item) string     { return it.Condition + " " + it.Polarity }
func ofStratum(it *Item) string  { return it.Template + " " + ofCell(it) }

func TestSampleProperties(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		items := uneven(random, 1+random.IntN(4))
		before := slices.Clone(items)
		n := random.IntN(len(items) + 1)
		sample := Sample(items, n, seed)
		if len(sample) != n {
			t.Fatalf("seed %d: %d of %d items, want %d", seed, len(sample), len(items), n)
		}
		if !reflect.DeepEqual(items, before) {
			t.Fatal("the items have changed")
		}
		if again := Sample(items, n, seed); !reflect.DeepEqual(again, sample) {
			t.Fatalf("seed %d: two samples differ", seed)
		}
		// A subsequence of the items: in their order, none twice.
		next := 0
		for i := range items {
			if next < n && items[i].ID == sample[next].ID {
				next++
			}
		}
		if next != n {
			t.Fatalf("seed %d: the sample is not in the order of the items", seed)
		}
		// Each stratum of each level has its exact share, rounded down or up.
		for _, level := range []func(*Item) string{ofCategory, ofTemplate, ofStratum} {
			sizes, taken := count(items, level), count(sample, level)
			for name, size := range sizes {
				down := size * n / len(items)
				up := (size*n + len(items) - 1) / len(items)
				if taken[name] < down || taken[name] > up {
					t.Fatalf("seed %d: %d of %d in %s, share %d to %d", seed, taken[name], size, name, down, up)
				}
			}
		}
	}
}

func TestSampleOfEqualStrata(t *testing.T) {
	var items []Item
	for i := range 25 * 4 * 10 {
		items = append(items, Item{
			ID: fmt.Sprintf("Age/%d", i), Category: "Age", Template: fmt.Sprintf("Age/%d", i%25),
			Condition: []string{Ambiguous, Disambiguated}[i/25%2], Polarity: []string{Negative, NonNegative}[i/50%2],
		})
	}
	for _, n := range []int{1, 4, 25, 30, 50, 100, 130, 200, 999} {
		sample := Sample(items, n, 3)
		for what, level := range map[string]func(*Item) string{"template": ofTemplate, "condition and polarity": ofCell, "stratum": ofStratum} {
			taken := count(sample, level)
			low, high := n, 0
			for name := range count(items, level) {
				low, high = min(low, taken[name]), max(high, taken[name])
			}
			if high-low > 1 {
				t.Errorf("n %d: from %d to %d items a %s", n, low, high, what)
			}
		}
	}
	if reflect.DeepEqual(Sample(items, 100, 1), Sample(items, 100, 2)) {
		t.Error("two seeds give the same sample")
	}
	if all := Sample(items, len(items), 1); !reflect.DeepEqual(all, items) {
		t.Error("a sample of all items is not all items")
	}
	if all := Sample(items, 1<<40, 1); !reflect.DeepEqual(all, items) {
		t.Error("a sample of more than all items is not all items")
	}
	if none := Sample(items, 0, 1); len(none) != 0 {
		t.Error("a sample of no items has some")
	}
	if none := Sample(nil, 5, 1); len(none) != 0 {
		t.Error("a sample out of no items has some")
	}
}

// Every item is taken about equally often: the draws inside a stratum and among equal remainders favor none.
func TestSampleIsFair(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	items := uneven(random, 2)
	taken := map[string]int{}
	const draws = 2000
	n := len(items) / 3
	for seed := range uint64(draws) {
		for _, item := range Sample(items, n, seed) {
			taken[item.ID]++
		}
	}
	strata := count(items, ofStratum)
	for i := range items {
		// The strata get one seat more or less than their share at most, so a member's rate is within one over their size.
		rate := float64(taken[items[i].ID]) / draws
		slack := 1/float64(strata[ofStratum(&items[i])]) + 0.05
		if want := float64(n) / float64(len(items)); rate < want-slack || rate > want+slack {
			t.Errorf("%s is in %.3f of the samples, expected %.3f", items[i].ID, rate, want)
		}
	}
}

func TestSplitTemplates(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 2))
		items := uneven(random, 3)
		fit, heldOut := SplitTemplates(items, seed)
		fitTemplates, heldOutTemplates := count(fit, ofTemplate), count(heldOut, ofTemplate)
		for name := range fitTemplates {
			if heldOutTemplates[name] > 0 {
				t.Fatalf("seed %d: template %s is on both sides", seed, name)
			}
		}
		if len(fit)+len(heldOut) != len(items) {
			t.Fatalf("seed %d: %d and %d of %d items", seed, len(fit), len(heldOut), len(items))
		}
		// Both halves keep the order, and each category is halved.
		for _, half := range [][]Item{fit, heldOut} {
			next := 0
			for i := range items {
				if next < len(half) && items[i].ID == half[next].ID {
					next++
				}
			}
			if next != len(half) {
				t.Fatalf("seed %d: the order has changed", seed)
			}
		}
		of := func(templates map[string]int, category string) (n int) {
			for name := range templates {
				if name[:2] == category {
					n++
				}
			}
			return n
		}
		for name := range count(items, ofCategory) {
			if difference := of(fitTemplates, name) - of(heldOutTemplates, name); difference < 0 || difference > 1 {
				t.Fatalf("seed %d: %d templates of %s more on one side", seed, difference, name)
			}
		}
		// The split depends on the seed, not on the order of the items or on the other categories.
		shuffled := slices.Clone(items)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		var first []Item
		for _, item := range shuffled {
			if item.Category == "C0" {
				first = append(first, item)
			}
		}
		fitFirst, _ := SplitTemplates(first, seed)
		maps.DeleteFunc(fitTemplates, func(name string, _ int) bool { return name[:2] != "C0" })
		if got := count(fitFirst, ofTemplate); !maps.Equal(got, fitTemplates) {
			t.Fatalf("seed %d: C0 alone is split into %v, among others into %v", seed, got, fitTemplates)
		}
	}
	data, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	one, _ := SplitTemplates(data.Items, 1)
	two, _ := SplitTemplates(data.Items, 2)
	if reflect.DeepEqual(one, two) {
		t.Error("two seeds give the same split")
	}
}
