package capability

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

// Report is a capability run, for people and for machines.
type Report struct {
	Run     record.Run
	Done    int
	Summary *Summary
}

// seed of the bootstrap, as in the other reports.
const seed = 0

// New reads the run in a directory, finished or not.
func New(dir string, draws int) (r *Report, err error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, reader.Close()) }()
	if reader.Run.Benchmark != Benchmark {
		return nil, fmt.Errorf("%s is a run of benchmark %q, not of %s", dir, reader.Run.Benchmark, Benchmark)
	}
	if err := reader.Run.Single(dir); err != nil {
		return nil, err
	}
	outcome, err := Read(reader.Records())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Report{reader.Run, reader.Done(), outcome.Summarize(draws, seed)}, nil
}

// line is a row of the report.
type line struct {
	measure, of string
	items       int
	tokens      string
	value       metric.Value
}

var definitions = map[string]string{
	Segments: "segments: lines, scored from their second token on",
	Windows:  "windows: 512 tokens, the second half scored, as llama.cpp",
}

func (r *Report) lines() []line {
	var list []line
	for _, a := range r.Summary.Accuracies {
		of := a.Subject
		if of == metric.All {
			of = "all subjects"
		}
		list = append(list, line{"MMLU", of, a.Value.N, "", a.Value})
	}
	for _, p := range r.Summary.Perplexity {
		list = append(list, line{"perplexity", definitions[p.Definition], p.Texts, strconv.Itoa(p.Tokens), p.Value})
	}
	return list
}

func (r *Report) headline() string {
	text := "Capability: " + r.Run.Model.Name
	if s := r.Run.Steering; s != nil {
		text += fmt.Sprintf(", steered by %s (%s, %s, strength %g)", s.Name, s.Method, s.Operator, s.Strength)
	}
	return text
}

func (r *Report) notes() []string {
	notes := []string{fmt.Sprintf("MMLU is zero-shot, by the mean token log-probability of the options' texts. [95 %% bootstrap intervals over questions and over texts, %d draws].", r.Summary.Draws)}
	if r.Done != r.Run.Items {
		notes = append(notes, fmt.Sprintf("This run is not finished: %s of %s.", report.Thousands(r.Done), report.Count(r.Run.Items, "item")))
	}
	if n := len(r.Summary.Failures); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be scored; the first, %s: %s.", report.Count(n, "item"), r.Summary.Failures[0].ID, r.Summary.Failures[0].Reason))
	}
	return notes
}

var header = []string{"Measure", "Of", "Items", "Tokens", "Value", "95 % interval"}

func (l line) cells() []string {
	return []string{l.measure, l.of, strconv.Itoa(l.items), l.tokens, l.value.String(), l.value.Interval()}
}

func (r *Report) table() report.Table {
	t := report.Table{Header: header, Left: 2}
	for _, l := range r.lines() {
		t.Rows = append(t.Rows, l.cells())
	}
	return t
}

// WriteTable writes for a terminal.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", r.headline())
	if err := r.table().WriteTerminal(&text); err != nil {
		return err
	}
	fmt.Fprintf(&text, "%s\n", strings.Join(r.notes(), "\n"))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMarkdown writes Markdown.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n", r.headline())
	if err := r.table().WriteMarkdown(&text); err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%s\n", strings.Join(r.notes(), "\n"))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes the run's description and every number.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Run      record.Run `json:"run"`
		Done     int        `json:"done"`
		Finished bool       `json:"finished"`
		Summary  *Summary   `json:"summary"`
	}{r.Run, r.Done, r.Done == r.Run.Items, r.Summary})
}

// WriteCSV writes a row a value, at full precision.
func (r *Report) WriteCSV(w io.Writer) error {
	rows := [][]string{{"measure", "of", "items", "tokens", "value", "low", "high"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, l := range r.lines() {
		row := []string{l.measure, l.of, strconv.Itoa(l.items), l.tokens, metric.Undefined, "", ""}
		if l.value.OK {
			row = append(row[:4], number(l.value.V), number(l.value.Lo), number(l.value.Hi))
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

var page = template.Must(template.New(report.File).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Headline}}</title>
<style>
{{.Style}}</style>
</head>
<body>
<header>
<h1>{{.Headline}}</h1>
{{- range .Notes}}
<p class="soft">{{.}}</p>
{{- end}}
</header>
<main>
<div class="scroll">
{{.Table}}
</div>
<h2>The run</h2>
<table class="facts"><tbody>
<tr><th scope="row">Model</th><td>{{.Run.Model.Name}} ({{.Run.Model.Description}}), SHA-256 {{.Run.Model.SHA256}}</td></tr>
{{- range .Run.Data.Files}}
<tr><th scope="row">Data</th><td>{{.Name}}, SHA-256 {{.SHA256}}</td></tr>
{{- end}}
</tbody></table>
</main>
</body>
</html>
`))

// WriteHTML writes one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	return page.Execute(w, struct {
		*Report
		Headline string
		Notes    []string
		Table    template.HTML
		Style    template.CSS
	}{r, r.headline(), r.notes(), r.table().HTML(), report.Style})
}

// WriteFile writes the page into the run directory and returns its path.
func (r *Report) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, report.File)
	return path, report.WritePage(path, r.WriteHTML)
}
