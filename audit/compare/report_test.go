package compare

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plumb/audit/metric"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// synthetic is a comparison with what a report has to cope with: a category that falls silent, one without flips, a
// hostile name.
func synthetic(t *testing.T) *Comparison {
	before, after := randomRuns(120, 7)
	quiet := outcome{category: `<b>"Sil|ent"</b>`, template: "1", condition: disambig, choice: "S"}
	before = append(before, repeat(6, quiet)...)
	quiet.choice, quiet.forced = "U", "A"
	after = append(after, repeat(6, quiet)...)
	still := outcome{category: "Still", template: "1", condition: ambig, choice: "A"}
	return compare(t, append(before, repeat(5, still)...), append(after, repeat(5, still)...), 100)
}

func TestReportGolden(t *testing.T) {
	c := synthetic(t)
	other := *c
	other.Steered.Name = "again"
	one, two := NewReport([]*Comparison{c}), NewReport([]*Comparison{c, &other})
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table.txt":   func(b *bytes.Buffer) error { return one.WriteTable(b) },
		"summary.txt": func(b *bytes.Buffer) error { return two.WriteTable(b) },
		"report.md":   func(b *bytes.Buffer) error { return one.WriteMarkdown(b) },
		"report.csv":  func(b *bytes.Buffer) error { return one.WriteCSV(b) },
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
			t.Errorf("%s is not as it was; if that is meant, look at it after go test -update", name)
		}
		if strings.Contains(got.String(), "NaN") || strings.Contains(got.String(), "Inf") {
			t.Errorf("%s has a number that is none", name)
		}
	}
}

func TestTableFitsATerminal(t *testing.T) {
	c := synthetic(t)
	other := *c
	for _, comparisons := range [][]*Comparison{{c}, {c, &other}} {
		var out bytes.Buffer
		if err := NewReport(comparisons).WriteTable(&out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 132 {
				t.Errorf("%d characters: %s", n, line)
			}
		}
	}
}

func TestCSVHasEveryQuantityOfEveryGroup(t *testing.T) {
	c := synthetic(t)
	var out bytes.Buffer
	if err := NewReport([]*Comparison{c}).WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, line := range lines[1:] {
		key := strings.Join(line[2:5], "/")
		if _, twice := seen[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = line[7]
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		for name, want := range map[string]metric.Value{"composition": g.Channels.Composition.Change, "score_after_corrected": g.Selection.Corrected, "delta_dpref": g.Changes["dpref"].Delta} {
			got := seen[g.Category+"/"+g.Condition+"/"+name]
			if x, err := strconv.ParseFloat(got, 64); want.OK && (err != nil || x != want.V) || !want.OK && got != metric.Undefined {
				t.Errorf("%s/%s: %s is %q, want %+v", g.Category, g.Condition, name, got, want)
			}
		}
	}
}

func TestSummarize(t *testing.T) {
	c := synthetic(t)
	row := Summarize([]*Comparison{c})[0]
	all, dis := c.Group(metric.All, metric.All), c.Group(metric.All, disambig)
	if row.PrS != all.Changes["pr_s"].Delta || row.SDis != dis.Changes["s_dis"].Delta || row.FlippedDisambig != dis.Flips.Rate || row.Items != 131 {
		t.Errorf("%+v", row)
	}
	// The category that fell silent has no s_Dis afterwards and does not count; the one that stood still did not fall.
	down := 0
	for _, category := range []string{"Age", "SES"} {
		if c.Group(category, disambig).Changes["s_dis"].Delta.V < 0 {
			down++
		}
	}
	if row.SDisDown != (Decreases{down, 2}) || row.SAmbDown.Of != 3 {
		t.Errorf("%+v, %+v", row.SDisDown, row.SAmbDown)
	}
}
