package compare

import (
	"fmt"
	"math"
	"slices"

	"plumb/audit/metric"
)

const (
	negligible = 1e-9  // below this a change is too small to be divided by
	rounding   = 1e-12 // far above the rounding error of any share or difference here
)

// Decompose takes the change of Pr(S) apart into composition, −ΔPr(U) · dpref₀, which answering less or more often
// explains, and preference, (1 − Pr(U)₁) · Δdpref, which a changed preference among answered items does (eqs. 4, 5). Their sum
// is ΔPr(S). If nothing is answered afterwards, dpref₁ does not exist and preference is 0. If nothing was answered
// before, there is no preference to start from, and ok is false.
func Decompose(before, after metric.Counts) (composition, preference float64, ok bool) {
	dpref0, answered0 := before.DPref()
	prU0, _ := before.PrU()
	prU1, n1 := after.PrU()
	if answered0 == 0 || n1 == 0 {
		return 0, 0, false
	}
	composition = -(prU1 - prU0) * dpref0
	if dpref1, answered1 := after.DPref(); answered1 > 0 {
		preference = (1 - prU1) * (dpref1 - dpref0)
	}
	return composition, preference, true
}

// Share is composition's share of the whole change, signed: above 1 where preference moved the other way, negative where
// composition did. It is undefined where the change is below 1e-9.
func Share(composition, preference float64) (share float64, ok bool) {
	sum := composition + preference
	if math.Abs(sum) < negligible {
		return 0, false
	}
	return composition / sum, true
}

// Channels is the change of Pr(S) and the two channels that make it up.
type Channels struct {
	AnswerRate       Channel      `json:"delta_pr_u"`
	Composition      Channel      `json:"composition"`
	Preference       Channel      `json:"preference"`
	CompositionShare metric.Value `json:"composition_share"`
}

// Channel is a change with what the bootstrap says of its sign.
type Channel struct {
	Change metric.Value `json:"change"`
	Draws  int          `json:"draws"` // in which the change is defined
	Kept   int          `json:"kept"`  // of them, those with the sign of the original sample
	Range  *Range       `json:"range"` // over the draws; nil if undefined
}

// Range is a least and a greatest value.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

func newChannel(draws []draw, of quantity) Channel {
	values, n, undefined := evaluateAll(draws, of)
	if n == 0 {
		return Channel{}
	}
	c := Channel{
		Change: metric.NewValue(values, n, undefined), Draws: len(values),
		Range: &Range{Min: slices.Min(values), Max: slices.Max(values)},
	}
	for _, v := range values {
		if sign(v) == sign(values[0]) {
			c.Kept++
		}
	}
	return c
}

// sign takes what rounding can leave of an exact zero for zero.
func sign(x float64) int {
	switch {
	case x > rounding:
		return 1
	case x < -rounding:
		return -1
	}
	return 0
}

func newChannels(draws []draw) (Channels, error) {
	for i := range draws {
		d := &draws[i]
		composition, preference, ok := Decompose(d.before, d.after)
		change, _ := changeOf(metric.Counts.PrS)(d)
		if ok && math.Abs(composition+preference-change) > rounding {
			return Channels{}, fmt.Errorf("composition %v and preference %v do not add up to the change %v of Pr(S)", composition, preference, change)
		}
	}
	return Channels{
		AnswerRate: newChannel(draws, changeOf(metric.Counts.PrU)),
		Composition: newChannel(draws, func(d *draw) (float64, int) {
			composition, _, ok := Decompose(d.before, d.after)
			return composition, d.nIf(ok)
		}),
		Preference: newChannel(draws, func(d *draw) (float64, int) {
			_, preference, ok := Decompose(d.before, d.after)
			return preference, d.nIf(ok)
		}),
		CompositionShare: evaluate(draws, func(d *draw) (float64, int) {
			composition, preference, ok := Decompose(d.before, d.after)
			if !ok {
				return 0, 0
			}
			share, ok := Share(composition, preference)
			return share, d.nIf(ok)
		}),
	}, nil
}
