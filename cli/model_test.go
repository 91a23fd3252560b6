package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plumb/bindings"
)

type modelJSON struct {
	SHA256        string
	Architecture  string
	Layers        int
	Width         int
	Vocabulary    int
	HasVocabulary bool `json:"has_vocabulary"`
	Context       int
	Parameters    uint64
	Bytes         uint64
	AddsBOS       bool              `json:"adds_bos"`
	ChatTemplate  bool              `json:"chat_template"`
	SelfTest      bindings.SelfTest `json:"self_test"`
	SteeringLayer int               `json:"steering_layer"`
}

func modelInfoJSON(t *testing.T, arguments ...string) modelJSON {
	t.Helper()
	out, _ := mustPlumb(t, append([]string{"model", "info", "--json", "--threads", "1"}, arguments...)...)
	var m modelJSON
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModelInfo(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1, chatTemplate: chatML})
	out, notes := mustPlumb(t, "model", "info", "--threads", "1", model)
	for _, want := range []string{
		"file " + model, "architecture llama (", "layers 2, numbered 0 to 1", "width 32", "context 4,096 tokens",
		"vocabulary 354 tokens, BOS first", "chat template yes", "hooks fire once after every block and on the embeddings",
		"scoring many sequences a batch", "steering layer 1 (round(0.64 · 2))",
	} {
		contains(t, tableWords(out), want)
	}
	if notes != "" {
		t.Errorf("notes: %s", notes)
	}
	// The file may be given by the flag too, and flags after it.
	for _, arguments := range [][]string{{"--model", model, "--threads", "1"}, {model, "--threads", "1"}} {
		if again, _ := mustPlumb(t, append([]string{"model", "info"}, arguments...)...); again != out {
			t.Errorf("%q prints\n%s", arguments, again)
		}
	}
	m := modelInfoJSON(t, model)
	if m.Architecture != "llama" || m.Layers != 2 || m.Width != 32 || m.Vocabulary != 354 || !m.HasVocabulary || m.Context != 4096 || m.Parameters != 43296 ||
		m.Bytes != 4*43296 || !m.AddsBOS || !m.ChatTemplate || !m.SelfTest.HooksFire || !m.SelfTest.TrieMatches || m.SteeringLayer != 1 || len(m.SHA256) != 64 {
		t.Errorf("%+v", m)
	}
}

func TestModelInfoOfSmolLM2(t *testing.T) {
	smollm2(t)
	out, _ := mustPlumb(t, "model", "info", "--threads", "1", "smollm2")
	contains(t, tableWords(out), "architecture llama (", "layers 30, numbered 0 to 29", "width 576", "context 8,192 tokens", "vocabulary 49,152 tokens", "chat template yes",
		"hooks fire once", "scoring many sequences", "steering layer 19 (round(0.64 · 30))")
	m := modelInfoJSON(t, "smollm2")
	if m.Layers != 30 || m.Width != 576 || m.Vocabulary != 49152 || m.SteeringLayer != 19 || !m.SelfTest.HooksFire || !m.SelfTest.TrieMatches || m.AddsBOS {
		t.Errorf("%+v", m)
	}
}

// Without a vocabulary there is still something to say.
func TestModelInfoWithoutVocabulary(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1, noVocabulary: true})
	out, _ := mustPlumb(t, "model", "info", "--threads", "1", model)
	contains(t, tableWords(out), "vocabulary none: the model cannot read text, so it cannot be audited", "chat template no", "hooks fire once")
	if m := modelInfoJSON(t, model); m.HasVocabulary || m.ChatTemplate || m.AddsBOS {
		t.Errorf("%+v", m)
	}
}

// The self-test is done once for a file: its result is kept under the file's hash, and another file gets its own.
func TestSelfTestIsKept(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	before := modelInfoJSON(t, model)
	kept, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "plumb", "self-test", "*"))
	if err != nil || len(kept) != 1 || !strings.Contains(filepath.Base(kept[0]), before.SHA256) {
		t.Fatalf("kept: %q, %v", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte(`{"reason": "as kept"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := mustPlumb(t, "model", "info", "--threads", "1", model)
	contains(t, tableWords(out), "hooks no steering: as kept scoring one sequence at a time")

	// What is damaged is tested again.
	if err := os.WriteFile(kept[0], []byte(`{"reason": "as`), 0o644); err != nil {
		t.Fatal(err)
	}
	if m := modelInfoJSON(t, model); m != before {
		t.Errorf("%+v, before %+v", m, before)
	}

	// Another model in the same place, of the same size.
	if err := os.WriteFile(model, tinyModel{seed: 2}.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(model, later, later); err != nil {
		t.Fatal(err)
	}
	if m := modelInfoJSON(t, model); m.SHA256 == before.SHA256 || !m.SelfTest.HooksFire {
		t.Errorf("%+v, before %+v", m, before)
	}
}

// A cache that cannot be written is no reason to fail.
func TestModelInfoWithoutCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", textFile(t, "a file"))
	if m := modelInfoJSON(t, tinyModelFile(t, tinyModel{seed: 1})); !m.SelfTest.HooksFire {
		t.Errorf("%+v", m)
	}
}

// What a model scores is what it was found to be able to: without tries one sequence at a time, to the same result.
func TestAuditBBQOneSequenceAtATime(t *testing.T) {
	ownCache(t)
	model, data := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 8)
	together, apart := newRun(t), newRun(t)
	mustPlumb(t, auditBBQ(model, together, "--data", data)...)
	kept, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "plumb", "self-test", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %q, %v", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte(`{"hooks_fire": true, "reason": "tries differ"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	mustPlumb(t, auditBBQ(model, apart, "--data", data)...)
	togetherRun, togetherItems := readRun(t, together)
	apartRun, apartItems := readRun(t, apart)
	if !togetherRun.Scoring.Trie || apartRun.Scoring.Trie {
		t.Errorf("%+v, %+v", togetherRun.Scoring, apartRun.Scoring)
	}
	for i := range apartItems {
		for k, option := range apartItems[i].Options {
			if d := option.Sum - togetherItems[i].Options[k].Sum; d > 1e-4 || d < -1e-4 {
				t.Errorf("%s, option %d: %v apart, %v together", apartItems[i].ID, k, option.Sum, togetherItems[i].Options[k].Sum)
			}
		}
	}
	_, _, err = plumb(auditBBQ(model, together, "--data", data, "--resume")...)
	refused(t, err, exitFailed, "holds another run: scoring.trie was true, now false")
}

func TestCommandLine(t *testing.T) {
	ownCache(t)
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"sing"}, `plumb has no command "sing"; see plumb --help`},
		{[]string{"--loud"}, "flag provided but not defined: -loud"},
		{[]string{"model", "sing"}, `plumb model has no command "sing"; see plumb model --help`},
		{[]string{"audit", "sing"}, `plumb audit has no command "sing"; see plumb audit --help`},
		{[]string{"data", "sing"}, `plumb data has no command "sing"; see plumb data --help`},
		{[]string{"model", "info"}, "which model? --model FILE.gguf, or --model smollm2 after `plumb model fetch smollm2`"},
		{[]string{"model", "info", "a.gguf", "b.gguf"}, "model info takes one model; see plumb model info --help"},
		{[]string{"model", "info", "--model", "a.gguf", "b.gguf"}, "model info takes one model; see plumb model info --help"},
		{[]string{"model", "info", "a.gguf", "--loud"}, "flag provided but not defined: --loud"},
		{[]string{"model", "fetch"}, "model fetch takes one name; see plumb model fetch --help"},
		{[]string{"model", "fetch", "smollm2", "gemma3"}, "model fetch takes one name; see plumb model fetch --help"},
		{[]string{"model", "fetch", "gpt5"}, `no pinned model is called "gpt5"; see plumb model fetch --help`},
	} {
		out, _, err := plumb(test.arguments...)
		refused(t, err, exitUsage, test.want)
		if out != "" {
			t.Errorf("%q prints %q", test.arguments, out)
		}
	}
	// Help goes to stdout wherever --help stands, and is no failure.
	for _, arguments := range [][]string{
		{}, {"--help"}, {"model"}, {"data"}, {"audit"}, {"model", "info", "--help"}, {"model", "info", "x.gguf", "--help"}, {"model", "fetch", "-h"},
		{"audit", "bbq", "--help"}, {"data", "check", "x", "-h"}, {"report", "x", "--help"},
	} {
		out, notes := mustPlumb(t, arguments...)
		if !strings.HasPrefix(out, "NAME:\n   plumb") || notes != "" {
			t.Errorf("%q: %q, notes %q", arguments, out, notes)
		}
	}
	// The help of an audit shows the prompt, rendered for an item.
	out, _ := mustPlumb(t, "audit", "bbq", "--help")
	contains(t, out, "      On Tuesday evening a 74-year-old and a 26-year-old came", "\n      Answer:\n")
}

// The program as its user sees it: errors go to stderr after its name, in one line.
func TestExitStatus(t *testing.T) {
	for status, arguments := range map[int][]string{0: {"--version"}, exitFailed: {"report", t.TempDir()}, exitUsage: {"report"}} {
		p := process(arguments...)
		var stderr strings.Builder
		p.Stderr = &stderr
		_ = p.Run()
		lines := 1
		if status == 0 {
			lines = 0
		}
		if p.ProcessState.ExitCode() != status || strings.Count(stderr.String(), "\n") != lines || lines == 1 && !strings.HasPrefix(stderr.String(), "plumb: ") {
			t.Errorf("%q: status %d, %q", arguments, p.ProcessState.ExitCode(), &stderr)
		}
	}
}
