package dialect

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/audit/stats"
)

// TraceBenchmark is the name that runs of a causal trace have.
const TraceBenchmark = "dialect-trace"

// TaskTrace is the task of a trace's records.
const TaskTrace = "trace"

// NoiseFactor is the paper's α: the noise's standard deviation over that of the corrupted embeddings.
const NoiseFactor = 3.0

// SteeringLayers is how many layers the paper steers.
const SteeringLayers = 4

// LayerEffect is R_l of a layer: the mean over an example's marker positions, then over examples (the paper's eq. 9).
type LayerEffect struct {
	Layer  int          `json:"layer"`
	R      metric.Value `json:"r"`
	Weight float64      `json:"weight"` // w_l (eq. 11); 0: the layer is not among the chosen
}

// Trace is a run of a causal trace with its effects.
type Trace struct {
	Run      record.Run
	Done     int
	Layers   []LayerEffect
	Failures []metric.Failure
	// Heat is the mean R by layer and by place among an example's marker tokens, counted from 0; the last column is of all
	// that come later. NaN where no example has as many.
	Heat [][]float64

	records []record.Record
}

// heatColumns is how many places among the marker's tokens are told apart.
const heatColumns = 6

// NewTrace reads the trace in a directory, finished or not. Intervals are of bootstrap draws of examples. Slurs of the lexicon
// are masked unless asked for.
func NewTrace(dir string, draws int, unmasked bool) (t *Trace, err error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, reader.Close()) }()
	if reader.Run.Benchmark != TraceBenchmark || reader.Run.Dialect == nil {
		return nil, fmt.Errorf("%s is a run of benchmark %q, not a trace of plumb steer trace", dir, reader.Run.Benchmark)
	}
	t = &Trace{Run: reader.Run, Failures: []metric.Failure{}}
	if !unmasked {
		t.Run.Dialect = maskedDialect(t.Run.Dialect)
	}
	for r, err := range reader.Records() {
		if err != nil {
			return nil, err
		}
		if r.Error != "" || r.Trace == nil {
			t.Failures = append(t.Failures, metric.Failure{ID: r.ID, Reason: r.Error})
			continue
		}
		if len(r.Trace.Effects) != t.Run.Model.NLayer {
			return nil, fmt.Errorf("%s: item %s has effects of %d layers, not %d", dir, r.ID, len(r.Trace.Effects), t.Run.Model.NLayer)
		}
		t.records = append(t.records, r)
	}
	t.Done = reader.Done()
	t.Layers = LayerEffects(t.records, t.Run.Model.NLayer, draws)
	t.Heat = heatOf(t.records, t.Run.Model.NLayer)
	return t, nil
}

// LayerEffects are R_l and the weights of the layers chosen by them, with intervals from draws of examples.
func LayerEffects(examples []record.Record, layers, draws int) []LayerEffect {
	means := make([][]float64, layers) // of an example's positions
	for l := range means {
		for _, e := range examples {
			sum := 0.0
			for _, r := range e.Trace.Effects[l] {
				sum += r
			}
			means[l] = append(means[l], sum/float64(len(e.Trace.Effects[l])))
		}
	}
	list := make([]LayerEffect, layers)
	for l := range list {
		list[l].Layer = l
		if len(examples) == 0 {
			continue
		}
		var values []float64
		for _, counts := range stats.Bootstrap(len(examples), draws, bootstrapSeed, "examples") {
			sum := 0.0
			for i, n := range counts {
				sum += float64(n) * means[l][i]
			}
			values = append(values, sum/float64(len(examples)))
		}
		list[l].R = metric.NewValue(values, len(examples), 0)
	}
	weigh(list)
	return list
}

// weigh gives the four layers with the most negative R_l, or those that are negative if there are fewer, their weights
// w_l = −R_l / Σ_j −R_j (eq. 11). Of equal ones the first is taken.
func weigh(list []LayerEffect) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].R.V, list[b].R.V) })
	total := 0.0
	var chosen []int
	for _, l := range order {
		if r := list[l].R; r.OK && r.V < 0 && len(chosen) < SteeringLayers {
			chosen = append(chosen, l)
			total -= r.V
		}
	}
	for _, l := range chosen {
		list[l].Weight = -list[l].R.V / total
	}
}

// Chosen are the layers with a weight, ascending, and their weights.
func (t *Trace) Chosen() (layers []int, weights []float64) {
	for _, l := range t.Layers {
		if l.Weight > 0 {
			layers, weights = append(layers, l.Layer), append(weights, l.Weight)
		}
	}
	return layers, weights
}

func heatOf(examples []record.Record, layers int) [][]float64 {
	heat, n := make([][]float64, layers), make([]float64, heatColumns)
	for l := range heat {
		heat[l] = make([]float64, heatColumns)
		clear(n)
		for _, e := range examples {
			for k, r := range e.Trace.Effects[l] {
				column := min(k, heatColumns-1)
				heat[l][column] += r
				n[column]++
			}
		}
		for k := range n {
			heat[l][k] /= n[k] // NaN for none
		}
	}
	return heat
}

func (t *Trace) headline() string { return "Causal trace: " + t.Run.Model.Name }

func (t *Trace) table() report.Table {
	table := report.Table{
		Left:   1,
		Title:  "What restoring a layer at the marker's tokens does",
		Header: []string{"Layer", "R", "Weight"},
		Note:   "R is b_AAE of the corrupted run less b_AAE of the restored one: below 0, restoring moves the model towards the AAE continuation.",
	}
	for _, l := range t.Layers {
		weight := ""
		if l.Weight > 0 {
			weight = metric.Format(l.Weight)
		}
		table.Rows = append(table.Rows, []string{strconv.Itoa(l.Layer), report.Cell(l.R), weight})
	}
	return table
}

func (t *Trace) notes() []string {
	notes := []string{fmt.Sprintf("%s; σ = %g · the standard deviation of the corrupted embeddings, noise seed %d.", report.Count(len(t.records), "example"), t.Run.Dialect.Noise, t.Run.Seed)}
	if t.Done < t.Run.Items {
		notes = append([]string{fmt.Sprintf("This trace is not finished: %d of %s.", t.Done, report.Count(t.Run.Items, "example"))}, notes...)
	}
	equal := 0
	for i := range t.records {
		if o := t.records[i].Options; len(o) == 2 && o[0].Text != "" && o[0].Text == o[1].Text {
			equal++
		}
	}
	if equal > 0 {
		notes = append(notes, fmt.Sprintf("In %d of them the AAE and the SAE continuation are the same, so that R is 0; other cuts would let them say something.", equal))
	}
	switch layers, _ := t.Chosen(); {
	case len(t.records) == 0:
	case len(layers) == 0:
		notes = append(notes, "No layer has a negative R: restoring moves none towards AAE, so that this trace gives none to steer. "+
			"Trace more pairs (more data, or a larger tracing part by --split-sizes), or name layers by plumb steer fit --layer.")
	case len(layers) < SteeringLayers:
		notes = append(notes, fmt.Sprintf("Layers with a negative R: %d, fewer than the paper's %d; these are used.", len(layers), SteeringLayers))
	}
	if n := len(t.Failures); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be traced; the first, %s: %s.", report.Count(n, "example"), t.Failures[0].ID, t.Failures[0].Reason))
	}
	return notes
}

// WriteTable writes the trace for a terminal.
func (t *Trace) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", t.headline())
	if err := writeTables(&text, []report.Table{t.table()}, report.Table.WriteTerminal); err != nil {
		return err
	}
	writeNotes(&text, t.notes())
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMarkdown writes the same as Markdown.
func (t *Trace) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", t.headline())
	if err := writeTables(&text, []report.Table{t.table()}, report.Table.WriteMarkdown); err != nil {
		return err
	}
	writeNotes(&text, t.notes())
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes the run's description and the effect of every layer.
func (t *Trace) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Run      record.Run       `json:"run"`
		Done     int              `json:"done"`
		Layers   []LayerEffect    `json:"layers"`
		Failures []metric.Failure `json:"failures"`
	}{t.Run, t.Done, t.Layers, t.Failures})
}

// WriteCSV writes a row a site: an example's layer and position.
func (t *Trace) WriteCSV(w io.Writer) error {
	rows := [][]string{{"example", "layer", "position", "r"}}
	for _, e := range t.records {
		for l, effects := range e.Trace.Effects {
			for k, r := range effects {
				rows = append(rows, []string{e.Template, strconv.Itoa(l), strconv.Itoa(e.Trace.Positions[k]), number(r)})
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// WriteHTML writes the trace as one page.
func (t *Trace) WriteHTML(w io.Writer) error {
	d := pageData{Headline: t.headline(), Lead: strings.Join(t.notes(), " "), Tables: []report.Table{t.table()}, Failures: t.Failures}
	var rows, columns []string
	for l := range t.Heat {
		rows = append(rows, strconv.Itoa(l))
	}
	for k := range heatColumns {
		columns = append(columns, strconv.Itoa(k+1))
	}
	columns[heatColumns-1] += " …"
	if slices.ContainsFunc(t.Heat, func(row []float64) bool { return !math.IsNaN(row[0]) }) {
		figure, err := report.NewHeatmap("token of the marker", "layer", rows, columns, t.Heat)
		if err != nil {
			return err
		}
		d.Figures = []captioned{{"R by layer and token: blue is towards AAE when restored", figure}}
	}
	for _, f := range t.Run.Data.Files {
		d.Facts = append(d.Facts, fact{"Data", fmt.Sprintf("%s, %s, SHA-256 %s", f.Name, report.Count(f.Items, "pair"), f.SHA256)})
	}
	d.Facts = append(d.Facts,
		fact{"Model", t.Run.Model.Description + ", SHA-256 " + t.Run.Model.SHA256},
		fact{"Pairs", partInWords(t.Run.Dialect)},
		fact{"Segments", segmentationWords(t.Run.Dialect.Segmentation)})
	return d.write(w)
}

// WriteFile writes the page into the trace's directory and returns its path.
func (t *Trace) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, report.File)
	return path, report.WritePage(path, t.WriteHTML)
}
