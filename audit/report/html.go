package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/record"
)

//go:embed report.html.tmpl
var pageSource string

//go:embed style.css
var styleSource string

// Style is the style sheet of the pages: light and dark, for the screen and for paper. Figures take their colours from it.
var Style = template.CSS(styleSource)

var page = template.Must(template.New(File).Funcs(template.FuncMap{
	"thousands": Thousands,
	"count":     Count,
	"category":  CategoryName,
	"symbol":    Symbol,
	"mark":      mark,
}).Parse(pageSource))

// tile is one of the numbers at the head of the page.
type tile struct {
	Symbol, Words string
	Value         metric.Value
}

// WriteHTML writes the report as one page that needs nothing else: no network, no script, no font.
func (r *Report) WriteHTML(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	var warning string
	if !r.Finished() {
		warning = r.unfinished()
	}
	return page.Execute(w, struct {
		*Report
		Headline, Warning string
		Tiles             []tile
		Figures           []captioned
		Words, Roles      string
		Sections          []section
		Metrics           []metric.Metric
		Facts             []fact
		LeftOutCount      int
		UndefinedNote     string
		Style             template.CSS
	}{r, r.headline(), warning, r.tiles(), figures, r.layout().words, r.layout().roles, r.sections(false), r.Summary.Benchmark.Metrics, r.facts(), leftOutCount(r), r.undefinedNote(), Style})
}

// WriteFile writes the page into a run directory and returns its path.
func (r *Report) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, File)
	return path, WritePage(path, r.WriteHTML)
}

// WritePage writes a page of a report into a file. If it cannot be written, the one from before stays whole.
func WritePage(path string, write func(io.Writer) error) error {
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return err
	}
	if err := record.WriteAtomically(path, page.Bytes()); err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	return nil
}

func (r *Report) undefinedNote() string {
	if r.hasUndefinedDraws() {
		return undefinedNote
	}
	return ""
}

// Symbol sets what follows an underscore in a metric's symbol as a subscript.
func Symbol(text string) template.HTML {
	name, sub, found := strings.Cut(text, "_")
	if !found {
		return template.HTML(template.HTMLEscapeString(text))
	}
	sub, closing := strings.CutSuffix(sub, "|")
	html := template.HTMLEscapeString(name) + "<sub>" + template.HTMLEscapeString(sub) + "</sub>"
	if closing {
		html += "|"
	}
	return template.HTML(html)
}
