package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"plumb/audit/metric"
)

func TestDecomposeByHand(t *testing.T) {
	for _, test := range []struct {
		name                    string
		before, after           metric.Counts
		composition, preference float64
		share                   float64 // NaN: undefined
	}{
		// Pr(U) 0.50 → 0.76, dpref 0.6 → 0.5: −0.26 · 0.6 and 0.24 · (−0.1).
		{"both channels", metric.Counts{S: 30, A: 20, U: 50}, metric.Counts{S: 12, A: 12, U: 76}, -0.156, -0.024, 0.156 / 0.18},
		// Pr(U) stays 0.2, dpref 0.5 → 0.25.
		{"preference alone", metric.Counts{S: 4, A: 4, U: 2}, metric.Counts{S: 2, A: 6, U: 2}, 0, -0.2, 0},
		// Pr(U) 0 → 0.5, dpref stays 0.75.
		{"composition alone", metric.Counts{S: 6, A: 2}, metric.Counts{S: 3, A: 1, U: 4}, -0.375, 0, 1},
		// Pr(U) 0 → 0.5, dpref 0.5 → 1: both cancel.
		{"no change", metric.Counts{S: 2, A: 2}, metric.Counts{S: 2, U: 2}, -0.25, 0.25, math.NaN()},
		// Pr(U) 0 → 0.5, dpref 0.6 → 0.8: composition −0.3, preference +0.1; composition is more than the whole.
		{"opposed", metric.Counts{S: 6, A: 4}, metric.Counts{S: 4, A: 1, U: 5}, -0.3, 0.1, 1.5},
		{"nothing answered after", metric.Counts{S: 30, A: 20, U: 50}, metric.Counts{U: 100}, -0.3, 0, 1},
	} {
		composition, preference, ok := Decompose(test.before, test.after)
		if !ok || math.Abs(composition-test.composition) > 1e-15 || math.Abs(preference-test.preference) > 1e-15 {
			t.Errorf("%s: %v and %v (%v), want %v and %v", test.name, composition, preference, ok, test.composition, test.preference)
		}
		share, ok := Share(composition, preference)
		if ok == math.IsNaN(test.share) || ok && math.Abs(share-test.share) > 1e-14 {
			t.Errorf("%s: the composition share is %v (%v), want %v", test.name, share, ok, test.share)
		}
	}
	for name, counts := range map[string][2]metric.Counts{
		"nothing answered before": {{U: 5}, {S: 1, U: 4}},
		"no items":                {{}, {}},
	} {
		if composition, preference, ok := Decompose(counts[0], counts[1]); ok {
			t.Errorf("%s: %v and %v are not undefined", name, composition, preference)
		}
	}
}

func TestChannelsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	random := func() metric.Counts {
		limit := []int{1, 3, 40, 100_000}[rng.IntN(4)]
		return metric.Counts{S: rng.IntN(limit), A: rng.IntN(limit), U: rng.IntN(limit)}
	}
	defined := 0
	for range 100_000 {
		before, after := random(), random()
		composition, preference, ok := Decompose(before, after)
		if !ok {
			continue
		}
		defined++
		prS0, _ := before.PrS()
		prS1, _ := after.PrS()
		if math.Abs(composition+preference-(prS1-prS0)) > 1e-12 {
			t.Fatalf("%+v → %+v: %v + %v is not %v", before, after, composition, preference, prS1-prS0)
		}
	}
	if defined < 50_000 {
		t.Fatalf("only %d tables were defined", defined)
	}
}
