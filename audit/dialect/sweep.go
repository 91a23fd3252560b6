package dialect

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/internal/jsonfile"
)

// ChoiceRule is how a sweep chooses its strength, in words. It is ours: the paper balances LP against the same two by eye.
const ChoiceRule = `the β with the highest (reduction of |LP|) − (rise of the SAE perplexity) − (loss of SAE Match), the first two as shares
   of their values at β = 0 and the last in shares of choices; a fall of the perplexity or a gain in SAE Match counts 0.
   An even-handed model has LP 0, so that an LP as far below 0 as it was above is reduced by nothing.`

// SweepRuns are the directories of a sweep's runs: without steering, with every layer, with one, and instructed. All are
// of the same pairs.
type SweepRuns struct {
	Betas  []float64 // of Multi and Single
	Base   string
	Multi  []string
	Single []string
	Prompt string
}

// The runs in a sweep's directory; a steered one has its strength behind its name.
const (
	baseRun   = "base"
	promptRun = "prompt"
	multiRun  = "multi-"
	singleRun = "single-"
)

// NewSweepRuns names the runs of a sweep over strengths in a directory.
func NewSweepRuns(dir string, betas []float64) SweepRuns {
	r := SweepRuns{Betas: betas, Base: filepath.Join(dir, baseRun), Prompt: filepath.Join(dir, promptRun)}
	for _, beta := range betas {
		text := strconv.FormatFloat(beta, 'g', -1, 64)
		r.Multi = append(r.Multi, filepath.Join(dir, multiRun+text))
		r.Single = append(r.Single, filepath.Join(dir, singleRun+text))
	}
	return r
}

// All are the directories of all of them.
func (r *SweepRuns) All() []string {
	return slices.Concat([]string{r.Base}, r.Multi, r.Single, []string{r.Prompt})
}

// SweepFile is the file in a sweep's directory that says which strengths the sweep is of. Runs of others may lie there too,
// from before.
const SweepFile = "dialect-sweep.json"

// sweepFormat is the version of SweepFile.
const sweepFormat = 1

type sweepSpec struct {
	Format int       `json:"format"`
	Betas  []float64 `json:"betas"` // but 0
}

// WriteSweep makes a directory that of a sweep over the strengths, which do not include 0.
func WriteSweep(dir string, betas []float64) error {
	data, err := json.Marshal(sweepSpec{sweepFormat, append([]float64{}, betas...)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return record.WriteAtomically(filepath.Join(dir, SweepFile), append(data, '\n'))
}

// IsSweep says whether a directory is a sweep's.
func IsSweep(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, SweepFile))
	return err == nil
}

// ReadSweep names the runs of the sweep in a directory.
func ReadSweep(dir string) (SweepRuns, error) {
	path := filepath.Join(dir, SweepFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return SweepRuns{}, err
	}
	var spec sweepSpec
	if err := json.Unmarshal(data, &spec); err != nil {
		return SweepRuns{}, fmt.Errorf("%s is damaged (%w); plumb steer sweep dialect --resume writes it again", path, jsonfile.InWords(err))
	}
	if spec.Format != sweepFormat {
		return SweepRuns{}, fmt.Errorf("%s is of format %d, which this version does not read", path, spec.Format)
	}
	return NewSweepRuns(dir, spec.Betas), nil
}

// Sweep is a sweep over strengths, of pairs that the strength was not chosen on.
type Sweep struct {
	Multi  []SweepRow // the first is β = 0
	Single []SweepRow
	Prompt SweepRow

	Chosen       int // of Multi
	ChosenSingle int // of Single
	// Times is how many times more the chosen strength reduces |LP| than the instruction does; undefined where that does
	// not reduce it.
	Times    metric.Value
	Choosing int // pairs that the strength was chosen on
	Pairs    int // pairs reported

	runs []*Report // base, multi, single, prompt
}

// SweepRow is one run of a sweep.
type SweepRow struct {
	Beta    float64
	Layers  []int
	Summary *Summary
	Utility float64 // by which the strength is chosen, on the choosing pairs
	choose  *Summary
}

// isChoosing says whether a pair is of those that a sweep chooses its strength on.
func isChoosing(s *Scores) bool { return choosingID(s.ID) }

// choosingID is true of a quarter of the ids, by their hash.
func choosingID(id string) bool {
	hash := fnv.New32a()
	hash.Write([]byte("choose/" + id)) // never fails
	return hash.Sum32()>>8%4 == 0
}

// Reported are the pairs of a sweep that its strength is not chosen on.
func Reported(pairs []Pair) []Pair {
	var reported []Pair
	for _, p := range pairs {
		if !choosingID(p.ID) {
			reported = append(reported, p)
		}
	}
	return reported
}

// CheckSweepable refuses pairs of which none would be left to choose a strength on, or none to report.
func CheckSweepable(pairs []Pair) error {
	switch len(Reported(pairs)) {
	case len(pairs):
		return fmt.Errorf("a sweep chooses its strength on a quarter of the pairs, which none of these %d is in; give more data", len(pairs))
	case 0:
		return fmt.Errorf("a sweep reports on three quarters of the pairs, which none of these %d is in; give more data", len(pairs))
	}
	return nil
}

// NewSweep reads a sweep's runs. Slurs of the lexicon are masked unless asked for.
func NewSweep(runs SweepRuns, draws int, unmasked bool) (*Sweep, error) {
	s := &Sweep{}
	row := func(dir string) (SweepRow, error) {
		if _, err := os.Stat(filepath.Join(dir, record.RunFile)); errors.Is(err, fs.ErrNotExist) {
			return SweepRow{}, fmt.Errorf("the run %s of the sweep is missing; the same command with --resume makes it", dir)
		}
		r, err := New(dir, 1, unmasked)
		if err != nil {
			return SweepRow{}, err
		}
		if !r.Finished() {
			return SweepRow{}, fmt.Errorf("%s holds %d of its %s; finish it with --resume", dir, r.Done, report.Count(r.Run.Items, "item"))
		}
		s.runs = append(s.runs, r)
		var choosing, reported []Scores
		for i := range r.Scores {
			if isChoosing(&r.Scores[i]) {
				choosing = append(choosing, r.Scores[i])
			} else {
				reported = append(reported, r.Scores[i])
			}
		}
		instructed := r.Run.Dialect.Instruction != ""
		out := SweepRow{Summary: Summarize(reported, r.wordings(), instructed, draws), choose: Summarize(choosing, r.wordings(), instructed, 1)}
		out.Summary.mask(r.mask)
		if steering := r.Run.Steering; steering != nil {
			out.Layers = steering.Layers
		}
		return out, nil
	}
	base, err := row(runs.Base)
	if err != nil {
		return nil, err
	}
	s.Choosing, s.Pairs = base.choose.Pairs, base.Summary.Pairs
	s.Multi, s.Single = []SweepRow{base}, []SweepRow{base}
	for _, part := range []struct {
		dirs []string
		rows *[]SweepRow
	}{{runs.Multi, &s.Multi}, {runs.Single, &s.Single}} {
		for i, dir := range part.dirs {
			r, err := row(dir)
			if err != nil {
				return nil, err
			}
			r.Beta = runs.Betas[i]
			*part.rows = append(*part.rows, r)
		}
	}
	if s.Prompt, err = row(runs.Prompt); err != nil {
		return nil, err
	}
	if s.Chosen, err = choose(s.Multi); err != nil {
		return nil, err
	}
	if s.ChosenSingle, err = choose(s.Single); err != nil {
		return nil, err
	}
	s.Times, err = s.times(draws)
	return s, err
}

// choose applies the ChoiceRule. Of equal strengths it takes the lowest.
func choose(rows []SweepRow) (int, error) {
	at := func(r *SweepRow, name string) (float64, error) {
		v := r.choose.Values[name]
		if !v.OK {
			return 0, fmt.Errorf("the strength cannot be chosen: %s is not defined on what it is chosen on, %s; give more data", name, report.Count(r.choose.Pairs, "pair"))
		}
		return v.V, nil
	}
	best := 0
	for i := range rows {
		var before, now [3]float64
		for k, name := range []string{LP, PPL(SAE, SAE), MatchShare(SAE, Best, ReadSum)} {
			var err error
			if before[k], err = at(&rows[0], name); err != nil {
				return 0, err
			}
			if now[k], err = at(&rows[i], name); err != nil {
				return 0, err
			}
		}
		rows[i].Utility = reduction(before[0], now[0]) - max(0, now[1]/before[1]-1) - max(0, before[2]-now[2])
		if rows[i].Utility > rows[best].Utility {
			best = i
		}
	}
	return best, nil
}

// reduction is the share of |LP| that is gone, which an LP beyond 0 gives back (the paper's "Bias Red.", Table 9, where every
// LP is above 0). An LP of 0 cannot be reduced.
func reduction(before, now float64) float64 {
	if before == 0 {
		return 0
	}
	return 1 - math.Abs(now/before)
}

// times is the |LP| that the chosen strength takes away over what the instruction takes away, on the reported pairs.
func (s *Sweep) times(draws int) (metric.Value, error) {
	steered := s.runs[s.Chosen] // base, then multi
	c, err := Compare([]*Report{s.runs[0], steered, s.runs[len(s.runs)-1]})
	if err != nil {
		return metric.Value{}, err
	}
	c.Votes = slices.DeleteFunc(c.Votes, func(v Vote) bool { return isChoosing(v.scores[0]) })
	if len(c.Votes) == 0 {
		return metric.Value{}, nil
	}
	return c.ratioOfReductions(draws), nil
}

// cells of the sweep's table.
func (s *Sweep) row(name string, r *SweepRow, base *Summary) []string {
	v := r.Summary.Values
	percent := func(lp metric.Value) string {
		if !lp.OK || !base.Values[LP].OK || base.Values[LP].V == 0 {
			return metric.Undefined
		}
		return metric.FormatDigits(100*reduction(base.Values[LP].V, lp.V), 2)
	}
	ratio := func(name string) string {
		now, before := v[name], base.Values[name]
		if !now.OK || !before.OK {
			return "–"
		}
		return metric.Format(now.V / before.V)
	}
	cell := func(name string) string {
		if _, measured := v[name]; !measured {
			return "–"
		}
		return v[name].String()
	}
	return []string{name, cell(LP), percent(v[LP]), cell(PPL(AAE, AAE)), ratio(PPL(AAE, AAE)), cell(PPL(SAE, SAE)), ratio(PPL(SAE, SAE)),
		cell(MatchShare(AAE, Best, ReadSum)), cell(MatchShare(SAE, Best, ReadSum)), cell(DGI), cell(CDGI)}
}

var sweepHeader = []string{"β", "LP", "Reduction, %", "AAE PPL", "Ratio", "SAE PPL", "Ratio", "AAE Match", "SAE Match", "DGI", "cDGI"}

func (s *Sweep) tables() []report.Table {
	base := s.Multi[0].Summary
	beta := func(r *SweepRow) string { return strconv.FormatFloat(r.Beta, 'g', -1, 64) }
	list := make([]report.Table, 0, 4)
	for _, part := range []struct {
		title  string
		rows   []SweepRow
		chosen int
	}{{"Several layers, weighted", s.Multi, s.Chosen}, {"The heaviest layer alone", s.Single, s.ChosenSingle}} {
		if len(part.rows) == 1 && len(list) > 0 { // the unsteered run, once more
			continue
		}
		t := report.Table{Left: 1, Title: part.title, Header: sweepHeader, Note: "★ The chosen strength, by the same rule."}
		if len(list) == 0 {
			t.Note = "Reduction is that of |LP|. AAE PPL and SAE PPL are of the continuations of a dialect after contexts of the same; " +
				"Ratio is over that at β = 0. Match: asked for " + wordingTexts[Best] + ", by log-probability. ★ The chosen strength: " + oneLine(ChoiceRule)
		}
		if n := len(part.rows); n > 1 {
			t.Title += fmt.Sprintf(" (%s)", layersInWords(part.rows[n-1].Layers))
		}
		for i := range part.rows {
			name := beta(&part.rows[i])
			if i == part.chosen {
				name += strongestMark
			}
			t.Rows = append(t.Rows, s.row(name, &part.rows[i], base))
		}
		list = append(list, t)
	}
	prompt := report.Table{Left: 1, Title: "Prompting baseline", Header: sweepHeader,
		Note: "Its perplexities are left out: the instruction is part of what they are conditioned on. " + s.timesWords()}
	prompt.Header = slices.Concat([]string{""}, sweepHeader[1:])
	prompt.Rows = [][]string{s.row("instructed", &s.Prompt, base)}
	return append(list, prompt, s.intervals())
}

// layersInWords is "layer 4", or "layers 1, 2, 4".
func layersInWords(layers []int) string {
	words := strings.Trim(strings.ReplaceAll(fmt.Sprint(layers), " ", ", "), "[]")
	if len(layers) == 1 {
		return "layer " + words
	}
	return "layers " + words
}

func (s *Sweep) timesWords() string {
	switch {
	case s.Chosen == 0:
		return "The chosen strength is 0, which reduces nothing."
	case !s.Times.OK:
		return "The instruction does not reduce |LP|, so that there is no ratio to what the chosen strength reduces."
	}
	return fmt.Sprintf("The chosen strength reduces |LP| %s %s times as much as the instruction does.", s.Times, s.Times.Interval())
}

// intervals are those of the base, the instruction and the chosen strength, if that is another (the paper's Table 11).
func (s *Sweep) intervals() report.Table {
	t := report.Table{Left: 1, Title: "With intervals", Header: []string{"Metric", "β = 0", "Instructed"}, Note: cdgiNote}
	rows := []*SweepRow{&s.Multi[0], &s.Prompt}
	if s.Chosen > 0 {
		t.Header = append(t.Header, fmt.Sprintf("β = %g ★", s.Multi[s.Chosen].Beta))
		rows = append(rows, &s.Multi[s.Chosen])
	}
	for _, m := range []struct{ words, name string }{
		{"LP", LP}, {"AAE PPL", PPL(AAE, AAE)}, {"SAE PPL", PPL(SAE, SAE)}, {"AAE Match", MatchShare(AAE, Best, ReadSum)},
		{"SAE Match", MatchShare(SAE, Best, ReadSum)}, {"DGI", DGI}, {"cDGI", CDGI},
	} {
		row := []string{m.words}
		for _, r := range rows {
			if v, measured := r.Summary.Values[m.name]; measured {
				row = append(row, report.Cell(v))
			} else {
				row = append(row, "–")
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (s *Sweep) headline() string {
	return fmt.Sprintf("Dialect steering: %s", s.runs[0].Run.Model.Name)
}

// lead says what the numbers are of, and what is known of the pairs that the steering was fitted on.
func (s *Sweep) lead() string {
	text := s.units() + fmt.Sprintf(" %s reported, %s that the strength was chosen on", report.Count(s.Pairs, "pair"), report.Count(s.Choosing, "other"))
	switch s.fitted() {
	case "":
		return text + "."
	case record.FittedApart:
		return text + "; both are of the evaluation part: the directions were not fitted on it, and if a trace chose the layers, it saw none of it."
	case record.FittedElsewhere:
		return text + ". Layers and directions were fitted on other data; pairs that are in both may be among these."
	}
	return text + ". It is not known which pairs the layers and directions were fitted on; some may be among these."
}

// units says what β multiplies.
func (s *Sweep) units() string {
	if len(s.Multi) == 1 {
		return "Nothing is steered here: 0 is the only strength."
	}
	if s.norms() == record.NormsOfResiduals {
		return "β is in units of the residual stream's mean norm at each layer, times the layer's weight; one layer alone has weight 1."
	}
	return "β multiplies directions of norm 1, times the layer's weight; one layer alone has weight 1."
}

// norms are those of the steered runs' directions.
func (s *Sweep) norms() string {
	for _, r := range s.runs {
		if r.Run.Steering != nil {
			return r.Run.Steering.Norms
		}
	}
	return ""
}

// fitted is what the steered runs say of it, if they all say the same; empty if there are none.
func (s *Sweep) fitted() record.Fitted {
	said := map[record.Fitted]bool{}
	for _, r := range s.runs {
		if r.Run.Steering != nil {
			said[r.Run.Steering.Fitted] = true
		}
	}
	if len(said) == 0 {
		return ""
	}
	for _, one := range []record.Fitted{record.FittedApart, record.FittedElsewhere} {
		if said[one] && len(said) == 1 {
			return one
		}
	}
	return record.FittedUnknown
}

// examples are pairs whose preference the chosen strength flips.
func (s *Sweep) examples() []report.Table {
	if s.Chosen == 0 {
		return nil
	}
	c, err := Compare([]*Report{s.runs[0], s.runs[s.Chosen]})
	if err != nil {
		return nil // NewSweep compared them before
	}
	return c.flips(shownFlips)
}

// notes are what a reader must know before the numbers of the tables are quoted; of the unsteered run, as the others are of the
// same pairs.
func (s *Sweep) notes(tables []report.Table) []string {
	base := s.Multi[0].Summary
	return slices.Concat(base.lost(), base.tied(), daggers(tables))
}

// WriteTable writes the sweep for a terminal.
func (s *Sweep) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n", s.headline(), s.lead())
	tables := append(s.tables(), s.examples()...)
	if err := writeTables(&text, tables, report.Table.WriteTerminal); err != nil {
		return err
	}
	writeNotes(&text, s.notes(tables))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMarkdown writes the same as Markdown.
func (s *Sweep) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n%s\n", s.headline(), s.lead())
	tables := append(s.tables(), s.examples()...)
	if err := writeTables(&text, tables, report.Table.WriteMarkdown); err != nil {
		return err
	}
	writeNotes(&text, s.notes(tables))
	_, err := io.WriteString(w, text.String())
	return err
}

// sweepLine is a row of a sweep for machines.
type sweepLine struct {
	Strategy string   `json:"strategy"` // base, multi, single, prompt
	Beta     float64  `json:"beta"`
	Layers   []int    `json:"layers"`
	Chosen   bool     `json:"chosen"`
	Utility  float64  `json:"utility"`
	Summary  *Summary `json:"summary"`
}

func (s *Sweep) lines() []sweepLine {
	var list []sweepLine
	for _, part := range []struct {
		name   string
		rows   []SweepRow
		chosen int
	}{{"multi", s.Multi, s.Chosen}, {"single", s.Single, s.ChosenSingle}} {
		for i, r := range part.rows {
			list = append(list, sweepLine{part.name, r.Beta, r.Layers, i == part.chosen, r.Utility, r.Summary})
		}
	}
	return append(list, sweepLine{Strategy: "prompt", Summary: s.Prompt.Summary})
}

// WriteJSON writes every number.
func (s *Sweep) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Model    string        `json:"model"`
		Rule     string        `json:"rule"`
		Choosing int           `json:"choosing_pairs"`
		Pairs    int           `json:"pairs"`
		Fitted   record.Fitted `json:"fitted"` // on which pairs the directions were, and the layers that a trace chose; empty: nothing is steered
		Norms    string        `json:"norms"`  // that strengths are multiples of; empty: 1
		Times    metric.Value  `json:"times_prompting"`
		Rows     []sweepLine   `json:"rows"`
	}{s.runs[0].Run.Model.Name, oneLine(ChoiceRule), s.Choosing, s.Pairs, s.fitted(), s.norms(), s.Times, s.lines()})
}

// WriteCSV writes a row a metric of a run.
func (s *Sweep) WriteCSV(w io.Writer) error {
	rows := [][]string{{"strategy", "beta", "chosen", "metric", "value", "low", "high", "n"}}
	for _, l := range s.lines() {
		for _, m := range Metrics([]Wording{Best}) {
			v, measured := l.Summary.Values[m.Name]
			if !measured {
				continue
			}
			row := []string{l.Strategy, number(l.Beta), strconv.FormatBool(l.Chosen), m.Name, metric.Undefined, "", "", "0"}
			if v.OK {
				row = []string{l.Strategy, number(l.Beta), strconv.FormatBool(l.Chosen), m.Name, number(v.V), number(v.Lo), number(v.Hi), strconv.Itoa(v.N)}
			}
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// frontier is the paper's figure 10 of one model.
func (s *Sweep) frontier() (report.Figure, error) {
	base := s.Multi[0].Summary.Values[PPL(SAE, SAE)]
	line := func(rows []SweepRow, name string, mark int) []report.Point {
		var points []report.Point
		for i := range rows {
			p := report.Point{Label: fmt.Sprintf("%sβ %g", name, rows[i].Beta), X: point(rows[i].Summary.Values[LP], 1), Mark: mark}
			if base.OK {
				p.Y = point(rows[i].Summary.Values[PPL(SAE, SAE)], base.V)
			}
			points = append(points, p)
		}
		return points
	}
	return report.NewScatter(report.Scatter{XAxis: "LP (lower is less preference of SAE)", YAxis: "SAE perplexity over that at β = 0", Level: 1,
		Lines: [][]report.Point{line(s.Multi, "", 0), line(s.Single, "one layer, ", 1)}})
}

// point is a value without its interval, over a scale.
func point(v metric.Value, scale float64) metric.Value {
	v.V /= scale
	v.Lo, v.Hi = v.V, v.V
	return v
}

// WriteHTML writes the sweep as one page.
func (s *Sweep) WriteHTML(w io.Writer) error {
	figure, err := s.frontier()
	if err != nil {
		return err
	}
	run, tables := s.runs[0].Run, append(s.tables(), s.examples()...)
	return (&pageData{
		Headline: s.headline(), Lead: s.lead(), Figures: []captioned{{"Bias and utility at every strength", figure}},
		Tables: tables, Notes: s.notes(tables), Facts: s.runs[0].facts(), Prompts: run.Prompt.Template,
	}).write(w)
}

// WriteFile writes the page into a sweep's directory and returns its path.
func (s *Sweep) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, report.File)
	return path, report.WritePage(path, s.WriteHTML)
}
