package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plumb/audit/corpus"
	"plumb/bindings"
	"plumb/internal/shared"
)

// testFile writes a file for a test into a folder of its own.
func testFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCorpusCommandsRefuse(t *testing.T) {
	raw := testFile(t, "raw.txt", "she be workin\n")
	triplets := testFile(t, "t.jsonl", `{"id":"1","aae":"a","sae":"b","aae_back":"c"}`)
	binary := testFile(t, "raw.txt", "she be workin\nshe\x00be\n")
	out := filepath.Join(t.TempDir(), "out.jsonl")
	for _, c := range []struct {
		arguments string
		status    int
		want      string
	}{
		{"clean", 2, "takes the files to clean"},
		{"clean " + raw, 2, "--out FILE"},
		{"clean " + raw + " --out " + raw, 2, "is a file that is read"},
		{"clean " + raw + " --out " + out + " --dropped " + raw, 2, "--dropped " + raw + " is a file that is read"},
		{"clean " + raw + " --out " + out + " --dropped " + out, 2, "--dropped and --out both name"},
		{"filter " + triplets + " --out " + out + " --verdicts " + triplets, 2, "--verdicts " + triplets + " is a file that is read"},
		{"filter " + triplets + " --out " + out + " --verdicts " + out, 2, "--verdicts and --out both name"},
		{"filter " + triplets + " --out " + out + " --review 5 --sheet " + out, 2, "--sheet and --out both name"},
		{"segment --data " + triplets + " --out " + triplets, 2, "is a file that is read"},
		{"sample " + triplets + " --out " + out + " --dimension id", 2, `--dimension "id" is no name of a judgement`},
		{"sample " + triplets + " --out " + out + " --dimension good --dimension good", 2, "--dimension good is given twice"},
		{"clean " + raw + " --out " + out + " --min-words -1", 2, "--min-words -1"},
		{"clean missing.txt --out " + out, 1, "missing.txt: no such file"},
		{"filter " + triplets + " --out " + out + " --review 5", 2, "go together"},
		{"filter " + triplets + " --out " + out + " --review 5 --sheet " + raw, 1, "people may have worked on it"},
		{"clean " + binary + " --out " + out, 1, "raw.txt:2: a zero byte, so this is no text"},
		{"filter " + raw + " --out " + out, 1, "raw.txt:1: the row has no id; rows need id, aae, sae, aae_back"},
		{"translate " + triplets + " --endpoint http://127.0.0.1:9 --endpoint-model m --out " + raw, 2, "is a file; name a folder"},
		{"validate " + triplets + " --out " + triplets, 2, "is a file that is read"},
		{"validate " + triplets + " --out " + out, 2, "which model embeds?"},
		{"validate " + triplets + " --model m.gguf --embed-model e.gguf --out " + out, 2, "--model has nothing to do"},
		{"validate " + triplets + " --model m.gguf --sentiment --classifier c.gguf --out " + out, 2, "not both"},
		{"agreement", 2, "takes the annotators' tables"},
		{"agreement " + raw + " --triplets " + triplets, 2, "go together"},
		{"sample " + triplets, 2, "--out DIR"},
		{"release " + triplets, 2, "--out DIR"},
		{"hydrate " + triplets + " --out " + out, 2, "--source FILE"},
		{"build " + raw, 2, "raw.txt: invalid character"},
		{"unknown", 2, `has no command "unknown"`},
	} {
		_, _, err := plumb(append([]string{"corpus"}, strings.Fields(c.arguments)...)...)
		if err == nil || ExitStatus(err) != c.status || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (status %d), want %q (status %d)", c.arguments, err, ExitStatus(err), c.want, c.status)
		}
	}
}

// TestCorpusKeepsNothing: a stage after which nothing would be left fails, says why, and leaves its output as it was.
func TestCorpusKeepsNothing(t *testing.T) {
	out := testFile(t, "out.jsonl", "precious\n")
	empty := testFile(t, "t.jsonl", `{"id":"1","aae":"she be workin","sae":"","aae_back":""}`)
	verdicts := filepath.Join(t.TempDir(), "verdicts.jsonl")
	for _, c := range []struct{ arguments, want string }{
		{"clean " + testFile(t, "short.txt", "she be workin\n"), "(Rows read 1; Dropped, too short 1); lower --min-words"},
		{"filter " + empty + " --verdicts " + verdicts, `Rule "empty" (drop) 1`},
	} {
		_, _, err := plumb(append([]string{"corpus"}, strings.Fields(c.arguments+" --out "+out)...)...)
		refused(t, err, 1, c.want)
		if data, _ := os.ReadFile(out); string(data) != "precious\n" {
			t.Fatalf("%s: the output became %q", c.arguments, data)
		}
	}
	if data, _ := os.ReadFile(verdicts); !strings.Contains(string(data), `"dropped":true`) {
		t.Errorf("the verdicts are %q", data)
	}
}

// TestCorpusReleaseOverOtherFiles: a release is written over an earlier one, and over nothing else.
func TestCorpusReleaseOverOtherFiles(t *testing.T) {
	triplets := testFile(t, "t.jsonl", `{"id":"1","aae":"she be workin","sae":"she works","aae_back":"she be working"}`)
	for _, name := range []string{corpus.CardFile, corpus.ReleaseFile} {
		mine := testFile(t, name, "precious\n")
		_, _, err := plumb("corpus", "release", triplets, "--out", filepath.Dir(mine))
		refused(t, err, 1, mine+" is there already, and is not of a release")
		if data, _ := os.ReadFile(mine); string(data) != "precious\n" {
			t.Errorf("%s became %q", name, data)
		}
	}
	out := t.TempDir()
	for range 2 {
		mustPlumb(t, "corpus", "release", triplets, "--out", out)
	}
}

// TestCorpusReadsAPipe: a pipe has no suffix to tell what is in it, and cannot be read twice.
func TestCorpusReadsAPipe(t *testing.T) {
	triplets := `{"id":"1","aae":"she be workin late","sae":"She works late.","aae_back":"she be workin late"}` + "\n"
	model := tinyModelFile(t, tinyModel{seed: 3})
	for _, arguments := range [][]string{
		{"clean", "--min-words", "1"}, {"filter"}, {"validate", "--model", model, "--threads", "1"},
	} {
		pipe, out := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "out.jsonl")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() { _ = os.WriteFile(pipe, []byte(triplets), 0o600) }()
		mustPlumb(t, append([]string{"corpus", arguments[0], pipe, "--out", out}, arguments[1:]...)...)
		if data, _ := os.ReadFile(out); !strings.HasPrefix(string(data), `{"id":"1",`) {
			t.Errorf("%s wrote %q", arguments[0], data)
		}
	}
}

// rawTexts is a raw file of our own, with mentions, links and emoji.
const rawTexts = `@tasha 😂😂 she finna go to the store cuz she ain’t got no milk https://t.co/AbC123xyz
RT @dre_88: we was “just” sittin there… n he be actin like he don’t know nobody 🤦🏾‍♂️
too short 😭 lol
@tasha 😂😂 she finna go to the store cuz she ain't got no milk http://t.co/zzz
they been knew she was comin thru but ain't nobody said nothin to me
`

// TestCorpusChain goes from raw text through every command to a release and back.
func TestCorpusChain(t *testing.T) {
	raw := testFile(t, "raw.txt", rawTexts)
	s := newTranslatingServer(t, nil)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	out, _ := mustPlumb(t, "corpus", "clean", raw, "--out", in("clean.jsonl"), "--dropped", in("dropped.jsonl"))
	contains(t, tableWords(out), "Kept 3", "Dropped, too short 1", "Dropped, duplicate 1", "URLs stripped 2", "Mentions stripped 3")
	mustPlumb(t, "corpus", "translate", in("clean.jsonl"), "--endpoint", s.URL+"/v1", "--endpoint-model", "stub", "--out", in("translated"))
	out, notes := mustPlumb(t, "corpus", "filter", filepath.Join(in("translated"), tripletsFile), "--out", in("filtered.jsonl"), "--review", "3", "--sheet", in("review.csv"))
	contains(t, tableWords(out), "Kept 3", `Rule "copied input" (flag) 3 (alone 0)`, `Rule "back equals SAE" (flag) 3 (alone 0)`)
	contains(t, notes, "review.csv")

	mustPlumb(t, "corpus", "sample", in("filtered.jsonl"), "--out", in("sheets"), "--annotators", "2", "--seed", "4")
	var sheets []string
	for k := 1; k <= 2; k++ {
		path := filepath.Join(in("sheets"), fmt.Sprintf("annotator-%d.csv", k))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		filled := strings.ReplaceAll(string(data), ",,,,\n", ",yes,yes,yes,no\n") // the annotator fills in the four columns
		if k == 2 {
			filled = strings.Replace(filled, ",yes,yes,yes,no\n", ",no,yes,yes,yes\n", 1)
		}
		if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
			t.Fatal(err)
		}
		sheets = append(sheets, path)
	}
	out, notes = mustPlumb(t, append([]string{"corpus", "agreement", "--triplets", in("filtered.jsonl"), "--out", in("triplets.jsonl")}, sheets...)...)
	contains(t, tableWords(out), "sentiment_preserved 3 0.667", "aae_natural 3 1.000 undefined undefined 100.0 % yes", "annotator-1, annotator-2")
	contains(t, notes, "natural: 0, not: 3, not judged: 0")

	out, _ = mustPlumb(t, "corpus", "release", in("triplets.jsonl"), "--out", in("release"), "--name", "Ours", "--summary", corpus.SummaryPath(in("clean.jsonl")), "--summary", corpus.SummaryPath(in("triplets.jsonl")))
	contains(t, tableWords(out), "Triplets 3", "SAE left out, as it is the source text 3")
	card, err := os.ReadFile(filepath.Join(in("release"), corpus.CardFile))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(card), "# Ours", "## Cleaning", "## Human validation")
	out, _ = mustPlumb(t, "corpus", "hydrate", in("release"), "--source", raw, "--out", in("hydrated.jsonl"))
	contains(t, tableWords(out), "Triplets 3", "Left out, not in the copy 0")
	before, err := corpus.ReadTriplets(in("triplets.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := corpus.ReadTriplets(in("hydrated.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		if before[i].AAE != after[i].AAE || before[i].ID != after[i].ID || *before[i].Natural != *after[i].Natural {
			t.Errorf("%+v became %+v", before[i], after[i])
		}
	}
}

// TestCorpusCleanReDial cleans the AAE side of published pairs, twice.
func TestCorpusCleanReDial(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(shared.Data(t, "aae_pairs"), "redial_pairs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.Split(line, "\t")
		rows = append(rows, map[string]string{"number": fmt.Sprint(i), "text": strings.ReplaceAll(fields[2], `\n`, "\n")})
	}
	dir := t.TempDir()
	raw, once, twice := filepath.Join(dir, "raw.jsonl"), filepath.Join(dir, "once.jsonl"), filepath.Join(dir, "twice.jsonl")
	if err := corpus.WriteJSONLines(raw, rows); err != nil {
		t.Fatal(err)
	}
	out, _ := mustPlumb(t, "corpus", "clean", raw, "--id", "number", "--out", once)
	contains(t, tableWords(out), "Rows read 1,216", "Kept 1,216")
	mustPlumb(t, "corpus", "clean", once, "--out", twice)
	a, _ := os.ReadFile(once)
	b, _ := os.ReadFile(twice)
	if len(a) == 0 || string(a) != string(b) {
		t.Error("cleaning twice changes something")
	}
}

func TestCorpusValidate(t *testing.T) {
	path := testFile(t, "t.jsonl", `{"id":"same","aae":"she be workin late","sae":"she works late","aae_back":"she be workin late"}
{"id":"other","aae":"she be workin late","sae":"she works late","aae_back":"nah he good"}
{"id":"long","aae":"`+strings.Repeat("she be workin ", 40)+`","sae":"x","aae_back":"y"}
`)
	model := tinyModelFile(t, tinyModel{seed: 3, context: 256})
	out := filepath.Join(t.TempDir(), "scores.jsonl")
	arguments := []string{"corpus", "validate", path, "--model", model, "--threads", "1", "--sentiment", "--out", out}
	text, _ := mustPlumb(t, arguments...)
	contains(t, tableWords(text), "Triplets 3", "Not scored 1", "BERTScore by the residual stream after block 1 of tiny.gguf", "Report: ")
	read := func() (list []corpus.Validation) {
		t.Helper()
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var v corpus.Validation
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			list = append(list, v)
		}
		return list
	}
	list := read()
	if len(list) != 3 || list[0].BERTScore == nil || list[0].BERTScore.F1 < 1-1e-6 || list[1].BERTScore.F1 > 0.999 || list[2].Error == "" || list[2].BERTScore != nil {
		t.Fatalf("%+v", list)
	}
	if list[0].SentimentAAE != list[1].SentimentAAE || list[0].SentimentSAE == "" {
		t.Errorf("the same text has two sentiments: %+v", list)
	}
	if _, err := os.Stat(out + ".partial"); err == nil {
		t.Error("a finished run left its unfinished one")
	}
	first, _ := os.ReadFile(out)
	mustPlumb(t, arguments...)
	if again, _ := os.ReadFile(out); string(again) != string(first) {
		t.Error("the same command gives other scores")
	}
	mustPlumb(t, append(arguments, "--idf", "--layer", "0")...)
	if weighed := read(); weighed[1].BERTScore.F1 == list[1].BERTScore.F1 {
		t.Error("layer and idf change nothing")
	}
	_, _, err := plumb(append(arguments, "--layer", "2")...)
	refused(t, err, 2, "--layer 2: the model has the blocks 0 to 1")
}

// TestCorpusValidateGoesOn: what a killed run kept is not scored again.
func TestCorpusValidateGoesOn(t *testing.T) {
	path := testFile(t, "t.jsonl", `{"id":"1","aae":"she be workin","sae":"she works","aae_back":"she be workin late"}
{"id":"2","aae":"he been knew","sae":"he knew","aae_back":"he been knew that"}
`)
	model := tinyModelFile(t, tinyModel{seed: 3})
	out := filepath.Join(t.TempDir(), "scores.jsonl")
	arguments := []string{"corpus", "validate", path, "--model", model, "--threads", "1", "--out", out}
	mustPlumb(t, arguments...)
	want, _ := os.ReadFile(out)
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	triplets, err := corpus.ReadTriplets(path)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := tripletsHash(triplets)
	if err != nil {
		t.Fatal(err)
	}
	modelHash, err := fileHash(model)
	if err != nil {
		t.Fatal(err)
	}
	asked := askedOfValidate{bindings.Version(), bindings.LlamaVersion(), "the residual stream after block 1 of tiny.gguf", "", modelHash, hash}
	partial, err := corpus.OpenPartial(out+".partial", asked, func(string, *corpus.Validation) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := partial.Append("1", corpus.Validation{ID: "1", Error: "kept"}); err != nil {
		t.Fatal(err)
	}
	partial.Close()
	_, notes := mustPlumb(t, arguments...)
	contains(t, notes, "going on after 1 of 2 triplets")
	got, _ := os.ReadFile(out)
	_, second, _ := strings.Cut(string(want), "\n")
	if string(got) != `{"id":"1","bertscore":null,"sentiment_aae":"","sentiment_sae":"","error":"kept"}`+"\n"+second {
		t.Errorf("went on to\n%s", got)
	}
}

// TestCorpusBuild runs the chain of a file, does nothing a second time, only what is needed after a change, and goes on after
// it was killed.
func TestCorpusBuild(t *testing.T) {
	raw := testFile(t, "raw.txt", rawTexts)
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		time.Sleep(30 * time.Millisecond)
		return false
	})
	dir := filepath.Join(t.TempDir(), "built")
	model := tinyModelFile(t, tinyModel{seed: 3})
	config := func(minWords int, release string) string {
		text, err := json.Marshal(map[string]any{
			"out":       dir,
			"clean":     map[string]any{"input": []string{raw}, "min-words": minWords},
			"translate": map[string]any{"endpoint": s.URL + "/v1", "endpoint-model": "stub", "concurrency": 1},
			"validate":  map[string]any{"model": model, "threads": 1},
			"release":   map[string]any{"name": release},
		})
		if err != nil {
			t.Fatal(err)
		}
		return testFile(t, "build.json", string(text))
	}
	first := config(10, "Ours")

	cmd := process("corpus", "build", first)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := func() int {
		data, _ := os.ReadFile(filepath.Join(dir, "translated", answersFile))
		return strings.Count(string(data), "\n")
	}
	for deadline := time.Now().Add(120 * time.Second); answers() < 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	kept, asked := answers(), s.requests()
	out, _ := mustPlumb(t, "corpus", "build", first)
	contains(t, tableWords(out), "clean: up to date", "translate Texts 3", "filter Triplets read 3", "validate Triplets 3", "release Triplets 3")
	if n := s.requests() - asked; n != 6-kept {
		t.Errorf("%d requests, where %d answers were kept", n, kept)
	}

	asked = s.requests()
	out, _ = mustPlumb(t, "corpus", "build", first)
	if out != "clean: up to date\ntranslate: up to date\nfilter: up to date\nvalidate: up to date\nrelease: up to date\n" || s.requests() != asked {
		t.Errorf("again:\n%s", out)
	}
	out, _ = mustPlumb(t, "corpus", "build", config(10, "Theirs"))
	contains(t, out, "validate: up to date\nrelease\n")
	out, _ = mustPlumb(t, "corpus", "build", config(3, "Theirs"))
	contains(t, tableWords(out), "clean Rows read 5 Kept 4", "translate Texts 4")
	if s.requests() != asked+2 {
		t.Errorf("%d requests for one text more", s.requests()-asked)
	}
	if err := os.Remove(filepath.Join(dir, "filtered.jsonl")); err != nil {
		t.Fatal(err)
	}
	out, _ = mustPlumb(t, "corpus", "build", config(3, "Theirs"))
	contains(t, tableWords(out), "translate: up to date filter Triplets read 4", "validate: up to date release: up to date")
}

func TestCorpusBuildRefuses(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{`{"out":"x","cleen":{}}`, `unknown field "cleen"`},
		{`{"clean":{},"translate":{}}`, "\"out\" names a folder"},
		{`{"out":"x","clean":{}}`, "at least the stages"},
		{`{"out":"DIR","clean":{"out":"y"},"translate":{}}`, `the build itself sets "out"`},
		{`{"out":"DIR","clean":{"input":{"a":1}},"translate":{}}`, `"input" is a text, a number`},
		{`{"out":"DIR","clean":{"colour":"red"},"translate":{}}`, "c.json: the stage clean: flag provided but not defined: -colour"},
		{`{"out":"DIR","clean":{"input":["DIR/none"]},"translate":{"concurrency":"many"}}`, `the stage translate: invalid value "many" for flag -concurrency`},
		{`{"out":"DIR","clean":{"input":["DIR/none"]},"translate":{},"release":{"lisence":"x"}}`, "the stage release: flag provided but not defined: -lisence"},
		{`{"out":"DIR","clean":{},"translate":{}} {}`, "something follows the object"},
		{`{"out":"DIR","clean":{"json":true},"translate":{}}`, `"json" is for the command itself`},
	} {
		config := testFile(t, "c.json", strings.ReplaceAll(c.config, "DIR", t.TempDir()))
		_, _, err := plumb("corpus", "build", config)
		refused(t, err, 2, c.want)
	}
}
