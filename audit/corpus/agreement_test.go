package corpus

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// sheets writes a table an annotator with the labels of one dimension, item by item.
func sheets(t *testing.T, dimension string, annotators ...[]string) []string {
	t.Helper()
	var paths []string
	dir := t.TempDir()
	for k, labels := range annotators {
		text := "id," + dimension + "\n"
		for i, label := range labels {
			text += fmt.Sprintf("%d,%s\n", i, label)
		}
		path := filepath.Join(dir, fmt.Sprintf("a%d.csv", k+1))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestPaperAgreement: 930 items of three yes and 70 of two to one are 93.0 % exact agreement and κ = −0.024 (section 3).
func TestPaperAgreement(t *testing.T) {
	var labels [3][]string
	for i := range 1000 {
		for k := range labels {
			label := "yes"
			if i >= 930 && i%3 == k {
				label = "no"
			}
			labels[k] = append(labels[k], label)
		}
	}
	a, err := ReadAnnotations(sheets(t, "sentiment_preserved", labels[:]...))
	if err != nil {
		t.Fatal(err)
	}
	list := a.Agreements(200, 0)
	if len(list) != 1 {
		t.Fatalf("%d dimensions", len(list))
	}
	got := list[0]
	if math.Abs(got.Exact.V-0.93) > 1e-12 || math.Abs(got.Fleiss.V+0.0239) > 5e-5 || math.Abs(got.Alpha.V+0.0235) > 6e-5 {
		t.Errorf("exact %v, κ %v, α %v", got.Exact.V, got.Fleiss.V, got.Alpha.V)
	}
	if got.Exact.Lo > 0.93 || got.Exact.Hi < 0.93 || got.Exact.Lo < 0.90 || got.Exact.Hi > 0.96 || got.Fleiss.Hi > 0 {
		t.Errorf("intervals %+v, %+v", got.Exact, got.Fleiss)
	}
	if got.Prevalence[0].Label != "yes" || math.Abs(got.Prevalence[0].Share-2930.0/3000) > 1e-12 {
		t.Errorf("prevalence %+v", got.Prevalence)
	}
	if !strings.Contains(got.Note(), `98 % of the judgements are "yes"`) {
		t.Errorf("the note is %q", got.Note())
	}
	if again := a.Agreements(200, 0); !reflect.DeepEqual(list, again) {
		t.Error("the same seed gives other intervals")
	}
}

func TestAnnotationsMissingAndSpelled(t *testing.T) {
	paths := sheets(t, "natural_back", []string{"Yes", "1", "no", "", "n"}, []string{"true", "YES ", "0", "yes", "y"}, []string{"", "", "no", "no", ""})
	a, err := ReadAnnotations(paths)
	if err != nil {
		t.Fatal(err)
	}
	got := a.Agreements(50, 1)[0]
	if got.Exact.N != 1 || got.Alpha.N != 5 || got.Judgements != 11 {
		t.Errorf("%+v", got)
	}
	if got.Fleiss.OK { // the one item that all judged has one category only
		t.Errorf("κ of one item is %v", got.Fleiss)
	}
	if k := got.Cohen[0].Kappa; k.N != 4 || math.Abs(k.V-0.5) > 1e-12 {
		t.Errorf("Cohen's κ is %+v", k)
	}
	if data, err := json.Marshal(got); err != nil || !strings.Contains(string(data), `"fleiss":{"value":null`) {
		t.Errorf("%s, %v", data, err)
	}

	one := sheets(t, "good", []string{"yes", "yes"}, []string{"yes", "yes"}, []string{"no", "yes"})
	if a, err = ReadAnnotations(one); err != nil {
		t.Fatal(err)
	}
	if pair := a.Agreements(50, 1)[0].Cohen[0]; pair.Items != 2 || pair.Kappa.OK {
		t.Errorf("two annotators who said yes to both items: %+v", pair)
	}
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{one[:1], "a1 alone judged it"},
		{sheets(t, "good", []string{"yes", ""}, []string{"", "yes"}), "no item was judged by all"},
	} {
		if a, err = ReadAnnotations(c.paths); err != nil {
			t.Fatal(err)
		}
		if note := a.Agreements(50, 1)[0].Note(); !strings.Contains(note, c.want) {
			t.Errorf("the note is %q, want %q", note, c.want)
		}
	}

	scale, err := ReadAnnotations(sheets(t, "scale", []string{"1", "2", "3"}, []string{"1", "2", "2"}))
	if err != nil {
		t.Fatal(err)
	}
	if label := scale.Label("scale", "0", "a1"); label != "1" {
		t.Errorf("a label of a scale became %q", label)
	}
}

func TestAnnotatorColumn(t *testing.T) {
	path := write(t, "all.jsonl", `{"id":"x","annotator":"ann","good":true}`+"\n"+`{"id":"x","annotator":"bo","good":false}`+"\n"+`{"id":"y","annotator":"ann","good":true}`)
	a, err := ReadAnnotations([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Annotators, []string{"ann", "bo"}) || a.Label("good", "x", "bo") != "no" || a.Label("good", "y", "bo") != "" {
		t.Errorf("%+v", a)
	}
}

func TestSetNatural(t *testing.T) {
	paths := sheets(t, NaturalDimension, []string{"yes", "yes", "yes", "no", ""}, []string{"yes", "yes", "no", "no", ""}, []string{"yes", "no", "", "no", ""})
	a, err := ReadAnnotations(paths)
	if err != nil {
		t.Fatal(err)
	}
	triplets := make([]Triplet, 5)
	for i := range triplets {
		triplets[i].ID = fmt.Sprint(i)
	}
	marks := func(unanimous bool) string {
		n, err := a.SetNatural(triplets, NaturalDimension, unanimous)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, triplet := range triplets {
			switch {
			case triplet.Natural == nil:
				text += "?"
			case *triplet.Natural:
				text += "+"
			default:
				text += "-"
			}
		}
		if n.Natural != strings.Count(text, "+") || n.Unnatural != strings.Count(text, "-") || n.NotJudged != strings.Count(text, "?") {
			t.Errorf("counted %+v of %s", n, text)
		}
		return text
	}
	if got := marks(false); got != "++--?" { // a tie is not natural
		t.Errorf("by majority %s", got)
	}
	if got := marks(true); got != "+---?" {
		t.Errorf("unanimously %s", got)
	}
	if _, err := a.SetNatural(triplets, "smell", false); err == nil || !strings.Contains(err.Error(), "have no dimension smell") {
		t.Errorf("the error is %v", err)
	}
	if _, err := a.SetNatural([]Triplet{{ID: "other"}}, NaturalDimension, false); err == nil || !strings.Contains(err.Error(), "none of the triplets was judged") {
		t.Errorf("the error is %v", err)
	}
}

// TestSetNaturalRefusesOtherLabels: a label that is neither yes nor no must not count as no, nor keep 1 and true from being yes.
func TestSetNaturalRefusesOtherLabels(t *testing.T) {
	paths := sheets(t, NaturalDimension, []string{"1", "true", "Y"}, []string{"yes", "yes", "?"})
	a, err := ReadAnnotations(paths)
	if err != nil {
		t.Fatal(err)
	}
	triplets := []Triplet{{ID: "0"}, {ID: "1"}}
	if n, err := a.SetNatural(triplets, NaturalDimension, true); err != nil || n.Natural != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	_, err = a.SetNatural(append(triplets, Triplet{ID: "2"}), NaturalDimension, true)
	if err == nil || !strings.Contains(err.Error(), `a2.csv:4: aae_back_natural is "?"; write yes or no`) {
		t.Errorf("%v", err)
	}
}

func TestAnnotationsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"id,good\nx,yes\nx,no\n", `a.csv:3: a judged "x" before, at `},
		{"id,good\n,yes\n", "a.csv:2: the id is empty"},
		{"good\nyes\n", "a.csv:2: the row has no id"},
		{"id,aae,good\nx,text,\n", "there are no judgements"},
	} {
		_, err := ReadAnnotations([]string{write(t, "a.csv", c.text)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error is %v, want %q", c.text, err, c.want)
		}
	}
}

// manyTriplets are n triplets of all lengths and strengths of dialect.
func manyTriplets(n int) []Triplet {
	list := make([]Triplet, n)
	for i := range list {
		text := strings.Repeat("she be workin late ", 1+i%7)
		list[i] = Triplet{ID: fmt.Sprint(i), AAE: text, SAE: strings.Repeat("she works ", i%3) + text[:len(text)*(1+i%5)/6], AAEBack: text}
	}
	return list
}

func TestSample(t *testing.T) {
	triplets := manyTriplets(1000)
	for _, n := range []int{1, 7, 100, 999, 1000, 5000} {
		sample := Sample(triplets, n, 3)
		if len(sample) != min(n, 1000) {
			t.Errorf("asked for %d, drew %d", n, len(sample))
		}
		if !slices.IsSortedFunc(sample, func(a, b Triplet) int { return len(a.ID)*1000 - len(b.ID)*1000 + strings.Compare(a.ID, b.ID) }) {
			t.Errorf("the sample of %d is not in the triplets' order, or holds one twice", n)
		}
	}
	if !reflect.DeepEqual(Sample(triplets, 100, 3), Sample(triplets, 100, 3)) || reflect.DeepEqual(Sample(triplets, 100, 3), Sample(triplets, 100, 4)) {
		t.Error("the sample is not a function of the seed")
	}
	// every third by length has its share, to the seat
	third := thirds(triplets, func(x *Triplet) float64 { return float64(words(x.AAE)) })
	want, got := [3]float64{}, [3]float64{}
	inSample := map[string]bool{}
	for _, x := range Sample(triplets, 100, 3) {
		inSample[x.ID] = true
	}
	for i, k := range third {
		want[k] += 0.1
		if inSample[triplets[i].ID] {
			got[k]++
		}
	}
	for k := range want {
		if math.Abs(got[k]-want[k]) > 3 { // a seat for each of the strata in the third
			t.Errorf("the thirds have %v, want about %v", got, want)
		}
	}
}

func TestSheets(t *testing.T) {
	sample := manyTriplets(50)
	dir := t.TempDir()
	var orders [][]string
	for annotator := 1; annotator <= 2; annotator++ {
		path := filepath.Join(dir, fmt.Sprintf("annotator-%d.csv", annotator))
		if err := WriteSheet(path, sample, Dimensions, annotator, 9); err != nil {
			t.Fatal(err)
		}
		var order []string
		for row, err := range Rows(path) {
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, row.Fields["id"])
			if value, ok := row.Fields[NaturalDimension]; !ok || value != "" {
				t.Fatalf("the dimension's cell is %q", value)
			}
		}
		orders = append(orders, order)
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Error("two annotators have the same order")
	}
	slices.Sort(orders[0])
	slices.Sort(orders[1])
	if len(orders[0]) != 50 || !slices.Equal(orders[0], orders[1]) {
		t.Error("two annotators have different triplets")
	}
}
