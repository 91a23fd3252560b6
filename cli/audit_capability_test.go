package cli

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"plumb/audit/capability"
	"plumb/audit/record"
)

const mmluFile = "What is one?,A number,A letter,A tree,A song,A\nWhat is B?,A number,A letter,A tree,A song,B\n"

func TestAuditCapability(t *testing.T) {
	ownCache(t)
	model, dir := tinyModelFile(t, tinyModel{seed: 1}), newRun(t)
	text := textFile(t, "First line\n\n = Heading =\n"+strings.Repeat("abcdefgh\n", 150)) // 9 · 150 + … tokens and a BOS
	out, _ := mustPlumb(t, auditOf("capability", model, dir, "--mmlu", textFile(t, mmluFile), "--wikitext", text, "--segments", "3", "--windows", "99")...)
	contains(t, out, "Capability: tiny.gguf", "MMLU", "all subjects", "segments: lines", "windows: 512 tokens")
	run, items := readRun(t, dir)
	if run.Benchmark != capability.Benchmark || len(items) != 2+3+2 {
		t.Fatalf("%+v, %d items", run, len(items))
	}
	if o := items[2].Options[0]; o.Tokens != len("First line") || items[2].Label != record.NoLabel {
		t.Errorf("a segment after the BOS: %+v", o)
	}
	// 512 tokens of which those after the middle one are scored
	if o := items[5].Options[0]; items[5].Condition != capability.Windows || o.Tokens != 255 {
		t.Errorf("a window: %+v", o)
	}
	again, _ := mustPlumb(t, "report", dir)
	if again != out {
		t.Errorf("plumb report prints another table:\n%s", again)
	}
	r, err := capability.New(dir, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Summary.Perplexity {
		sum, n := 0.0, 0
		for _, item := range items {
			if item.Condition == p.Definition {
				sum, n = sum+item.Options[0].Sum, n+item.Options[0].Tokens
			}
		}
		if want := math.Exp(-sum / float64(n)); math.Abs(p.Value.V-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", p.Definition, p.Value.V, want)
		}
	}
}

func TestAuditCapabilityRefuses(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      string
	}{
		"no data":     {nil, exitUsage, "which data? --mmlu PATH, --wikitext FILE, or both"},
		"nothing":     {[]string{"--wikitext", textFile(t, "x y"), "--segments", "0"}, exitUsage, "nothing to measure"},
		"a short one": {[]string{"--wikitext", textFile(t, "x y"), "--windows", "1"}, exitFailed, "text has 4 tokens; a window has 512"},
		"negative":    {[]string{"--mmlu", textFile(t, mmluFile), "--first", "-1"}, exitUsage, "--first -1"},
		"missing":     {[]string{"--mmlu", filepath.Join(t.TempDir(), "none")}, exitFailed, "none: no such file or directory"},
		"bad row":     {[]string{"--mmlu", textFile(t, mmluFile+"x,y\n")}, exitFailed, "text:3: not a question, four options and a letter"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := plumb(auditOf("capability", model, newRun(t), test.arguments...)...)
			refused(t, err, test.status, test.want)
		})
	}
}
