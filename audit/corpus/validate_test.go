package corpus

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestBERTScoreAgainstReference compares with testdata/bertscore.json, which bertscore.py writes with bert-score. That
// computes in 32 bits.
func TestBERTScoreAgainstReference(t *testing.T) {
	data, err := os.ReadFile("testdata/bertscore.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Cases []struct {
			Candidate, Reference  Embedded
			Precision, Recall, F1 float64
		}
		IDF struct {
			Texts  [][]int32
			Tokens []int32
			Want   []float64
		}
	}
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	if len(reference.Cases) < 6 || len(reference.IDF.Want) < 6 {
		t.Fatal("a part of the reference is missing")
	}
	for i, c := range reference.Cases {
		got, ok := NewBERTScore(c.Candidate, c.Reference)
		if !ok || math.Abs(got.Precision-c.Precision) > 1e-6 || math.Abs(got.Recall-c.Recall) > 1e-6 || math.Abs(got.F1-c.F1) > 1e-6 {
			t.Errorf("case %d: %+v (%v), the reference has %v, %v, %v", i, got, ok, c.Precision, c.Recall, c.F1)
		}
		turned, _ := NewBERTScore(c.Reference, c.Candidate)
		if turned.Precision != got.Recall || turned.Recall != got.Precision {
			t.Errorf("case %d: the sides exchanged give %+v after %+v", i, turned, got)
		}
		if same, ok := NewBERTScore(c.Candidate, c.Candidate); !ok || math.Abs(same.F1-1) > 1e-12 {
			t.Errorf("case %d: a text against itself gives %+v", i, same)
		}
	}
	idf := NewIDF(reference.IDF.Texts)
	for i, token := range reference.IDF.Tokens {
		if got := idf.Of(token); math.Abs(got-reference.IDF.Want[i]) > 1e-12 {
			t.Errorf("the idf of %d is %v, want %v", token, got, reference.IDF.Want[i])
		}
	}
}

func TestBERTScoreUndefined(t *testing.T) {
	one := Embedded{[][]float32{{1, 0}}, []float64{1}}
	for _, c := range []Embedded{{}, {[][]float32{{1, 0}}, []float64{0}}, {[][]float32{{0, 0}}, []float64{1}}, {[][]float32{{-1, 0}}, []float64{1}}, {[][]float32{{float32(math.NaN()), 0}}, []float64{1}}} {
		if got, ok := NewBERTScore(c, one); ok {
			t.Errorf("%+v gives %+v", c, got)
		}
		if got, ok := NewBERTScore(one, c); ok {
			t.Errorf("against %+v: %+v", c, got)
		}
	}
}

// table5 is the paper's Table 5.
var table5 = Confusion{{7268, 848, 357}, {833, 3832, 949}, {87, 171, 3134}}

func TestTable5(t *testing.T) {
	if n := table5.N(); n != 17479 {
		t.Errorf("%d triplets", n)
	}
	agreement := table5.Agreement()
	if math.Abs(agreement.V-0.8143) > 5e-5 || agreement.Lo > 0.8143 || agreement.Hi < 0.8143 {
		t.Errorf("agreement %+v", agreement)
	}
	var none Confusion
	if v := none.Agreement(); v.OK {
		t.Errorf("the agreement of nothing is %+v", v)
	}
}

func TestValidated(t *testing.T) {
	v := &Validated{Embedder: "layer 3 of <tiny>", Classifier: "tiny", Validations: []Validation{
		{ID: "1", BERTScore: &BERTScore{0.9, 0.7, 0.8}, SentimentAAE: "negative", SentimentSAE: "neutral"},
		{ID: "2", BERTScore: &BERTScore{1, 1, 1}, SentimentAAE: "positive", SentimentSAE: "positive"},
		{ID: "3", Error: "too long"},
		{ID: "4", BERTScore: &BERTScore{0.9, 0.9, 0.9}, SentimentAAE: "negative", SentimentSAE: ""},
	}}
	if c := v.Confusion(); c != (Confusion{{0, 1, 0}, {}, {0, 0, 1}}) {
		t.Errorf("%v", c)
	}
	facts := map[string]string{}
	for _, f := range v.Summary().Facts {
		facts[f.Name] = f.Value
	}
	for name, want := range map[string]string{
		"BERTScore F1 of AAE_back against AAE": "mean 0.900, median 0.900, standard deviation 0.100, lowest 0.800",
		"Sentiment of AAE and SAE agrees":      "0.500 [0.095, 0.905]",
		"Not scored":                           "1",
		"AAE negative":                         "SAE negative 0, neutral 1, positive 0",
	} {
		if facts[name] != want {
			t.Errorf("%s: %q, want %q", name, facts[name], want)
		}
	}
	var page strings.Builder
	if err := v.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg ", "3 values; most, 1,", "layer 3 of &lt;tiny&gt;", "<th>negative</th><td>0</td><td>1</td><td>0</td>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	empty := &Validated{Validations: []Validation{{ID: "1", Error: "too long"}}}
	page.Reset()
	if err := empty.WriteHTML(&page); err != nil || strings.Contains(page.String(), "NaN") || !strings.Contains(page.String(), "undefined") {
		t.Errorf("%v\n%s", err, page.String())
	}
}
