package steer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// TopTwoMargin is how far the best of an item's option scores is above the second: the baseline's confidence in its answer.
// NaN if there are fewer than two scores.
func TopTwoMargin(scores []float64) float64 {
	best, second := math.Inf(-1), math.Inf(-1)
	for _, s := range scores {
		if s > best {
			best, second = s, best
		} else if s > second {
			second = s
		}
	}
	if math.IsInf(second, -1) {
		return math.NaN()
	}
	return best - second
}

// MarginStrata puts items into k strata by the k-quantiles of their margins (linear interpolation between order
// statistics): stratum 0 holds the least confident items. Equal margins share a stratum, so a stratum may stay empty.
func MarginStrata(margins []float64, k int) ([]int, error) {
	if k < 1 {
		return nil, fmt.Errorf("%d strata are not possible", k)
	}
	if len(margins) == 0 {
		return nil, errNoItems
	}
	sorted := slices.Clone(margins)
	for _, m := range sorted {
		if math.IsNaN(m) || math.IsInf(m, 0) {
			return nil, errors.New("a margin is not finite")
		}
	}
	slices.Sort(sorted)
	edges := make([]float64, k-1)
	for i := range edges {
		at := float64(i+1) / float64(k) * float64(len(sorted)-1)
		below := int(at)
		above := min(below+1, len(sorted)-1)
		edges[i] = sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
	}
	strata := make([]int, len(margins))
	for i, m := range margins {
		strata[i] = sort.Search(len(edges), func(e int) bool { return edges[e] > m })
	}
	return strata, nil
}
