package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/report"
)

// tables are the report's, without the markers and the read-outs of lesser interest if brief.
func (r *Report) tables(brief bool) []report.Table {
	list := r.perplexityTable()
	list = append(list, r.biasTable())
	if len(r.Run.Dialect.Wordings) > 0 {
		list = append(list, r.choiceTable())
	}
	list = append(list, r.sentimentTable())
	if len(r.Summary.Classes) > 0 {
		list = append(list, r.groupTable("LP by class of the markers in the AAE sentence", r.Summary.Classes))
		if !brief {
			list = append(list, r.groupTable("LP by marker", r.Summary.Markers))
		}
	}
	return list
}

// pairsOf is of how many pairs the metrics are: one number, or one for each if they differ.
func pairsOf(values map[string]metric.Value, names ...string) string {
	var counts []string
	for _, name := range names {
		counts = append(counts, strconv.Itoa(values[name].N))
	}
	if len(slices.Compact(slices.Clone(counts))) == 1 {
		return counts[0]
	}
	return strings.Join(counts, " / ")
}

func (r *Report) pairsOf(names ...string) string { return pairsOf(r.Summary.Values, names...) }

func (r *Report) cell(name string) string { return report.Cell(r.Summary.Values[name]) }

// perplexityTable is one table, or none in an instructed run.
func (r *Report) perplexityTable() []report.Table {
	if _, ok := r.Summary.Values[PPL(SAE, SAE)]; !ok {
		return nil
	}
	t := report.Table{
		Left:   1,
		Title:  "Perplexity of continuations",
		Header: []string{"Context", "Pairs", "SAE", "AAE", "SAE, mean over pairs", "AAE, mean over pairs"},
		Note:   "Lower is likelier. An even-handed model finds the continuation of the context's own dialect likelier.",
	}
	for _, context := range []string{SAE, AAE} {
		t.Rows = append(t.Rows, []string{names[context], r.pairsOf(PPL(context, SAE), PPL(context, AAE)), r.cell(PPL(context, SAE)), r.cell(PPL(context, AAE)),
			r.cell(MeanPPL(context, SAE)), r.cell(MeanPPL(context, AAE))})
	}
	return []report.Table{t}
}

func (r *Report) biasTable() report.Table {
	return report.Table{
		Left:   1,
		Title:  "Log-probability by which the continuation of the context's own dialect is preferred (b), and LP = b_SAE − b_AAE",
		Header: []string{"", "Pairs", "b_SAE", "b_AAE", "LP"},
		Rows: [][]string{
			{"of the continuation", r.pairsOf(BSAE, BAAE, LP), r.cell(BSAE), r.cell(BAAE), r.cell(LP)},
			{"per token", r.pairsOf(BSAE+"_token", BAAE+"_token", LPToken), r.cell(BSAE + "_token"), r.cell(BAAE + "_token"), r.cell(LPToken)},
		},
		Note: "LP is 0 for a model that is even-handed, and above 0 for one that prefers SAE whatever the context. " +
			"Per token: of the mean log-probability of a continuation's tokens, so that its length does not count.",
	}
}

var readOutWords = map[string]string{ReadSum: "by log-probability", ReadToken: "per token", ReadLetter: "by letter"}

func (r *Report) choiceTable() report.Table {
	t := report.Table{
		Left:   2,
		Title:  "Forced choice: the share that takes the continuation of the context's dialect",
		Header: []string{"Asked for", "Scored", "Pairs", "AAE Match", "SAE Match", "First shown"},
		Note: "Scored by the log-probability of the continuation, by its mean per token, or by that of the letter, A or B, that it was shown with. " +
			"First shown: how often the option was taken that was shown first; 0.5 is no position bias.",
	}
	for _, wording := range r.wordings() {
		for _, readOut := range ReadOuts {
			t.Rows = append(t.Rows, []string{wordingTexts[wording], readOutWords[readOut],
				r.pairsOf(MatchShare(AAE, wording, readOut), MatchShare(SAE, wording, readOut)), r.cell(MatchShare(AAE, wording, readOut)),
				r.cell(MatchShare(SAE, wording, readOut)), r.cell(FirstShown(wording, readOut))})
		}
	}
	return t
}

// What stands at the foot of tables of them.
const (
	cdgiNote = "cDGI is DGI of the triplets whose back-translation was judged natural and keeps the AAE sentence's label."
	dgiNote  = "DGI: AAE and SAE sentence. Two-way DGI: these and the back-translation, all three. " + cdgiNote
)

func (r *Report) sentimentTable() report.Table {
	t := report.Table{
		Left:   1,
		Title:  "Sentiment: how often the sentences of a pair get the same label",
		Header: []string{"", "Share", "Pairs"},
		Note:   dgiNote,
	}
	for _, m := range []struct{ name, words string }{{DGI, "DGI"}, {DGI2, "Two-way DGI"}, {CDGI, "cDGI"}} {
		t.Rows = append(t.Rows, []string{m.words, r.cell(m.name), fmt.Sprint(r.Summary.Values[m.name].N)})
	}
	return t
}

// strongestMark stands at the class with the highest LP.
const (
	strongestMark = " ★"
	strongestNote = "★ The class with the highest LP. "
)

func (r *Report) groupTable(title string, groups []Group) report.Table {
	t := report.Table{Left: 1, Title: title, Header: []string{"Class", "Pairs", "b_SAE", "b_AAE", "LP", "LP per token"},
		Note: "Pairs: those that have an LP. A sentence can have several markers."}
	for _, g := range groups {
		name := g.Class
		if g.Marker != "" {
			name += ": " + g.Marker
		}
		if g.Strongest {
			name += strongestMark
		}
		row := []string{name, pairsOf(g.Values, localised...)}
		for _, m := range localised {
			row = append(row, report.Cell(g.Values[m]))
		}
		t.Rows = append(t.Rows, row)
	}
	if slices.ContainsFunc(groups, func(g Group) bool { return g.Strongest }) {
		t.Note = strongestNote + t.Note
	}
	return t
}

// figures are the paper's figures 3, 4 and 5 of one run, those that have something to show.
func (r *Report) figures() ([]captioned, error) {
	list, err := figuresOf([]*Report{r})
	if err != nil || len(r.Summary.Classes) == 0 {
		return list, err
	}
	var rows []string
	lp := report.Series{Name: "LP"}
	low, high := 0.0, 0.0
	for _, g := range r.Summary.Classes {
		v := g.Values[LP]
		name := g.Class
		if g.Strongest {
			name += strongestMark
		}
		rows, lp.Values = append(rows, name), append(lp.Values, v)
		if v.OK {
			low, high = min(low, v.Lo), max(high, v.Hi)
		}
	}
	margin := 0.05*(high-low) + 0.01
	figure, err := report.NewFigure("LP, natural logarithm; above 0 the model prefers SAE", low-margin, high+margin, rows, []report.Series{lp})
	return append(list, captioned{"LP by class of marker", figure}), err
}

// captioned is a figure with its caption.
type captioned struct {
	Caption string
	report.Figure
}

// figuresOf are the perplexities and choices of several runs (the paper's figures 3 and 4).
func figuresOf(reports []*Report) ([]captioned, error) {
	var points []report.Point
	var rows []string
	var shares []metric.Value
	anyDefined := false
	for _, r := range reports {
		name := ""
		if len(reports) > 1 {
			name = r.Run.Model.Name + ", "
		}
		for mark, context := range []string{SAE, AAE} {
			p := report.Point{Label: name + names[context] + " context", X: r.Summary.Values[PPL(context, SAE)], Y: r.Summary.Values[PPL(context, AAE)], Mark: mark}
			points = append(points, p)
			anyDefined = anyDefined || p.X.OK && p.Y.OK
			if wordings := r.wordings(); len(wordings) > 0 {
				v := r.Summary.Values[MatchShare(context, wordings[0], ReadSum)]
				if context == AAE { // the share of SAE continuations
					v.V, v.Lo, v.Hi = 1-v.V, 1-v.Hi, 1-v.Lo
				}
				rows, shares = append(rows, name+names[context]+" context"), append(shares, v)
			}
		}
	}
	var list []captioned
	if anyDefined {
		figure, err := report.NewScatter(report.Scatter{XAxis: "perplexity of SAE continuations", YAxis: "perplexity of AAE continuations", Log: true, Points: points})
		if err != nil {
			return nil, err
		}
		list = append(list, captioned{"Perplexities: above the line, SAE is likelier", figure})
	}
	if len(rows) > 0 {
		figure, err := report.NewStackedBars("share of choices, asked for "+wordingTexts[reports[0].wordings()[0]], rows, shares, "SAE continuation", "AAE continuation")
		if err != nil {
			return nil, err
		}
		list = append(list, captioned{"Forced choice", figure})
	}
	return list, nil
}
