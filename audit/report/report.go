// Package report writes a run's metrics for people (terminal, Markdown, HTML) and for machines (JSON, CSV). It reads the
// run directory alone, so any run can be printed again without its model.
package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"plumb/audit/metric"
	"plumb/audit/record"
)

// File is the report that WriteFile puts into a run directory.
const File = "report.html"

// Options say how a run is read.
type Options struct {
	ReadOut metric.ReadOut // "": the benchmark's own
	Draws   int            // of the bootstrap, at least 1; the paper's is 100
}

// seed of the bootstrap, the paper's (Answerability Confounds (GCD), appendix H).
const seed = 0

// Report is a run with its metrics.
type Report struct {
	Run     record.Run
	Done    int // items in the run so far; it is finished if they are Run.Items
	Summary *metric.Summary
}

// New reads the run in a directory, finished or not, and computes its metrics.
func New(dir string, options Options) (r *Report, err error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, reader.Close()) }()
	if err := reader.Run.Single(dir); err != nil {
		return nil, err
	}
	benchmark, err := metric.ForBenchmark(reader.Run.Benchmark)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	set, err := metric.Read(reader.Records(), cmp.Or(options.ReadOut, benchmark.ReadOut))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Report{Run: reader.Run, Done: reader.Done(), Summary: metric.Summarize(set, benchmark, options.Draws, seed)}, nil
}

// Finished says whether every item of the run is there.
func (r *Report) Finished() bool { return r.Done == r.Run.Items }

// Unscored is an error if no item of the run has scores.
func (r *Report) Unscored() error {
	if failures := r.Summary.Failures; r.Summary.Items == 0 && len(failures) > 0 {
		return fmt.Errorf("none of %s could be scored; the first, %s: %s", Count(len(failures), "item"), failures[0].ID, failures[0].Reason)
	}
	return nil
}

// WriteJSON writes the run's description and every metric of every group.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Run      record.Run      `json:"run"`
		Done     int             `json:"done"`
		Finished bool            `json:"finished"`
		Summary  *metric.Summary `json:"summary"`
	}{r.Run, r.Done, r.Finished(), r.Summary})
}

// WriteCSV writes one row a metric of a group, at full precision; what is undefined says so.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"category", "condition", "metric", "value", "low", "high", "n", "undefined_draws"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, g := range r.Summary.Groups {
		for _, m := range r.Summary.Benchmark.Metrics {
			v, applies := g.Values[m.Name]
			if !applies {
				continue
			}
			row := []string{g.Category, g.Condition, m.Name, metric.Undefined, "", "", "0", "0"}
			if v.OK {
				row = []string{g.Category, g.Condition, m.Name, number(v.V), number(v.Lo), number(v.Hi), strconv.Itoa(v.N), strconv.Itoa(v.UndefinedDraws)}
			}
			rows = append(rows, row)
		}
	}
	return out.WriteAll(rows)
}
