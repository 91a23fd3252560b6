package protocol

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

// The files that WriteFile puts into a sweep's directory.
const (
	markdownFile = "report.md"
	csvFile      = "configurations.csv"
)

// Report is a sweep with its verdict, for people and for machines.
type Report struct {
	*Sweep
	Judged Verdict
}

// NewReport judges a sweep.
func NewReport(s *Sweep, t Thresholds) *Report { return &Report{s, s.Verdict(t)} }

func (r *Report) headline() string {
	return fmt.Sprintf("Sweep of %d interventions: %s", len(r.Fit.Rows), r.Fit.Base.Info.Model.Name)
}

// Decision is the verdict in a sentence.
func (v *Verdict) Decision() string {
	if v.Accepted {
		return "Accepted: " + Name(v.Steering) + "."
	}
	var reasons []string
	for _, c := range v.Checks {
		if c.Outcome != Passed {
			reasons = append(reasons, c.Name+" "+c.Outcome)
		}
	}
	return "Rejected: " + Name(v.Steering) + " (" + strings.Join(reasons, "; ") + ")."
}

// WriteTable writes for a terminal: the verdict and what it rests on.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n", r.headline(), r.Judged.Decision())
	for _, t := range r.tables() {
		text.WriteString("\n")
		if err := t.WriteTerminal(&text); err != nil {
			return err
		}
	}
	for _, note := range r.notes() {
		fmt.Fprintf(&text, "%s\n", note)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMarkdown writes every table.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n%s\n\n", r.headline(), r.Judged.Decision())
	for _, t := range append(r.tables(), r.configurations()) {
		if err := t.WriteMarkdown(&text); err != nil {
			return err
		}
		text.WriteString("\n")
	}
	fmt.Fprintf(&text, "%s\n", strings.Join(r.notes(), "\n"))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes the verdict, the grid's summary and every configuration.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	out := struct {
		Model    record.Model  `json:"model"`
		Verdict  Verdict       `json:"verdict"`
		Grid     *Grid         `json:"grid"`
		Selected compare.Row   `json:"selected_held_out"`
		Default  *compare.Row  `json:"default_held_out"`
		Oracle   *compare.Row  `json:"oracle_held_out"` // null without --oracle
		Placebos []float64     `json:"placebo_preference"`
		Prompt   *compare.Row  `json:"prompt_only"` // null without --prompt-only
		Transfer []Transfer    `json:"out_of_domain"`
		Wordings []WordingRow  `json:"wordings"`
		Cost     []CostPoint   `json:"capability"`
		Fit      []compare.Row `json:"fit"`
		Held     []compare.Row `json:"held_out"`
	}{
		Model: r.Fit.Base.Info.Model, Verdict: r.Judged, Grid: r.Grid, Selected: r.Held.Rows[r.Held.find(r.Steering())],
		Default: r.heldRow(r.Held.find(r.Spec.Default)), Oracle: r.heldRow(r.Oracle()), Placebos: r.PlaceboTerms(), Fit: r.Fit.Rows, Held: r.Held.Rows,
		Transfer: r.Transfers(), Wordings: r.Wordings,
	}
	if r.Prompt != nil {
		out.Prompt = &compare.Summarize([]*compare.Comparison{r.Prompt})[0]
	}
	if r.Cost != nil {
		out.Cost = r.Cost.Points
	}
	return encoder.Encode(out)
}

// heldRow is a row of the held-out half; nil for none.
func (r *Report) heldRow(at int) *compare.Row {
	if at < 0 {
		return nil
	}
	return &r.Held.Rows[at]
}

// WriteCSV writes a line a configuration of the grid, on the fit half, at full precision.
func (r *Report) WriteCSV(w io.Writer) error {
	lines := [][]string{{"file", "method", "layer", "operator", "strength", "selected"}}
	for _, q := range rowValues(&r.Fit.Rows[0]) {
		lines[0] = append(lines[0], q.name, q.name+"_low", q.name+"_high")
	}
	exact := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range r.Fit.Rows {
		s := r.Fit.Rows[i].Steering
		line := []string{s.Name, s.Method, strings.Trim(fmt.Sprint(s.Layers), "[]"), s.Operator, exact(s.Strength), strconv.FormatBool(i == r.Selected)}
		for _, q := range rowValues(&r.Fit.Rows[i]) {
			if q.value.OK {
				line = append(line, exact(q.value.V), exact(q.value.Lo), exact(q.value.Hi))
			} else {
				line = append(line, metric.Undefined, "", "")
			}
		}
		lines = append(lines, line)
	}
	return csv.NewWriter(w).WriteAll(lines)
}

type rowValue struct {
	name   string
	symbol string
	value  metric.Value
}

// rowValues are a configuration's changes, in the order of the tables.
func rowValues(row *compare.Row) []rowValue {
	return []rowValue{
		{"delta_pr_s", "ΔPr(S)", row.PrS}, {"delta_pr_u", "ΔPr(U)", row.PrU}, {"delta_dpref", "Δdpref", row.DPref},
		{"composition", "Composition", row.Composition.Change}, {"preference", "Preference", row.Preference.Change},
		{"composition_share", "Share", row.CompositionShare}, {"delta_s_amb", "Δs_Amb", row.SAmb}, {"delta_s_dis", "Δs_Dis", row.SDis},
	}
}

// WriteFile writes the page, the tables as Markdown and the configurations as CSV into the sweep's directory, and returns
// the page's path.
func (r *Report) WriteFile(dir string) (path string, err error) {
	path = filepath.Join(dir, report.File)
	for _, part := range []struct {
		name  string
		write func(io.Writer) error
	}{{markdownFile, r.WriteMarkdown}, {csvFile, r.WriteCSV}, {report.File, r.WriteHTML}} {
		if err := report.WritePage(filepath.Join(dir, part.name), part.write); err != nil {
			return "", err
		}
	}
	return path, nil
}
