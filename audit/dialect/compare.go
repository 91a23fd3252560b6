package dialect

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/report"
	"plumb/audit/stats"
)

// Comparison puts runs of the same pairs side by side: of several models, or of one with and without steering.
type Comparison struct {
	Runs []*Report
	// Votes are of the pairs that every run has, in the first run's order.
	Votes []Vote
	// LPChange is, for every run but the first, its LP less the first one's, over the pairs that both have.
	LPChange []metric.Value
}

// Vote is a pair's: which continuation each run prefers after the AAE context.
type Vote struct {
	Pair     string    `json:"pair"`
	Prefers  []string  `json:"prefers"` // one a run: Scores.Prefers, empty for a tie
	LP       []float64 `json:"lp"`      // one a run
	SAEVotes int       `json:"sae_votes"`
	scores   []*Scores
}

// tied says whether a run has no preference, so that it has no vote.
func (v *Vote) tied() bool { return slices.Contains(v.Prefers, "") }

// Compare compares at least two runs. It refuses runs of other data, or of pairs that were cut otherwise.
func Compare(runs []*Report) (*Comparison, error) {
	c := &Comparison{Runs: runs}
	byID := make([]map[string]*Scores, len(runs))
	for k, r := range runs {
		byID[k] = map[string]*Scores{}
		for i := range r.Scores {
			byID[k][r.Scores[i].ID] = &r.Scores[i]
		}
		if !r.Finished() {
			return nil, fmt.Errorf("%s holds %d of its %s; finish it with --resume", r.Dir, r.Done, report.Count(r.Run.Items, "item"))
		}
		if k > 0 && !sameData(runs[0], r) {
			return nil, fmt.Errorf("%s is of other data than %s; compare runs of the same files", r.Dir, runs[0].Dir)
		}
	}
	for i := range runs[0].Scores {
		v := Vote{Pair: runs[0].Scores[i].ID}
		for k := range runs {
			s := byID[k][v.Pair]
			if s == nil {
				break
			}
			prefers, ok := s.Prefers()
			lp, also := s.LP(false)
			if !ok || !also {
				break
			}
			if first := v.first(); first != nil && first.Context != s.Context && !runs[0].Run.NoText && !runs[k].Run.NoText {
				return nil, fmt.Errorf("pair %s is cut elsewhere in %s than in %s; cut the data once by plumb corpus segment and audit that",
					v.Pair, runs[k].Dir, runs[0].Dir)
			}
			v.Prefers, v.LP, v.scores = append(v.Prefers, prefers), append(v.LP, lp), append(v.scores, s)
			if prefers == SAE {
				v.SAEVotes++
			}
		}
		if len(v.scores) == len(runs) {
			c.Votes = append(c.Votes, v)
		}
	}
	if len(c.Votes) == 0 {
		return nil, errors.New(c.nothingInCommon())
	}
	for k := 1; k < len(runs); k++ {
		c.LPChange = append(c.LPChange, c.change(k, runs[0].Summary.Draws))
	}
	return c, nil
}

// nothingInCommon names the first run that is at fault.
func (c *Comparison) nothingInCommon() string {
	for _, r := range c.Runs {
		if !r.Summary.Values[LP].OK {
			return r.Dir + " has an LP for none of its pairs; plumb report says why"
		}
	}
	for _, r := range c.Runs[1:] {
		if !slices.ContainsFunc(r.Scores, func(s Scores) bool {
			return slices.ContainsFunc(c.Runs[0].Scores, func(first Scores) bool { return s.ID == first.ID })
		}) {
			return fmt.Sprintf("%s has no pair in common with %s; audit the same part of the data", r.Dir, c.Runs[0].Dir)
		}
	}
	return fmt.Sprintf("no pair has an LP in %s and in all that it is compared with; audit the same part of the data", c.Runs[0].Dir)
}

func (v *Vote) first() *Scores {
	if len(v.scores) == 0 {
		return nil
	}
	return v.scores[0]
}

func sameData(a, b *Report) bool {
	x, y := a.Run.Data.Files, b.Run.Data.Files
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].SHA256 != y[i].SHA256 {
			return false
		}
	}
	return true
}

// change is the mean over pairs of the k-th run's LP less the first one's, by a paired bootstrap.
func (c *Comparison) change(k, draws int) metric.Value {
	var means []float64
	for _, counts := range stats.Bootstrap(len(c.Votes), draws, bootstrapSeed, "pairs") {
		sum := 0.0
		for i, n := range counts {
			sum += float64(n) * (c.Votes[i].LP[k] - c.Votes[i].LP[0])
		}
		means = append(means, sum/float64(len(c.Votes)))
	}
	return metric.NewValue(means, len(c.Votes), 0)
}

// ratioOfReductions is what the second run takes away of the first one's |LP| over what the third takes away, by a paired
// bootstrap. Undefined where the third run's |LP| is not lower; draws in which it is not are left out of the interval.
func (c *Comparison) ratioOfReductions(draws int) metric.Value {
	var ratios []float64
	undefined := 0
	for draw, counts := range stats.Bootstrap(len(c.Votes), draws, bootstrapSeed, "pairs") {
		var lp [3]float64 // sums
		for i, n := range counts {
			for k := range lp {
				lp[k] += float64(n) * c.Votes[i].LP[k]
			}
		}
		first, second, third := math.Abs(lp[0]), math.Abs(lp[1]), math.Abs(lp[2])
		switch {
		case third < first:
			ratios = append(ratios, (first-second)/(first-third))
		case draw == 0:
			return metric.Value{}
		default:
			undefined++
		}
	}
	return metric.NewValue(ratios, len(c.Votes), undefined)
}

// name tells a run from the others of a comparison.
func (r *Report) name() string {
	name := strings.TrimSuffix(r.Run.Model.Name, ".gguf")
	if s := r.Run.Steering; s != nil {
		name += fmt.Sprintf(", %s × %g", s.Name, s.Strength)
	}
	if r.Run.Dialect.Instruction != "" {
		name += ", instructed"
	}
	return name
}

// tables are the comparison's.
func (c *Comparison) tables() []report.Table {
	across := report.Table{Left: 1, Title: "Across runs", Header: []string{"Metric"},
		Note: "PPL: of the context's dialect → the continuation's. Match: by log-probability. " + dgiNote}
	pairs := []string{"Pairs with an LP"}
	starred := false
	for _, r := range c.Runs {
		across.Header = append(across.Header, r.name())
		pairs = append(pairs, r.pairsOf(LP))
	}
	across.Rows = append(across.Rows, pairs)
	row := func(words, name string) {
		cells := []string{words}
		some := false
		for _, r := range c.Runs {
			v, measured := r.Summary.Values[name]
			cell := "–"
			if measured {
				cell = report.Cell(v)
			}
			cells, some = append(cells, cell), some || v.OK
		}
		if some {
			across.Rows = append(across.Rows, cells)
		}
	}
	row("LP", LP)
	if len(c.LPChange) > 0 {
		cells := []string{"LP less the first run's", ""}
		for _, v := range c.LPChange {
			cells = append(cells, report.Cell(v))
		}
		across.Rows = append(across.Rows, cells)
	}
	row("LP per token", LPToken)
	row("b_SAE", BSAE)
	row("b_AAE", BAAE)
	for _, context := range []string{SAE, AAE} {
		for _, continuation := range []string{SAE, AAE} {
			row(fmt.Sprintf("PPL %s → %s", names[context], names[continuation]), PPL(context, continuation))
		}
	}
	for _, wording := range Wordings {
		for _, context := range []string{AAE, SAE} {
			row(fmt.Sprintf("%s Match (%s)", names[context], wording), MatchShare(context, wording, ReadSum))
		}
	}
	row("DGI", DGI)
	row("Two-way DGI", DGI2)
	row("cDGI", CDGI)
	for _, class := range c.Runs[0].Summary.Classes {
		cells := []string{"LP, " + class.Class}
		for _, r := range c.Runs {
			var v metric.Value
			strongest := ""
			for _, g := range r.Summary.Classes {
				if g.Class == class.Class {
					v = g.Values[LP]
					if g.Strongest {
						strongest, starred = strongestMark, true
					}
				}
			}
			value, interval, _ := strings.Cut(report.Cell(v), "\n")
			cells = append(cells, value+strongest+"\n"+interval)
		}
		across.Rows = append(across.Rows, cells)
	}
	if starred {
		across.Note = strongestNote + across.Note
	}
	votes := report.Table{
		Left:   1,
		Title:  "Votes: how many of the runs prefer the SAE continuation after an AAE context",
		Header: []string{"Runs", "Pairs"},
		Note:   "The vote of every pair is in the JSON and CSV output. A tie is no vote: such pairs are counted apart.",
	}
	ties := 0
	for _, v := range c.Votes {
		if v.tied() {
			ties++
		}
	}
	for n := len(c.Runs); n >= 0; n-- {
		pairs := 0
		for _, v := range c.Votes {
			if v.SAEVotes == n && !v.tied() {
				pairs++
			}
		}
		votes.Rows = append(votes.Rows, []string{fmt.Sprintf("%d of %d", n, len(c.Runs)), fmt.Sprint(pairs)})
	}
	if ties > 0 {
		votes.Rows = append(votes.Rows, []string{"a tie in some", fmt.Sprint(ties)})
	}
	return []report.Table{across, votes}
}

// flips are up to n pairs in which a steered or instructed run prefers another continuation after the AAE context than the
// first run does, those first that most runs agree on.
func (c *Comparison) flips(n int) []report.Table {
	var list []report.Table
	for k := 1; k < len(c.Runs) && len(list) < n; k++ {
		if c.Runs[k].Run.Model.SHA256 != c.Runs[0].Run.Model.SHA256 {
			continue
		}
		for _, v := range c.Votes {
			s := v.scores[0]
			if len(list) == n || v.Prefers[0] != SAE || v.Prefers[k] != AAE || s.Context.AAE == "" {
				continue
			}
			mask := func(text string) string { return Mask(oneLine(text), c.Runs[0].mask) }
			list = append(list, report.Table{
				Left:   1,
				Title:  "Flipped to AAE by " + c.Runs[k].name() + ": " + v.Pair,
				Header: []string{"AAE context: " + mask(s.Context.AAE), "before", "after"},
				Rows: [][]string{
					{"AAE: " + mask(s.Continuation.AAE), metric.Format(s.After.AAE.AAE.Sum), metric.Format(v.scores[k].After.AAE.AAE.Sum)},
					{"SAE: " + mask(s.Continuation.SAE), metric.Format(s.After.AAE.SAE.Sum), metric.Format(v.scores[k].After.AAE.SAE.Sum)},
				},
			})
		}
	}
	return list
}

const shownFlips = 3

// notes are what a reader must know before the numbers of the tables are quoted.
func (c *Comparison) notes(tables []report.Table) []string {
	notes := []string{fmt.Sprintf("%s in common; [95 %% intervals of %s].", report.Count(len(c.Votes), "pair"), report.Count(c.Runs[0].Summary.Draws, "bootstrap draw"))}
	about := func(r *Report) []string { return slices.Concat(r.Summary.lost(), r.Summary.tied()) }
	first := about(c.Runs[0])
	if !slices.ContainsFunc(c.Runs, func(r *Report) bool { return !slices.Equal(about(r), first) }) {
		return slices.Concat(notes, first, daggers(tables)) // the same is true of every run
	}
	for _, r := range c.Runs {
		for _, note := range about(r) {
			notes = append(notes, r.name()+": "+note)
		}
	}
	return append(notes, daggers(tables)...)
}

// WriteTable writes the comparison for a terminal.
func (c *Comparison) WriteTable(w io.Writer) error {
	var text strings.Builder
	text.WriteString("Dialect audits compared\n")
	tables := append(c.tables(), c.flips(shownFlips)...)
	if err := writeTables(&text, tables, report.Table.WriteTerminal); err != nil {
		return err
	}
	writeNotes(&text, c.notes(tables))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMarkdown writes the same as Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	text.WriteString("# Dialect audits compared\n")
	tables := append(c.tables(), c.flips(shownFlips)...)
	if err := writeTables(&text, tables, report.Table.WriteMarkdown); err != nil {
		return err
	}
	text.WriteString("\n")
	for _, note := range c.notes(tables) {
		fmt.Fprintf(&text, "- %s\n", note)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes every run's summary, and every pair's vote.
func (c *Comparison) WriteJSON(w io.Writer) error {
	type run struct {
		Name    string   `json:"name"`
		Model   string   `json:"model_sha256"`
		Summary *Summary `json:"summary"`
	}
	var runs []run
	for _, r := range c.Runs {
		runs = append(runs, run{r.name(), r.Run.Model.SHA256, r.Summary})
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Runs     []run          `json:"runs"`
		LPChange []metric.Value `json:"lp_change"` // of every run but the first, from the first
		Votes    []Vote         `json:"votes"`
	}{runs, c.LPChange, c.Votes})
}

// WriteCSV writes a row a pair: how many runs vote SAE, which continuation each prefers (empty: a tie), and its LP there.
func (c *Comparison) WriteCSV(w io.Writer) error {
	header := []string{"pair", "sae_votes", "runs"}
	for _, r := range c.Runs {
		header = append(header, "prefers: "+r.name(), "lp: "+r.name())
	}
	rows := [][]string{header}
	for _, v := range c.Votes {
		row := []string{v.Pair, strconv.Itoa(v.SAEVotes), strconv.Itoa(len(c.Runs))}
		for k := range c.Runs {
			row = append(row, v.Prefers[k], number(v.LP[k]))
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// WriteHTML writes the comparison as one page.
func (c *Comparison) WriteHTML(w io.Writer) error {
	figures, err := figuresOf(c.Runs)
	if err != nil {
		return err
	}
	d := pageData{Headline: "Dialect audits compared", Figures: figures, Tables: append(c.tables(), c.flips(shownFlips)...)}
	notes := c.notes(d.Tables)
	d.Lead, d.Notes = notes[0], notes[1:]
	for _, r := range c.Runs {
		d.Facts = append(d.Facts, fact{r.name(), r.Run.Model.Description + ", SHA-256 " + r.Run.Model.SHA256})
	}
	return d.write(w)
}
