package dialect

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

// Report is a run with its metrics, for people and machines. Slurs of the lexicon are masked in it unless asked for.
type Report struct {
	Dir     string
	Run     record.Run
	Done    int // items in the run so far; it is finished if they are Run.Items
	Scores  []Scores
	Summary *Summary

	mask []string
}

// New reads the run in a directory, finished or not, and computes its metrics with intervals of so many bootstrap draws.
func New(dir string, draws int, unmasked bool) (r *Report, err error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, reader.Close()) }()
	run := reader.Run
	if run.Benchmark != Benchmark || run.Dialect == nil {
		return nil, fmt.Errorf("%s is a run of benchmark %q, not of a dialect audit", dir, run.Benchmark)
	}
	var wordings []Wording
	for _, name := range run.Dialect.Wordings {
		wording, err := ParseWording(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		wordings = append(wordings, wording)
	}
	scores, err := ReadScores(reader.Records())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	r = &Report{Dir: dir, Run: run, Done: reader.Done(), Scores: scores}
	r.Summary = Summarize(scores, wordings, run.Dialect.Instruction != "", draws)
	if !unmasked {
		r.maskAll()
	}
	return r, nil
}

func (r *Report) maskAll() {
	r.mask = r.Run.Dialect.Masked
	r.Summary.mask(r.mask)
	r.Run.Dialect = maskedDialect(r.Run.Dialect)
}

// mask masks the words in the markers' names.
func (s *Summary) mask(words []string) {
	for _, groups := range [][]Group{s.Classes, s.Markers} {
		for i := range groups {
			groups[i].Marker = Mask(groups[i].Marker, words)
		}
	}
}

// maskedDialect is what a run says of itself with its list of slurs masked.
func maskedDialect(d *record.Dialect) *record.Dialect {
	masked := *d
	masked.Masked = make([]string, len(d.Masked))
	for i, word := range d.Masked {
		masked.Masked[i] = Mask(word, d.Masked)
	}
	return &masked
}

// Finished says whether every item of the run is there.
func (r *Report) Finished() bool { return r.Done == r.Run.Items }

func (r *Report) wordings() []Wording {
	var list []Wording
	for _, name := range r.Run.Dialect.Wordings {
		list = append(list, Wording(name))
	}
	return list
}

// WriteJSON writes the run's description and every metric.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Run      record.Run `json:"run"`
		Done     int        `json:"done"`
		Finished bool       `json:"finished"`
		Summary  *Summary   `json:"summary"`
	}{r.Run, r.Done, r.Finished(), r.Summary})
}

// WriteCSV writes a row a metric, of all pairs and then of every class and marker, at full precision; what is undefined
// says so.
func (r *Report) WriteCSV(w io.Writer) error {
	rows := [][]string{{"class", "marker", "metric", "value", "low", "high", "n", "undefined_draws"}}
	add := func(class, marker, name string, v metric.Value) {
		row := []string{class, marker, name, metric.Undefined, "", "", "0", "0"}
		if v.OK {
			row = []string{class, marker, name, number(v.V), number(v.Lo), number(v.Hi), strconv.Itoa(v.N), strconv.Itoa(v.UndefinedDraws)}
		}
		rows = append(rows, row)
	}
	for _, m := range Metrics(r.wordings()) {
		if v, ok := r.Summary.Values[m.Name]; ok {
			add(metric.All, "", m.Name, v)
		}
	}
	for _, groups := range [][]Group{r.Summary.Classes, r.Summary.Markers} {
		for _, g := range groups {
			for _, name := range localised {
				add(g.Class, g.Marker, name, g.Values[name])
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// WriteTable writes the report for a terminal.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", r.headline())
	tables := r.tables(true)
	if err := writeTables(&text, tables, report.Table.WriteTerminal); err != nil {
		return err
	}
	writeNotes(&text, r.notes(tables))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMarkdown writes the report as Markdown, with every metric.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n", r.headline())
	for _, f := range r.facts() {
		fmt.Fprintf(&text, "- %s: %s\n", f.Name, f.Value)
	}
	tables := r.tables(false)
	if err := writeTables(&text, tables, report.Table.WriteMarkdown); err != nil {
		return err
	}
	text.WriteString("\n")
	for _, note := range r.notes(tables) {
		fmt.Fprintf(&text, "- %s\n", note)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeTables writes tables, an empty line before each.
func writeTables(text *strings.Builder, tables []report.Table, write func(report.Table, io.Writer) error) error {
	for _, t := range tables {
		text.WriteString("\n")
		if err := write(t, text); err != nil {
			return err
		}
	}
	return nil
}

// writeNotes writes notes below tables, a line each.
func writeNotes(text *strings.Builder, notes []string) {
	if len(notes) > 0 {
		text.WriteString("\n")
	}
	for _, note := range notes {
		fmt.Fprintf(text, "%s\n", note)
	}
}

// daggers are the legend of the mark at values with undefined draws, if any stands in the tables.
func daggers(tables []report.Table) []string {
	for _, t := range tables {
		for _, row := range t.Rows {
			if strings.Contains(strings.Join(row, " "), "†") {
				return []string{"† In some bootstrap draws this is not defined; they are left out of its interval."}
			}
		}
	}
	return nil
}

func (r *Report) headline() string {
	line := "Dialect: " + r.Run.Model.Name
	if s := r.Run.Steering; s != nil {
		line += fmt.Sprintf(", steered by %s (%s, strength %g)", s.Name, s.Method, s.Strength)
	}
	if r.Run.Dialect.Instruction != "" {
		line += ", instructed"
	}
	return line
}

// notes are what a reader must know before the numbers of the tables are quoted.
func (r *Report) notes(tables []report.Table) []string {
	s := r.Summary
	notes := []string{fmt.Sprintf("%s; [95 %% intervals of %s of pairs, the same for all numbers].", report.Count(s.Pairs, "pair"), report.Count(s.Draws, "bootstrap draw"))}
	if !r.Finished() {
		notes = append([]string{fmt.Sprintf("This run is not finished: %d of %s. These are the numbers so far.", r.Done, report.Count(r.Run.Items, "item"))}, notes...)
	}
	return slices.Concat(notes, s.lost(), s.tied(), daggers(tables))
}

// fact is a line of what was asked.
type fact struct{ Name, Value string }

func (r *Report) facts() []fact {
	run, d := r.Run, r.Run.Dialect
	list := []fact{
		{"Model", fmt.Sprintf("%s (%s, %s, width %d)", run.Model.Name, run.Model.Description, report.Count(run.Model.NLayer, "block"), run.Model.NEmbd)},
		{"Model SHA-256", run.Model.SHA256},
		{"Device", run.Device},
	}
	for _, f := range run.Data.Files {
		list = append(list, fact{"Data", fmt.Sprintf("%s, %s, SHA-256 %s", f.Name, report.Count(f.Items, "pair"), f.SHA256)})
	}
	part := "all of them"
	if d.Split != SplitAll {
		part = partInWords(d)
	}
	if run.Sample > 0 {
		part += fmt.Sprintf(", a sample of %d (seed %d)", run.Sample, run.Seed)
	}
	for _, left := range run.Data.LeftOut {
		part += fmt.Sprintf("; %s left out: %s", report.Count(left.Count, "row"), left.Reason)
	}
	steering := "none"
	if s := run.Steering; s != nil {
		steering = fmt.Sprintf("%s (%s), %s, %s, strength %g, SHA-256 %s", s.Name, s.Method, s.Operator, layersInWords(s.Layers), s.Strength, s.SHA256)
	}
	instruction := d.Instruction
	if instruction == "" {
		instruction = "none"
	}
	chat := "not used"
	if run.Prompt.Chat {
		chat = "around the questions"
	}
	return append(list,
		fact{"Pairs", part},
		fact{"Segments", segmentationWords(d.Segmentation)},
		fact{"Lexicon", fmt.Sprintf("%s, %s, SHA-256 %s", d.Lexicon.Name, report.Count(d.Lexicon.Items, "marker"), d.Lexicon.SHA256)},
		fact{"Instruction", instruction},
		fact{"Chat template", chat},
		fact{"Steering", steering},
		fact{"Versions", fmt.Sprintf("Plumb %s, llama.cpp %s", run.Plumb, run.LlamaCpp)})
}
