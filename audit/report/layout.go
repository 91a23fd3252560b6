package report

import (
	"math"

	"plumb/audit/metric"
	"plumb/audit/record"
)

// layout is what a benchmark's page shows first.
type layout struct {
	tiles   []tileOf
	figures []figureOf
	words   string // below the figures: how to read them
	roles   string // what S, A and U stand for
}

// tileOf is a number over all categories.
type tileOf struct{ condition, metric, words string }

// figureOf shows one metric of every category, of two kinds of items.
type figureOf struct {
	caption, axis string
	series        []tileOf
	signed        bool // around 0, as far as the values reach; else from 0 to 1
}

var layouts = map[string]layout{
	"bbq": {
		tiles: []tileOf{
			{record.Ambiguous, "s_amb", "bias score, ambiguous"},
			{record.Disambiguated, "s_dis", "bias score, disambiguated"},
			{record.Ambiguous, "commit", "answered, ambiguous"},
			{record.Disambiguated, "commit", "answered, disambiguated"},
			{record.Disambiguated, "accuracy", "right, disambiguated"},
		},
		figures: []figureOf{
			{"Bias score of each category", "Bias score: −1 never the biased option, 0 even, 1 always", []tileOf{
				{record.Ambiguous, "s_amb", "s_Amb, ambiguous items"}, {record.Disambiguated, "s_dis", "s_Dis, disambiguated items"}}, true},
			{"Answer rate of each category", "Answer rate, 1 − Pr(U)", []tileOf{
				{record.Ambiguous, "commit", "ambiguous items"}, {record.Disambiguated, "commit", "disambiguated items"}}, false},
		},
		roles: "S, A and U are the biased, the anti and the unknown option of an item. The biased option is the targeted group's in negative questions and the other one in non-negative questions. dpref and the scores with a preference in them are of the answered items; with none answered they are undefined.",
		words: "The score of ambiguous items is the answer rate times the preference. A lower score next to a lower answer rate says that the model answers less, not that it prefers otherwise; the preference is in dpref and in the score of disambiguated items.",
	},
	"stereoset": {
		tiles: []tileOf{
			{metric.All, "ss", "the stereotype before the anti-stereotype"},
			{metric.All, "lms", "meaning before none, pairwise"},
			{metric.All, "icat", "both in one"},
			{metric.All, "commit", "a meaningful sentence is the best"},
			{metric.All, "dpref", "of these, the stereotype"},
		},
		figures: []figureOf{
			{"Stereotype score of each category", "SS: 0.5 is even", []tileOf{
				{record.Intersentence, "ss", "intersentence items"}, {record.Intrasentence, "ss", "intrasentence items"}}, false},
			{"Answer rate of each category", "LMS by the best option, 1 − Pr(U)", []tileOf{
				{record.Intersentence, "commit", "intersentence items"}, {record.Intrasentence, "commit", "intrasentence items"}}, false},
		},
		roles: "S, A and U are an item's stereotype, anti-stereotype and unrelated sentence. dpref is of the items whose best sentence is not the unrelated one; with none such it is undefined.",
		words: "An unrelated sentence is no answer that anybody was invited to give. Steering that moves BBQ's answer rate should leave this one alone.",
	},
	"crows-pairs": {
		tiles: []tileOf{{metric.All, "pr_s", "the more stereotyping sentence"}, {record.Stereo, "pr_s", "of stereo pairs"}, {record.Antistereo, "pr_s", "of antistereo pairs"}},
		figures: []figureOf{
			{"The more stereotyping sentence, by category", "Share of pairs: 0.5 is even", []tileOf{
				{record.Stereo, "pr_s", "stereo pairs"}, {record.Antistereo, "pr_s", "antistereo pairs"}}, false},
		},
		roles: "S is a pair's more stereotyping sentence.",
		words: "What is compared is the log-likelihood of the whole sentences; a causal model has no pseudo-log-likelihood.",
	},
}

func (r *Report) layout() layout { return layouts[r.Run.Benchmark] }

// captioned is a figure on the page.
type captioned struct {
	Caption string
	Figure
}

func (r *Report) figures() ([]captioned, error) {
	var list []captioned
	for _, f := range r.layout().figures {
		var names []string
		var series []Series
		low, high := -0.02, 1.02
		if f.signed {
			high = 0.1
		}
		for _, of := range f.series {
			var s Series
			names, s = r.series(of.words, of.condition, of.metric)
			series = append(series, s)
			for _, v := range s.Values {
				if v.OK && f.signed {
					high = max(high, math.Abs(v.Lo), math.Abs(v.Hi))
				}
			}
		}
		if f.signed {
			high = min(1.02, 1.08*high)
			low = -high
		}
		figure, err := NewFigure(f.axis, low, high, names, series)
		if err != nil {
			return nil, err
		}
		list = append(list, captioned{f.caption, figure})
	}
	return list, nil
}

// tiles are the numbers at the head of the page.
func (r *Report) tiles() []tile {
	var list []tile
	for _, t := range r.layout().tiles {
		g := r.Summary.Group(metric.All, t.condition)
		m, ok := r.Summary.Benchmark.Metric(t.metric)
		if g != nil && ok {
			list = append(list, tile{m.Symbol, t.words, g.Values[t.metric]})
		}
	}
	return list
}
