package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/bindings"
)

// auditDialect is the command line of an audit by one thread, in one wording.
func auditDialect(model, out string, more ...string) []string {
	return append([]string{"audit", "dialect", "--threads", "1", "--wording", "best", "--bootstrap", "10", "--model", model, "--out", out}, more...)
}

// pairsFile writes JSON lines, or whatever the text is.
func pairsFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// somePairs is a file of the first n pairs of the built-in sample.
func somePairs(t *testing.T, n int) string {
	t.Helper()
	data, err := dialect.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := dialect.WriteJSONLines(&text, data.Pairs[:n]); err != nil {
		t.Fatal(err)
	}
	return pairsFile(t, "pairs.jsonl", text.String())
}

// A text that a causal model cannot read at once is told with what can be done about it.
func TestSegmentOfALongPair(t *testing.T) {
	ownCache(t)
	long := strings.Repeat("we was going home and ", 400)
	data := pairsFile(t, "long.jsonl", fmt.Sprintf(`{"id": "long", "aae": %q, "sae": %q}`+"\n", long+"too", strings.ReplaceAll(long, "was", "were")+"too"))
	_, notes := mustPlumb(t, "corpus", "segment", "--threads", "1", "--model", tinyModelFile(t, tinyModel{seed: 1}), "--data", data)
	contains(t, notes, "1 of 1 pair not cut; the first, long: ", "take a shorter text, or cut it by a model with a longer context")
}

func TestAuditDialect(t *testing.T) {
	ownCache(t)
	model, dir := tinyModelFile(t, tinyModel{seed: 1}), newRun(t)
	out, notes := mustPlumb(t, auditDialect(model, dir, "--sample", "3")...)
	contains(t, out, "Dialect: tiny.gguf", "Perplexity of continuations", "b_SAE", "AAE Match", "cDGI", "LP by class of the markers", "3 pairs", "Report: ")
	if notes != "" {
		t.Errorf("notes: %q", notes)
	}
	run, items := readRun(t, dir)
	if run.Benchmark != dialect.Benchmark || run.Items != 3*7 || len(items) != run.Items || run.Dialect.Segmentation.Layer != tinyLayers/2 || run.Dialect.Lexicon.Items != 58 {
		t.Fatalf("%d items, %+v, %+v", len(items), run, run.Dialect)
	}
	for _, r := range items {
		if r.Error != "" {
			t.Errorf("%s: %s", r.ID, r.Error)
		}
	}
	again, _ := mustPlumb(t, "report", "--bootstrap", "10", dir)
	if again != out {
		t.Errorf("plumb report prints\n%s\nafter\n%s", again, out)
	}
	printed, _ := mustPlumb(t, "report", "--json", dir)
	var report struct {
		Summary struct {
			Pairs   int
			Metrics map[string]struct{ Value *float64 }
		}
	}
	if err := json.Unmarshal([]byte(printed), &report); err != nil || report.Summary.Pairs != 3 || report.Summary.Metrics["lp"].Value == nil {
		t.Errorf("%v, %+v", err, report)
	}
	for format, want := range map[string]string{"--csv": "all,,lp,", "--markdown": "## Perplexity of continuations"} {
		text, _ := mustPlumb(t, "report", format, dir)
		contains(t, text, want)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || strings.Count(string(page), "<svg") != 3 {
		t.Error(err, "figures:", strings.Count(string(page), "<svg"))
	}
}

// A run that was cut in the middle goes on to the same bytes, and segments from a file give the same scores as those that
// the audit makes.
func TestAuditDialectGoesOn(t *testing.T) {
	ownCache(t)
	model, whole, cut := tinyModelFile(t, tinyModel{seed: 2}), newRun(t), newRun(t)
	data := somePairs(t, 6)
	mustPlumb(t, auditDialect(model, whole, "--data", data, "--sample", "4")...)
	mustPlumb(t, auditDialect(model, cut, "--data", data, "--sample", "4")...)
	items := filepath.Join(cut, record.ItemsFile)
	info, err := os.Stat(items)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(items, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	mustPlumb(t, auditDialect(model, cut, "--data", data, "--sample", "4", "--resume")...)
	sameRun(t, whole, cut)

	segments := filepath.Join(t.TempDir(), "segments.jsonl")
	mustPlumb(t, "corpus", "segment", "--threads", "1", "--model", model, "--data", data, "--out", segments)
	given := newRun(t)
	mustPlumb(t, auditDialect(model, given, "--sample", "4", "--data", segments)...)
	_, a := readRun(t, whole)
	run, b := readRun(t, given)
	if run.Dialect.Segmentation != (record.Segmentation{Given: 6}) {
		t.Errorf("%+v", run.Dialect.Segmentation)
	}
	for i := range a {
		if a[i].Text != b[i].Text || a[i].Options[0].Sum != b[i].Options[0].Sum {
			t.Errorf("%s: %q, %v; %q, %v", a[i].ID, a[i].Text, a[i].Options[0].Sum, b[i].Text, b[i].Options[0].Sum)
		}
	}
}

// Cutting that was killed goes on to the same bytes, and leaves nothing beside them.
func TestSegmentKilledAndResumed(t *testing.T) {
	ownCache(t)
	dir := t.TempDir()
	segment := func(out string) []string {
		return []string{"corpus", "segment", "--threads", "1", "--model", tinyModelFile(t, tinyModel{seed: 2}), "--out", filepath.Join(dir, out)}
	}
	mustPlumb(t, segment("whole.jsonl")...)
	p := start(t, process(segment("cut.jsonl")...))
	whenLarger(t, filepath.Join(dir, "cut.jsonl.partial"), 3000)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // killed
	_, notes := mustPlumb(t, segment("cut.jsonl")...)
	contains(t, notes, "going on after ", " of 124 pairs")
	whole, _ := os.ReadFile(filepath.Join(dir, "whole.jsonl"))
	cut, _ := os.ReadFile(filepath.Join(dir, "cut.jsonl"))
	if !bytes.Equal(whole, cut) || len(whole) == 0 {
		t.Errorf("the resumed cuts differ:\n%s\n%s", whole, cut)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// A signal, even one that comes twice, ends cutting with a line, and the same command goes on.
func TestSegmentInterrupted(t *testing.T) {
	ownCache(t)
	for name, signals := range map[string][]os.Signal{"SIGINT": {os.Interrupt}, "SIGTERM twice": {syscall.SIGTERM, syscall.SIGTERM}} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "cut.jsonl")
			segment := []string{"corpus", "segment", "--threads", "1", "--model", tinyModelFile(t, tinyModel{seed: 2}), "--out", out}
			p := start(t, process(segment...))
			whenLarger(t, out+".partial", 3000)
			for _, signal := range signals {
				if err := p.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond) // two at once may arrive as one
			}
			var exit *exec.ExitError
			if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
				t.Fatalf("%v\n%s", err, &p.stderr)
			}
			contains(t, p.stderr.String(), "plumb: interrupted after ", " of 124 pairs; the same command goes on\n")
			_, notes := mustPlumb(t, segment...)
			contains(t, notes, "going on after ")
		})
	}
}

// What is there is neither written over nor believed: a finished file, and the unfinished one of another run or that was damaged.
func TestSegmentRefuses(t *testing.T) {
	ownCache(t)
	out := filepath.Join(t.TempDir(), "cut.jsonl")
	data := pairsFile(t, "pairs.jsonl", `{"id":"a","aae":"she be at work early","sae":"she is at work early"}`+"\n")
	segment := func(seed uint64) error {
		_, _, err := plumb("corpus", "segment", "--threads", "1", "--model", tinyModelFile(t, tinyModel{seed: seed}), "--data", data, "--out", out)
		return err
	}
	const corrected = "corrected by hand"
	if err := os.WriteFile(out, []byte(corrected), 0o444); err != nil {
		t.Fatal(err)
	}
	refused(t, segment(2), exitFailed, out+" is there already", "choose another name, or move it away")
	if text, err := os.ReadFile(out); err != nil || string(text) != corrected {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}

	partial := out + ".partial"
	model, err := fileHash(tinyModelFile(t, tinyModel{seed: 2}))
	if err != nil {
		t.Fatal(err)
	}
	files, err := dialect.Read([]string{data})
	if err != nil {
		t.Fatal(err)
	}
	rule := record.Segmentation{
		Model: "tiny.gguf", SHA256: model, Layer: tinyLayers / 2, Rho: dialect.Rho, Gamma: dialect.Gamma, Margin: dialect.Margin,
		Sure: dialect.Sure, MostOpen: dialect.MostOpen, MostCrossing: dialect.MostCrossing,
	}
	header := func(plumb string) string {
		text, err := json.Marshal(map[string]any{"asked": askedOfSegment{plumb, bindings.LlamaVersion(), rule, files.Files}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	ours := header(bindings.Version())
	whole := `{"id":"a","result":{"segments":{"AAE":{"Context":"she be","Continuation":"at work early"},"SAE":{"Context":"she is","Continuation":"at work early"}}}}` + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"another version":  {header("0.0"), `holds another run: plumb was "0.0", now "` + bindings.Version() + `"; ask for the same, or remove that file`},
		"no header":        {whole, ":1: this line is not one of ours (the first line does not say what was asked for)"},
		"an unknown field": {ours + strings.Replace(whole, "segments", "segmentz", 1), `:2: this line is not one of ours (unknown field "segmentz"); put the file right, or choose another place`},
		"nothing":          {ours + `{"id":"a","result":{}}` + "\n", ":2: this line is not one of ours (a pair has segments, or a reason why it has none)"},
		"no result":        {ours + `{"id":"a"}` + "\n", "(the line is not an id and its result)"},
		"another text":     {ours + strings.Replace(whole, "she be", "he be", 1), "(aae_context and aae_continuation do not make up aae;"},
		"an empty segment": {ours + strings.Replace(whole, "she be", "", 1), "(of the four segments some are empty;"},
		"no such pair":     {ours + strings.Replace(whole, `"a"`, `"b"`, 1), `(there is no pair "b")`},
		"a pair twice":     {ours + whole + whole, `:3: this line is not one of ours ("a" has a result already)`},
	} {
		if err := os.WriteFile(partial, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { refused(t, segment(2), exitFailed, partial, test.want) })
		if text, err := os.ReadFile(partial); err != nil || string(text) != test.text {
			t.Errorf("%s: the file is now %q, %v", name, text, err)
		}
	}
	if err := os.WriteFile(partial, []byte(ours+whole), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, segment(3), exitFailed, partial+" holds another run: segmentation.sha256 was ")
	if err := segment(2); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(out); err != nil || !strings.Contains(string(text), `"aae_context":"she be"`) {
		t.Errorf("%q, %v", text, err)
	}
}

// What no sentence should be: the right result, or one line in the record.
func TestOddPairs(t *testing.T) {
	ownCache(t)
	long := strings.Repeat("he be here ", 2000)
	data := pairsFile(t, "odd.csv", "\ufeffid,aae,sae\r\n"+
		"same,he be out there,he be out there\r\n"+
		"empty,he be out there,\r\n"+
		"word,Finna!,I am about to go\r\n"+
		"emoji,he be 🙂🎉 out there,he is 🙂🎉 often there\r\n"+
		"long,"+long+","+long+"\r\n")
	model, dir := tinyModelFile(t, tinyModel{seed: 3}), newRun(t)
	out, notes := mustPlumb(t, auditDialect(model, dir, "--data", data)...)
	contains(t, notes, "bad rows left out: 1; the first: "+data+":3: sae is empty; fill it in, or take the row out")
	contains(t, out, "4 pairs")
	_, items := readRun(t, dir)
	errors := map[string]string{}
	for _, r := range items {
		if strings.Contains(r.Error, "\n") {
			t.Errorf("%q", r.Error)
		}
		if r.Task != dialect.TaskSentiment || r.Condition != dialect.Back {
			errors[r.Template+"/"+r.Task] += r.Error
		}
	}
	for key, want := range map[string]string{
		"same/continuation": "", "same/sentiment": "", "emoji/continuation": "", "emoji/choice": "",
		"word/sentiment": "",
	} {
		if errors[key] != want {
			t.Errorf("%s: %q", key, errors[key])
		}
	}
	contains(t, errors["word/continuation"], "a sentence of one word cannot be cut")
	contains(t, errors["long/sentiment"], "the context holds 4096")
	contains(t, errors["long/continuation"], "too long for the model's context")

	r, err := dialect.New(dir, 10, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Scores {
		lp, ok := s.LP(false)
		if s.ID == "same" && (lp != 0 || !ok) {
			t.Errorf("a pair with identical sides has LP %v", lp)
		}
	}
	words := pairsFile(t, "words.csv", "aae,sae\nFinna!,Soon!\n")
	_, _, err = plumb(auditDialect(model, newRun(t), "--data", words)...)
	refused(t, err, exitFailed, "LP could be measured on none of the pairs, 1; the first failure, words/2/continuation/aae: a sentence of one word cannot be cut")
	if _, _, err := plumb(auditDialect(model, newRun(t), "--data", data, "--strict")...); err == nil {
		t.Error("--strict takes a bad row")
	}
}

func TestAuditDialectRefuses(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	for _, test := range []struct {
		arguments []string
		status    int
		want      string
	}{
		{[]string{"--split", "half"}, exitUsage, "--split is tracing, direction, evaluation or all"},
		{[]string{"--wording", "nice"}, exitUsage, "no wording is called"},
		{[]string{"--sample", "-1"}, exitUsage, "a number of pairs is not negative"},
		{[]string{"--json", "--csv"}, exitUsage, "exclude each other"},
		{[]string{"--data", "nowhere.csv"}, exitFailed, "nowhere.csv: no such file"},
		{[]string{"--lexicon", "nowhere.tsv"}, exitFailed, "nowhere.tsv"},
		{[]string{"--chat", "on"}, exitFailed, "chat template"},
	} {
		_, _, err := plumb(auditDialect(model, newRun(t), test.arguments...)...)
		refused(t, err, test.status, test.want)
	}
}

func TestCompareDialects(t *testing.T) {
	ownCache(t)
	// segments of one model for all
	data, segments := somePairs(t, 8), filepath.Join(t.TempDir(), "segments.jsonl")
	mustPlumb(t, "corpus", "segment", "--threads", "1", "--model", tinyModelFile(t, tinyModel{seed: 9}), "--data", data, "--out", segments)
	var runs []string
	for seed := range uint64(3) {
		runs = append(runs, newRun(t))
		mustPlumb(t, auditDialect(tinyModelFile(t, tinyModel{seed: 10 + seed}), runs[seed], "--sample", "5", "--data", segments)...)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	out, _ := mustPlumb(t, append([]string{"compare", "--html", page}, runs...)...)
	contains(t, out, "Across runs", "LP less the first run's", "3 of 3", "0 of 3", "5 pairs in common")
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}
	printed, _ := mustPlumb(t, append([]string{"compare", "--json"}, runs...)...)
	var c struct {
		Votes []dialect.Vote
	}
	if err := json.Unmarshal([]byte(printed), &c); err != nil || len(c.Votes) != 5 || len(c.Votes[0].Prefers) != 3 {
		t.Errorf("%v %+v", err, c)
	}
	table, _ := mustPlumb(t, append([]string{"compare", "--csv"}, runs...)...)
	if strings.Count(table, "\n") != 6 {
		t.Error(table)
	}
	other := newRun(t)
	mustPlumb(t, auditDialect(tinyModelFile(t, tinyModel{seed: 1}), other, "--data", data)...)
	_, _, err := plumb("compare", runs[0], other)
	refused(t, err, exitFailed, "of other data")
}
