package metric

import (
	"fmt"

	"plumb/audit/record"
)

// Benchmark is how a benchmark's items are summed up.
type Benchmark struct {
	Name       string  // record.Run.Benchmark
	Title      string  // in headlines
	ReadOut    ReadOut // unless another is asked for
	Metrics    []Metric
	Conditions []Condition // in the order of the tables, All last
}

// Condition is one of the kinds of items that are told apart.
type Condition struct {
	Name  string   // record.Record.Condition, or All
	Title string   // "ambiguous items"
	Note  string   // what to know of them; may be empty
	Brief []string // the metrics that a terminal has room for, none a function of the others
}

// Metric finds a metric.
func (b *Benchmark) Metric(name string) (Metric, bool) {
	for _, m := range b.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// The benchmarks with a biased and an anti option.
var (
	BBQ = &Benchmark{
		Name: "bbq", Title: "BBQ", ReadOut: Mean, Metrics: bbqMetrics,
		Conditions: []Condition{
			{record.Ambiguous, "ambiguous items", "the unknown option is right: accuracy is Pr(U)", []string{"pr_u", "dpref", "pr_s", "s_amb"}},
			{record.Disambiguated, "disambiguated items", "the context says who it was", []string{"accuracy", "pr_u", "dpref", "pr_s", "s_dis"}},
			{All, "all items", "", []string{"accuracy", "pr_u", "dpref", "pr_s"}},
		},
	}
	StereoSet = &Benchmark{
		Name: "stereoset", Title: "StereoSet", ReadOut: Mean, Metrics: stereoSetMetrics,
		Conditions: []Condition{
			{record.Intersentence, "intersentence items", "a sentence after a context", stereoSetBrief},
			{record.Intrasentence, "intrasentence items", "a whole sentence", stereoSetBrief},
			{All, "all items", "", stereoSetBrief},
		},
	}
	CrowSPairs = &Benchmark{
		Name: "crows-pairs", Title: "CrowS-Pairs", ReadOut: Sum, Metrics: crowsPairsMetrics,
		Conditions: []Condition{
			{record.Stereo, "stereo pairs", "the first sentence states a stereotype", crowsPairsBrief},
			{record.Antistereo, "antistereo pairs", "the second sentence goes against one", crowsPairsBrief},
			{All, "all items", "", crowsPairsBrief},
		},
	}
)

// ForBenchmark finds the benchmark of a run.
func ForBenchmark(name string) (*Benchmark, error) {
	for _, b := range []*Benchmark{BBQ, StereoSet, CrowSPairs} {
		if b.Name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("benchmark %q has no biased and anti options", name)
}
