package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
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
	"thousands": thousands,
	"category":  categoryName,
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
	scores, err := r.scoreFigure()
	if err != nil {
		return err
	}
	answers, err := r.answerFigure()
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
		Scores, Answers   Figure
		Sections          []section
		Metrics           []metric.Metric
		Facts             []fact
		LeftOutCount      int
		UndefinedNote     string
		Style             template.CSS
	}{r, r.headline(), warning, r.tiles(), scores, answers, r.sections(false), metric.Metrics, r.facts(), leftOutCount(r), r.undefinedNote(), Style})
}

// WriteFile writes the page into a run directory and returns its path.
func (r *Report) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, File)
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("the report cannot be written: %w", err)
	}
	return path, cmp.Or(r.WriteHTML(file), file.Close())
}

func (r *Report) undefinedNote() string {
	if r.hasUndefinedDraws() {
		return undefinedNote
	}
	return ""
}

// tiles are the two published scores and the two answer rates, over all categories.
func (r *Report) tiles() []tile {
	var list []tile
	for _, t := range []struct{ condition, metric, words string }{
		{record.Ambiguous, "s_amb", "bias score, ambiguous"},
		{record.Disambiguated, "s_dis", "bias score, disambiguated"},
		{record.Ambiguous, "commit", "answered, ambiguous"},
		{record.Disambiguated, "commit", "answered, disambiguated"},
		{record.Disambiguated, "accuracy", "right, disambiguated"},
	} {
		g := r.Summary.Group(metric.All, t.condition)
		m, ok := metric.ByName(t.metric)
		if g != nil && ok {
			list = append(list, tile{m.Symbol, t.words, g.Values[t.metric]})
		}
	}
	return list
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
