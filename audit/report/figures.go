package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"plumb/audit/metric"
)

// Figures are drawn in these colours, which are then replaced by the page's, so that they follow its light or dark scheme.
var (
	ink    = color.RGBA{0x01, 0x02, 0x03, 0xff}
	faint  = color.RGBA{0x01, 0x02, 0x04, 0xff}
	first  = color.RGBA{0x01, 0x02, 0x05, 0xff}
	second = color.RGBA{0x01, 0x02, 0x06, 0xff}

	pageColors = strings.NewReplacer("#010203", "var(--ink)", "#010204", "var(--faint)", "#010205", "var(--first)", "#010206", "var(--second)")
)

// marks tell the series of a figure apart, by shape as well as colour.
var marks = []draw.GlyphStyle{
	{Color: first, Radius: vg.Points(4), Shape: draw.CircleGlyph{}},
	{Color: second, Radius: vg.Points(4), Shape: draw.BoxGlyph{}},
}

// Figure is an inline SVG and what it shows in words.
type Figure struct {
	SVG template.HTML
	Alt string
}

// Series is a quantity with a value for every row of a figure.
type Series struct {
	Name   string
	Values []metric.Value
}

// series is a metric of every category; undefined where a category has no items of the condition.
func (r *Report) series(name, condition, metricName string) (categories []string, s Series) {
	s.Name = name
	for _, g := range r.Summary.Groups {
		if g.Condition != metric.All {
			continue
		}
		categories = append(categories, CategoryName(g.Category))
		var v metric.Value
		if group := r.Summary.Group(g.Category, condition); group != nil {
			v = group.Values[metricName]
		}
		s.Values = append(s.Values, v)
	}
	return categories, s
}

// NewFigure draws a row for every name, the first at the top, with the value and interval of one or two series on an axis
// from low to high. What is undefined is written so in its row.
func NewFigure(axis string, low, high float64, rows []string, list []Series) (Figure, error) {
	if len(list) == 0 || len(list) > len(marks) {
		return Figure{}, fmt.Errorf("figure: %d series, not 1 to %d", len(list), len(marks))
	}
	p := newPlot(axis, low, high, rows)
	alt := []string{axis + "."}
	for k, s := range list {
		if len(s.Values) != len(rows) {
			return Figure{}, fmt.Errorf("figure: %d values for %d rows", len(s.Values), len(rows))
		}
		lift := 0.0 // of the series above the middle of its row
		if len(list) > 1 {
			lift = 0.18 * float64(1-2*k)
		}
		if err := s.draw(p, marks[k], lift, (low+high)/2); err != nil {
			return Figure{}, fmt.Errorf("figure: %w", err)
		}
		var words []string
		for row, v := range s.Values {
			if v.OK {
				words = append(words, fmt.Sprintf("%s %s, interval %s to %s", rows[row], metric.Format(v.V), metric.Format(v.Lo), metric.Format(v.Hi)))
			} else {
				words = append(words, rows[row]+" "+metric.Undefined)
			}
		}
		alt = append(alt, s.Name+": "+strings.Join(words, "; ")+".")
	}
	return render(p, vg.Length(96+32*len(rows)), strings.Join(alt, " "))
}

// draw puts the series into the plot.
func (s Series) draw(p *plot.Plot, mark draw.GlyphStyle, lift, middle float64) error {
	var points plotter.XYs
	var bars plotter.XErrors
	var missing plotter.XYLabels
	for row, v := range s.Values {
		at := float64(len(s.Values)-1-row) + lift
		if !v.OK {
			missing.XYs = append(missing.XYs, plotter.XY{X: middle, Y: at})
			missing.Labels = append(missing.Labels, metric.Undefined)
			continue
		}
		points = append(points, plotter.XY{X: v.V, Y: at})
		bars = append(bars, struct{ Low, High float64 }{v.Lo - v.V, v.Hi - v.V})
	}
	scatter := &plotter.Scatter{XYs: points, GlyphStyle: mark}
	p.Legend.Add(s.Name, scatter)
	if len(points) > 0 {
		intervals, err := plotter.NewXErrorBars(struct {
			plotter.XYs
			plotter.XErrors
		}{points, bars})
		if err != nil {
			return err
		}
		intervals.LineStyle = draw.LineStyle{Color: mark.Color, Width: vg.Points(1.5)}
		intervals.CapWidth = vg.Points(6)
		p.Add(intervals, scatter)
	}
	if len(missing.XYs) == 0 {
		return nil
	}
	labels, err := plotter.NewLabels(missing)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i] = textStyle(p, 11, mark.Color)
		labels.TextStyle[i].XAlign, labels.TextStyle[i].YAlign = draw.XCenter, draw.YCenter
	}
	p.Add(labels)
	return nil
}

func textStyle(p *plot.Plot, size vg.Length, c color.Color) draw.TextStyle {
	style := p.X.Label.TextStyle
	style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	style.Color = c
	return style
}

// newPlot is an empty plot with named rows.
func newPlot(axis string, low, high float64, rows []string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Min, p.X.Max = low, high
	p.Y.Min, p.Y.Max = -0.5, float64(len(rows))-0.5
	p.X.Label.Text = axis
	p.X.Label.TextStyle = textStyle(p, 12, ink)
	p.X.Label.Padding = vg.Points(6)
	var ticks []plot.Tick
	for row, name := range rows {
		ticks = append(ticks, plot.Tick{Value: float64(len(rows) - 1 - row), Label: shorten(name)})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Marker = plot.ConstantTicks(scale(low, high))
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label = withAlign(textStyle(p, 12, ink), a.Tick.Label)
		a.Color, a.Tick.Color = faint, faint
		a.Tick.Length = 0
		a.Padding = 0
	}
	p.Y.Padding = vg.Points(8)
	p.Y.LineStyle.Width = 0
	p.X.LineStyle.Width = 0
	p.Legend.TextStyle = withAlign(textStyle(p, 12, ink), p.Legend.TextStyle)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.YOffs = vg.Points(34)
	p.Legend.Padding = vg.Points(3)

	grid := plotter.NewGrid()
	grid.Vertical = draw.LineStyle{Color: faint, Width: vg.Points(0.5)}
	grid.Horizontal = draw.LineStyle{Color: faint, Width: vg.Points(0.5), Dashes: []vg.Length{vg.Points(1), vg.Points(3)}}
	p.Add(grid)
	if low < 0 && high > 0 {
		zero, err := plotter.NewLine(plotter.XYs{{X: 0, Y: p.Y.Min}, {X: 0, Y: p.Y.Max}})
		if err == nil {
			zero.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(0.75)}
			p.Add(zero)
		}
	}
	return p
}

// scale are the ticks of an axis: at most nine, at round numbers.
func scale(low, high float64) []plot.Tick {
	steps := []float64{0.02, 0.05, 0.1, 0.2, 0.25}
	if high-low > 0.25*9 { // not a share or a score
		return roundTicks(low, high)
	}
	step := steps[0]
	for _, s := range steps {
		if step = s; (high-low)/s <= 9 {
			break
		}
	}
	var ticks []plot.Tick
	for k := int(math.Ceil(low / step)); float64(k)*step <= high; k++ {
		at := float64(k) * step
		label := strings.Replace(strconv.FormatFloat(math.Round(at*100)/100, 'g', 3, 64), "-", "−", 1)
		ticks = append(ticks, plot.Tick{Value: at, Label: label})
	}
	return ticks
}

// withAlign keeps an element's own alignment under another text style.
func withAlign(style, old draw.TextStyle) draw.TextStyle {
	style.XAlign, style.YAlign, style.Rotation = old.XAlign, old.YAlign, old.Rotation
	return style
}

// shorten keeps a row's name from pushing the figure aside.
func shorten(name string) string {
	const limit = 28
	if runes := []rune(name); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return name
}

// figureWidth in points; the page scales it.
const figureWidth = 580

// render turns a plot into an SVG element for the page.
func render(p *plot.Plot, height vg.Length, alt string) (Figure, error) {
	canvas := vgsvg.New(figureWidth, height)
	area := draw.New(canvas)
	p.Draw(draw.Crop(area, 2, -14, 4, -40))
	var buffer bytes.Buffer
	if _, err := canvas.WriteTo(&buffer); err != nil {
		return Figure{}, fmt.Errorf("figure: %w", err)
	}
	// The page needs neither the XML declaration nor the size in points that the canvas begins with.
	_, element, _ := strings.Cut(buffer.String(), "<svg ")
	_, body, found := strings.Cut(element, ">")
	if !found {
		return Figure{}, fmt.Errorf("figure: no SVG was drawn")
	}
	head := fmt.Sprintf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, figureWidth, int(height), template.HTMLEscapeString(alt))
	return Figure{SVG: template.HTML(head + pageColors.Replace(body)), Alt: alt}, nil
}
