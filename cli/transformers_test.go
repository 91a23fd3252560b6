package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"plumb/audit/dialect"
	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/internal/shared"
	thirdparty "plumb/third_party"
)

// Option scores of 200 items of BBQ's Age against Hugging Face transformers on the same F32 weights: mean log-probabilities
// agree to 1e-3, and so does every choice whose margin is above that. third_party/reference says how the values were made.
func TestScoresEqualTransformers(t *testing.T) {
	data := filepath.Join(shared.Data(t, "bbq"), "Age.jsonl")
	var want struct {
		DataSHA256 string `json:"data_sha256"`
		Items      []struct {
			ID      string
			Options []struct{ LogProbs []float64 }
		}
	}
	values, err := os.ReadFile("../third_party/reference/bbq_scores_smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(values, &want); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if hash := sha256.Sum256(content); hex.EncodeToString(hash[:]) != want.DataSHA256 {
		t.Fatal("the reference values are of another Age.jsonl")
	}
	lines := map[string][]byte{} // by example_id
	for line := range bytes.Lines(content) {
		var row struct {
			ID json.Number `json:"example_id"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		lines["Age/"+row.ID.String()] = line
	}
	dir := t.TempDir()
	var subset []byte
	for _, item := range want.Items {
		subset = append(subset, lines[item.ID]...)
	}
	items := filepath.Join(dir, "Age.jsonl")
	if err := os.WriteFile(items, subset, 0o644); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	err = Run(context.Background(), []string{"plumb", "audit", "bbq", "--model", f32Model(t, "smollm2", dir), "--data", items, "--out", run}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := record.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	i, worst, choices := 0, 0.0, 0
	for r, err := range reader.Records() {
		if err != nil {
			t.Fatal(err)
		}
		expected := want.Items[i]
		i++
		if r.ID != expected.ID || r.Error != "" {
			t.Fatalf("%s %s where %s belongs", r.ID, r.Error, expected.ID)
		}
		theirs := r
		theirs.Options = nil
		for o, option := range r.Options {
			if len(option.LogProbs) != len(expected.Options[o].LogProbs) {
				t.Fatalf("%s, option %d: %d tokens, transformers has %d", r.ID, o, len(option.LogProbs), len(expected.Options[o].LogProbs))
			}
			var logProbs []float32
			for _, p := range expected.Options[o].LogProbs {
				logProbs = append(logProbs, float32(p))
			}
			other := record.NewOption(option.Text, option.Role, logProbs)
			theirs.Options = append(theirs.Options, other)
			worst = max(worst, math.Abs(option.Sum-other.Sum)/float64(option.Tokens))
		}
		ours, err := metric.NewItem(&r, metric.Mean)
		if err != nil {
			t.Fatal(err)
		}
		reference, err := metric.NewItem(&theirs, metric.Mean)
		if err != nil {
			t.Fatal(err)
		}
		if reference.Margin > 1e-3 {
			choices++
			if ours.Choice != reference.Choice {
				t.Errorf("%s: we choose %s, transformers %s by a margin of %g", r.ID, ours.Choice, reference.Choice, reference.Margin)
			}
		}
	}
	t.Logf("%d items, %d with a margin above 1e-3: mean log-probabilities at most %.2g apart", i, choices, worst)
	if i != len(want.Items) || i < 200 || worst > 1e-3 {
		t.Errorf("%d of %d items; mean log-probabilities up to %g apart", i, len(want.Items), worst)
	}
}

// f32Model writes an F32 copy of a pinned model, by write_f32_model of the C++ tests, and returns its path.
func f32Model(t *testing.T, name, dir string) string {
	t.Helper()
	writer := filepath.Join("..", "build", "release", "csrc", "tests", "write_f32_model")
	if _, err := os.Stat(writer); err != nil {
		t.Skip("write_f32_model is not built: make test-cpp")
	}
	pinned, _ := thirdparty.Find(name)
	path, err := pinned.Path()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not in the cache: third_party/fetch.py model %s", name, name)
	}
	copied := filepath.Join(dir, name+"-f32.gguf")
	if out, err := exec.Command(writer, path, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return copied
}

// LP and the eight perplexities of pairs with fixed segments against transformers on the same F32 weights: within 1e-3,
// perplexities relatively so.
func TestDialectEqualsTransformers(t *testing.T) {
	for _, name := range []string{"smollm2", "gemma3"} {
		t.Run(name, func(t *testing.T) { dialectEqualsTransformers(t, name) })
	}
}

func dialectEqualsTransformers(t *testing.T, name string) {
	var want struct {
		Metrics map[string]float64
		Pairs   []struct {
			ID   string
			BSAE float64 `json:"b_sae"`
			BAAE float64 `json:"b_aae"`
		}
	}
	values, err := os.ReadFile("../third_party/reference/dialect_scores_" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(values, &want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	model, run := f32Model(t, name, dir), filepath.Join(dir, "run")
	ownCache(t)
	mustPlumb(t, auditDialect(model, run, "--data", "../third_party/reference/dialect_pairs.jsonl")...)
	r, err := dialect.New(run, 10, false)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for name, expected := range want.Metrics {
		v := r.Summary.Values[name]
		difference := math.Abs(v.V - expected)
		if name != dialect.LP {
			difference /= expected
		}
		if worst = max(worst, difference); !v.OK || difference > 1e-3 {
			t.Errorf("%s: %v, transformers %v", name, v.V, expected)
		}
	}
	for i, p := range want.Pairs {
		sae, _ := r.Scores[i].BSAE(false)
		aae, _ := r.Scores[i].BAAE(false)
		if r.Scores[i].ID != p.ID || math.Abs(sae-p.BSAE) > 1e-3 || math.Abs(aae-p.BAAE) > 1e-3 {
			t.Errorf("%s: b_SAE %v, b_AAE %v; %s, transformers %v, %v", r.Scores[i].ID, sae, aae, p.ID, p.BSAE, p.BAAE)
		}
	}
	t.Logf("%d metrics of %d pairs, at most %.2g apart", len(want.Metrics), len(want.Pairs), worst)
}

// Causal tracing of pairs with fixed segments against transformers on the same F32 weights, with the same noise: b_AAE and
// every R within 1e-3, and so every layer's.
func TestTraceEqualsTransformers(t *testing.T) {
	for _, name := range []string{"smollm2", "gemma3"} {
		t.Run(name, func(t *testing.T) { traceEqualsTransformers(t, name) })
	}
}

func traceEqualsTransformers(t *testing.T, name string) {
	var want struct {
		Seed     uint64
		Layers   []float64
		Examples []struct {
			ID        string
			Sigma     float64
			Positions []int
			Corrupted float64
			Effects   [][]float64
		}
	}
	values, err := os.ReadFile("../third_party/reference/dialect_trace_" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(values, &want); err != nil {
		t.Fatal(err)
	}
	path := f32Model(t, name, t.TempDir())
	ownCache(t)
	m, err := (&modelOptions{model: path, threads: 1}).openScoring(false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	lexicon, err := dialect.PaperLexicon()
	if err != nil {
		t.Fatal(err)
	}
	data, err := dialect.Read([]string{"../third_party/reference/dialect_pairs.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	pairs := map[string]*dialect.Pair{}
	for i := range data.Pairs {
		pairs[data.Pairs[i].ID] = &data.Pairs[i]
	}
	tr := tracer{m, lexicon, want.Seed}
	var records []record.Record
	worst := 0.0
	apart := func(what string, ours, theirs float64) {
		worst = max(worst, math.Abs(ours-theirs))
		if !(math.Abs(ours-theirs) <= 1e-3) {
			t.Errorf("%s: %v, transformers %v", what, ours, theirs)
		}
	}
	for _, e := range want.Examples {
		r, err := tr.pair(context.Background(), tr.session, pairs[e.ID])
		if err != nil || r.Error != "" {
			t.Fatal(e.ID, r.Error, err)
		}
		if !slices.Equal(r.Trace.Positions, e.Positions) {
			t.Fatalf("%s: markers' tokens %v, transformers %v", e.ID, r.Trace.Positions, e.Positions)
		}
		apart(e.ID+", sigma", r.Trace.Sigma, e.Sigma)
		apart(e.ID+", b_AAE corrupted", r.Trace.Corrupted, e.Corrupted)
		for l := range e.Effects {
			for k := range e.Effects[l] {
				apart(fmt.Sprintf("%s, layer %d, token %d", e.ID, l, e.Positions[k]), r.Trace.Effects[l][k], e.Effects[l][k])
			}
		}
		records = append(records, r)
	}
	for _, l := range dialect.LayerEffects(records, m.model.Info().Layers, 2) {
		apart(fmt.Sprintf("R of layer %d", l.Layer), l.R.V, want.Layers[l.Layer])
	}
	t.Logf("%d examples, %d layers, at most %.2g apart", len(records), len(want.Layers), worst)
}
