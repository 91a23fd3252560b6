package protocol

import (
	_ "embed"
	"html/template"
	"io"
	"math"

	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

//go:embed sweep.html.tmpl
var pageSource string

var page = template.Must(template.New(report.File).Parse(pageSource))

// captioned is a figure of the page.
type captioned struct {
	Caption string
	report.Figure
}

// WriteHTML writes one page that needs nothing else: no network and no font; its script sorts the table.
func (r *Report) WriteHTML(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	var tables []template.HTML
	for _, t := range r.tables() {
		tables = append(tables, t.HTML())
	}
	return page.Execute(w, struct {
		Headline, Decision string
		Accepted           bool
		Figures            []captioned
		Tables             []template.HTML
		All                template.HTML
		Notes              []string
		Model              record.Model
		Data               []record.DataFile
		Style              template.CSS
	}{
		r.headline(), r.Judged.Decision(), r.Judged.Accepted, figures, tables, r.configurations().HTML(), r.notes(),
		r.Fit.Base.Info.Model, r.Fit.Base.Info.Data.Files, report.Style,
	})
}

// figures are the paper's, for this model: flips by category, answer rate against preference, the layers, the strengths,
// and the capability knee.
func (r *Report) figures() ([]captioned, error) {
	var list []captioned
	add := func(caption string, figure report.Figure, err error) error {
		if err == nil {
			list = append(list, captioned{caption, figure})
		}
		return err
	}
	figure, err := r.flipFigure()
	if err := add("Items that the selected intervention moves to the unknown option", figure, err); err != nil {
		return nil, err
	}
	figure, err = r.cloudFigure()
	if err := add("Answer rate and preference of every configuration", figure, err); err != nil {
		return nil, err
	}
	chosen := r.Steering()
	for _, f := range []struct {
		caption, axis string
		with          func(record.Steering) bool
		at            func(record.Steering) float64
	}{
		{"Layers, all else as selected", "layer",
			func(s record.Steering) bool { return s.Strength == chosen.Strength },
			func(s record.Steering) float64 { return float64(s.Layers[0]) }},
		{"Strengths, all else as selected", "strength",
			func(s record.Steering) bool {
				return s.Layers[0] == chosen.Layers[0] && s.Strength*chosen.Strength >= 0
			},
			func(s record.Steering) float64 { return math.Abs(s.Strength) }},
	} {
		composition, preference := report.Curve{Name: "composition"}, report.Curve{Name: "preference"}
		for _, row := range r.Fit.Rows {
			s := *row.Steering
			if s.Name == chosen.Name && s.Operator == chosen.Operator && f.with(s) {
				x := f.at(s)
				composition.X, composition.Y = append(composition.X, x), append(composition.Y, row.Composition.Change)
				preference.X, preference.Y = append(preference.X, x), append(preference.Y, row.Preference.Change)
			}
		}
		figure, err := report.NewCurves(f.axis, "change of Pr(S)", []report.Curve{composition, preference}, nil, "")
		if err := add(f.caption, figure, err); err != nil {
			return nil, err
		}
	}
	if r.Cost == nil {
		return list, nil
	}
	return r.costFigures(list)
}

// flipFigure has a row a category.
func (r *Report) flipFigure() (report.Figure, error) {
	ambiguous, disambiguated := report.Series{Name: "ambiguous items"}, report.Series{Name: "disambiguated items"}
	var names []string
	high := 0.1
	chosen := r.Chosen()
	for i := range chosen.Groups {
		g := &chosen.Groups[i]
		if g.Condition != metric.All {
			continue
		}
		names = append(names, report.CategoryName(g.Category))
		for _, of := range []struct {
			series    *report.Series
			condition string
		}{{&ambiguous, record.Ambiguous}, {&disambiguated, record.Disambiguated}} {
			var v metric.Value
			if part := chosen.Group(g.Category, of.condition); part != nil {
				v = part.Flips.Rate
			}
			of.series.Values = append(of.series.Values, v)
			if v.OK {
				high = max(high, v.Hi)
			}
		}
	}
	return report.NewFigure("Share of items", -0.02*high, 1.05*high, names, []report.Series{ambiguous, disambiguated})
}

func (r *Report) cloudFigure() (report.Figure, error) {
	all, chosen := report.Curve{Name: "configurations", Points: true}, report.Curve{Name: "the selected one", Points: true}
	for i := range r.Fit.Rows {
		row := &r.Fit.Rows[i]
		to := &all
		if i == r.Selected {
			to = &chosen
		}
		if row.PrU.OK {
			to.X, to.Y = append(to.X, -row.PrU.V), append(to.Y, row.Preference.Change)
		}
	}
	return report.NewCurves("change of the answer rate", "preference term", []report.Curve{all, chosen}, nil, "")
}

// costFigures are the two curves of capability, with the knee.
func (r *Report) costFigures(list []captioned) ([]captioned, error) {
	var mark *float64
	if knee, ok := r.Cost.Knee(r.Judged.Thresholds.PerplexityRise); ok {
		mark = &knee
	}
	one := metric.Value{V: 1, Lo: 1, Hi: 1, OK: true}
	zero := metric.Value{OK: true}
	perplexity, accuracy := report.Curve{Name: "perplexity"}, report.Curve{Name: "MMLU"}
	for _, curve := range []*report.Curve{&perplexity, &accuracy} {
		curve.X = append(curve.X, 0)
	}
	perplexity.Y, accuracy.Y = append(perplexity.Y, one), append(accuracy.Y, zero)
	for _, p := range r.Cost.Points {
		perplexity.X, perplexity.Y = append(perplexity.X, p.Strength), append(perplexity.Y, p.Change.Ratio)
		accuracy.X, accuracy.Y = append(accuracy.X, p.Strength), append(accuracy.Y, p.Change.Accuracy)
	}
	for _, f := range []struct {
		caption, axis string
		curve         report.Curve
		measured      bool
	}{
		{"Perplexity of the selected construction", "perplexity, times the unsteered model's", perplexity, len(r.Cost.Base.Perplexity) > 0},
		{"MMLU of the selected construction", "change of accuracy", accuracy, r.Cost.Base.Accuracy().OK},
	} {
		if !f.measured {
			continue
		}
		figure, err := report.NewCurves("strength", f.axis, []report.Curve{f.curve}, mark, "capability knee")
		if err != nil {
			return nil, err
		}
		list = append(list, captioned{f.caption, figure})
	}
	return list, nil
}

// ReadOutRow is the selected intervention on the held-out half under another read-out.
type ReadOutRow struct {
	ReadOut metric.ReadOut
	Row     compare.Row
}

// readOuts computes the selected intervention's row under every read-out but the sweep's own.
func (s *Sweep) readOuts(dir string) ([]ReadOutRow, error) {
	var list []ReadOutRow
	at := s.Held.find(s.Steering())
	for _, readOut := range metric.ReadOuts {
		if readOut == s.Held.Base.ReadOut {
			continue
		}
		runs, err := compare.LoadGrid(dir, readOut, Name)
		if err != nil {
			return nil, err
		}
		c, err := compare.Compare(runs[0], runs[1+at], readOut, s.Options.Draws, seed)
		if err != nil {
			return nil, err
		}
		list = append(list, ReadOutRow{readOut, compare.Summarize([]*compare.Comparison{c})[0]})
	}
	return list, nil
}
