package cli

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumb/steer"
)

// marked is a component that a test can find in a file's bytes.
const marked = 0.6171875

// fittingFile writes a steering file that fits tiny models, but for what change does to it.
func fittingFile(t *testing.T, operator steer.Operator, change func(*steer.File)) string {
	t.Helper()
	vector := make([]float64, tinyWidth)
	vector[0], vector[1] = marked, 1
	f, err := steer.NewFile(&steer.Directions{Method: steer.GCD, Constraint: steer.ConstrainUnknown, Layers: []int{1}, Vectors: [][]float64{vector}}, operator, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Model = steer.Model{Name: "other.gguf", Architecture: "llama", NEmbd: tinyWidth, NLayer: tinyLayers, SHA256: strings.Repeat("ab", 32)}
	if change != nil {
		change(f)
	}
	path := filepath.Join(t.TempDir(), "steer.gguf")
	if err := f.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// notANumber puts a NaN where the marked component is.
func notANumber(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	number := func(x float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)) }
	if bytes.Count(data, number(marked)) != 1 {
		t.Fatal("the component is not in the file once")
	}
	if err := os.WriteFile(path, bytes.Replace(data, number(marked), number(float32(math.NaN())), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A steering file that does not fit is refused before anything is computed or written.
func TestSteeringThatIsRefused(t *testing.T) {
	ownCache(t)
	model, data := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 4)
	wide := func(f *steer.File) {
		f.Model.NEmbd = tinyWidth + 1
		f.Layers[0].Vector = append(f.Layers[0].Vector, 1)
	}
	beyond := func(f *steer.File) { f.Layers[0].Layer, f.Model.NLayer = tinyLayers, tinyLayers+1 }
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      []string
	}{
		"another width":        {[]string{"--steer", fittingFile(t, steer.Add, wide)}, exitFailed, []string{"steer.gguf does not fit tiny.gguf: the direction is 33 wide, the model's residual stream 32"}},
		"a layer too high":     {[]string{"--steer", fittingFile(t, steer.Add, beyond)}, exitFailed, []string{"steer.gguf does not fit tiny.gguf: the direction is for layer 2; the model has layers 0 to 1"}},
		"another architecture": {[]string{"--steer", fittingFile(t, steer.Add, func(f *steer.File) { f.Model.Architecture = "gemma3" })}, exitFailed, []string{"fitted on the architecture gemma3; the model is llama"}},
		"NaN":                  {[]string{"--steer", notANumber(t, fittingFile(t, steer.Add, nil))}, exitFailed, []string{"steer.gguf: ", "layer 1", "not finite"}},
		"a layer not in it":    {[]string{"--steer", fittingFile(t, steer.Add, nil), "--layer", "0"}, exitFailed, []string{"steer.gguf: ", "layer 0"}},
		"no such file":         {[]string{"--steer", filepath.Join(t.TempDir(), "none.gguf")}, exitFailed, []string{"none.gguf: no such file"}},
		"a model":              {[]string{"--steer", model}, exitFailed, []string{"tiny.gguf: "}},
		"a strength":           {[]string{"--steer", fittingFile(t, steer.Add, nil), "--alpha", "NaN"}, exitUsage, []string{`--alpha "NaN": a strength is a number`}},
		"a strength too large": {[]string{"--steer", fittingFile(t, steer.Add, nil), "--alpha", "1e39"}, exitUsage, []string{`--alpha "1e39": a strength is a number, of at most 3.4e+38`}},
		"strength alone":       {[]string{"--alpha", "1"}, exitUsage, []string{"--alpha, --layer, --operator and --half go with --steer"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRun(t)
			out, _, err := plumb(auditBBQ(model, dir, append(test.arguments, "--data", data)...)...)
			refused(t, err, test.status, test.want...)
			if _, err := os.Stat(dir); err == nil || out != "" {
				t.Errorf("a run directory was made, or something was printed: %q", out)
			}
		})
	}
}

// A file fitted on other weights is used, with a warning.
func TestSteeringFittedOnOtherWeightsIsWarnedAbout(t *testing.T) {
	ownCache(t)
	model, data := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 4)
	for _, operator := range []steer.Operator{steer.Add, steer.Project} {
		_, notes := mustPlumb(t, auditBBQ(model, newRun(t), "--data", data, "--steer", fittingFile(t, operator, nil))...)
		contains(t, notes, "plumb: warning: ", "steer.gguf: the direction was fitted on other weights (other.gguf, SHA-256 abababababab…)")
	}
}

// A prompt with more tokens than the model reads is left out of a fit, and the file says so; all others are used.
func TestFitLeavesOutWhatIsTooLong(t *testing.T) {
	ownCache(t)
	rows := make([]any, 32)
	for i := range rows {
		rows[i] = bbqRow(i)
		if i%8 == 3 {
			rows[i] = bbqRow(i, "context", strings.Repeat("A long way it was, and longer still. ", 40))
		}
	}
	dir := filepath.Join(t.TempDir(), "steer")
	mustPlumb(t, "steer", "fit", "--threads", "1", "--model", tinyModelFile(t, tinyModel{seed: 1, context: 1024}), "--data", bbqFile(t, "items.jsonl", rows...),
		"--method", "gcd,contrast", "--at", "all", "--out", dir)
	for name, why := range map[string]string{"gcd": "too long to differentiate in one graph", "contrast": "; the context holds 1024"} {
		f, err := steer.ReadFile(filepath.Join(dir, name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for reason, n := range f.Fit.LeftOut {
			if !strings.Contains(reason, why) {
				t.Errorf("%s: left out for %q, not as %q", name, reason, why)
			}
			left += n
		}
		if f.Fit.Items != 14 || left != 2 {
			t.Errorf("%s: %d items fitted on, %v left out", name, f.Fit.Items, f.Fit.LeftOut)
		}
	}
}
