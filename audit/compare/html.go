package compare

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/report"
)

//go:embed compare.html.tmpl
var pageSource string

var page = template.Must(template.New("compare.html").Funcs(template.FuncMap{
	"symbol": report.Symbol,
	"lines":  splitCell,
	"format": metric.Format,
}).Parse(pageSource))

// cellLines are a cell's value and what stands below it.
type cellLines struct {
	First string
	More  []string
}

func splitCell(cell string) cellLines {
	lines := strings.Split(cell, "\n")
	return cellLines{lines[0], lines[1:]}
}

// conditionTables are a comparison's tables of one condition.
type conditionTables struct {
	Title  string
	Tables []table
}

// captioned is a figure of the page.
type captioned struct {
	Caption string
	Figure  report.Figure
}

// section is a comparison's part of the page.
type section struct {
	Headline   string
	Facts      []fact
	Figures    []captioned
	Conditions []conditionTables
	Examples   []Example
}

// WriteHTML writes one page that needs nothing else: no network, no script, no font.
func (r *Report) WriteHTML(w io.Writer) error {
	var sections []section
	for _, c := range r.Comparisons {
		s := section{Headline: "The runs", Facts: c.facts()}
		if len(r.Comparisons) > 1 {
			s.Headline = c.headline()
		}
		for _, condition := range c.benchmark.Conditions {
			groups := c.byCategory(condition.Name)
			if len(groups.groups) == 0 {
				continue
			}
			figure, err := groups.channelFigure()
			if err != nil {
				return err
			}
			s.Figures = append(s.Figures, captioned{"Composition and preference, " + condition.Title, figure})
			s.Conditions = append(s.Conditions, conditionTables{condition.Title, c.conditionTables(condition.Name, condition.Title)})
		}
		for i := range c.Groups {
			s.Examples = append(s.Examples, c.Groups[i].Flips.Examples...)
		}
		sections = append(sections, s)
	}
	return page.Execute(w, struct {
		Headline string
		Style    template.CSS
		Summary  table
		Sections []section
		Notes    []string
		Open     bool
	}{r.headline(), report.Style, summaryTable(r.Rows, false), sections, r.notes(), len(r.Comparisons) == 1})
}

// channelFigure shows the two channels of every category with their intervals.
func (r rows) channelFigure() (report.Figure, error) {
	composition, preference := report.Series{Name: "composition: answers less or more"}, report.Series{Name: "preference: answers otherwise"}
	reach := 0.05
	for _, g := range r.groups {
		for _, channel := range []struct {
			series *report.Series
			value  metric.Value
		}{{&composition, g.Channels.Composition.Change}, {&preference, g.Channels.Preference.Change}} {
			channel.series.Values = append(channel.series.Values, channel.value)
			if channel.value.OK {
				reach = max(reach, math.Abs(channel.value.Lo), math.Abs(channel.value.Hi))
			}
		}
	}
	return report.NewFigure("Change of Pr(S)", -1.08*reach, 1.08*reach, r.names, []report.Series{composition, preference})
}
