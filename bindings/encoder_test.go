package bindings

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	thirdparty "plumb/third_party"
)

// encoded is a text as transformers tokenizes, embeds and classifies it; see third_party/reference/encoders.py.
type encoded struct {
	Text   string    `json:"text"`
	Tokens []Token   `json:"tokens"`
	States string    `json:"states"` // base64 of float32, little-endian, [token][component]
	Logits []float64 `json:"logits"`
}

func (e *encoded) states(t *testing.T) []float64 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(e.States)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float64, len(raw)/4)
	for i := range values {
		values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return values
}

func openEncoder(t *testing.T, path string, classify bool) (*Model, *Encoder) {
	t.Helper()
	model, err := OpenModel(path, ModelOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	if !model.Info().IsEncoder {
		t.Errorf("%s is no encoder: %+v", path, model.Info())
	}
	encoder, err := model.NewEncoder(classify)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoder.Close)
	return model, encoder
}

// checkEncoder compares tokens, and embeddings at some components (nil: all), with the reference.
func checkEncoder(t *testing.T, path string, items []encoded, columns []int) {
	t.Helper()
	model, encoder := openEncoder(t, path, false)
	if len(items) == 0 {
		t.Fatal("there is no reference")
	}
	furthest := 0.0
	for _, item := range items {
		tokens, err := model.Tokenize(item.Text, true, false)
		if err != nil || !slices.Equal(tokens, item.Tokens) {
			t.Errorf("%q has the tokens %v, not %v; %v", item.Text, tokens, item.Tokens, err)
			continue
		}
		vectors, err := encoder.Run(context.Background(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, v := range vectors {
			for k, x := range v {
				if columns == nil || slices.Contains(columns, k) {
					got = append(got, float64(x))
				}
			}
		}
		want := item.states(t)
		if len(got) != len(want) {
			t.Fatalf("%q: %d numbers, not %d", item.Text, len(got), len(want))
		}
		for i := range want {
			furthest = max(furthest, math.Abs(got[i]-want[i]))
		}
	}
	t.Logf("%s: embeddings differ from transformers' by %.1e at most", filepath.Base(path), furthest)
	if !(furthest < 3e-3) { // llama.cpp takes GELU in its tanh form, these models were trained with the exact one
		t.Errorf("embeddings differ by %v", furthest)
	}
}

// Token embeddings of a BERT and a RoBERTa, as llama.cpp's converter writes them, equal transformers'.
func TestEncodersEqualTransformers(t *testing.T) {
	var items map[string][]encoded
	reference(t, "encoders.json", &items)
	for _, name := range []string{"bert", "roberta"} {
		checkEncoder(t, filepath.Join("..", "third_party", "reference", "encoder_"+name+".gguf"), items[name], nil)
	}
}

// The same of a trained model, all-MiniLM-L6-v2, where somebody converted it into the cache.
func TestTrainedEncoderEqualsTransformers(t *testing.T) {
	cache, err := thirdparty.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "models", "minilm.gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not there; third_party/reference/README.md says how it is made", path)
	}
	var file struct {
		Columns []int     `json:"columns"`
		Items   []encoded `json:"items"`
	}
	reference(t, "encoder_minilm.json", &file)
	checkEncoder(t, path, file.Items, file.Columns)
}

// Logits of a RoBERTa classifier equal transformers'. BERT's, from which the converter leaves out a layer, is refused.
func TestClassifierEqualsTransformers(t *testing.T) {
	var items map[string][]encoded
	reference(t, "encoders.json", &items)
	folder := filepath.Join("..", "third_party", "reference")
	model, classifier := openEncoder(t, filepath.Join(folder, "encoder_roberta.gguf"), true)
	if labels := model.Labels(); !slices.Equal(labels, []string{"negative", "neutral", "positive"}) {
		t.Errorf("the labels are %q", labels)
	}
	for _, item := range items["roberta"] {
		logits, err := classifier.Run(context.Background(), item.Tokens)
		if err != nil {
			t.Fatal(err)
		}
		if len(logits) != 1 || len(logits[0]) != 3 {
			t.Fatalf("%q: %v", item.Text, logits)
		}
		for i, want := range item.Logits {
			if math.Abs(float64(logits[0][i])-want) > 2e-3 {
				t.Errorf("%q: %v, want %v", item.Text, logits[0], item.Logits)
				break
			}
		}
	}
	bert, err := OpenModel(filepath.Join(folder, "encoder_bert.gguf"), ModelOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer bert.Close()
	_, err = bert.NewEncoder(true)
	var native *Error
	if !errors.As(err, &native) || native.Status != StatusUnsupported || !strings.Contains(native.Message, "leaves out BERT's pooler") {
		t.Errorf("BERT's classifier: %v", err)
	}
}
