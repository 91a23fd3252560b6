package metric

import (
	"slices"

	"plumb/audit/stats"
)

// All is the category of a group of every category, and the condition of a group of every condition.
const All = "all"

// Summary is a run's metrics under one read-out.
type Summary struct {
	Benchmark *Benchmark `json:"-"`
	ReadOut   ReadOut    `json:"read_out"`
	Draws     int        `json:"bootstrap_draws"`
	Seed      uint64     `json:"bootstrap_seed"`
	Items     int        `json:"items"`    // scored ones
	Ties      int        `json:"ties"`     // decided by the options' order
	Narrow    int        `json:"narrow"`   // decided by less than NarrowMargin, ties included
	Failures  []Failure  `json:"failures"` // items without scores
	Groups    []Group    `json:"groups"`   // by category in the run's order, then all categories; each condition, then all
}

// Group is the items of one category and condition, either of which can be All.
type Group struct {
	Category  string           `json:"category"`
	Condition string           `json:"condition"`
	Counts    Counts           `json:"counts"`
	Values    map[string]Value `json:"metrics"` // by Metric.Name, those that apply to the condition
}

// Group finds a group; nil if there is none.
func (s *Summary) Group(category, condition string) *Group {
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Category == category && g.Condition == condition {
			return g
		}
	}
	return nil
}

// Summarize computes every metric of every group with its interval from so many bootstrap draws (at least 1; with 1 an
// interval is its value). A group's items are resampled by themselves, from a stream named after them: its interval does
// not depend on what else was audited, and All of one category has the intervals of that category.
func Summarize(set *Set, of *Benchmark, draws int, seed uint64) *Summary {
	s := &Summary{Benchmark: of, Groups: []Group{}, ReadOut: set.ReadOut, Draws: draws, Seed: seed, Items: len(set.Items), Failures: set.Failures}
	var categories, conditions []string
	members := make(map[[2]string][]*Item)
	for i := range set.Items {
		item := &set.Items[i]
		if !slices.Contains(categories, item.Category) {
			categories = append(categories, item.Category)
		}
		if !slices.Contains(conditions, item.Condition) {
			conditions = append(conditions, item.Condition)
		}
		for _, category := range []string{item.Category, All} {
			for _, condition := range []string{item.Condition, All} {
				key := [2]string{category, condition}
				members[key] = append(members[key], item)
			}
		}
		if item.Tied {
			s.Ties++
		}
		if item.Margin < NarrowMargin {
			s.Narrow++
		}
	}
	slices.Sort(conditions)
	for _, category := range append(slices.Clip(categories), All) {
		for _, condition := range append(slices.Clip(conditions), All) {
			if items := members[[2]string{category, condition}]; len(items) > 0 {
				stream := Stream(categories, conditions, category, condition)
				s.Groups = append(s.Groups, newGroup(of.Metrics, category, condition, items, draws, seed, stream))
			}
		}
	}
	return s
}

// Stream names the bootstrap stream of a group (stats.Bootstrap) in a run of these categories and conditions. Where All
// amounts to one of them, it has that one's.
func Stream(categories, conditions []string, category, condition string) string {
	if category == All && len(categories) == 1 {
		category = categories[0]
	}
	if condition == All && len(conditions) == 1 {
		condition = conditions[0]
	}
	return category + "/" + condition
}

// newGroup computes a group's metrics. Items that count alike are told apart no further: a draw is a tally of the kinds of
// outcome (of BBQ six: choice, right or wrong).
func newGroup(metrics []Metric, category, condition string, items []*Item, draws int, seed uint64, stream string) Group {
	kinds := make([]uint8, len(items))
	var kind []Counts
	for i, item := range items {
		var c Counts
		c.Add(item, 1)
		at := slices.Index(kind, c)
		if at < 0 {
			at = len(kind)
			kind = append(kind, c)
		}
		kinds[i] = uint8(at)
	}
	resampled := make([]Counts, 0, draws)
	tally := make([]int, len(kind))
	for _, counts := range stats.Bootstrap(len(items), draws, seed, stream) {
		clear(tally)
		for i, count := range counts {
			tally[kinds[i]] += int(count)
		}
		var c Counts
		for k, n := range tally {
			c.Plus(kind[k], n)
		}
		resampled = append(resampled, c)
	}
	g := Group{Category: category, Condition: condition, Counts: resampled[0], Values: make(map[string]Value)}
	for _, m := range metrics {
		if m.Applies(condition) {
			g.Values[m.Name] = m.evaluate(resampled)
		}
	}
	return g
}

// evaluate computes the metric on the original sample, the first, and its interval from all draws.
func (m Metric) evaluate(resampled []Counts) Value {
	_, n := m.Of(resampled[0])
	if n == 0 {
		return Value{}
	}
	values := make([]float64, 0, len(resampled))
	for _, c := range resampled {
		if value, n := m.Of(c); n > 0 {
			values = append(values, value)
		}
	}
	return NewValue(values, n, len(resampled)-len(values))
}
