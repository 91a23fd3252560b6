package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"plumb/audit/metric"
)

// Curve is a quantity along an axis of numbers; what is undefined is left out of it.
type Curve struct {
	Name   string
	X      []float64
	Y      []metric.Value
	Points bool // a cloud of points without intervals, not joined
}

// NewCurves draws one or two curves, with a vertical line and its name where mark is not nil.
func NewCurves(xAxis, yAxis string, list []Curve, mark *float64, markName string) (Figure, error) {
	if len(list) == 0 || len(list) > len(marks) {
		return Figure{}, fmt.Errorf("figure: %d curves, not 1 to %d", len(list), len(marks))
	}
	low, high, left, right := curveRange(list)
	p := newPlot(xAxis, left, right, nil)
	p.Y.Min, p.Y.Max = low, high
	p.Y.Label.Text, p.Y.Label.TextStyle = yAxis, withAlign(textStyle(p, 12, ink), p.Y.Label.TextStyle)
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks(roundTicks(left, right)), plot.ConstantTicks(roundTicks(low, high))
	alt := []string{yAxis + " against " + xAxis + "."}
	for k, c := range list {
		if len(c.X) != len(c.Y) {
			return Figure{}, fmt.Errorf("figure: %d values at %d places", len(c.Y), len(c.X))
		}
		words, err := c.draw(p, marks[k])
		if err != nil {
			return Figure{}, fmt.Errorf("figure: %w", err)
		}
		alt = append(alt, c.Name+": "+words+".")
	}
	if mark != nil {
		line, err := plotter.NewLine(plotter.XYs{{X: *mark, Y: low}, {X: *mark, Y: high}})
		if err != nil {
			return Figure{}, fmt.Errorf("figure: %w", err)
		}
		line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(5), vg.Points(3)}}
		p.Add(line)
		p.Legend.Add(markName, line)
		alt = append(alt, fmt.Sprintf("%s at %g.", markName, *mark))
	}
	return render(p, vg.Length(300), strings.Join(alt, " "))
}

func curveRange(list []Curve) (low, high, left, right float64) {
	low, high, left, right = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, c := range list {
		for i, v := range c.Y {
			if !v.OK {
				continue
			}
			below, above := v.Lo, v.Hi
			if c.Points {
				below, above = v.V, v.V
			}
			low, high = min(low, below, v.V), max(high, above, v.V)
			left, right = min(left, c.X[i]), max(right, c.X[i])
		}
	}
	if low > high {
		return -1, 1, 0, 1
	}
	if low > 0 && low < high/2 || low == high && low > 0 {
		low = 0
	}
	if high < 0 && high > low/2 || low == high && high < 0 {
		high = 0
	}
	if low == high {
		high = low + 1
	}
	if left == right {
		left, right = left-1, right+1
	}
	room, side := 0.08*(high-low), 0.04*(right-left)
	return low - room, high + room, left - side, right + side
}

// draw puts the curve into the plot and says it in words.
func (c Curve) draw(p *plot.Plot, mark draw.GlyphStyle) (string, error) {
	var points plotter.XYs
	var bars plotter.YErrors
	var words []string
	for i, v := range c.Y {
		if !v.OK {
			continue
		}
		points = append(points, plotter.XY{X: c.X[i], Y: v.V})
		bars = append(bars, struct{ Low, High float64 }{v.Lo - v.V, v.Hi - v.V})
		words = append(words, fmt.Sprintf("%s at %s", metric.Format(v.V), strconv.FormatFloat(c.X[i], 'g', 3, 64)))
	}
	scatter := &plotter.Scatter{XYs: points, GlyphStyle: mark}
	p.Legend.Add(c.Name, scatter)
	if len(points) == 0 {
		return metric.Undefined, nil
	}
	p.Add(scatter)
	if c.Points {
		return Count(len(points), "point"), nil
	}
	order := slices.Clone(points)
	slices.SortStableFunc(order, func(a, b plotter.XY) int {
		if a.X < b.X {
			return -1
		} else if a.X > b.X {
			return 1
		}
		return 0
	})
	line, err := plotter.NewLine(order)
	if err != nil {
		return "", err
	}
	line.LineStyle = draw.LineStyle{Color: mark.Color, Width: vg.Points(1.5)}
	intervals, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{points, bars})
	if err != nil {
		return "", err
	}
	intervals.LineStyle = draw.LineStyle{Color: mark.Color, Width: vg.Points(1)}
	intervals.CapWidth = vg.Points(5)
	p.Add(line, intervals)
	return strings.Join(words, "; "), nil
}
