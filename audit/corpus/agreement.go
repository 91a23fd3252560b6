package corpus

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/report"
	"plumb/audit/stats"
)

// Agreement says how far annotators agree on one dimension. Intervals are of a bootstrap over items.
type Agreement struct {
	Dimension  string       `json:"dimension"`
	Annotators []string     `json:"annotators"` // who judged anything on it
	Judgements int          `json:"judgements"`
	Prevalence []Share      `json:"prevalence"` // of all judgements, the commonest label first
	Exact      metric.Value `json:"exact"`      // share of items on which all annotators agree, of those that all judged
	Fleiss     metric.Value `json:"fleiss"`     // κ, of the same items
	Alpha      metric.Value `json:"alpha"`      // Krippendorff's, of the items that two or more judged
	Cohen      []Pair       `json:"cohen"`      // κ of every two annotators
}

// Share is a label's part of the judgements.
type Share struct {
	Label string  `json:"label"`
	Share float64 `json:"share"`
}

// Pair is the agreement of two annotators on the items that both judged.
type Pair struct {
	First  string       `json:"first"`
	Second string       `json:"second"`
	Items  int          `json:"items"` // that both judged
	Kappa  metric.Value `json:"kappa"`
}

// Agreements are those of every dimension, with intervals from so many bootstrap draws, the first being the items
// themselves.
func (a *Annotations) Agreements(draws int, seed uint64) []Agreement {
	var list []Agreement
	for _, dimension := range a.Dimensions {
		list = append(list, a.agreement(dimension, draws, seed))
	}
	return list
}

func (a *Annotations) agreement(dimension string, draws int, seed uint64) Agreement {
	result := Agreement{Dimension: dimension, Cohen: []Pair{}}
	total := map[string]int{}
	for _, annotator := range a.Annotators {
		judged := false
		for _, item := range a.Items {
			if label := a.Label(dimension, item, annotator); label != "" {
				judged = true
				total[label]++
				result.Judgements++
			}
		}
		if judged {
			result.Annotators = append(result.Annotators, annotator)
		}
	}
	labels := slices.Sorted(maps.Keys(total))
	for _, label := range labels {
		result.Prevalence = append(result.Prevalence, Share{label, float64(total[label]) / float64(result.Judgements)})
	}
	slices.SortStableFunc(result.Prevalence, func(x, y Share) int { return total[y.Label] - total[x.Label] })

	var whole, several [][]int // counts by label of the items that all judged, and that two or more did
	given := map[string][]int{}
	for _, item := range a.Items {
		counts, n := make([]int, len(labels)), 0
		for _, annotator := range result.Annotators {
			at := slices.Index(labels, a.Label(dimension, item, annotator))
			given[annotator] = append(given[annotator], at)
			if at >= 0 {
				counts[at]++
				n++
			}
		}
		if n >= 2 {
			several = append(several, counts)
			if n == len(result.Annotators) {
				whole = append(whole, counts)
			}
		}
	}
	bootstrap := func(counts [][]int, stream string, of func([][]int, []int32) (float64, bool)) metric.Value {
		return bootstrapped(len(counts), draws, seed, dimension+"/"+stream, func(times []int32) (float64, bool) { return of(counts, times) })
	}
	result.Exact = bootstrap(whole, "all", stats.ExactAgreement)
	result.Fleiss = bootstrap(whole, "all", stats.FleissKappa)
	result.Alpha = bootstrap(several, "several", stats.KrippendorffAlpha)
	for i, first := range result.Annotators {
		for _, second := range result.Annotators[i+1:] {
			both := judgedByBoth(given[first], given[second])
			kappa := cohen(both, len(labels), draws, seed, dimension+"/"+first+"/"+second)
			result.Cohen = append(result.Cohen, Pair{first, second, len(both), kappa})
		}
	}
	return result
}

// judgedByBoth pairs two annotators' labels, which are −1 where there is none.
func judgedByBoth(first, second []int) [][2]int {
	var both [][2]int
	for i := range first {
		if first[i] >= 0 && second[i] >= 0 {
			both = append(both, [2]int{first[i], second[i]})
		}
	}
	return both
}

// cohen is the κ of two annotators' labels of the items that both judged.
func cohen(both [][2]int, labels, draws int, seed uint64, stream string) metric.Value {
	return bootstrapped(len(both), draws, seed, stream, func(times []int32) (float64, bool) {
		table := make([][]float64, labels)
		for c := range table {
			table[c] = make([]float64, labels)
		}
		for i, pair := range both {
			table[pair[0]][pair[1]] += float64(times[i])
		}
		return stats.CohenKappa(table)
	})
}

// bootstrapped is a quantity of n items with its interval.
func bootstrapped(n, draws int, seed uint64, stream string, of func(times []int32) (float64, bool)) metric.Value {
	var values []float64
	undefined := 0
	for draw, times := range stats.Bootstrap(n, draws, seed, stream) {
		value, ok := of(times)
		switch {
		case ok:
			values = append(values, value)
		case draw == 0:
			return metric.Value{}
		default:
			undefined++
		}
	}
	if len(values) == 0 {
		return metric.Value{}
	}
	return metric.NewValue(values, n, undefined)
}

// Note says why there is no agreement to compute, or what a low κ beside a high agreement means, where that is so; else it is
// empty.
func (a *Agreement) Note() string {
	switch {
	case len(a.Annotators) < 2:
		return fmt.Sprintf("%s alone judged it, and agreement is of two or more", strings.Join(a.Annotators, ""))
	case a.Exact.N == 0:
		return "no item was judged by all annotators, so exact agreement and Fleiss' κ are undefined; are the ids the same in every table?"
	}
	if !a.Exact.OK || !a.Fleiss.OK || a.Prevalence[0].Share < 0.9 || a.Exact.V < 0.8 || a.Fleiss.V > 0.4 {
		return ""
	}
	return fmt.Sprintf("%.0f %% of the judgements are %q: agreement by chance is nearly as high as it can be, so κ and α are low however well annotators agree",
		100*a.Prevalence[0].Share, a.Prevalence[0].Label)
}

// AgreementSummary is the agreement on every dimension.
func AgreementSummary(list []Agreement) Summary {
	s := Summary{Stage: "agreement", Details: list}
	for _, a := range list {
		s.Facts = append(s.Facts, Fact{a.Dimension, fmt.Sprintf("%s; exact agreement %s of %s; Fleiss' κ %s; Krippendorff's α %s; %.1f %% %s",
			report.Count(len(a.Annotators), "annotator"), inWords(a.Exact), report.Count(a.Exact.N, "item"), inWords(a.Fleiss), inWords(a.Alpha), 100*a.Prevalence[0].Share, a.Prevalence[0].Label)})
	}
	return s
}

func inWords(v metric.Value) string {
	if !v.OK {
		return metric.Undefined
	}
	return v.String() + " " + v.Interval()
}
