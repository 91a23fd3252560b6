package compare

import (
	"fmt"
	"path/filepath"
	"testing"

	"plumb/audit/metric"
	"plumb/audit/record"
)

// outcome is an item of a test run, and what is chosen: "S", "A" or "U".
type outcome struct {
	category, template, condition string
	choice                        string
	forced                        string  // "S" or "A"; needed where choice is "U"
	lift                          float64 // added to every score
}

// request describes the run of a test.
func request(items int) record.Run {
	return record.Run{
		Plumb: "0.1.0", LlamaCpp: "b1", Benchmark: "bbq", Device: "CPU", Items: items,
		Model: record.Model{SHA256: "aaaaaaaaaaaaaaaa", Name: "tiny.gguf", Architecture: "llama", NLayer: 6, NEmbd: 8},
		Data:  record.Data{Files: []record.DataFile{{Name: "Age.jsonl", SHA256: "bb", Items: items}}, Kept: items},
	}
}

func steered(r record.Run) record.Run {
	r.Steering = &record.Steering{Name: "age.gguf", SHA256: "dd", Method: "contrast", Operator: "project", Layers: []int{4}, Strength: 8}
	return r
}

// scoresOf gives the chosen option the score -1, the forced one of an unanswered item -2, the others -3 and less.
func scoresOf(o outcome) map[record.Role]float64 {
	scores := map[record.Role]float64{record.Biased: -3, record.Anti: -3.5, record.Unknown: -4}
	role := map[string]record.Role{"S": record.Biased, "A": record.Anti, "U": record.Unknown}
	if o.forced != "" {
		scores[role[o.forced]] = -2
	}
	scores[role[o.choice]] = -1
	for r := range scores {
		scores[r] += o.lift
	}
	return scores
}

// records makes a run's records; an item's id is its place among all.
func records(outcomes []outcome) []record.Record {
	var out []record.Record
	for i, o := range outcomes {
		r := record.Record{
			Index: i, ID: fmt.Sprintf("%s/%d", o.category, i), Category: o.category, Template: o.category + "/" + o.template,
			Condition: o.condition, Polarity: record.Negative, Text: fmt.Sprintf("Text of item %d?", i), Label: 2,
		}
		if o.condition == record.Disambiguated {
			r.Label = 1
		}
		for _, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
			score := float32(scoresOf(o)[role])
			r.Options = append(r.Options, record.NewOption(string(role)+" answer", role, []float32{score, score}))
		}
		out = append(out, r)
	}
	return out
}

func write(t *testing.T, name string, run record.Run, items []record.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	w, err := record.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(items); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, name string, run record.Run, items []record.Record) *Run {
	t.Helper()
	r, err := Load(write(t, name, run, items), metric.Mean)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compare compares two lists of outcomes of the same items.
func compare(t *testing.T, before, after []outcome, draws int) *Comparison {
	t.Helper()
	request := request(len(before))
	c, err := Compare(load(t, "base", request, records(before)), load(t, "steered", steered(request), records(after)), metric.Mean, draws, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// repeat is n times the same outcome.
func repeat(n int, o outcome) []outcome {
	out := make([]outcome, n)
	for i := range out {
		out[i] = o
	}
	return out
}
