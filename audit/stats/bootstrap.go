// Package stats holds the statistics of the reports, on plain numbers. Where a quantity is not defined a function says
// so with a second result; none returns NaN or infinity as a number.
package stats

import (
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
)

// Bootstrap yields draws of a bootstrap over n items: the draw's number and how often each item is in it, n counts that
// add up to n. Draw 0 is the original sample, every count 1; the others are resamples with replacement (Answerability
// Confounds (GCD), appendix H, "Bootstrap"). The slice is used again for the next draw. A cluster bootstrap draws clusters:
// an item then counts as often as its cluster.
//
// Draws are a function of n, seed and stream alone. Name the stream after what is resampled, so that one table's rows
// are independent and none changes when another is added; give two analyses of the same items the same stream to pair
// them.
func Bootstrap(n, draws int, seed uint64, stream string) iter.Seq2[int, []int32] {
	return func(yield func(int, []int32) bool) {
		counts := make([]int32, n)
		for i := range counts {
			counts[i] = 1
		}
		rng := rand.New(rand.NewPCG(seed, streamID(stream)))
		for draw := range draws {
			if draw > 0 {
				clear(counts)
				for range n {
					counts[rng.IntN(n)]++
				}
			}
			if !yield(draw, counts) {
				return
			}
		}
	}
}

func streamID(stream string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(stream)) // never fails
	return hash.Sum64()
}

// Percentile is the q-th percentile (0 … 100) by linear interpolation between order statistics, as numpy.percentile
// computes it by default (Hyndman and Fan's definition 7). Values need not be sorted. Not defined for no values.
func Percentile(values []float64, q float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q / 100 * float64(len(sorted)-1)
	below := min(max(int(at), 0), len(sorted)-1)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (sorted[above]-sorted[below])*(at-float64(below)), true
}

// Interval95 is the 95 % percentile interval of bootstrap draws. Not defined for no draws.
func Interval95(draws []float64) (low, high float64, ok bool) {
	low, ok = Percentile(draws, 2.5)
	high, _ = Percentile(draws, 97.5)
	return low, high, ok
}

// EmpiricalP is the two-sided add-one p-value of an observed effect among N placebo effects,
// (1 + #{|placebo| ≥ |observed|}) / (1 + N) (Answerability Confounds (GCD), appendix C).
func EmpiricalP(observed float64, placebo []float64) float64 {
	extreme := 1
	for _, p := range placebo {
		if max(p, -p) >= max(observed, -observed) {
			extreme++
		}
	}
	return float64(extreme) / float64(1+len(placebo))
}
