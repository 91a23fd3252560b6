package protocol

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/audit/stats"
)

// tables are those that every format has.
func (r *Report) tables() []report.Table {
	list := []report.Table{r.verdictTable(), r.heldTable(), r.scoresTable()}
	if transfers := r.Transfers(); len(transfers) > 0 {
		list = append(list, transferTable(transfers))
	}
	if len(r.Wordings) > 0 {
		list = append(list, wordingTable(r.Wordings))
	}
	list = append(list, r.gridTable())
	if m := r.Grid.Matched; m != nil {
		list = append(list, matchedTable(m))
	}
	if r.Cost != nil {
		list = append(list, r.costTable())
	}
	return list
}

func (r *Report) verdictTable() report.Table {
	t := report.Table{Title: "Verdict", Header: []string{"Criterion", "Outcome", "What was found"}, Left: 3}
	for _, c := range r.Judged.Checks {
		t.Rows = append(t.Rows, []string{c.Name, c.Outcome, c.Detail})
	}
	return t
}

// standing is a line of the held-out table.
type standing struct {
	role string
	row  compare.Row
}

func (r *Report) standings() []standing {
	var list []standing
	add := func(role string, at int) {
		if at >= 0 {
			list = append(list, standing{role, r.Held.Rows[at]})
		}
	}
	selected := r.Held.find(r.Steering())
	add("selected", selected)
	add("default", r.Held.find(r.Spec.Default))
	add("oracle", r.Oracle())
	zero := r.Steering()
	zero.Strength = 0
	add("zero strength", r.Held.find(zero))
	if r.Prompt != nil {
		list = append(list, standing{"prompt only", compare.Summarize([]*compare.Comparison{r.Prompt})[0]})
	}
	return list
}

// changes are a row's values without their intervals but that of the preference term, which a terminal has no room for.
func changes(row *compare.Row) []string {
	var cells []string
	for _, q := range rowValues(row) {
		switch {
		case !q.value.OK:
			cells = append(cells, metric.Undefined)
		case q.name == "composition_share":
			cells = append(cells, metric.Format(q.value.V))
		default:
			cells = append(cells, metric.FormatSigned(q.value.V))
		}
	}
	return cells
}

func changesHeader(first ...string) []string {
	for _, q := range rowValues(&compare.Row{}) {
		first = append(first, q.symbol)
	}
	return first
}

func (r *Report) heldTable() report.Table {
	t := report.Table{Title: "Held-out half, all items", Header: changesHeader("", "Intervention"), Left: 2}
	for _, s := range r.standings() {
		name := "an instruction to abstain"
		if s.row.Steering != nil {
			name = Name(*s.row.Steering)
		}
		t.Rows = append(t.Rows, append([]string{s.role, name}, changes(&s.row)...))
	}
	if placebos := r.placebos(); len(placebos) > 0 {
		row := []string{"placebos", report.Count(len(placebos), "random direction") + ", median"}
		for i := range rowValues(&compare.Row{}) {
			var values []float64
			for k := range placebos {
				if q := rowValues(&placebos[k])[i]; q.value.OK {
					values = append(values, q.value.V)
				}
			}
			if median, ok := stats.Percentile(values, 50); ok {
				row = append(row, metric.FormatSigned(median))
			} else {
				row = append(row, metric.Undefined)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// scoresTable has what the protocol asks to be reported: both published scores with their magnitudes, the answer rate, and
// the score corrected for the changed set of answered items.
func (r *Report) scoresTable() report.Table {
	t := report.Table{Title: "The selected intervention, held-out half", Header: []string{"Quantity", "Before", "After", "Change"}, Left: 1}
	chosen := r.Chosen()
	for _, q := range []struct{ condition, metric, words string }{
		{record.Ambiguous, "s_amb", "s_Amb"}, {record.Ambiguous, "abs_s_amb", "|s_Amb|"},
		{record.Disambiguated, "s_dis", "s_Dis"}, {record.Disambiguated, "abs_s_dis", "|s_Dis|"},
		{record.Ambiguous, "commit", "answer rate, ambiguous"}, {record.Disambiguated, "commit", "answer rate, disambiguated"},
		{record.Disambiguated, "accuracy", "accuracy, disambiguated"},
	} {
		if g := chosen.Group(metric.All, q.condition); g != nil {
			c := g.Changes[q.metric]
			t.Rows = append(t.Rows, []string{q.words, c.Before.String(), c.After.String(), c.Delta.Signed()})
		}
	}
	if g := chosen.Group(metric.All, record.Disambiguated); g != nil {
		s := g.Selection
		t.Rows = append(t.Rows, []string{"s_Dis, corrected for selection (eq. 6)", s.Before.String(), s.Corrected.String(), difference(s.Corrected, s.Before)})
	}
	all := chosen.Group(metric.All, metric.All).Channels
	t.Rows = append(t.Rows,
		[]string{"composition", "", "", all.Composition.Change.Signed()},
		[]string{"preference", "", "", all.Preference.Change.Signed()},
		[]string{"composition share", "", "", all.CompositionShare.String()})
	for _, readOut := range r.ReadOuts {
		v := readOut.Row.Preference.Change
		t.Rows = append(t.Rows, []string{"preference, read-out " + string(readOut.ReadOut), "", "", v.Signed()})
	}
	return t
}

func difference(after, before metric.Value) string {
	if !after.OK || !before.OK {
		return metric.Undefined
	}
	return metric.FormatSigned(after.V - before.V)
}

func (r *Report) gridTable() report.Table {
	g := r.Grid
	t := report.Table{Title: "The grid, fit half", Header: []string{"Quantity", "Value"}, Left: 1}
	add := func(name, format string, args ...any) {
		t.Rows = append(t.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("configurations", "%d, of which %d with a composition share", g.Configurations, g.Shares)
	if g.ShareMedian != nil {
		add("composition share", "median %s; above ½ in %d, above 1 in %d", metric.Format(*g.ShareMedian), g.AboveHalf, g.AboveOne)
	}
	add("conditional less unconditional change, by template", "%s", g.Gap.ByTemplate.Signed())
	add("the same, by category", "%s", g.Gap.ByCategory.Signed())
	add("its sign", "positive in %d, negative in %d; sign test p = %s", g.Gap.Positive, g.Gap.Negative, metric.FormatP(g.Gap.SignP))
	for _, q := range []struct {
		name string
		of   *stats.Spearman
	}{
		{"composition with preference", g.Channels}, {"ΔPr(U) with the decrease of s_Amb", g.AnswerRate},
		{"rank by conditional and by unconditional rate", g.Ranks},
	} {
		if q.of == nil {
			add(q.name, "%s", metric.Undefined)
		} else {
			add(q.name, "Spearman %s [%s, %s], p = %s", metric.FormatSigned(q.of.Rho), metric.Format(q.of.Low), metric.Format(q.of.High), metric.FormatP(q.of.P))
		}
	}
	return t
}

func matchedTable(m *Matched) report.Table {
	t := report.Table{
		Title:  fmt.Sprintf("Constructions at the same %d layers, operators and strengths; largest difference %s at %s", m.Places, metric.Format(m.Largest), m.Where),
		Header: []string{"File", "Mean preference term"}, Left: 1,
	}
	for i, file := range m.Files {
		t.Rows = append(t.Rows, []string{file, metric.FormatSigned(m.Preference[i])})
	}
	return t
}

func (r *Report) costTable() report.Table {
	t := report.Table{Title: "Capability of the selected construction", Header: []string{"Strength", "MMLU", "Change", "Perplexity", "Ratio"}}
	t.Note = "Capability knee: none of these strengths."
	if knee, ok := r.Cost.Knee(r.Judged.Thresholds.PerplexityRise); ok {
		t.Note = fmt.Sprintf("Capability knee: strength %g.", knee)
	}
	row := func(strength float64, accuracy, change string, perplexity, ratio string) {
		t.Rows = append(t.Rows, []string{strconv.FormatFloat(strength, 'g', -1, 64), accuracy, change, perplexity, ratio})
	}
	first := func(point int) metric.Value {
		s := r.Cost.Base
		if point >= 0 {
			s = r.Cost.Points[point].Summary
		}
		if len(s.Perplexity) == 0 {
			return metric.Value{}
		}
		return s.Perplexity[0].Value
	}
	row(0, r.Cost.Base.Accuracy().String(), "", first(-1).String(), "")
	for i, p := range r.Cost.Points {
		ratio := metric.Undefined
		if p.Change.Ratio.OK {
			ratio = metric.Format(p.Change.Ratio.V) + " " + p.Change.Ratio.Interval()
		}
		row(p.Strength, p.Summary.Accuracy().String(), p.Change.Accuracy.Signed(), first(i).String(), ratio)
	}
	return t
}

// configurations is the whole grid, the best preference term first.
func (r *Report) configurations() report.Table {
	t := report.Table{Title: "All configurations, fit half", Header: changesHeader("Intervention", "Method"), Left: 2}
	order := make([]int, len(r.Fit.Rows))
	for i := range order {
		order[i] = i
	}
	term := func(i int) float64 {
		if v := r.Fit.Rows[i].Preference.Change; v.OK {
			return v.V
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case term(a) < term(b):
			return -1
		case term(a) > term(b):
			return 1
		}
		return 0
	})
	for _, i := range order {
		row := &r.Fit.Rows[i]
		t.Rows = append(t.Rows, append([]string{Name(*row.Steering), row.Steering.Method}, changes(row)...))
	}
	return t
}

func (r *Report) notes() []string {
	notes := []string{
		fmt.Sprintf("Read-out %s; %s on the fit half, %d held out; [95 %% bootstrap intervals, %d draws of items; %d of clusters].",
			r.Fit.Base.ReadOut, report.Count(len(r.Fit.Base.Items), "item"), len(r.Held.Base.Items), r.Options.Draws, clusterDraws),
		"The selected configuration has the lowest preference term on the fit half. Configurations share items and model, so counts over them describe and do not test.",
	}
	if !r.Spec.Oracle {
		notes = append(notes, "Without --oracle the grid was not evaluated on the held-out half, and the best configuration there is not known.")
	}
	return notes
}
