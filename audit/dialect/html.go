package dialect

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

//go:embed page.html.tmpl
var pageSource string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"count": report.Count}).Parse(pageSource))

// pageData is what the page of a run, of a comparison, of a trace or of a sweep is made of.
type pageData struct {
	Headline string
	Lead     string
	Warning  string
	Tiles    []tile
	Figures  []captioned
	Text     string
	Tables   []report.Table
	Notes    []string
	Meanings []Metric
	Facts    []fact
	Prompts  string
	Failures []metric.Failure
	Style    template.CSS
}

// tile is one of the numbers at the head of a page.
type tile struct {
	Words string
	Value metric.Value
}

func (d *pageData) write(w io.Writer) error {
	d.Style = report.Style
	return page.Execute(w, d)
}

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	tables := r.tables(false)
	notes := r.notes(tables)
	d := pageData{Headline: r.headline(), Figures: figures, Tables: tables, Facts: r.facts(), Failures: r.Summary.Failures, Prompts: r.Run.Prompt.Template}
	if !r.Finished() {
		d.Warning, notes = notes[0], notes[1:]
	}
	d.Lead, d.Notes = notes[0], notes[1:]
	for _, t := range []struct{ name, words string }{
		{LP, "LP: preference of SAE in both contexts"}, {BSAE, "b_SAE: of SAE after SAE"}, {BAAE, "b_AAE: of AAE after AAE"},
		{DGI, "DGI: same sentiment"}, {CDGI, "cDGI: the same, translation-stable"},
	} {
		d.Tiles = append(d.Tiles, tile{t.words, r.Summary.Values[t.name]})
	}
	seen := map[string]bool{}
	for _, m := range Metrics(r.wordings()) {
		if _, ok := r.Summary.Values[m.Name]; ok && !seen[m.Meaning] {
			seen[m.Meaning] = true
			d.Meanings = append(d.Meanings, m)
		}
	}
	return d.write(w)
}

// WriteFile writes the page into a run directory and returns its path.
func (r *Report) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, report.File)
	return path, report.WritePage(path, r.WriteHTML)
}

// partInWords says which part of the pairs a run is of.
func partInWords(d *record.Dialect) string {
	how := fmt.Sprintf("split seed %d", d.SplitSeed)
	if d.SplitSizes != "" {
		how += ", sizes " + d.SplitSizes
	}
	return fmt.Sprintf("the %s part (%s)", d.Split, how)
}

// segmentationWords says what cut the pairs.
func segmentationWords(s record.Segmentation) string {
	switch {
	case s.Model == "":
		return fmt.Sprintf("given in the data (%s)", report.Count(s.Given, "pair"))
	case s.Layer < 0:
		return fmt.Sprintf("cut by the encoder %s, ρ = %g, γ = %g; %d given in the data", s.Model, s.Rho, s.Gamma, s.Given)
	}
	return fmt.Sprintf("cut by layer %d of %s, ρ = %g, γ = %g; %d given in the data", s.Layer, s.Model, s.Rho, s.Gamma, s.Given)
}
