package bindings

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	thirdparty "plumb/third_party"
)

// f32Model opens an F32 copy of a pinned model, which write_f32_model of the C++ tests makes.
func f32Model(t *testing.T, name string) *Model {
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
		t.Skipf("%s is not in the cache, and make test fetches smollm2 alone: third_party/fetch.py model %s", name, name)
	}
	copied := filepath.Join(t.TempDir(), name+"-f32.gguf")
	if out, err := exec.Command(writer, path, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	model, err := OpenModel(copied, ModelOptions{Threads: 1, PlainWeights: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

// reference reads values that third_party/reference made.
func reference(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "third_party", "reference", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// layerGradients are gradients at some layers, and their norms at all.
type layerGradients struct {
	Norms     [][]float64 `json:"norms"` // [option][layer]
	Layers    []int       `json:"layers"`
	Gradients string      `json:"gradients"` // base64 of float32, little-endian, [option][layer][component]
}

func (l *layerGradients) values(t *testing.T) []float32 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(l.Gradients)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(raw)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values
}

type gradientReference struct {
	Prompts []struct {
		Prompt        []Token        `json:"prompt"`
		Options       [][]Token      `json:"options"`
		LogitAnswer   layerGradients `json:"logit_answer"`
		LogitAll      layerGradients `json:"logit_all"`
		LogProbAnswer layerGradients `json:"logprob_answer"`
		LogProbAll    layerGradients `json:"logprob_all"`
	} `json:"prompts"`
}

// Option gradients against PyTorch's autograd on the same weights, at every layer by norm and at five by component: the
// relative error (Euclidean, of the difference) is below 1e-4.
func TestGradientsEqualPyTorch(t *testing.T) {
	for _, c := range []struct{ model, file string }{{"smollm2", "gradients_smollm2.json"}, {"gemma3", "gradients_gemma3.json"}} {
		t.Run(c.model, func(t *testing.T) {
			var want gradientReference
			reference(t, c.file, &want)
			m := f32Model(t, c.model)
			g, err := m.NewGradients(GradientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			all := make([]int, m.Info().Layers)
			for i := range all {
				all[i] = i
			}
			for _, kind := range []struct {
				name           string
				logProbability bool
				allPositions   bool
				of             func(i int) *layerGradients
			}{
				{"logit, last prompt token", false, false, func(i int) *layerGradients { return &want.Prompts[i].LogitAnswer }},
				{"logit, all positions", false, true, func(i int) *layerGradients { return &want.Prompts[i].LogitAll }},
				{"log-probability, last prompt token", true, false, func(i int) *layerGradients { return &want.Prompts[i].LogProbAnswer }},
				{"log-probability, all positions", true, true, func(i int) *layerGradients { return &want.Prompts[i].LogProbAll }},
			} {
				worst, worstNorm := 0.0, 0.0
				for i, p := range want.Prompts {
					got, errs, err := g.Run(context.Background(), []Request{{p.Prompt, p.Options}},
						GradientJob{Layers: all, LogProbability: kind.logProbability, AllPositions: kind.allPositions})
					if err != nil || errs[0] != nil {
						t.Fatalf("%s: %v, %v", kind.name, err, errs)
					}
					expected := kind.of(i)
					values := expected.values(t)
					for option := range p.Options {
						for layer, norm := range expected.Norms[option] {
							worstNorm = max(worstNorm, math.Abs(length(got.At(option, layer))/norm-1))
						}
						for l, layer := range expected.Layers {
							start := (option*len(expected.Layers) + l) * m.Info().Width
							worst = max(worst, relative(got.At(option, layer), values[start:start+m.Info().Width]))
						}
					}
				}
				t.Logf("%s: relative error at most %.2g, of norms %.2g", kind.name, worst, worstNorm)
				if !(worst < 1e-4) || !(worstNorm < 1e-4) {
					t.Errorf("%s: relative error %g, of norms %g", kind.name, worst, worstNorm)
				}
			}
		})
	}
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// relative is ‖got − want‖ / ‖want‖.
func relative(got, want []float32) float64 {
	difference := make([]float32, len(want))
	for i := range want {
		difference[i] = got[i] - want[i]
	}
	return length(difference) / length(want)
}
