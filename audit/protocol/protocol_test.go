package protocol

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumb/audit/capability"
	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/record"
)

// steerings of the tests: files a and b at two layers.
func steering(name string, layer int, strength float64) record.Steering {
	return record.Steering{Name: name, SHA256: name, Method: "contrast", Operator: "project", Layers: []int{layer}, Strength: strength}
}

// choices are what is chosen of the items, by template: "SSAU".
type choices map[string]string

// item is a record on which the given option is chosen.
func item(index, steering int, category, template, condition, choice string) record.Record {
	r := record.Record{
		Index: index, Steering: steering, ID: fmt.Sprintf("%s/%d", template, index), Category: category, Template: template,
		Condition: condition, Polarity: record.Negative, Label: 2,
	}
	if condition == record.Disambiguated {
		r.Label = 1
	}
	for i, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
		score := float32(-3 - i)
		if "SAU"[i:i+1] == choice {
			score = -1
		}
		r.Options = append(r.Options, record.NewOption("", role, []float32{score}))
	}
	return r
}

// half writes a stage: before and, for each steering, after, by template ("Age/1": choices of its items).
func half(t *testing.T, dir string, templates []string, before choices, steerings []record.Steering, after []choices) {
	t.Helper()
	run := record.Run{
		Plumb: "0", Benchmark: "bbq", Model: record.Model{SHA256: "m", Name: "tiny.gguf", NLayer: 6, NEmbd: 8},
		Data: record.Data{Files: []record.DataFile{{Name: "x", SHA256: "x"}}}, Steerings: steerings,
	}
	var records []record.Record
	for k, all := range append([]choices{before}, after...) {
		number := 0
		for _, template := range templates {
			category, _, _ := strings.Cut(template, "/")
			for i, choice := range all[template] {
				condition := record.Ambiguous
				if i%2 == 1 {
					condition = record.Disambiguated
				}
				r := item(len(records), k, category, template, condition, string(choice))
				r.ID = fmt.Sprintf("%s/%d", template, number)
				number++
				records = append(records, r)
			}
		}
	}
	run.Items = len(records)
	w, err := record.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(records); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The worked example. Before: 4 of 8 answered S, 4 A. Config 0 merely answers less: two of each go to U. Config 1 answers
// as often and prefers otherwise: two S become A.
func TestCompositionAndPreferenceWorkedExample(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fit")
	templates := []string{"Age/1", "Religion/1"}
	before := choices{"Age/1": "SSAA", "Religion/1": "SSAA"}
	half(t, dir, templates, before, []record.Steering{steering("a.gguf", 1, 8), steering("b.gguf", 1, 8)}, []choices{
		{"Age/1": "SUAU", "Religion/1": "SUAU"},
		{"Age/1": "SAAA", "Religion/1": "SAAA"},
	})
	h, err := LoadHalf(dir, Options{Draws: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ prU, composition, preference, share float64 }{
		// −ΔPr(U) · dpref₀ = −0.5 · 0.5; all of the change
		{0.5, -0.25, 0, 1},
		// (1 − Pr(U)₁)(dpref₁ − dpref₀) = 1 · (0.25 − 0.5); none of it
		{0, 0, -0.25, 0},
	} {
		row := h.Rows[i]
		for name, pair := range map[string][2]float64{
			"ΔPr(U)": {row.PrU.V, want.prU}, "composition": {row.Composition.Change.V, want.composition},
			"preference": {row.Preference.Change.V, want.preference}, "share": {row.CompositionShare.V, want.share},
			"ΔPr(S)": {row.PrS.V, want.composition + want.preference},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-12 {
				t.Errorf("configuration %d: %s is %v, want %v", i, name, pair[0], pair[1])
			}
		}
	}
	// The unconditional rate falls as far in both; only the second is selected.
	if best, ok := Select(h.Rows); !ok || best != 1 {
		t.Errorf("selected %d", best)
	}
	g := NewGrid(h)
	if g.Configurations != 2 || g.Shares != 2 || *g.ShareMedian != 0.5 || g.AboveHalf != 1 || g.AboveOne != 0 {
		t.Errorf("%+v", g)
	}
	// Gap: Δdpref − ΔPr(S) is 0 + 0.25 in the first, −0.25 + 0.25 in the second; both templates are alike, so every draw is.
	if v := g.Gap.ByTemplate; math.Abs(v.V-0.125) > 1e-12 || math.Abs(v.Lo-0.125) > 1e-12 || math.Abs(v.Hi-0.125) > 1e-12 || v.N != 2 {
		t.Errorf("gap %+v", v)
	}
	if g.Gap.ByCategory.V != g.Gap.ByTemplate.V || g.Gap.Positive != 1 || g.Gap.Negative != 0 || g.Gap.SignP != 1 {
		t.Errorf("gap %+v", g.Gap)
	}
	if g.Channels != nil {
		t.Error("a correlation of two points")
	}
	m := g.Matched
	if m == nil || m.Places != 1 || math.Abs(m.Preference[0]) > 1e-12 || math.Abs(m.Preference[1]+0.25) > 1e-12 || math.Abs(m.Largest-0.25) > 1e-12 {
		t.Errorf("%+v", m)
	}
}

// The gap's cluster interval against the exact distribution of the 2² draws of two templates.
func TestGapInterval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fit")
	before := choices{"Age/1": "SSAA", "Age/2": "SSAA"}
	half(t, dir, []string{"Age/1", "Age/2"}, before, []record.Steering{steering("a.gguf", 1, 8)}, []choices{{"Age/1": "SUAU", "Age/2": "SSAA"}})
	h, err := LoadHalf(dir, Options{Draws: 2})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGrid(h).Gap
	// twice the first: 0.25; one of each: 0.125 (dpref stays, Pr(S) falls by an eighth); twice the second: 0
	if math.Abs(g.ByTemplate.V-0.125) > 1e-12 || g.ByTemplate.Lo != 0 || math.Abs(g.ByTemplate.Hi-0.25) > 1e-12 {
		t.Errorf("%+v", g.ByTemplate)
	}
	if g.ByCategory.OK {
		t.Error("an interval over one category")
	}
}

// Selection alone: a template of biased answers goes unanswered, the others answer as before. The naive score moves, the
// corrected one does not (eq. 6).
func TestSelectionAloneMovesTheNaiveScoreOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fit")
	// odd places are disambiguated items; template 1 answers 4 S of 4, template 2 answers 2 S of 4
	before := choices{"Age/1": "USUSUSUS", "Age/2": "USUSUAUA"}
	after := choices{"Age/1": "USUUUUUU", "Age/2": "USUSUAUA"}
	half(t, dir, []string{"Age/1", "Age/2"}, before, []record.Steering{steering("a.gguf", 1, 8)}, []choices{after})
	h, err := LoadHalf(dir, Options{Draws: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := h.Comparisons[0].Group(metric.All, record.Disambiguated).Selection
	if math.Abs(s.Before.V-0.5) > 1e-12 || math.Abs(s.Naive.V-0.2) > 1e-12 || math.Abs(s.Corrected.V-0.5) > 1e-12 {
		t.Errorf("before %v, naive %v, corrected %v; want 0.5, 0.2, 0.5", s.Before, s.Naive, s.Corrected)
	}
}

func value(v, lo, hi float64) metric.Value {
	return metric.Value{V: v, Lo: lo, Hi: hi, OK: true, N: 10}
}

// cost is a curve over the strengths 1, 2, 4, 8.
func cost(ratios []float64, accuracyHigh []float64) *Cost {
	c := &Cost{Base: &capability.Summary{Perplexity: []capability.Perplexity{{Definition: capability.Segments, Value: value(10, 9, 11)}}}}
	for i, strength := range []float64{1, 2, 4, 8} {
		p := CostPoint{Strength: strength, Change: capability.Change{Ratio: value(ratios[i], ratios[i], ratios[i])}}
		if accuracyHigh != nil {
			p.Change.Accuracy = value(accuracyHigh[i]-0.1, accuracyHigh[i]-0.2, accuracyHigh[i])
		}
		c.Points = append(c.Points, p)
	}
	return c
}

func TestKnee(t *testing.T) {
	for name, test := range map[string]struct {
		cost *Cost
		want float64 // 0: none
	}{
		"none":       {cost([]float64{1, 1.01, 1.1, 1.25}, nil), 0},
		"perplexity": {cost([]float64{1, 1.01, 1.26, 9}, nil), 4},
		"MMLU":       {cost([]float64{1, 1, 1, 1}, []float64{0.1, -0.01, 0.05, -0.1}), 2},
		"no number":  {&Cost{Base: cost([]float64{1, 1, 1, 1}, nil).Base, Points: []CostPoint{{Strength: 3}}}, 3},
	} {
		if got, ok := test.cost.Knee(0.25); got != test.want || ok != (test.want > 0) {
			t.Errorf("%s: knee at %v, %v, want %v", name, got, ok, test.want)
		}
	}
}

func TestJudge(t *testing.T) {
	placebos := make([]float64, 20)
	for i := range placebos {
		placebos[i] = 0.01 * float64(i%3-1)
	}
	good := Evidence{
		Share: value(0.2, 0.1, 0.3), Preference: value(-0.05, -0.07, -0.03), Placebos: placebos, Strength: 2,
		Cost: cost([]float64{1, 1.01, 1.3, 9}, nil), AbsSDis: value(-0.02, -0.05, 0.01),
	}
	outcomes := func(e Evidence) string {
		var list []string
		for _, c := range Judge(e, DefaultThresholds()) {
			list = append(list, c.Outcome)
		}
		return strings.Join(list, ", ")
	}
	for name, test := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"accepted":            {func(*Evidence) {}, "passed, passed, passed, passed"},
		"share of 1":          {func(e *Evidence) { e.Share.V = 1 }, "passed, passed, passed, passed"},
		"share above 1":       {func(e *Evidence) { e.Share.V = 1.001 }, "failed, passed, passed, passed"},
		"a placebo as far":    {func(e *Evidence) { e.Placebos = append([]float64{0.05}, placebos[1:]...) }, "passed, failed, passed, passed"},
		"no placebo":          {func(e *Evidence) { e.Placebos = nil }, "passed, not measured, passed, passed"},
		"nineteen are enough": {func(e *Evidence) { e.Placebos = placebos[:19] }, "passed, passed, passed, passed"}, // p = 1/20
		"eighteen are not":    {func(e *Evidence) { e.Placebos = placebos[:18] }, "passed, failed, passed, passed"},
		"at the knee":         {func(e *Evidence) { e.Strength = 4 }, "passed, passed, failed, passed"},
		"negative strength":   {func(e *Evidence) { e.Strength = -8 }, "passed, passed, failed, passed"},
		"no capability":       {func(e *Evidence) { e.Cost = nil }, "passed, passed, not measured, passed"},
		"|s_Dis| grew":        {func(e *Evidence) { e.AbsSDis = value(0.05, 0.01, 0.1) }, "passed, passed, passed, failed"},
		"it may have":         {func(e *Evidence) { e.AbsSDis = value(0.05, -0.01, 0.1) }, "passed, passed, passed, passed"},
		"nothing answered":    {func(e *Evidence) { e.Preference, e.Share = metric.Value{}, metric.Value{} }, "passed, not measured, passed, passed"},
	} {
		e := good
		test.change(&e)
		if got := outcomes(e); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	// add-one: none of twenty as far is 1/21, as in the paper (appendix C)
	if c := Judge(good, DefaultThresholds())[1]; math.Abs(*c.Value-1.0/21) > 1e-15 {
		t.Errorf("p = %v", *c.Value)
	}
	without := DefaultThresholds()
	without.AbsSDis = false
	if n := len(Judge(good, without)); n != 3 {
		t.Errorf("%d checks without Plumb's own", n)
	}
}

// A whole sweep from files: selection, default, oracle, verdict, and every format of its report.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	fit := []string{"Age/1"}
	grid := []record.Steering{steering("a.gguf", 1, 8), steering("b.gguf", 1, 8), steering("a.gguf", 3, 8)}
	half(t, filepath.Join(dir, FitStage), fit, choices{"Age/1": "SSAA"}, grid, []choices{{"Age/1": "SUAU"}, {"Age/1": "SAAA"}, {"Age/1": "SSAA"}})
	// One placebo is of another layer, as it would be of what another read-out selects: it does not count.
	placebos := []record.Steering{steering(PlaceboName(1), 1, 8), steering(PlaceboName(2), 1, 8), steering(PlaceboName(1), 3, 8)}
	fitted := []record.Steering{steering(FittedOn("Age", "b.gguf"), 1, 8), steering(FittedOn("SES", "b.gguf"), 1, 8)}
	before := choices{"Age/2": "SSAA", "SES/1": "SSAA"}
	half(t, filepath.Join(dir, HeldStage), []string{"Age/2", "SES/1"}, before, slices.Concat([]record.Steering{grid[1], grid[0], grid[2]}, fitted, placebos),
		[]choices{before, {"Age/2": "SUUU", "SES/1": "SSAA"}, {"Age/2": "AAAA", "SES/1": "SSAA"},
			{"Age/2": "SAAA", "SES/1": "SSUU"}, {"Age/2": "UUUA", "SES/1": "AAAA"}, before, before, before})
	short := Wording{"shortened", "Unknown"}
	half(t, filepath.Join(dir, short.Stage()), []string{"Age/2"}, choices{"Age/2": "SSAU"}, grid[1:2], []choices{{"Age/2": "SUAU"}})
	if err := WriteSpec(dir, Spec{Grid: 3, Default: grid[0], Placebos: 2, Oracle: true, Wordings: []Wording{short}}); err != nil {
		t.Fatal(err)
	}
	if err := WriteSpec(dir, Spec{Grid: 4}); err == nil || !strings.Contains(err.Error(), "holds another sweep") {
		t.Error(err)
	}
	s, err := Load(dir, Options{Draws: 10})
	if err != nil {
		t.Fatal(err)
	}
	if s.Selected != 1 || s.Oracle() != 2 || len(s.PlaceboTerms()) != 2 {
		t.Errorf("selected %d, oracle %d, placebos %v", s.Selected, s.Oracle(), s.PlaceboTerms())
	}
	// The matrix, by hand: of four items each, how many went to U, and dpref after less before.
	for i, want := range []struct {
		fitted, evaluated string
		prU, dpref        float64
	}{{"Age", "Age", 0, -0.25}, {"Age", "SES", 0.5, 0.5}, {"SES", "Age", 0.75, -0.5}, {"SES", "SES", 0, -0.5}} {
		c := s.Transfers()[i]
		if c.Fitted != want.fitted || c.Evaluated != want.evaluated || c.Row.Items != 4 || c.Row.PrU.V != want.prU || c.Row.DPref.V != want.dpref {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	if w := s.Wordings; len(w) != 2 || w[0].PrU.V != 0 || w[0].Row.PrU.V != 0 || w[1].PrU.V != 0.25 || w[1].Row.PrU.V != 0.25 {
		t.Errorf("%+v", w)
	}
	r := NewReport(s, DefaultThresholds())
	if r.Judged.Accepted || !strings.Contains(r.Judged.Decision(), "Rejected: b, layer 1, project 8 (preference against placebo failed; capability knee not measured)") {
		t.Error(r.Judged.Decision())
	}
	path, err := r.WriteFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg ", "All configurations, fit half", "oracle", "Rejected: b, layer 1", "Fitted on", "Wording"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"NaN", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(strings.ReplaceAll(string(content), "isNaN", ""), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, write := range []func(*strings.Builder) error{
		func(b *strings.Builder) error { return r.WriteTable(b) }, func(b *strings.Builder) error { return r.WriteJSON(b) },
		func(b *strings.Builder) error { return r.WriteCSV(b) }, func(b *strings.Builder) error { return r.WriteMarkdown(b) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil || strings.Contains(b.String(), "NaN") || b.Len() < 200 {
			t.Errorf("%v: %s", err, b.String())
		}
	}
}

// An undefined preference term is never selected.
func TestSelectSkipsWhatIsUndefined(t *testing.T) {
	rows := []compare.Row{{}, {Preference: compare.Channel{Change: value(0.3, 0, 1)}}, {Preference: compare.Channel{Change: value(0.3, 0, 1)}}}
	if best, ok := Select(rows); best != 1 || !ok {
		t.Errorf("%d, %v", best, ok)
	}
	if _, ok := Select(rows[:1]); ok {
		t.Error("selected an undefined term")
	}
}

// TestSpecThatWasCut: what a full disk left of sweep.json does not keep the sweep from going on.
func TestSpecThatWasCut(t *testing.T) {
	dir, spec := t.TempDir(), Spec{Grid: 3, Placebos: 2}
	if err := WriteSpec(dir, spec); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SpecFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, len(whole) / 2} {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSpec(dir); err == nil || !strings.Contains(err.Error(), "sweep.json is damaged (unexpected end of JSON input); plumb steer sweep --resume") {
			t.Errorf("%v", err)
		}
		if err := WriteSpec(dir, spec); err != nil {
			t.Error(err)
		}
		if again, _ := os.ReadFile(path); string(again) != string(whole) {
			t.Errorf("%q was written", again)
		}
	}
}

func TestFitStageOfAnotherSweep(t *testing.T) {
	dir := t.TempDir()
	half(t, filepath.Join(dir, FitStage), []string{"Age/1"}, choices{"Age/1": "SAUS"}, []record.Steering{steering("a", 1, 1)}, []choices{{"Age/1": "UAUS"}})
	if err := WriteSpec(dir, Spec{Grid: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, Options{Draws: 2}); err == nil || !strings.Contains(err.Error(), "fit holds 1 configurations, where sweep.json says 2") {
		t.Errorf("%v", err)
	}
}
