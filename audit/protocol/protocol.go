// Package protocol is the audit protocol of Answerability Confounds (GCD), appendix B, on the files of a sweep: a grid of
// interventions is evaluated on the fit half of the question templates, one of them is selected there, evaluated once on
// the held-out half beside a default and placebos, its cost in capability is measured, and a verdict is given.
//
// A sweep is a directory: sweep.json, and a run directory for each stage. Everything here is a function of these files.
package protocol

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/record"
)

// The parts of a sweep's directory.
const (
	SpecFile   = "sweep.json"
	FitStage   = "fit"        // every configuration on the fit half
	HeldStage  = "held-out"   // the selected one, the default, controls and placebos on the held-out half
	CostStage  = "capability" // the selected construction at every strength of the grid
	PromptOnly = "prompt-only"
)

// Spec is sweep.json: what the runs of the stages do not say themselves.
type Spec struct {
	Format   int             `json:"format"`
	Grid     int             `json:"configurations"`
	Default  record.Steering `json:"default"`            // the configuration that stands beside the selected one
	Placebos int             `json:"placebos"`           // random directions of matched norm
	Oracle   bool            `json:"oracle"`             // every configuration was evaluated on the held-out half too
	Wordings []Wording       `json:"wordings,omitempty"` // of the unknown option, under which the selected one was evaluated too
}

const format = 1

// WriteSpec writes sweep.json into a directory, or checks that the one there says the same. One that was cut is written again.
func WriteSpec(dir string, spec Spec) error {
	spec.Format = format
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	path := filepath.Join(dir, SpecFile)
	before, err := os.ReadFile(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && bytes.Equal(before, data):
		return nil
	case !bytes.HasPrefix(data, before):
		return fmt.Errorf("%s holds another sweep; ask for the same, or choose another directory", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // missing, or cut
		return err
	}
	return record.WriteAtomically(path, data)
}

// ReadSpec reads sweep.json; the error says so if the directory is no sweep's.
func ReadSpec(dir string) (Spec, error) {
	var spec Spec
	data, err := os.ReadFile(filepath.Join(dir, SpecFile))
	if errors.Is(err, fs.ErrNotExist) {
		return spec, fmt.Errorf("%s is not the directory of a sweep: it holds no %s", dir, SpecFile)
	}
	if err != nil {
		return spec, err
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return spec, fmt.Errorf("%s is damaged (%s); plumb steer sweep --resume writes it again if it was cut", filepath.Join(dir, SpecFile), strings.TrimPrefix(err.Error(), "json: "))
	}
	if spec.Format != format {
		return spec, fmt.Errorf("%s is of format %d, which this version does not read", filepath.Join(dir, SpecFile), spec.Format)
	}
	return spec, nil
}

// IsSweep says whether a directory is a sweep's.
func IsSweep(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, SpecFile))
	return err == nil
}

// Name is an intervention in a few words: "gcd, layer 19, project 8".
func Name(s record.Steering) string {
	return strings.TrimSuffix(s.Name, ".gguf") + ", " + place(&s)
}

// place is where a direction was tried, how, and how strongly.
func place(s *record.Steering) string {
	layers := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Layers), " ", "+"), "[]")
	return fmt.Sprintf("layer %s, %s %g", layers, s.Operator, s.Strength)
}

// placeboPrefix begins the names of placebos.
const placeboPrefix = "placebo-"

// PlaceboName is the name of the i-th placebo, from 1.
func PlaceboName(i int) string { return fmt.Sprintf("%s%02d", placeboPrefix, i) }

func isPlacebo(s record.Steering) bool { return strings.HasPrefix(s.Name, placeboPrefix) }

// Half is a half of the templates under the configurations that were evaluated on it.
type Half struct {
	Base        *compare.Run
	Runs        []*compare.Run
	Comparisons []*compare.Comparison // each of Runs against Base
	Rows        []compare.Row
}

// Options say how the runs are read.
type Options struct {
	ReadOut metric.ReadOut // "": mean
	Draws   int            // of item bootstraps, at least 1
}

// seed of the bootstraps, as in the other reports.
const seed = 0

// LoadHalf reads a stage.
func LoadHalf(dir string, options Options) (*Half, error) {
	runs, err := compare.LoadGrid(dir, options.ReadOut, Name)
	if err != nil {
		return nil, err
	}
	h := &Half{Base: runs[0], Runs: runs[1:]}
	for _, run := range h.Runs {
		c, err := compare.Compare(h.Base, run, run.ReadOut, options.Draws, seed)
		if err != nil {
			return nil, err
		}
		h.Comparisons = append(h.Comparisons, c)
	}
	h.Rows = compare.Summarize(h.Comparisons)
	return h, nil
}

// find is the place of an intervention; −1 if it was not evaluated.
func (h *Half) find(s record.Steering) int {
	for i, row := range h.Rows {
		if SameSteering(*row.Steering, s) {
			return i
		}
	}
	return -1
}

// SameSteering compares two interventions, whatever half they were evaluated on.
func SameSteering(a, b record.Steering) bool {
	return Name(a) == Name(b) && a.SHA256 == b.SHA256
}

// Select returns the place of the configuration with the lowest preference term, (1 − Pr(U)₁)(dpref₁ − dpref₀) over all
// items of the half, the first of equal ones (GCD, appendix B, step 3). ok is false if the term is nowhere defined.
func Select(rows []compare.Row) (best int, ok bool) {
	best = -1
	for i := range rows {
		v := rows[i].Preference.Change
		if v.OK && (best < 0 || v.V < rows[best].Preference.Change.V) {
			best = i
		}
	}
	return best, best >= 0
}

// Sweep is a sweep that was read.
type Sweep struct {
	Dir      string
	Spec     Spec
	Fit      *Half
	Selected int                 // of Fit.Rows
	Held     *Half               // its rows: the selected configuration, others, controls, placebos
	Cost     *Cost               // nil if no capability was measured
	Prompt   *compare.Comparison // nil without the prompt-only control
	Grid     *Grid
	ReadOuts []ReadOutRow
	Wordings []WordingRow
	Options  Options
}

// Load reads a finished sweep.
func Load(dir string, options Options) (*Sweep, error) {
	spec, err := ReadSpec(dir)
	if err != nil {
		return nil, err
	}
	s := &Sweep{Dir: dir, Spec: spec, Options: options}
	if s.Fit, err = LoadHalf(filepath.Join(dir, FitStage), options); err != nil {
		return nil, unfinished(dir, err)
	}
	if n := len(s.Fit.Rows); n != spec.Grid {
		return nil, fmt.Errorf("%s holds %d configurations, where %s says %d; is it of another sweep?", filepath.Join(dir, FitStage), n, SpecFile, spec.Grid)
	}
	var ok bool
	if s.Selected, ok = Select(s.Fit.Rows); !ok {
		return nil, fmt.Errorf("%s: the preference term is defined for no configuration: the model answers nothing", dir)
	}
	if s.Held, err = LoadHalf(filepath.Join(dir, HeldStage), options); err != nil {
		return nil, unfinished(dir, err)
	}
	if s.Held.find(s.Steering()) < 0 {
		return nil, fmt.Errorf("%s: the configuration selected by this read-out was not evaluated on the held-out half; only with --oracle are all", dir)
	}
	cost := filepath.Join(dir, CostStage)
	if _, err := os.Stat(cost); err == nil {
		if s.Cost, err = LoadCost(cost, options.Draws); err != nil {
			return nil, unfinished(dir, err)
		}
	}
	prompt := filepath.Join(dir, PromptOnly)
	if _, err := os.Stat(prompt); err == nil {
		run, err := compare.Load(prompt, cmp.Or(options.ReadOut, metric.Mean))
		if err != nil {
			return nil, unfinished(dir, err)
		}
		if s.Prompt, err = compare.Compare(s.Held.Base, run, run.ReadOut, options.Draws, seed); err != nil {
			return nil, err
		}
	}
	if s.ReadOuts, err = s.readOuts(filepath.Join(dir, HeldStage)); err != nil {
		return nil, err
	}
	if s.Wordings, err = s.wordings(); err != nil {
		return nil, err
	}
	s.Grid = NewGrid(s.Fit)
	return s, nil
}

func unfinished(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: the sweep is not finished; go on with it by plumb steer sweep --resume", dir)
	}
	return err
}

// Steering is the selected intervention.
func (s *Sweep) Steering() record.Steering { return *s.Fit.Rows[s.Selected].Steering }

// Chosen is the comparison of the selected intervention on the held-out half.
func (s *Sweep) Chosen() *compare.Comparison { return s.Held.Comparisons[s.Held.find(s.Steering())] }

// Oracle is the place, in Held, of the best grid configuration on the held-out half itself; −1 where not all of them were
// evaluated there.
func (s *Sweep) Oracle() int {
	if !s.Spec.Oracle {
		return -1
	}
	var rows []compare.Row
	var places []int
	for _, row := range s.Fit.Rows {
		if at := s.Held.find(*row.Steering); at >= 0 {
			rows, places = append(rows, s.Held.Rows[at]), append(places, at)
		}
	}
	best, ok := Select(rows)
	if !ok {
		return -1
	}
	return places[best]
}

// inPlace says whether an intervention acts where, how and as strongly as the selected one. Under a read-out that selects
// another one than the sweep's own did, the controls do not.
func (s *Sweep) inPlace(other *record.Steering) bool {
	selected := s.Steering()
	return place(other) == place(&selected)
}

// placebos are those of the held-out rows.
func (s *Sweep) placebos() []compare.Row {
	var rows []compare.Row
	for _, row := range s.Held.Rows {
		if isPlacebo(*row.Steering) && s.inPlace(row.Steering) {
			rows = append(rows, row)
		}
	}
	return rows
}

// PlaceboTerms are the placebos' preference terms on the held-out half.
func (s *Sweep) PlaceboTerms() []float64 {
	var terms []float64
	for _, row := range s.placebos() {
		if row.Preference.Change.OK {
			terms = append(terms, row.Preference.Change.V)
		}
	}
	return terms
}
