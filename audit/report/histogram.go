package report

import (
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// NewHistogram draws how many values fall into each of len(counts) bins of one width from low to high.
func NewHistogram(axis string, low, high float64, counts []int) (Figure, error) {
	if len(counts) == 0 || !(low < high) {
		return Figure{}, fmt.Errorf("figure: %d bins from %g to %g", len(counts), low, high)
	}
	width := (high - low) / float64(len(counts))
	bins := make([]plotter.HistogramBin, len(counts))
	most, total := 0, 0
	for i, n := range counts {
		bins[i] = plotter.HistogramBin{Min: low + float64(i)*width, Max: low + float64(i+1)*width, Weight: float64(n)}
		if n > counts[most] {
			most = i
		}
		total += n
	}
	p := newPlot(axis, low, high, []string{""})
	p.Y.Min, p.Y.Max = 0, 1.05*max(1, float64(counts[most]))
	p.Add(&plotter.Histogram{Bins: bins, Width: width, FillColor: first, LineStyle: draw.LineStyle{Color: ink, Width: vg.Points(0.25)}})
	alt := fmt.Sprintf("%s. %s values; most, %s, from %.3g to %.3g.", axis, Thousands(total), Thousands(counts[most]), bins[most].Min, bins[most].Max)
	return render(p, vg.Length(220), alt)
}
