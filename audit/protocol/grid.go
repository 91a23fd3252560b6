package protocol

import (
	"math"
	"slices"

	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/stats"
)

// clusterDraws is the number of draws of a cluster bootstrap. A draw costs little: it adds up counts, not items.
const clusterDraws = 1000

// Grid sums up all configurations on one half of the templates. Configurations share model, base and items, so they are not
// independent: intervals are of whole clusters of items, drawn for all configurations at once, and counts of signs
// describe (GCD, section 5).
type Grid struct {
	Configurations int `json:"configurations"`

	// The composition's share of the change of Pr(S), of the configurations that have both terms (GCD, appendix E).
	Shares      int      `json:"with_share"`
	ShareMedian *float64 `json:"share_median"`
	AboveHalf   int      `json:"share_above_half"`
	AboveOne    int      `json:"share_above_one"`

	Gap Gap `json:"gap"`

	Channels   *stats.Spearman `json:"composition_with_preference"`         // nil: undefined
	AnswerRate *stats.Spearman `json:"answer_rate_with_signed_decrease"`    // of ΔPr(U) and −Δs_Amb (appendix E)
	Ranks      *stats.Spearman `json:"conditional_with_unconditional_rank"` // of dpref₁ and Pr(S)₁ (appendix I, 2)

	Matched *Matched `json:"matched"` // nil with fewer than two files
}

// Gap is the change of the biased option's rate among answered items, less that among all items: how much better the
// unconditional rate looks than the conditional one. The mean is over configurations.
type Gap struct {
	ByCategory metric.Value `json:"by_category"` // with the interval of whole categories; undefined for fewer than two
	ByTemplate metric.Value `json:"by_template"` // with that of whole question templates
	Positive   int          `json:"positive"`    // configurations
	Negative   int          `json:"negative"`
	SignP      float64      `json:"sign_test_p"`
}

// Matched compares the files of directions where each was tried at the same layer, operator and strength.
type Matched struct {
	Places     int       `json:"places"` // layers, operators and strengths at which all files have a preference term
	Files      []string  `json:"files"`
	Preference []float64 `json:"mean_preference"` // of each file
	Largest    float64   `json:"largest_difference"`
	Where      string    `json:"largest_difference_at"`
}

// NewGrid sums a half up.
func NewGrid(h *Half) *Grid {
	g := &Grid{Configurations: len(h.Rows)}
	var shares, composition, preference, prU, decrease, after, afterAll []float64
	for i := range h.Rows {
		row := &h.Rows[i]
		if v := row.CompositionShare; v.OK {
			shares = append(shares, v.V)
			if v.V > 0.5 {
				g.AboveHalf++
			}
			if v.V > 1 {
				g.AboveOne++
			}
		}
		if c, p := row.Composition.Change, row.Preference.Change; c.OK && p.OK {
			composition, preference = append(composition, c.V), append(preference, p.V)
		}
		if row.PrU.OK && row.SAmb.OK {
			prU, decrease = append(prU, row.PrU.V), append(decrease, -row.SAmb.V)
		}
		changes := h.Comparisons[i].Group(metric.All, metric.All).Changes
		if d, s := changes["dpref"].After, changes["pr_s"].After; d.OK && s.OK {
			after, afterAll = append(after, d.V), append(afterAll, s.V)
		}
	}
	g.Shares = len(shares)
	if median, ok := stats.Percentile(shares, 50); ok {
		g.ShareMedian = &median
	}
	g.Channels, g.AnswerRate, g.Ranks = spearman(composition, preference), spearman(prU, decrease), spearman(after, afterAll)
	g.Gap = newGap(h)
	g.Matched = newMatched(h.Rows)
	return g
}

func spearman(x, y []float64) *stats.Spearman {
	s, ok := stats.NewSpearman(x, y)
	if !ok {
		return nil
	}
	return &s
}

// sides are a configuration's counts, by cluster.
type sides struct{ before, after []metric.Counts }

// gapOf is a configuration's gap with every cluster as often as weights says.
func (s *sides) gapOf(weights []int32) (float64, bool) {
	var before, after metric.Counts
	for c, weight := range weights {
		before.Plus(s.before[c], int(weight))
		after.Plus(s.after[c], int(weight))
	}
	dpref0, n0 := before.DPref()
	dpref1, n1 := after.DPref()
	if n0 == 0 || n1 == 0 {
		return 0, false
	}
	prS0, _ := before.PrS()
	prS1, _ := after.PrS()
	return (dpref1 - dpref0) - (prS1 - prS0), true
}

// byCluster counts each configuration's items by cluster; only items with scores on both sides count.
func byCluster(h *Half, clusterOf func(*metric.Item) string) (list []sides, clusters int) {
	index := map[string]int{}
	for i := range h.Base.Items {
		if name := clusterOf(&h.Base.Items[i]); index[name] == 0 {
			index[name] = len(index) + 1
		}
	}
	for _, run := range h.Runs {
		s := sides{make([]metric.Counts, len(index)), make([]metric.Counts, len(index))}
		after := map[string]*metric.Item{}
		for i := range run.Items {
			after[run.Items[i].ID] = &run.Items[i]
		}
		for i := range h.Base.Items {
			item := &h.Base.Items[i]
			if now := after[item.ID]; now != nil {
				c := index[clusterOf(item)] - 1
				s.before[c].Add(item, 1)
				s.after[c].Add(now, 1)
			}
		}
		list = append(list, s)
	}
	return list, len(index)
}

func newGap(h *Half) Gap {
	var g Gap
	mean := func(list []sides, clusters int, stream string) metric.Value {
		var draws []float64
		undefined := 0
		for draw, weights := range stats.Bootstrap(clusters, clusterDraws, seed, stream) {
			sum, n := 0.0, 0
			for k := range list {
				if gap, ok := list[k].gapOf(weights); ok {
					sum, n = sum+gap, n+1
				}
			}
			if n > 0 {
				draws = append(draws, sum/float64(n))
			} else if draw == 0 {
				return metric.Value{}
			} else {
				undefined++
			}
		}
		return metric.NewValue(draws, clusters, undefined)
	}
	templates, n := byCluster(h, func(i *metric.Item) string { return i.Template })
	g.ByTemplate = mean(templates, n, "gap/template")
	if categories, n := byCluster(h, func(i *metric.Item) string { return i.Category }); n > 1 {
		g.ByCategory = mean(categories, n, "gap/category")
	}
	whole := make([]int32, n)
	for i := range whole {
		whole[i] = 1
	}
	for k := range templates {
		const rounding = 1e-12
		switch gap, ok := templates[k].gapOf(whole); {
		case ok && gap > rounding:
			g.Positive++
		case ok && gap < -rounding:
			g.Negative++
		}
	}
	g.SignP = stats.SignTest(g.Positive, g.Negative)
	return g
}

func newMatched(rows []compare.Row) *Matched {
	m := &Matched{}
	terms := map[string]map[string]float64{} // by place and file
	var places []string
	for i := range rows {
		s, v := rows[i].Steering, rows[i].Preference.Change
		if !slices.Contains(m.Files, s.Name) {
			m.Files = append(m.Files, s.Name)
		}
		if !v.OK {
			continue
		}
		at := place(s)
		if terms[at] == nil {
			terms[at] = map[string]float64{}
			places = append(places, at)
		}
		terms[at][s.Name] = v.V
	}
	if len(m.Files) < 2 {
		return nil
	}
	m.Preference = make([]float64, len(m.Files))
	for _, at := range places {
		if len(terms[at]) < len(m.Files) {
			continue
		}
		m.Places++
		low, high := math.Inf(1), math.Inf(-1)
		for i, file := range m.Files {
			m.Preference[i] += terms[at][file]
			low, high = min(low, terms[at][file]), max(high, terms[at][file])
		}
		if high-low > m.Largest {
			m.Largest, m.Where = high-low, at
		}
	}
	if m.Places == 0 {
		return nil
	}
	for i := range m.Preference {
		m.Preference[i] /= float64(m.Places)
	}
	return m
}
