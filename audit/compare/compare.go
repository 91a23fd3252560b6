package compare

import (
	"fmt"
	"slices"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/stats"
)

// Comparison is a steered run against its base, under one read-out.
type Comparison struct {
	Base       Side           `json:"base"`
	Steered    Side           `json:"steered"`
	Difference string         `json:"difference"` // what the steered run was asked otherwise
	Notes      []string       `json:"notes"`
	ReadOut    metric.ReadOut `json:"read_out"`
	Draws      int            `json:"bootstrap_draws"`
	Seed       uint64         `json:"bootstrap_seed"`
	Items      int            `json:"items"`    // in both runs, with scores
	Unpaired   int            `json:"unpaired"` // in the base run only
	Unscored   int            `json:"unscored"` // in both, but one has no score
	Groups     []Group        `json:"groups"`   // as in an audit's summary

	benchmark *metric.Benchmark
}

// Side is one of the runs.
type Side struct {
	Name     string           `json:"name"` // of its directory
	Model    record.Model     `json:"model"`
	Steering *record.Steering `json:"steering"`
}

// Group is what the intervention did to the items of one category and condition, either of which can be metric.All.
type Group struct {
	Category  string            `json:"category"`
	Condition string            `json:"condition"`
	Items     int               `json:"items"`
	Before    metric.Counts     `json:"before"`
	After     metric.Counts     `json:"after"`
	Changes   map[string]Change `json:"metrics"` // by metric.Metric's name, those that apply to the condition
	Channels  Channels          `json:"channels"`
	Selection Selection         `json:"selection"`
	Flips     Flips             `json:"flips"`
	Shifts    Shifts            `json:"shifts"`
	Free      McNemar           `json:"mcnemar_free"`   // the biased option chosen, of all three
	Forced    McNemar           `json:"mcnemar_forced"` // of the biased and the anti option
}

// Change is a metric in both runs.
type Change struct {
	Before metric.Value `json:"before"`
	After  metric.Value `json:"after"`
	Delta  metric.Value `json:"change"`
}

// McNemar tests whether the biased option is chosen as often after as before.
type McNemar struct {
	BeforeOnly int     `json:"before_only"` // items on which only the base run chose it
	AfterOnly  int     `json:"after_only"`  // items on which only the steered run did
	Exact      float64 `json:"p_exact"`
	Corrected  float64 `json:"p_corrected"` // chi-squared with continuity correction
	// Holm is the exact p-value adjusted for the number of categories tested, within a condition. Nil where all
	// categories are taken together.
	Holm *float64 `json:"p_holm"`
}

// Group finds a group; nil if there is none.
func (c *Comparison) Group(category, condition string) *Group {
	for i := range c.Groups {
		if g := &c.Groups[i]; g.Category == category && g.Condition == condition {
			return g
		}
	}
	return nil
}

// Compare compares two runs, loaded with the same read-out, with so many bootstrap draws (at least 1). It refuses runs
// that do not belong together, and says why.
func Compare(base, steered *Run, readOut metric.ReadOut, draws int, seed uint64) (*Comparison, error) {
	p, err := match(base, steered)
	if err != nil {
		return nil, err
	}
	benchmark, err := metric.ForBenchmark(base.Info.Benchmark)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", base.Name, err)
	}
	c := &Comparison{
		benchmark:  benchmark,
		Base:       Side{base.Name, base.Info.Model, base.Info.Steering},
		Steered:    Side{steered.Name, steered.Info.Model, steered.Info.Steering},
		Difference: p.difference, Notes: p.notes, ReadOut: readOut, Draws: draws, Seed: seed,
		Items: len(p.pairs), Unpaired: p.unpaired, Unscored: p.unscored,
	}
	var examples []pair
	shown := map[string]bool{}
	for _, members := range groups(p.pairs) {
		g, err := newGroup(benchmark.Metrics, members, draws, seed)
		if err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, g)
		if members.category != metric.All && members.condition != metric.All {
			for _, e := range flippedPairs(members.pairs) {
				examples = append(examples, e)
				shown[e.before.ID] = true
			}
		}
	}
	c.adjust()
	return c, c.addExamples(base.Dir, examples, shown)
}

// members are a group's pairs.
type members struct {
	category, condition string
	pairs               []pair
}

// groups sorts pairs by category, in their order, then all; within each by condition, then all.
func groups(pairs []pair) []members {
	var categories, conditions []string
	for _, p := range pairs {
		if !slices.Contains(categories, p.before.Category) {
			categories = append(categories, p.before.Category)
		}
		if !slices.Contains(conditions, p.before.Condition) {
			conditions = append(conditions, p.before.Condition)
		}
	}
	slices.Sort(conditions)
	var out []members
	for _, category := range append(categories, metric.All) {
		for _, condition := range append(slices.Clip(conditions), metric.All) {
			m := members{category: category, condition: condition}
			for _, p := range pairs {
				if (category == metric.All || category == p.before.Category) && (condition == metric.All || condition == p.before.Condition) {
					m.pairs = append(m.pairs, p)
				}
			}
			if len(m.pairs) > 0 {
				out = append(out, m)
			}
		}
	}
	return out
}

func newGroup(metrics []metric.Metric, m members, n int, seed uint64) (Group, error) {
	draws, templates := newDraws(m.pairs, m.category, m.condition, n, seed)
	channels, err := newChannels(draws)
	if err != nil {
		return Group{}, err
	}
	g := Group{
		Category: m.category, Condition: m.condition, Items: len(m.pairs),
		Before: draws[0].before, After: draws[0].after,
		Changes:   map[string]Change{},
		Channels:  channels,
		Selection: newSelection(draws, templates),
		Flips:     newFlips(draws),
		Shifts:    newShifts(draws),
		Free:      newMcNemar(m.pairs, func(p pair) (before, after record.Role) { return p.before.Choice, p.after.Choice }),
		Forced:    newMcNemar(m.pairs, func(p pair) (before, after record.Role) { return p.forcedBefore, p.forcedAfter }),
	}
	for _, q := range metrics {
		if q.Applies(m.condition) {
			g.Changes[q.Name] = Change{
				Before: evaluate(draws, beforeOf(q.Of)),
				After:  evaluate(draws, afterOf(q.Of)),
				Delta:  evaluate(draws, changeOf(q.Of)),
			}
		}
	}
	return g, nil
}

func newMcNemar(pairs []pair, choices func(pair) (before, after record.Role)) McNemar {
	var m McNemar
	for _, p := range pairs {
		before, after := choices(p)
		switch {
		case before == record.Biased && after != record.Biased:
			m.BeforeOnly++
		case before != record.Biased && after == record.Biased:
			m.AfterOnly++
		}
	}
	test := stats.NewMcNemar(m.BeforeOnly, m.AfterOnly)
	m.Exact, m.Corrected = test.Exact, test.Corrected
	return m
}

// adjust corrects the tests of each condition for the number of categories.
func (c *Comparison) adjust() {
	tests := map[string][]*McNemar{}
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.Category != metric.All {
			tests[g.Condition+"/free"] = append(tests[g.Condition+"/free"], &g.Free)
			tests[g.Condition+"/forced"] = append(tests[g.Condition+"/forced"], &g.Forced)
		}
	}
	for _, family := range tests {
		p := make([]float64, len(family))
		for i, test := range family {
			p[i] = test.Exact
		}
		for i, adjusted := range stats.Holm(p) {
			family[i].Holm = &adjusted
		}
	}
}

// addExamples gives the groups of one category and condition their examples, with the texts of the base run's records.
func (c *Comparison) addExamples(dir string, examples []pair, ids map[string]bool) error {
	if len(examples) == 0 {
		return nil
	}
	records, err := recordsOf(dir, ids)
	if err != nil {
		return err
	}
	for _, p := range examples {
		flips := &c.Group(p.before.Category, p.before.Condition).Flips
		flips.Examples = append(flips.Examples, newExample(p, records[p.before.ID]))
	}
	return nil
}
