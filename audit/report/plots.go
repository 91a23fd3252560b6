package report

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"plumb/audit/metric"
)

// Point is a labelled point of a scatter plot. Points of which a coordinate is undefined are not drawn.
type Point struct {
	Label string
	X, Y  metric.Value
	Mark  int // 0 or 1: circle or square
}

// Scatter is what NewScatter draws.
type Scatter struct {
	XAxis, YAxis string
	Log          bool    // both axes are logarithmic, and the line y = x is drawn
	Level        float64 // a dashed line y = Level, if not 0
	Points       []Point
	Lines        [][]Point // drawn as lines through their points, which are drawn too
}

// NewScatter draws points with their intervals and labels. It is an error if there is no defined point.
func NewScatter(s Scatter) (Figure, error) {
	points := s.Points
	for _, line := range s.Lines {
		points = append(points[:len(points):len(points)], line...)
	}
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	var words []string
	for _, p := range points {
		if !p.X.OK || !p.Y.OK {
			continue
		}
		for i, v := range []metric.Value{p.X, p.Y} {
			low[i], high[i] = min(low[i], v.Lo), max(high[i], v.Hi)
		}
		words = append(words, fmt.Sprintf("%s: %s, %s", p.Label, p.X, p.Y))
	}
	if len(words) == 0 {
		return Figure{}, fmt.Errorf("figure: no point of %s is defined", s.YAxis)
	}
	if s.Level != 0 {
		low[1], high[1] = min(low[1], s.Level), max(high[1], s.Level)
	}
	if s.Log { // one range for both, so that y = x is a diagonal
		low[0] = max(min(low[0], low[1]), math.SmallestNonzeroFloat32) / 1.25
		high[0] = max(high[0], high[1]) * 1.25
		low[1], high[1] = low[0], high[0]
	} else {
		for i := range low {
			margin := max(0.08*(high[i]-low[i]), 1e-3*(1+math.Abs(high[i])))
			low[i], high[i] = low[i]-margin, high[i]+margin
		}
	}
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low[0], high[0], low[1], high[1]
	for i, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.Text = []string{s.XAxis, s.YAxis}[i]
		a.Label.TextStyle = withAlign(textStyle(p, 12, ink), a.Label.TextStyle)
		a.Label.Padding = vg.Points(6)
		a.Tick.Label = withAlign(textStyle(p, 11, ink), a.Tick.Label)
		a.Color, a.Tick.Color = faint, faint
		a.Tick.Length, a.Padding = 0, 0
		if s.Log {
			a.Scale = plot.LogScale{}
			a.Tick.Marker = plot.ConstantTicks(logTicks(a.Min, a.Max))
		} else {
			a.Tick.Marker = plot.ConstantTicks(roundTicks(a.Min, a.Max))
		}
	}
	grid := plotter.NewGrid()
	grid.Vertical = draw.LineStyle{Color: faint, Width: vg.Points(0.5)}
	grid.Horizontal = grid.Vertical
	p.Add(grid)
	var guide plotter.XYs
	switch {
	case s.Log:
		guide = plotter.XYs{{X: low[0], Y: low[0]}, {X: high[0], Y: high[0]}}
	case s.Level != 0:
		guide = plotter.XYs{{X: low[0], Y: s.Level}, {X: high[0], Y: s.Level}}
	}
	if guide != nil {
		p.Add(&plotter.Line{XYs: guide, LineStyle: draw.LineStyle{Color: ink, Width: vg.Points(0.75), Dashes: []vg.Length{vg.Points(3), vg.Points(3)}}})
	}
	for _, line := range s.Lines {
		var xys plotter.XYs
		for _, q := range line {
			if q.X.OK && q.Y.OK {
				xys = append(xys, plotter.XY{X: q.X.V, Y: q.Y.V})
			}
		}
		if len(xys) > 1 {
			p.Add(&plotter.Line{XYs: xys, LineStyle: draw.LineStyle{Color: first, Width: vg.Points(1)}})
		}
	}
	for _, q := range points {
		if q.X.OK && q.Y.OK {
			if err := q.draw(p); err != nil {
				return Figure{}, fmt.Errorf("figure: %w", err)
			}
		}
	}
	alt := fmt.Sprintf("%s against %s. %s.", s.YAxis, s.XAxis, strings.Join(words, "; "))
	return render(p, 420, alt)
}

func (q Point) draw(p *plot.Plot) error {
	at := plotter.XYs{{X: q.X.V, Y: q.Y.V}}
	mark := marks[q.Mark%len(marks)]
	style := draw.LineStyle{Color: mark.Color, Width: vg.Points(1)}
	x, err := plotter.NewXErrorBars(struct {
		plotter.XYs
		plotter.XErrors
	}{at, plotter.XErrors{{Low: q.X.Lo - q.X.V, High: q.X.Hi - q.X.V}}})
	if err != nil {
		return err
	}
	y, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{at, plotter.YErrors{{Low: q.Y.Lo - q.Y.V, High: q.Y.Hi - q.Y.V}}})
	if err != nil {
		return err
	}
	x.LineStyle, y.LineStyle = style, style
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: at, Labels: []string{"  " + shorten(q.Label)}})
	if err != nil {
		return err
	}
	labels.TextStyle[0] = textStyle(p, 11, ink)
	labels.Offset = vg.Point{X: vg.Points(2), Y: vg.Points(4)}
	p.Add(x, y, &plotter.Scatter{XYs: at, GlyphStyle: mark}, labels)
	return nil
}

// logTicks are 1, 2 and 5 times the powers of ten; where there are many, the powers alone.
func logTicks(low, high float64) []plot.Tick {
	factors := []float64{1, 2, 5}
	if high/low > 1e4 {
		factors = factors[:1]
	}
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, f := range factors {
			if at := f * math.Pow(10, e); at >= low && at <= high {
				ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 3, 64)})
			}
		}
	}
	return ticks
}

// roundTicks are at most nine, at 1, 2 or 5 times a power of ten.
func roundTicks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/9)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= 9 {
			step *= f
			break
		}
	}
	var ticks []plot.Tick
	for k := math.Ceil(low / step); k*step <= high; k++ {
		label := strings.Replace(strconv.FormatFloat(k*step, 'g', 4, 64), "-", "−", 1)
		if k == 0 {
			label = "0"
		}
		ticks = append(ticks, plot.Tick{Value: k * step, Label: label})
	}
	return ticks
}

// NewStackedBars draws a bar for every row, the first at the top: the share from 0 to 1 that the first name has, and what is
// left for the second. A dashed line stands at one half. What is undefined is left out.
func NewStackedBars(axis string, rows []string, shares []metric.Value, left, right string) (Figure, error) {
	if len(rows) == 0 || len(rows) != len(shares) {
		return Figure{}, fmt.Errorf("figure: %d shares for %d rows", len(shares), len(rows))
	}
	p := newPlot(axis, 0, 1, rows)
	words := []string{axis + "."}
	bar := func(row int, from, to float64, c color.Color) error {
		at := float64(len(rows) - 1 - row)
		polygon, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: at - 0.3}, {X: to, Y: at - 0.3}, {X: to, Y: at + 0.3}, {X: from, Y: at + 0.3}})
		if err != nil {
			return err
		}
		polygon.Color, polygon.LineStyle.Width = c, 0
		p.Add(polygon)
		return nil
	}
	for row, v := range shares {
		if !v.OK {
			words = append(words, rows[row]+" "+metric.Undefined)
			continue
		}
		for _, part := range []struct {
			from, to float64
			color    color.Color
		}{{0, v.V, first}, {v.V, 1, second}} {
			if part.to > part.from {
				if err := bar(row, part.from, part.to, part.color); err != nil {
					return Figure{}, fmt.Errorf("figure: %w", err)
				}
			}
		}
		words = append(words, fmt.Sprintf("%s: %s %s", rows[row], left, v))
	}
	p.Add(&plotter.Line{XYs: plotter.XYs{{X: 0.5, Y: p.Y.Min}, {X: 0.5, Y: p.Y.Max}},
		LineStyle: draw.LineStyle{Color: ink, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(3), vg.Points(3)}}})
	for i, name := range []string{left, right} {
		swatch := draw.GlyphStyle{Color: marks[i].Color, Radius: vg.Points(4), Shape: draw.BoxGlyph{}}
		p.Legend.Add(name, &plotter.Scatter{GlyphStyle: swatch})
	}
	return render(p, vg.Length(96+32*len(rows)), strings.Join(words, " "))
}

// NewHeatmap draws a value for every row and column, the first row at the top: blue for the most negative, red for the
// most positive, of equal strength for equal distance from 0. NaN is left blank.
func NewHeatmap(xAxis, yAxis string, rows, columns []string, values [][]float64) (Figure, error) {
	if len(rows) == 0 || len(columns) == 0 || len(values) != len(rows) {
		return Figure{}, fmt.Errorf("figure: %d rows of values for %d rows", len(values), len(rows))
	}
	reach := 0.0
	for _, row := range values {
		for _, v := range row {
			if !math.IsNaN(v) {
				reach = max(reach, math.Abs(v))
			}
		}
	}
	p := newPlot(xAxis, -0.5, float64(len(columns))-0.5, rows)
	p.Y.Label.Text = yAxis
	p.Y.Label.TextStyle = withAlign(textStyle(p, 12, ink), p.Y.Label.TextStyle)
	var ticks []plot.Tick
	for i, name := range columns {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	for r, row := range values {
		if len(row) != len(columns) {
			return Figure{}, fmt.Errorf("figure: %d values for %d columns", len(row), len(columns))
		}
		for c, v := range row {
			if math.IsNaN(v) {
				continue
			}
			x, y := float64(c), float64(len(rows)-1-r)
			square, err := plotter.NewPolygon(plotter.XYs{{X: x - 0.5, Y: y - 0.5}, {X: x + 0.5, Y: y - 0.5}, {X: x + 0.5, Y: y + 0.5}, {X: x - 0.5, Y: y + 0.5}})
			if err != nil {
				return Figure{}, fmt.Errorf("figure: %w", err)
			}
			square.Color, square.LineStyle.Width = heat(v, reach), 0
			p.Add(square)
		}
	}
	alt := fmt.Sprintf("%s by %s, from %s (blue) to %s (red).", yAxis, xAxis, metric.Format(-reach), metric.Format(reach))
	return render(p, vg.Length(110+16*len(rows)), alt)
}

// heat is the colour of a value: white at 0.
func heat(v, reach float64) color.Color {
	if reach == 0 {
		return color.RGBA{255, 255, 255, 255}
	}
	fade := uint8(255 - math.Round(200*math.Abs(v)/reach))
	if v < 0 {
		return color.RGBA{fade, fade, 255, 255}
	}
	return color.RGBA{255, fade, fade, 255}
}
