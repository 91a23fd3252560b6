package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumb/bindings"
	"plumb/steer"
)

// fitTiny fits directions on a tiny model and returns the folder of their files.
func fitTiny(t *testing.T, model string, more ...string) (dir, out, notes string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "steer")
	out, notes = mustPlumb(t, append([]string{"steer", "fit", "--threads", "1", "--model", model, "--data", bbqItems(t, 32), "--out", dir}, more...)...)
	return dir, out, notes
}

// Every method writes a file, and the listing has a line for each, however many layers there are.
func TestSteerFit(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	dir, out, _ := fitTiny(t, model, "--method", "all", "--layer", "all", "--at", "all")
	files := map[string]*steer.File{}
	for _, m := range fitMethods {
		f, err := steer.ReadFile(filepath.Join(dir, m.name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Layers) != tinyLayers || f.Method != m.method || f.Constraint != m.constraint || f.Operator != steer.Project {
			t.Errorf("%s: %+v", m.name, f)
		}
		files[m.name] = f
	}
	words := tableWords(out)
	contains(t, words, "Method Category Layer Norm Items File", "gcd-anti Age 0–1 (2) ", "random-orthogonal Age 0–1 (2) ",
		" 16 "+filepath.Join(dir, "contrast.gguf"), " – "+filepath.Join(dir, "random.gguf"))
	if lines := strings.Count(out, ".gguf"); lines != len(fitMethods) {
		t.Errorf("%d files are listed in\n%s", lines, out)
	}
	// The constraint takes something from GCD's direction, and not all of it.
	cosines, err := steer.FileCosines([]*steer.File{files["gcd"], files["gcd-nothing"]})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cosines {
		if between := c.Cosines[0][1]; !(between > 0 && between < 1-1e-6) {
			t.Errorf("layer %d: the cosine with and without the constraint is %v", c.Layer, between)
		}
	}

	// Again: the same bytes.
	again, _, _ := fitTiny(t, model, "--method", "all", "--layer", "all", "--at", "all")
	for _, m := range fitMethods {
		one, err := os.ReadFile(filepath.Join(dir, m.name+".gguf"))
		other, err2 := os.ReadFile(filepath.Join(again, m.name+".gguf"))
		if err != nil || err2 != nil || !slices.Equal(one, other) {
			t.Errorf("%s: a second fit wrote another file (%v, %v)", m.name, err, err2)
		}
	}
}

// A contrast that is exported and loaded by llama.cpp's own control vector moves the same log-probabilities as Plumb's hook
// does with the steering file, at the same strength.
func TestExportedContrastIsWhatTheHookAdds(t *testing.T) {
	checker := filepath.Join("..", "build", "release", "csrc", "tests", "check_control_vector")
	if _, err := os.Stat(checker); err != nil {
		t.Skip("check_control_vector is not built: make test-cpp")
	}
	ownCache(t)
	const strength = 40
	path := tinyModelFile(t, tinyModel{seed: 1})
	dir, _, _ := fitTiny(t, path, "--method", "contrast", "--layer", "1", "--operator", "add")
	contrast, vector := filepath.Join(dir, "contrast.gguf"), filepath.Join(dir, "vector.gguf")
	mustPlumb(t, "steer", "export", contrast, "--alpha", fmt.Sprint(strength), "--out", vector)

	model, err := bindings.OpenModel(path, bindings.ModelOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	tokens, err := model.Tokenize("Who knew the way through the wood?", true, false)
	if err != nil {
		t.Fatal(err)
	}
	session, err := model.NewSession(bindings.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	file, err := steer.ReadFile(contrast)
	if err != nil {
		t.Fatal(err)
	}
	actions, err := file.Actions("", strength, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooked := func(steering ...bindings.Steering) []float32 {
		scores, _, err := session.Score(context.Background(), []bindings.Request{{Prompt: tokens[:1], Continuations: [][]bindings.Token{tokens[1:]}}}, steering)
		if err != nil || scores[0].Err != nil {
			t.Fatal(err, scores[0].Err)
		}
		return scores[0].LogProbs[0]
	}
	controlled := func(vector string) []float32 {
		arguments := []string{path, vector}
		for _, token := range tokens {
			arguments = append(arguments, fmt.Sprint(token))
		}
		out, err := exec.Command(checker, arguments...).Output()
		if err != nil {
			t.Fatal(err)
		}
		var logProbs []float32
		for line := range strings.Lines(string(out)) {
			var p float32
			if _, err := fmt.Sscan(line, &p); err != nil {
				t.Fatal(err)
			}
			logProbs = append(logProbs, p)
		}
		return logProbs
	}
	distance := func(a, b []float32) float64 {
		if len(a) != len(b) || len(a) != len(tokens)-1 {
			t.Fatalf("%d and %d log-probabilities", len(a), len(b))
		}
		largest := 0.0
		for i := range a {
			largest = math.Max(largest, math.Abs(float64(a[i]-b[i])))
		}
		return largest
	}
	plain, byHook, byVector := hooked(), hooked(bindings.Steering{Layer: actions[0].Layer, Operator: bindings.Add, Strength: float32(actions[0].Strength), Vector: actions[0].Vector}), controlled(vector)
	moved, apart, base := distance(plain, byHook), distance(byHook, byVector), distance(plain, controlled("-"))
	t.Logf("moved by %.3g, hook and control vector apart by %.2g, unsteered by %.2g", moved, apart, base)
	if !(moved > 0.1) || !(apart < 2e-3) || !(base < 2e-3) {
		t.Errorf("moved by %g, hook and control vector apart by %g, unsteered by %g", moved, apart, base)
	}
}
