package bbq

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
)

// Sample returns n of the items, in their order; all of them if n is at least their number. It is stratified by
// category, template, and condition with polarity: at each of these levels the number of items of a stratum is its exact
// share of n, rounded down or up, by the method of largest remainders. Which items of a stratum are taken, and equal
// remainders, are drawn with the seed; among the conditions and polarities of a template those with the fewest items so
// far go first. The same items in the same order, n and seed give the same sample.
func Sample(items []Item, n int, seed uint64) []Item {
	if n >= len(items) {
		return slices.Clone(items)
	}
	if n <= 0 {
		return nil
	}
	s := sampler{share: n, of: len(items), random: rand.New(rand.NewPCG(seed, 0x5a3b1e)), taken: map[string]int{}}
	all := make([]int, len(items))
	for i := range all {
		all[i] = i
	}
	levels := []func(*Item) string{
		func(it *Item) string { return it.Category },
		func(it *Item) string { return it.Template },
		func(it *Item) string { return it.Condition + " " + it.Polarity },
	}
	chosen := s.choose(items, all, n, levels)
	slices.Sort(chosen)
	sample := make([]Item, len(chosen))
	for i, index := range chosen {
		sample[i] = items[index]
	}
	return sample
}

type sampler struct {
	share, of int // the exact share of a stratum of size k is k·share/of
	random    *rand.Rand
	taken     map[string]int // by the name of a stratum of the lowest level, over all strata above it
}

type stratum struct {
	name    string
	members []int
	seats   int
	rank    int
}

// choose takes n of the members, indices into items.
func (s *sampler) choose(items []Item, members []int, n int, levels []func(*Item) string) []int {
	if len(levels) == 0 {
		s.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return members[:n]
	}
	byName := map[string][]int{}
	for _, index := range members {
		name := levels[0](&items[index])
		byName[name] = append(byName[name], index)
	}
	names := slices.Sorted(maps.Keys(byName))
	ranks := s.random.Perm(len(names))
	strata := make([]*stratum, len(names))
	for i, name := range names {
		strata[i] = &stratum{name: name, members: byName[name], rank: ranks[i], seats: len(byName[name]) * s.share / s.of}
		n -= strata[i].seats
	}
	// What the rounding down left over: n is below the number of strata with a remainder, since the level above rounded
	// its own exact share, the sum of these, down or up.
	order := slices.SortedFunc(slices.Values(strata), func(a, b *stratum) int {
		return cmp.Or(
			cmp.Compare(len(b.members)*s.share%s.of, len(a.members)*s.share%s.of),
			cmp.Compare(s.taken[a.name], s.taken[b.name]),
			cmp.Compare(a.rank, b.rank))
	})
	for _, stratum := range order[:n] {
		stratum.seats++
	}
	var chosen []int
	for _, stratum := range strata {
		s.taken[stratum.name] += stratum.seats
		chosen = append(chosen, s.choose(items, stratum.members, stratum.seats, levels[1:])...)
	}
	return chosen
}

// SplitTemplates deals the question templates of each category into two halves, drawn with the seed, and returns the
// items of each half in their order; of an odd number of templates fit gets one more. Items of one template are never on
// both sides (GCD, section 5 and appendix H). The split of a category does not depend on which other categories are there.
func SplitTemplates(items []Item, seed uint64) (fit, heldOut []Item) {
	templates := map[string][]string{}
	for i := range items {
		category := items[i].Category
		if !slices.Contains(templates[category], items[i].Template) {
			templates[category] = append(templates[category], items[i].Template)
		}
	}
	isFit := map[string]bool{}
	for category, list := range templates {
		slices.Sort(list)
		hash := fnv.New64a()
		hash.Write([]byte(category))
		random := rand.New(rand.NewPCG(seed, hash.Sum64()))
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, template := range list[:(len(list)+1)/2] {
			isFit[template] = true
		}
	}
	for _, item := range items {
		if isFit[item.Template] {
			fit = append(fit, item)
		} else {
			heldOut = append(heldOut, item)
		}
	}
	return fit, heldOut
}
