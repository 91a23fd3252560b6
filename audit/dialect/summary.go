package dialect

import (
	"cmp"
	"math"
	"slices"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/stats"
)

// Summary is a run's metrics with their intervals.
type Summary struct {
	Draws   int                     `json:"bootstrap_draws"`
	Seed    uint64                  `json:"bootstrap_seed"`
	Pairs   int                     `json:"pairs"`
	Ties    int                     `json:"ties"` // pairs with an LP of exactly 0
	Values  map[string]metric.Value `json:"metrics"`
	Classes []Group                 `json:"classes"`
	Markers []Group                 `json:"markers"`
	// Failures are the records with an error: first those that cost a pair its LP, and last those without a back-translation,
	// which costs the least.
	Failures []metric.Failure `json:"failures"`
}

// Group is the pairs whose AAE sentence holds a marker, or any marker of a class.
type Group struct {
	Class     string                  `json:"class"`
	Marker    string                  `json:"marker,omitempty"`
	Pairs     int                     `json:"pairs"`               // whether they have scores or not; a metric's n says how many have
	Strongest bool                    `json:"strongest,omitempty"` // of the classes, the one with the highest LP
	Values    map[string]metric.Value `json:"metrics"`             // b_sae, b_aae, lp, lp_token
}

// localised are the metrics of a group.
var localised = []string{BSAE, BAAE, LP, LPToken}

// bootstrapSeed of every summary, so that two runs of the same pairs are drawn alike.
const bootstrapSeed = 0

// Summarize computes every metric with its 95 % interval from so many bootstrap draws of pairs (at least 1). All metrics
// and groups have the same draws, those of another run of as many pairs included (the paper's appendix C.6).
// In an instructed run perplexities are left out, as in the paper: the instruction is part of what they are conditioned on.
func Summarize(scores []Scores, wordings []Wording, instructed bool, draws int) *Summary {
	s := &Summary{Draws: draws, Seed: bootstrapSeed, Pairs: len(scores), Failures: []metric.Failure{}, Values: map[string]metric.Value{}}
	for i := range scores {
		s.Failures = append(s.Failures, scores[i].Failures...)
		if lp, ok := scores[i].LP(false); ok && lp == 0 {
			s.Ties++
		}
	}
	slices.SortStableFunc(s.Failures, func(a, b metric.Failure) int { return cmp.Compare(costOf(a), costOf(b)) })
	var metrics []Metric
	for _, m := range Metrics(wordings) {
		if !instructed || m.Then == nil && !slices.Contains(meanPPLs, m.Name) {
			metrics = append(metrics, m)
		}
	}
	all := make([]int, len(scores))
	for i := range all {
		all[i] = i
	}
	tallies := newTallies(metrics, all, scores)
	s.group(scores)
	groups := append(s.Classes, s.Markers...)
	grouped := make([][]*tally, len(groups))
	for g := range groups {
		var members []int
		for i := range scores {
			if groups[g].has(&scores[i]) {
				members = append(members, i)
			}
		}
		groups[g].Pairs = len(members)
		var local []Metric
		for _, m := range metrics {
			if slices.Contains(localised, m.Name) {
				local = append(local, m)
			}
		}
		grouped[g] = newTallies(local, members, scores)
	}
	for _, counts := range stats.Bootstrap(len(scores), draws, bootstrapSeed, "pairs") {
		for _, t := range tallies {
			t.draw(counts)
		}
		for _, list := range grouped {
			for _, t := range list {
				t.draw(counts)
			}
		}
	}
	for _, t := range tallies {
		s.Values[t.metric.Name] = t.value()
	}
	for g := range groups {
		groups[g].Values = map[string]metric.Value{}
		for _, t := range grouped[g] {
			groups[g].Values[t.metric.Name] = t.value()
		}
	}
	s.Classes, s.Markers = groups[:len(s.Classes)], groups[len(s.Classes):]
	s.mark()
	return s
}

var meanPPLs = []string{MeanPPL(SAE, SAE), MeanPPL(SAE, AAE), MeanPPL(AAE, SAE), MeanPPL(AAE, AAE)}

// group finds the classes, sorted, and the markers, sorted within their class.
func (s *Summary) group(scores []Scores) {
	s.Classes, s.Markers = []Group{}, []Group{}
	for i := range scores {
		for _, f := range scores[i].Features {
			if !slices.ContainsFunc(s.Classes, func(g Group) bool { return g.Class == f.Class }) {
				s.Classes = append(s.Classes, Group{Class: f.Class})
			}
			if !slices.ContainsFunc(s.Markers, func(g Group) bool { return g.Class == f.Class && g.Marker == f.Marker }) {
				s.Markers = append(s.Markers, Group{Class: f.Class, Marker: f.Marker})
			}
		}
	}
	slices.SortFunc(s.Classes, compareGroups)
	slices.SortFunc(s.Markers, compareGroups)
}

func compareGroups(a, b Group) int {
	return slices.Compare([]string{a.Class, a.Marker}, []string{b.Class, b.Marker})
}

func (g *Group) has(s *Scores) bool {
	return slices.ContainsFunc(s.Features, func(f record.Feature) bool {
		return f.Class == g.Class && (g.Marker == "" || f.Marker == g.Marker)
	})
}

// mark marks the class with the highest LP, if there are several.
func (s *Summary) mark() {
	best := -1
	for i := range s.Classes {
		v := s.Classes[i].Values[LP]
		if v.OK && (best < 0 || v.V > s.Classes[best].Values[LP].V) {
			best = i
		}
	}
	if best >= 0 && len(s.Classes) > 1 {
		s.Classes[best].Strongest = true
	}
}

// tally collects the draws of a metric.
type tally struct {
	metric      Metric
	members     []int
	numerator   []float64 // one a member
	denominator []float64
	draws       []float64
	undefined   int
	defined     bool // in the first draw, which is the sample itself
	n           int  // members with a denominator
}

func newTallies(metrics []Metric, members []int, scores []Scores) []*tally {
	list := make([]*tally, len(metrics))
	for k, m := range metrics {
		t := &tally{metric: m}
		for _, i := range members {
			if n, d := m.Of(&scores[i]); d > 0 {
				t.members = append(t.members, i)
				t.numerator, t.denominator = append(t.numerator, n), append(t.denominator, d)
			}
		}
		t.n = len(t.members)
		list[k] = t
	}
	return list
}

// draw takes a draw: how often each pair is in it.
func (t *tally) draw(counts []int32) {
	var numerator, denominator float64
	for k, i := range t.members {
		if c := float64(counts[i]); c > 0 {
			numerator += c * t.numerator[k]
			denominator += c * t.denominator[k]
		}
	}
	if denominator == 0 {
		t.undefined++
		return
	}
	value := numerator / denominator
	if t.metric.Then != nil {
		value = t.metric.Then(value)
	}
	if math.IsInf(value, 0) || math.IsNaN(value) { // a perplexity beyond what a number holds
		t.undefined++
		return
	}
	t.defined = t.defined || t.undefined == 0
	t.draws = append(t.draws, value)
}

func (t *tally) value() metric.Value {
	if t.n == 0 || !t.defined {
		return metric.Value{}
	}
	return metric.NewValue(t.draws, t.n, t.undefined)
}
