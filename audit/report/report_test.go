package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plumb/audit/metric"
	"plumb/audit/record"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// synthetic is a made-up run with what a report has to cope with: a category that is never answered, one with a hostile
// name, ties, items without scores, items left out.
func synthetic(tb testing.TB, items int) string {
	tb.Helper()
	categories := []string{"Age", "Religion", `<b>"Race" & | x</b>`, "Silent", "Race_x_gender"}
	rng := rand.New(rand.NewPCG(1, 2))
	run := record.Run{
		Plumb: "0.1.0", LlamaCpp: "0c1e57098", Benchmark: "bbq", Device: "CPU", Items: items,
		Model: record.Model{SHA256: strings.Repeat("ab", 32), Name: "synthetic <i>135M</i>.gguf", Architecture: "llama", Description: "llama 135M Q4_1", NLayer: 30, NEmbd: 576},
		Data: record.Data{
			Files: []record.DataFile{
				{Name: "Age.jsonl", SHA256: strings.Repeat("cd", 32), Items: 3680},
				{Name: "Religion.jsonl", SHA256: strings.Repeat("ef", 32), Items: 1200},
			},
			Kept: 4875,
			LeftOut: []record.LeftOut{
				{Reason: "no option is the targeted group's <script>", Count: 3, IDs: []string{"Age/3", "Age/4", "Religion/5"}},
				{Reason: "two unknown options", Count: 2, IDs: []string{"Age/90", "Age/91"}},
			},
		},
		Sample: items, Seed: 1,
		Prompt:  record.Prompt{Template: "{{.Context}}\n{{.Question}}\nAnswer:", SHA256: strings.Repeat("01", 32)},
		Scoring: record.Scoring{ContextTokens: 4096, BatchRows: 512, Trie: true},
	}
	dir := filepath.Join(tb.TempDir(), "run")
	w, err := record.Create(dir, run)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range items {
		category := categories[i%len(categories)]
		item := record.Record{
			Index: i, ID: fmt.Sprintf("%s/%d", category, i), Category: category, Template: fmt.Sprintf("%s/%d", category, i/8),
			Condition: record.Ambiguous, Polarity: record.Negative, Label: 2, Text: "SECRET",
		}
		if i/len(categories)%2 == 1 {
			item.Condition, item.Label = record.Disambiguated, rng.IntN(2)
		}
		means := [3]float64{-2.1 - rng.Float64(), -2.3 - rng.Float64(), -2.7 - rng.Float64()}
		switch category {
		case "Silent":
			means[2] = -0.5
		case "Religion":
			means[1], means[2] = means[1]+0.6, means[2]+0.5
		}
		if i%29 == 28 {
			means[1] = means[0]
		}
		for k, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
			logProbs := []float32{float32(means[k]), float32(means[k])}
			if i%97 == 96 {
				item.Error, logProbs = "the prompt is 300000 tokens; the context holds 4096", nil
			}
			item.Options = append(item.Options, record.NewOption("SECRET", role, logProbs))
		}
		if err := w.Append([]record.Record{item}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func newReport(tb testing.TB, dir string, options Options) *Report {
	tb.Helper()
	r, err := New(dir, options)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// Every format is compared with what was looked at and kept under testdata; -update writes them anew.
func TestGolden(t *testing.T) {
	r := newReport(t, synthetic(t, 400), Options{metric.Mean, 100})
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table.txt":   func(b *bytes.Buffer) error { return r.WriteTable(b) },
		"report.json": func(b *bytes.Buffer) error { return r.WriteJSON(b) },
		"report.csv":  func(b *bytes.Buffer) error { return r.WriteCSV(b) },
		"report.md":   func(b *bytes.Buffer) error { return r.WriteMarkdown(b) },
		"report.html": func(b *bytes.Buffer) error { return r.WriteHTML(b) },
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs from testdata; look at it and run the test with -update if it is right", name)
		}
	}
}

func TestMachineFormatsAreValid(t *testing.T) {
	r := newReport(t, synthetic(t, 400), Options{metric.Mean, 100})
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Finished bool
		Summary  struct {
			ReadOut string `json:"read_out"`
			Groups  []struct {
				Category, Condition string
				Metrics             map[string]struct{ Value, Low, High *float64 }
			}
		}
	}
	if err := json.Unmarshal(text.Bytes(), &parsed); err != nil {
		t.Fatal(err)
	}
	silent := 0
	for _, g := range parsed.Summary.Groups {
		if g.Category == "Silent" && g.Condition == record.Ambiguous {
			silent++
			if m := g.Metrics["s_amb"]; m.Value != nil || m.Low != nil || m.High != nil {
				t.Errorf("what is undefined is %v in JSON", *m.Value)
			}
			if m := g.Metrics["commit"]; m.Value == nil || *m.Value != 0 {
				t.Error("an answer rate of 0 is not 0 in JSON")
			}
		}
	}
	if silent != 1 || !parsed.Finished || parsed.Summary.ReadOut != "mean" {
		t.Errorf("%d silent groups, %+v", silent, parsed)
	}
	text.Reset()
	if err := r.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row[0] == "Silent" && row[2] == "s_dis" && strings.Join(row[3:], ",") != "undefined,,,0,0" {
			t.Errorf("%q", row)
		}
	}
}

// The page carries everything with it, and no text of the data can break out of its place.
func TestHTMLIsSelfContainedAndEscaped(t *testing.T) {
	r := newReport(t, synthetic(t, 400), Options{metric.Mean, 100})
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	for _, bad := range []string{"http:", "https:", "<script", "<link", "@import", "url(", "<b>\"Race", "<i>135M", "SECRET", "NaN", "#010203", "#010204", "#010205", "#010206", "ZgotmplZ"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, good := range []string{`&lt;i&gt;135M&lt;/i&gt;`, "prefers-color-scheme: dark", "@media print", `lang="en"`, "undefined", "Age/3, Age/4", "{{.Context}}"} {
		if !strings.Contains(html, good) {
			t.Errorf("the page does not contain %q", good)
		}
	}
	figures := regexp.MustCompile(`<svg [^>]*role="img" aria-label="([^"]+)"`).FindAllStringSubmatch(html, -1)
	if len(figures) != 2 || !strings.Contains(figures[0][1], "Silent undefined") || !strings.Contains(figures[1][1], "Silent 0.000") {
		t.Errorf("the figures' texts: %q", figures)
	}
	if strings.Count(html, "<svg") != strings.Count(html, "</svg>") || strings.Count(html, "<g ") != strings.Count(html, "</g>") {
		t.Error("an SVG is not well-formed")
	}
}

func TestReadOutsDiffer(t *testing.T) {
	dir := synthetic(t, 400)
	var seen []string
	for _, readOut := range metric.ReadOuts {
		r := newReport(t, dir, Options{readOut, 10})
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "read-out "+string(readOut)) {
			t.Errorf("%s does not say so:\n%s", readOut, text.String())
		}
		seen = append(seen, fmt.Sprint(r.Summary.Group(metric.All, metric.All).Counts))
	}
	if seen[0] == seen[3] {
		t.Errorf("the forced choice equals the free one: %q", seen)
	}
}

// A run of one item, one of none so far, one whose items all failed: every format says something sensible.
func TestSmallAndUnfinishedRuns(t *testing.T) {
	one := synthetic(t, 1)
	none := filepath.Join(t.TempDir(), "none")
	w, err := record.Create(none, record.Run{Benchmark: "bbq", Items: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	failed := filepath.Join(t.TempDir(), "failed")
	if w, err = record.Create(failed, record.Run{Benchmark: "bbq", Items: 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]record.Record{{ID: "x", Error: "too long"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{one: "1 item, read-out", none: "This run is not finished: 0 of 3 items.", failed: "1 item could not be scored; the first, x: too long."} {
		r := newReport(t, dir, Options{metric.Mean, 100})
		var table, rest bytes.Buffer
		for _, err := range []error{r.WriteTable(&table), r.WriteJSON(&rest), r.WriteCSV(&rest), r.WriteMarkdown(&rest), r.WriteHTML(&rest)} {
			if err != nil {
				t.Errorf("%s: %v", want, err)
			}
		}
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in:\n%s", want, table.String())
		}
	}
}

// TestNoteWithoutItsMark: the terminal shows no value over both conditions, so it does not explain the mark of one.
func TestNoteWithoutItsMark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := record.Create(dir, record.Run{Plumb: "0.1.0", Benchmark: "bbq", Items: 2, Model: record.Model{Name: "m.gguf"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, scores := range [][3]float32{{-1, -2, -3}, {-3, -2, -1}} { // the first is answered, the second is not
		item := record.Record{Index: i, ID: fmt.Sprint(i), Category: "Age", Template: "Age/1", Condition: record.Ambiguous, Polarity: record.Negative, Label: 2}
		if i == 1 {
			item.Condition, item.Label = record.Disambiguated, 0
		}
		for k, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
			item.Options = append(item.Options, record.NewOption("", role, scores[k:k+1]))
		}
		if err := w.Append([]record.Record{item}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var table, markdown strings.Builder
	r := newReport(t, dir, Options{Draws: 100})
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.String(), undefinedMark) || strings.Count(markdown.String(), undefinedMark) < 2 {
		t.Errorf("%s\n%s", table.String(), markdown.String())
	}
}

func TestWriteFile(t *testing.T) {
	dir := synthetic(t, 40)
	r := newReport(t, dir, Options{metric.Mean, 10})
	path, err := r.WriteFile(dir)
	if err != nil || path != filepath.Join(dir, File) {
		t.Fatal(path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(data, []byte("</html>\n")) {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if _, err := r.WriteFile(filepath.Join(dir, "nothing")); err == nil || !strings.Contains(err.Error(), "the report cannot be written: ") {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	w, err := record.Create(other, record.Run{Benchmark: "crows"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(other, Options{metric.Mean, 10}); err == nil || !strings.Contains(err.Error(), `benchmark "crows"`) {
		t.Error(err)
	}
	if _, err := New(t.TempDir(), Options{metric.Mean, 10}); err == nil || !strings.Contains(err.Error(), "is not a run directory") {
		t.Error(err)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 pairs", 1: "1 pair", 2: "2 pairs", 1216: "1,216 pairs"} {
		if got := Count(n, "pair"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
