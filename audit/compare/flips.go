package compare

import (
	"plumb/audit/metric"
	"plumb/audit/record"
)

// Flips are the items that went from an answer to the unknown option (section 6.4), and whose answers they were.
type Flips struct {
	Flipped  int          `json:"flipped"`
	Returned int          `json:"returned"` // the other way, from the unknown option to an answer
	Rate     metric.Value `json:"rate"`     // of flipped among all items of the group
	// The share of items whose answer in the base run was the biased option, among the flipped ones and among those
	// answered in both runs; and the first less the second. Undefined where there is no such item.
	FlippedS   metric.Value `json:"biased_before_among_flipped"`
	StayedS    metric.Value `json:"biased_before_among_stayed"`
	Difference metric.Value `json:"difference"`
	Examples   []Example    `json:"examples,omitempty"`
}

// Example is a flipped item. Its texts are empty if the run was stored without them.
type Example struct {
	ID      string          `json:"id"`
	Text    string          `json:"text,omitempty"`
	Options []ExampleOption `json:"options"`
	Correct record.Role     `json:"correct"`
	Before  record.Role     `json:"before"` // chosen in the base run
	After   record.Role     `json:"after"`
}

// ExampleOption is an option with its score in both runs.
type ExampleOption struct {
	Text   string      `json:"text,omitempty"`
	Role   record.Role `json:"role"`
	Before float64     `json:"before"`
	After  float64     `json:"after"`
}

func newFlips(draws []draw) Flips {
	flippedS := func(d *draw) (float64, int) { return ratio(d.all[roleS][roleU], d.all.flipped()) }
	stayedS := func(d *draw) (float64, int) {
		stayed := d.all[roleS][roleS] + d.all[roleS][roleA]
		return ratio(stayed, stayed+d.all[roleA][roleS]+d.all[roleA][roleA])
	}
	first := &draws[0].all
	return Flips{
		Flipped: first.flipped(), Returned: first[roleU][roleS] + first[roleU][roleA],
		Rate:     evaluate(draws, func(d *draw) (float64, int) { return ratio(d.all.flipped(), d.n) }),
		FlippedS: evaluate(draws, flippedS),
		StayedS:  evaluate(draws, stayedS),
		Difference: evaluate(draws, func(d *draw) (float64, int) {
			flipped, n0 := flippedS(d)
			stayed, n1 := stayedS(d)
			return flipped - stayed, d.nIf(n0 > 0 && n1 > 0)
		}),
	}
}

// flipped counts the items that went from an answer to the unknown option.
func (j *joint) flipped() int { return j[roleS][roleU] + j[roleA][roleU] }

// maxExamples is how many flipped items a group shows.
const maxExamples = 3

// flippedPairs are the first few flipped items of a group.
func flippedPairs(pairs []pair) []pair {
	var flipped []pair
	for _, p := range pairs {
		if !p.before.Choice.Abstains() && p.after.Choice.Abstains() {
			flipped = append(flipped, p)
		}
		if len(flipped) == maxExamples {
			break
		}
	}
	return flipped
}

func newExample(p pair, r record.Record) Example {
	e := Example{ID: r.ID, Text: r.Text, Correct: p.before.Correct, Before: p.before.Choice, After: p.after.Choice}
	for _, o := range r.Options {
		e.Options = append(e.Options, ExampleOption{o.Text, o.Role, score(p.before, o.Role), score(p.after, o.Role)})
	}
	return e
}

func score(item *metric.Item, role record.Role) float64 {
	switch role {
	case record.Biased:
		return item.Scores.S
	case record.Anti:
		return item.Scores.A
	}
	return item.Scores.U
}

// Shifts are the mean changes of the options' scores, in natural log-probability under the read-out, and of the margin
// of the unknown option over the better of the other two, whose sign decides whether an item is answered.
type Shifts struct {
	S      metric.Value `json:"biased"`
	A      metric.Value `json:"anti"`
	U      metric.Value `json:"unknown"`
	Margin metric.Value `json:"margin"`
}

// shifts are an item's changes, in the order of Shifts.
func shifts(p pair) [4]float64 {
	b, a := p.before.Scores, p.after.Scores
	return [4]float64{a.S - b.S, a.A - b.A, a.U - b.U, (a.U - max(a.S, a.A)) - (b.U - max(b.S, b.A))}
}

func newShifts(draws []draw) Shifts {
	mean := func(i int) metric.Value {
		return evaluate(draws, func(d *draw) (float64, int) { return d.shift[i] / float64(d.n), d.n })
	}
	return Shifts{S: mean(0), A: mean(1), U: mean(2), Margin: mean(3)}
}
