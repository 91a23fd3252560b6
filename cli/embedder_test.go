package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumb/audit/corpus"
)

// referenceFile is a file of third_party/reference.
func referenceFile(name string) string {
	return filepath.Join("..", "third_party", "reference", name)
}

// encodedText is what transformers makes of a text; see third_party/reference/encoders.py.
type encodedText struct {
	Text       string
	Tokens     []int32
	First, End int
	Words      []int
	Logits     []float64
}

func encodedTexts(t *testing.T) map[string][]encodedText {
	t.Helper()
	data, err := os.ReadFile(referenceFile("encoders.json"))
	if err != nil {
		t.Fatal(err)
	}
	var items map[string][]encodedText
	if err := json.Unmarshal(data, &items); err != nil {
		t.Fatal(err)
	}
	return items
}

// The words of an encoder's tokens are those that transformers' offsets give, through lowering, accents, emoji, words that it
// does not know and white space.
func TestWordsOfEncoders(t *testing.T) {
	for name, items := range encodedTexts(t) {
		e, err := openEmbedder(referenceFile("encoder_"+name+".gguf"), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			list, err := e.embed(context.Background(), item.Text)
			if err != nil {
				t.Fatal(err)
			}
			x := list[0]
			if !slices.Equal(x.tokens, item.Tokens) || x.first != item.First || x.end != item.End || len(x.vectors) != len(x.tokens) {
				t.Errorf("%s: %q is %v, from %d to %d, with %d vectors", name, item.Text, x.tokens, x.first, x.end, len(x.vectors))
			}
			words, err := e.words(x)
			if err != nil || !slices.Equal(words, item.Words) {
				t.Errorf("%s: the words of %q are %v, not %v; %v", name, item.Text, words, item.Words, err)
			}
		}
		e.close()
	}
}

// An encoder cuts pairs where it is asked to, and a run says which it was. This one, which is random, finds only equal words to
// correspond.
func TestEncoderCutsPairs(t *testing.T) {
	ownCache(t)
	encoder := referenceFile("encoder_bert.gguf")
	pairs := testFile(t, "p.jsonl", `{"id":"same","aae":"I was going to call you later","sae":"I was going to call you later"}
{"id":"emoji","aae":"😂 she   be workin ☕ naïve!","sae":"😂 she be workin ☕ naïve!"}
{"id":"word","aae":"yeah","sae":"yes it is"}
{"id":"long","aae":"`+strings.Repeat("she be workin ", 40)+`","sae":"she works and works"}
`)
	out, notes := mustPlumb(t, "corpus", "segment", "--embed-model", encoder, "--threads", "1", "--data", pairs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	contains(t, notes, "2 of 4 pairs not cut; the first, word: a sentence of one word")
	var same struct {
		AAE string `json:"aae_context"`
		SAE string `json:"sae_context"`
	}
	if err := json.Unmarshal([]byte(lines[0]), &same); err != nil || same.AAE == "" || same.AAE != same.SAE {
		t.Errorf("equal sides are cut as %+v, %v", same, err)
	}
	contains(t, lines[1], `"aae_context":`)
	again, _ := mustPlumb(t, "corpus", "segment", "--embed-model", encoder, "--threads", "1", "--data", pairs)
	if again != out {
		t.Error("the same command cuts elsewhere")
	}

	model, run := tinyModelFile(t, tinyModel{seed: 1}), newRun(t)
	mustPlumb(t, "audit", "dialect", "--model", model, "--embed-model", encoder, "--threads", "1", "--data", pairs, "--out", run)
	described, _ := readRun(t, run)
	if s := described.Dialect.Segmentation; s.Model != "encoder_bert.gguf" || s.Layer != -1 || len(s.SHA256) != 64 {
		t.Errorf("the run says of its segments %+v", s)
	}
	_, _, err := plumb("corpus", "segment", "--model", model, "--embed-model", encoder)
	refused(t, err, 2, "pairs are cut by one model")
	_, _, err = plumb("audit", "dialect", "--model", encoder, "--out", newRun(t))
	refused(t, err, 1, "an encoder (bert), which continues no text")
}

// An encoder scores triplets, and another one classifies them as transformers does.
func TestCorpusValidateByEncoders(t *testing.T) {
	items := encodedTexts(t)["roberta"]
	var triplets []corpus.Triplet
	for i, item := range items {
		triplets = append(triplets, corpus.Triplet{ID: item.Text, AAE: item.Text, SAE: items[(i+1)%len(items)].Text, AAEBack: item.Text})
	}
	triplets = append(triplets, corpus.Triplet{ID: "other", AAE: "she be workin late", SAE: "x", AAEBack: "nah he good"},
		corpus.Triplet{ID: "long", AAE: strings.Repeat("I ", 80), SAE: "x", AAEBack: "y"})
	path, out := filepath.Join(t.TempDir(), "t.jsonl"), filepath.Join(t.TempDir(), "scores.jsonl")
	if err := corpus.WriteJSONLines(path, triplets); err != nil {
		t.Fatal(err)
	}
	bert, roberta := referenceFile("encoder_bert.gguf"), referenceFile("encoder_roberta.gguf")
	text, _ := mustPlumb(t, "corpus", "validate", path, "--embed-model", bert, "--classifier", roberta, "--threads", "1", "--out", out)
	contains(t, tableWords(text), "Not scored 1", "BERTScore by the output of the encoder encoder_bert.gguf", "Sentiment by the classifier encoder_roberta.gguf")
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	best := func(logits []float64) string { return corpus.Sentiments[slices.Index(logits, slices.Max(logits))] }
	for i, line := range lines {
		var v corpus.Validation
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		switch {
		case v.ID == "long":
			contains(t, v.Error, "tokens; the encoder's context holds 64")
		case v.ID == "other":
			if v.BERTScore.F1 > 0.999 {
				t.Errorf("other texts score %+v", v.BERTScore)
			}
		case v.BERTScore == nil || v.BERTScore.F1 < 1-1e-6:
			t.Errorf("%q and itself score %+v", v.ID, v.BERTScore)
		case v.SentimentAAE != best(items[i].Logits) || v.SentimentSAE != best(items[(i+1)%len(items)].Logits):
			t.Errorf("%q is %s and %s", v.ID, v.SentimentAAE, v.SentimentSAE)
		}
	}

	model := tinyModelFile(t, tinyModel{seed: 3})
	for _, c := range []struct {
		arguments []string
		status    int
		want      string
	}{
		{[]string{"--embed-model", bert, "--layer", "1"}, 2, "--layer is of causal models"},
		{[]string{"--model", bert}, 1, "an encoder (bert), which continues no text"},
		{[]string{"--embed-model", bert, "--classifier", bert}, 1, "leaves out BERT's pooler"},
		{[]string{"--embed-model", bert, "--classifier", model}, 1, "the architecture llama is no encoder"},
		{[]string{"--embed-model", bert, "--classifier", "missing.gguf"}, 1, "--classifier: there is no model file missing.gguf"},
		{[]string{"--embed-model", path}, 1, "not a GGUF file"},
	} {
		_, _, err := plumb(append([]string{"corpus", "validate", path, "--out", out}, c.arguments...)...)
		refused(t, err, c.status, c.want)
	}
	if _, err := sentimentLabels([]string{"LABEL_0", "LABEL_1", "LABEL_2"}); err == nil || !strings.Contains(err.Error(), "id2label") {
		t.Errorf("labels without names: %v", err)
	}
	if labels, err := sentimentLabels([]string{"Positive", "NEGATIVE", "neutral"}); err != nil || labels[1] != "negative" {
		t.Errorf("%v, %v", labels, err)
	}
	// a causal model's middle layer may embed where another model is asked for the sentiment
	text, _ = mustPlumb(t, "corpus", "validate", path, "--embed-model", model, "--model", model, "--sentiment", "--threads", "1", "--out", out)
	contains(t, tableWords(text), "BERTScore by the residual stream after block 1 of tiny.gguf", "Sentiment by tiny.gguf")
}
