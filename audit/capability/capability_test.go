package capability

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/internal/shared"
)

const csvFile = `What is 1 + 1?,0,1,2,3,C
"Which of these is a ""fruit"",
and grows?",Stone,Pear,Iron,Air,B
`

func TestParseMMLU(t *testing.T) {
	list, err := parseMMLU("sums", []byte("\ufeff"+csvFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0] != (Question{"sums/0", "sums", "What is 1 + 1?", [4]string{"0", "1", "2", "3"}, 2}) || list[1].Label != 1 {
		t.Errorf("%+v", list)
	}
}

func TestReadMMLURefuses(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"empty":       {"", ": holds no questions"},
		"five fields": {csvFile + "a,b,c,d,A\n", ":4: not a question, four options and a letter: wrong number of fields"},
		"a letter":    {csvFile + "a,b,c,d,e,E\n", `:4: the right option is "E", not A, B, C or D`},
		"no option":   {csvFile + "a,b,,d,e,A\n", ":4: the question or an option is empty"},
		"a NUL":       {csvFile + "a,b,\x00,d,e,A\n", ":4: holds a NUL character"},
		"Latin-1":     {"\xe4", ": not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sums_test.csv")
			if err := os.WriteFile(path, []byte(test.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, _, err := ReadMMLU(path)
			if err == nil || !strings.HasPrefix(err.Error(), path+test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s%s", err, path, test.want)
			}
		})
	}
	folder := t.TempDir()
	if _, _, err := ReadMMLU(folder); err == nil || !strings.Contains(err.Error(), "no files of MMLU in this folder") {
		t.Error(err)
	}
}

func TestPublished(t *testing.T) {
	questions, files, err := ReadMMLU(shared.Data(t, "mmlu"))
	if err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, q := range questions {
		subjects = append(subjects, q.Subject)
	}
	if len(questions) != 752 || len(files) != 5 || !slices.IsSorted(subjects) || len(slices.Compact(subjects)) != 5 || files[2].Items != 152 {
		t.Errorf("%d questions, %+v", len(questions), files)
	}
	text, _, err := ReadText(filepath.Join(shared.Data(t, "wikitext2"), "wiki.test.raw"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := Lines(text); len(lines) != 2891 || lines[0] != " = Robert Boulter = " {
		t.Errorf("%d lines, the first %q", len(lines), lines[0])
	}
}

func FuzzParseMMLU(f *testing.F) {
	f.Add([]byte(csvFile))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := parseMMLU("a", content)
		if (err == nil) == (len(list) == 0) {
			t.Fatalf("%v, %v", list, err)
		}
	})
}

// question is a record whose option k has one token of log-probability scores[k].
func question(id, subject string, label int, scores ...float32) record.Record {
	r := record.Record{ID: id, Category: subject, Condition: MMLU, Label: label}
	for _, s := range scores {
		r.Options = append(r.Options, record.NewOption("", "", []float32{s}))
	}
	return r
}

func segment(id string, logProbs ...float32) record.Record {
	return record.Record{ID: id, Condition: Segments, Label: record.NoLabel, Options: []record.Option{record.NewOption("", "", logProbs)}}
}

func outcome(t *testing.T, records ...record.Record) *Outcome {
	t.Helper()
	o, err := Read(func(yield func(record.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Worked by hand.
func TestSummarize(t *testing.T) {
	two := question("a/1", "a", 0, -3, -4)
	two.Options[0] = record.NewOption("", "", []float32{-1, -2, -3}) // mean −2 before a single −4, though its sum is lower
	o := outcome(t,
		question("a/0", "a", 2, -4, -3, -1, -2), two, question("b/0", "b", 1, -1, -2),
		segment("s/0", -1, -2, -3), segment("s/1", -2))
	s := o.Summarize(200, 0)
	for i, want := range []struct {
		subject string
		value   float64
	}{{"a", 1}, {"b", 0}, {metric.All, 2.0 / 3}} {
		if got := s.Accuracies[i]; got.Subject != want.subject || math.Abs(got.Value.V-want.value) > 1e-12 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	p := s.Perplexity[0]
	if want := math.Exp(8.0 / 4); p.Tokens != 4 || p.Texts != 2 || math.Abs(p.Value.V-want) > 1e-9 || p.Value.Lo > want || p.Value.Hi < want {
		t.Errorf("%+v, want %v", p, want)
	}
}

func TestCompare(t *testing.T) {
	var before, after []record.Record
	for i := range 40 {
		id := fmt.Sprintf("a/%d", i)
		before = append(before, question(id, "a", 0, -1, -2), segment("s"+id, -1, -2))
		scores := []float32{-1, -2}
		if i%4 == 0 { // ten of forty are lost
			scores = []float32{-2, -1}
		}
		after = append(after, question(id, "a", 0, scores...), segment("s"+id, -2, -3))
	}
	c := Compare(outcome(t, before...), outcome(t, after...), 500, 0)
	if math.Abs(c.Accuracy.V+0.25) > 1e-12 || c.Accuracy.Hi >= 0 || c.Accuracy.Lo < -0.45 {
		t.Errorf("%+v", c.Accuracy)
	}
	if want := math.E; math.Abs(c.Ratio.V-want) > 1e-9 || math.Abs(c.Ratio.Lo-want) > 1e-9 {
		t.Errorf("a nat a token more: ratio %+v, want %v", c.Ratio, want)
	}
	same := Compare(outcome(t, before...), outcome(t, before...), 50, 0)
	if same.Accuracy.V != 0 || same.Ratio.V != 1 || same.Ratio.Hi != 1 {
		t.Errorf("%+v", same)
	}
	broken := record.Record{ID: "sa/0", Condition: Segments, Error: "not a number"}
	if c := Compare(outcome(t, before...), outcome(t, broken), 50, 0); c.Ratio.OK || c.Accuracy.OK {
		t.Errorf("what the steered model cannot score: %+v", c)
	}
}
