package corpus

import (
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
)

// stratum says where a triplet lies in the corpus: in which third by the length of its AAE text, and in which third by how
// much of that text the translation to SAE changed (a measure of how strong the dialect is).
type stratum struct{ length, change int }

// Sample draws n of the triplets for annotators with the seed, all of them if there are no more. It is stratified by the
// length of the AAE text and by the overlap of AAE and SAE text, in thirds each: a stratum's share of the sample is its share
// of the triplets, rounded down or up, by the method of largest remainders. The sample is in the order of the triplets.
func Sample(triplets []Triplet, n int, seed uint64) []Triplet {
	if n >= len(triplets) {
		return slices.Clone(triplets)
	}
	random := rand.New(rand.NewPCG(seed, 0xa22074))
	length := thirds(triplets, func(t *Triplet) float64 { return float64(words(t.AAE)) })
	change := thirds(triplets, func(t *Triplet) float64 { return -trigramF1(t.AAE, t.SAE) })
	strata := map[stratum][]int{}
	for _, i := range random.Perm(len(triplets)) {
		s := stratum{length[i], change[i]}
		strata[s] = append(strata[s], i)
	}
	names := slices.SortedFunc(maps.Keys(strata), func(a, b stratum) int {
		return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.change, b.change))
	})
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] }) // equal remainders
	slices.SortStableFunc(names, func(a, b stratum) int {
		return cmp.Compare(len(strata[b])*n%len(triplets), len(strata[a])*n%len(triplets))
	})
	left := n
	for _, name := range names {
		left -= len(strata[name]) * n / len(triplets)
	}
	var chosen []int
	for i, name := range names {
		seats := len(strata[name]) * n / len(triplets)
		if i < left {
			seats++
		}
		chosen = append(chosen, strata[name][:seats]...)
	}
	slices.Sort(chosen)
	var sample []Triplet
	for _, i := range chosen {
		sample = append(sample, triplets[i])
	}
	return sample
}

// thirds says in which third of the values, from 0, each triplet's is. Equal values are in one third.
func thirds(triplets []Triplet, value func(*Triplet) float64) []int {
	values := make([]float64, len(triplets))
	for i := range triplets {
		values[i] = value(&triplets[i])
	}
	sorted := slices.Sorted(slices.Values(values))
	third := make([]int, len(values))
	for i, v := range values {
		below, _ := slices.BinarySearch(sorted, v)
		third[i] = 3 * below / len(values)
	}
	return third
}

// WriteSheet writes a CSV sheet for one annotator, with an empty column for every dimension. The triplets stand in an order
// of the annotator's own, drawn with the seed, so that tiredness and habit do not meet the same ones everywhere. Annotators
// are counted from 1.
func WriteSheet(path string, sample []Triplet, dimensions []string, annotator int, seed uint64) error {
	order := rand.New(rand.NewPCG(seed, 0x5ee7<<32|uint64(annotator))).Perm(len(sample))
	return WriteFile(path, func(out io.Writer) error {
		sheet := csv.NewWriter(out)
		_ = sheet.Write(append([]string{"order", "id", FieldAAE, FieldSAE, FieldAAEBack}, dimensions...)) // see sheet.Error
		for place, i := range order {
			t := &sample[i]
			_ = sheet.Write(append([]string{strconv.Itoa(place + 1), t.ID, t.AAE, t.SAE, t.AAEBack}, make([]string, len(dimensions))...))
		}
		sheet.Flush()
		return sheet.Error()
	})
}
