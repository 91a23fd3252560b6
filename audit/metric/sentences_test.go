package metric

import (
	"math"
	"testing"

	"plumb/audit/record"
)

// sentenceItem is read from a record with these mean log-probabilities; without the last it has two options.
func sentenceItem(t *testing.T, scores ...float32) Item {
	t.Helper()
	r := record.Record{ID: "a", Category: "race", Condition: record.Intersentence, Label: record.NoLabel}
	for i, role := range []record.Role{record.Biased, record.Anti, record.Unrelated}[:len(scores)] {
		r.Options = append(r.Options, record.NewOption("", role, []float32{scores[i], scores[i]}))
	}
	item, err := NewItem(&r, Mean)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// Worked by hand: the pairwise scores count what the best option does not show, and the other way round.
func TestStereoSetMetrics(t *testing.T) {
	set := &Set{ReadOut: Mean, Items: []Item{
		sentenceItem(t, -1, -2, -3), // S > A > U
		sentenceItem(t, -2, -1, -3), // A > S > U
		sentenceItem(t, -1, -3, -2), // S > U > A: best is S, one comparison lost
		sentenceItem(t, -2, -3, -1), // U > S > A: unanswered, and yet S before A
		sentenceItem(t, -3, -2, -1), // U > A > S
	}}
	values := Summarize(set, StereoSet, 50, 0).Group(All, All).Values
	for name, want := range map[string]float64{
		"ss":  3.0 / 5,
		"lms": 5.0 / 10,
		// LMS · min(SS, 1 − SS) / 0.5
		"icat":   0.5 * 0.4 / 0.5,
		"pr_u":   2.0 / 5,
		"commit": 3.0 / 5,
		"dpref":  2.0 / 3,
		"pr_s":   2.0 / 5,
	} {
		if v := values[name]; !v.OK || math.Abs(v.V-want) > 1e-12 {
			t.Errorf("%s is %+v, want %v", name, v, want)
		}
	}
	if _, ok := values["accuracy"]; ok {
		t.Error("StereoSet has no right option, and an accuracy")
	}
	// Pr(S) = (1 − Pr(U)) · dpref, of the best option alone
	if got := values["commit"].V * values["dpref"].V; math.Abs(got-values["pr_s"].V) > 1e-12 {
		t.Errorf("Pr(S) is %v, the product of its factors %v", values["pr_s"].V, got)
	}
	// the ends of ICAT: all meaningful and even-handed, and one side alone
	for _, test := range []struct {
		items []Item
		want  float64
	}{
		{[]Item{sentenceItem(t, -1, -2, -3), sentenceItem(t, -2, -1, -3)}, 1},
		{[]Item{sentenceItem(t, -1, -2, -3), sentenceItem(t, -1, -2, -3)}, 0},
	} {
		if got, _ := Count(test.items).ICAT(); got != test.want {
			t.Errorf("ICAT %v, want %v", got, test.want)
		}
	}
}

func TestCrowSPairsMetrics(t *testing.T) {
	items := []Item{sentenceItem(t, -1, -2), sentenceItem(t, -1, -2), sentenceItem(t, -2, -1)}
	if c := Count(items); c.S != 2 || c.A != 1 || c.U != 0 || c.Correct != 0 {
		t.Errorf("%+v", c)
	}
	v := Summarize(&Set{ReadOut: Sum, Items: items}, CrowSPairs, 10, 0).Group("race", All).Values["pr_s"]
	if !v.OK || math.Abs(v.V-2.0/3) > 1e-12 {
		t.Errorf("%+v", v)
	}
	// a single unrelated option is no pair
	r := record.Record{ID: "a", Options: []record.Option{record.NewOption("", record.Biased, []float32{-1}), record.NewOption("", record.Unrelated, []float32{-1})}}
	if _, err := NewItem(&r, Mean); err == nil {
		t.Error("an item without an anti option was read")
	}
}
