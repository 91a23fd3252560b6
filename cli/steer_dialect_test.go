package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"plumb/audit/corpus"
	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/bindings"
	"plumb/steer"
)

// openTiny opens a tiny model with a session, for tests below the commands.
func openTiny(t *testing.T, seed uint64) (*openedModel, *bindings.Session, tokenizer) {
	t.Helper()
	ownCache(t)
	model, err := (&modelOptions{model: tinyModelFile(t, tinyModel{seed: seed}), threads: 1}).open(bindings.ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	session, err := model.scoringSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	tokens, err := model.tokenizer(session.Layout().Context, false)
	if err != nil {
		t.Fatal(err)
	}
	return model, session, tokens
}

func near(a, b [][]float32, tolerance float64) bool {
	for i := range a {
		for j := range a[i] {
			if math.Abs(float64(a[i][j])-float64(b[i][j])) > tolerance {
				return false
			}
		}
	}
	return true
}

// The identities of causal tracing: nothing restored gives the corrupted run; no noise gives the clean one; restoring before
// the first corrupted token changes nothing; restoring all that was corrupted gives the clean run back.
func TestTracingIdentities(t *testing.T) {
	_, session, tokens := openTiny(t, 5)
	request, err := tokens.request(&question{prompt: "now he be out", options: []string{" there", " in town"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	clean, _, err := session.Score(ctx, []bindings.Request{request}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := len(request.Prompt) - 4
	layers := []int{bindings.EmbeddingLayer, 0, 1}
	states, _, err := session.Residuals(ctx, []bindings.Sequence{everywhere(request.Prompt)}, nil, layers)
	if err != nil {
		t.Fatal(err)
	}
	noise := bindings.Noise{Positions: []int{at}, Strength: 3, Seed: 8}
	nothing := bindings.Patch{Position: -1}
	runs, err := session.Patched(ctx, request, noise, []bindings.Patch{
		nothing, nothing,
		{Layer: 0, Position: 1, Vector: states.At(1, 1)},
		{Layer: 1, Position: at - 1, Vector: states.At(at-1, 2)},
		{Layer: bindings.EmbeddingLayer, Position: at, Vector: states.At(at, 0)},
		{Layer: 0, Position: at, Vector: states.At(at, 1)},
		{Layer: 1, Position: len(request.Prompt) - 1, Vector: states.At(len(request.Prompt)-1, 2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	corrupted := runs[0]
	if near(corrupted, clean[0].LogProbs, 1e-2) {
		t.Error("the noise changes nothing")
	}
	for i, want := range []string{"the same run twice", "before the corrupted token, layer 0", "before the corrupted token, the last layer"} {
		if !near(runs[1+i], corrupted, 1e-5) {
			t.Errorf("%s: %v, not %v", want, runs[1+i], corrupted)
		}
	}
	if !near(runs[4], clean[0].LogProbs, 1e-5) {
		t.Errorf("the embedding restored: %v, not %v", runs[4], clean[0].LogProbs)
	}
	if near(runs[5], corrupted, 1e-5) {
		t.Error("restoring block 0 at the corrupted token changes nothing")
	}
	// the last block's state of the last prompt token alone decides the first token of a continuation
	for c := range corrupted {
		if math.Abs(float64(runs[6][c][0]-clean[0].LogProbs[c][0])) > 1e-5 || math.Abs(float64(runs[6][c][1]-corrupted[c][1])) > 1e-5 {
			t.Errorf("the last block at the last token: %v; clean %v, corrupted %v", runs[6][c], clean[0].LogProbs[c], corrupted[c])
		}
	}
	silent := bindings.Noise{Positions: []int{at}, Seed: 8}
	for _, n := range []bindings.Noise{silent, {}} {
		runs, err = session.Patched(ctx, request, n, []bindings.Patch{nothing, {Layer: 0, Position: at, Vector: states.At(at, 1)}})
		if err != nil || !near(runs[0], clean[0].LogProbs, 1e-5) || !near(runs[1], clean[0].LogProbs, 1e-5) {
			t.Errorf("σ = 0: %v, %v", runs, err)
		}
	}
	for _, bad := range []bindings.Patch{{Layer: 9, Position: 0, Vector: states.At(0, 0)}, {Position: 99, Vector: states.At(0, 0)}, {Position: 0, Vector: states.At(0, 0)[:3]}} {
		if _, err := session.Patched(ctx, request, noise, []bindings.Patch{bad}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// Markers find their tokens, also where one is many tokens (of characters, here) and after others than ASCII.
func TestMarkerTokens(t *testing.T) {
	model, session, tokens := openTiny(t, 6)
	lexicon, err := dialect.PaperLexicon()
	if err != nil {
		t.Fatal(err)
	}
	tr := tracer{&scoringModel{model: model, session: session, tokens: tokens}, lexicon, 1}
	for text, want := range map[string]string{"now 🙂 she be out": "she be", "Ain’t nobody": "Ain’t nobody", "I'm finna": "finna"} {
		prompt, err := tokens.tokens(text)
		if err != nil {
			t.Fatal(err)
		}
		positions, err := tr.markerTokens(text, prompt)
		if err != nil {
			t.Fatal(err)
		}
		var spelt strings.Builder
		for _, p := range positions {
			spelt.WriteString(model.TokenText(prompt[p]))
		}
		if spelt.String() != want {
			t.Errorf("%q: the tokens spell %q, not %q", text, spelt.String(), want)
		}
	}
	if _, err := tr.markerTokens("nothing here", mustTokens(t, tokens, "nothing here")); err == nil {
		t.Error("a marker in nothing")
	}
}

// A pair that was not traced to its end is no record, not even one with an error; with more time it is one.
func TestTraceCancelled(t *testing.T) {
	model, session, tokens := openTiny(t, 6)
	lexicon, err := dialect.PaperLexicon()
	if err != nil {
		t.Fatal(err)
	}
	tr := tracer{&scoringModel{model: model, session: session, tokens: tokens}, lexicon, 1}
	t.Cleanup(func() {
		for _, worker := range tr.side {
			worker.Close()
		}
	})
	pair := dialect.Pair{ID: "1", AAE: "I'm finna go to them shops", SAE: "I am going to go to those shops"}
	if err := pair.Cut(4, 2); err != nil {
		t.Fatal(err)
	}
	dir := newRun(t)
	run, err := record.Create(dir, record.Run{Benchmark: dialect.TraceBenchmark, Items: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tr.pair(cancelled, session, &pair); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled pair: %v", err)
	}
	if err := tr.trace(cancelled, []dialect.Pair{pair}, run, newProgress(io.Discard, 1, 0)); !errors.Is(err, context.Canceled) || run.Done() != 0 {
		t.Errorf("a cancelled trace: %v, %d records", err, run.Done())
	}
	r, err := tr.pair(context.Background(), session, &pair)
	if err != nil || r.Error != "" || r.Trace == nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func mustTokens(t *testing.T, tokens tokenizer, text string) []bindings.Token {
	t.Helper()
	list, err := tokens.tokens(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// From the trace to the sweep, with what else takes the file; and a trace that was cut goes on to the same bytes.
func TestDialectSteering(t *testing.T) {
	ownCache(t)
	model, trace, dir := tinyModelFile(t, tinyModel{seed: 7}), newRun(t), t.TempDir()
	traceAgain := []string{"steer", "trace", "--threads", "1", "--bootstrap", "10", "--model", model, "--sample", "4", "--out", trace}
	out, _ := mustPlumb(t, traceAgain...)
	contains(t, out, "Causal trace: tiny.gguf", "Layer", "Report: ")
	run, items := readRun(t, trace)
	if again, _ := mustPlumb(t, "report", "--bootstrap", "10", trace); again != out {
		t.Errorf("plumb report prints the trace as\n%s", again)
	}
	if run.Items != 4 || run.Dialect.Split != dialect.SplitTracing || run.Dialect.Noise != 3 {
		t.Fatalf("%+v %+v", run, run.Dialect)
	}
	for _, r := range items {
		if r.Error != "" || r.Trace == nil || len(r.Trace.Effects) != tinyLayers || len(r.Trace.Effects[0]) != len(r.Trace.Positions) || !(r.Trace.Sigma > 0) {
			t.Errorf("%+v", r)
		}
	}
	before := readFile(t, filepath.Join(trace, record.ItemsFile))
	if err := os.Truncate(filepath.Join(trace, record.ItemsFile), int64(len(before)-20)); err != nil {
		t.Fatal(err)
	}
	mustPlumb(t, append(traceAgain, "--resume")...)
	if string(readFile(t, filepath.Join(trace, record.ItemsFile))) != string(before) {
		t.Error("the trace that went on is another")
	}

	fitted := filepath.Join(dir, "dialect.gguf")
	fit := []string{"steer", "fit", "--threads", "1", "--model", model, "--method", "dialect", "--out", dir}
	if out, _, err := plumb(append(fit, "--trace", trace)...); err == nil {
		contains(t, out, "dialect")
	} else { // a random model may have no layer that helps
		contains(t, err.Error(), "no R is negative")
	}
	mustPlumb(t, append(fit, "--layer", "0,1", "--sample", "5")...)
	if file, err := steer.ReadFile(fitted); err != nil || file.Fit.Items != 5 {
		t.Errorf("%+v, %v", file, err)
	}
	mustPlumb(t, append(fit, "--layer", "0,1")...)
	file, err := steer.ReadFile(fitted)
	if err != nil {
		t.Fatal(err)
	}
	if file.Method != steer.Dialect || len(file.Layers) != 2 || file.Layers[0].Weight != 0.5 || math.Abs(file.Layers[1].Norm-1) > 1e-6 || file.Fit.Seed != 1 {
		t.Errorf("%+v", file)
	}
	norm := 0.0
	for _, x := range file.Layers[0].Vector {
		norm += float64(x) * float64(x)
	}
	if math.Abs(math.Sqrt(norm)-0.5) > 1e-6 {
		t.Errorf("strength 1 adds a vector of length %v, not the weight", math.Sqrt(norm))
	}
	_, _, err = plumb("steer", "export", fitted, "--out", filepath.Join(dir, "control.gguf"))
	refused(t, err, exitFailed, "layer 0")

	sweep := filepath.Join(dir, "sweep")
	sweepAgain := []string{"steer", "sweep", "dialect", "--threads", "1", "--bootstrap", "10", "--model", model, "--steer", fitted, "--beta", "0,0.5", "--sample", "8", "--out", sweep}
	out, _ = mustPlumb(t, sweepAgain...)
	contains(t, out, "Several layers, weighted (layers 0, 1)", "The heaviest layer alone", "Prompting baseline", "instructed", "With intervals", "Report: ")
	if again, _ := mustPlumb(t, "report", "--bootstrap", "10", sweep); again != out {
		t.Errorf("plumb report prints the sweep as\n%s", again)
	}
	steered, _ := readRun(t, filepath.Join(sweep, "multi-0.5"))
	if steered.Steering == nil || steered.Steering.Strength != 0.5 || steered.Dialect.Split != dialect.SplitEvaluation {
		t.Errorf("%+v", steered)
	}
	// The instruction chooses nothing, so that it is tried on the pairs reported alone: a part of the others, in their order.
	prompted, instructed := readRun(t, filepath.Join(sweep, "prompt"))
	_, steeredItems := readRun(t, filepath.Join(sweep, "multi-0.5"))
	if !prompted.Dialect.ReportedOnly || len(instructed) == 0 || len(instructed) >= len(steeredItems) {
		t.Errorf("%+v: %d items of %d", prompted.Dialect, len(instructed), len(steeredItems))
	}
	for at, i := 0, 0; i < len(instructed); at++ {
		if at == len(steeredItems) {
			t.Fatalf("%s is not among the steered runs' items", instructed[i].ID)
		}
		if steeredItems[at].ID == instructed[i].ID {
			i++
		}
	}
	// All strengths are scored together; each alone gives the same, and a sweep that was cut goes on to the same bytes.
	alone := newRun(t)
	mustPlumb(t, auditDialect(model, alone, "--sample", "8", "--steer", fitted, "--alpha", "0.5")...)
	_, together := readRun(t, filepath.Join(sweep, "multi-0.5"))
	_, items = readRun(t, alone)
	for i, r := range items {
		for k, o := range r.Options {
			if other := together[i].Options[k]; together[i].ID != r.ID || math.Abs(o.Sum-other.Sum) > 1e-3 {
				t.Errorf("%s: %v alone, %s: %v in the sweep", r.ID, o.Sum, together[i].ID, other.Sum)
			}
		}
	}
	cut := filepath.Join(sweep, "single-0.5", record.ItemsFile)
	before = readFile(t, cut)
	if err := os.Truncate(cut, int64(len(before)/2)); err != nil {
		t.Fatal(err)
	}
	again, _ := mustPlumb(t, append(sweepAgain, "--resume")...)
	if again != out || string(readFile(t, cut)) != string(before) {
		t.Error("the sweep that went on is another")
	}
	out, _ = mustPlumb(t, "compare", filepath.Join(sweep, "base"), filepath.Join(sweep, "multi-0.5"), filepath.Join(sweep, "prompt"))
	contains(t, out, "dialect.gguf × 0.5", "instructed")
	mustPlumb(t, auditBBQ(model, newRun(t), "--data", bbqItems(t, 4), "--steer", fitted, "--alpha", "0.4")...)

	unmarked := filepath.Join(dir, "unmarked.tsv")
	if err := os.WriteFile(unmarked, []byte("no marker here\tnone here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		arguments []string
		status    int
		want      string
	}{
		{[]string{"fit", "--method", "dialect", "--model", model}, exitUsage, "needs --trace DIR"},
		{[]string{"fit", "--method", "dialect", "--model", model, "--trace", sweep}, exitFailed, "is not a run directory"},
		{[]string{"fit", "--method", "dialect", "--model", model, "--layer", "0", "--operator", "project"}, exitUsage, "dialect directions are added"},
		{[]string{"fit", "--method", "dialect", "--model", model, "--layer", "0", "--strata", "3"}, exitUsage, "--strata is of other methods"},
		{[]string{"fit", "--method", "dialect,gcd", "--model", model}, exitUsage, "fitted by itself"},
		{[]string{"trace", "--model", model, "--data", unmarked, "--out", filepath.Join(dir, "none")}, exitFailed, "whose AAE context holds a marker"},
		{[]string{"sweep", "dialect", "--model", model}, exitUsage, "--steer FILE"},
		{[]string{"sweep", "dialect", "--model", model, "--steer", fitted, "--beta", "1"}, exitUsage, "0 must be among"},
		{[]string{"sweep", "dialect", "--model", model, "--steer", fitted, "--sample", "1", "--out", filepath.Join(dir, "few")}, exitFailed, "quarter"},
		{[]string{"sweep", "dialect", "--model", model, "--steer", fitted, "--sample", "-2"}, exitUsage, "not negative"},
		{[]string{"trace", "--model", model, "--sample", "-2"}, exitUsage, "not negative"},
		{[]string{"fit", "--method", "dialect", "--model", model, "--layer", "0", "--sample", "-2"}, exitUsage, "not negative"},
	} {
		_, _, err := plumb(append([]string{"steer"}, test.arguments...)...)
		refused(t, err, test.status, test.want)
	}
}

// Sizes of the parts that were asked for go from the trace to the file and to the audit under it.
func TestDialectSplitSizes(t *testing.T) {
	ownCache(t)
	model, trace, dir, audit := tinyModelFile(t, tinyModel{seed: 7}), newRun(t), t.TempDir(), newRun(t)
	sizes := []string{"--threads", "1", "--model", model, "--split-sizes", "3/6/5"}
	mustPlumb(t, append([]string{"steer", "trace", "--out", trace}, sizes...)...)
	if run, _ := readRun(t, trace); run.Items != 3 || run.Dialect.SplitSizes != "3/6/5" {
		t.Errorf("%+v", run.Dialect)
	}
	fit := []string{"steer", "fit", "--method", "dialect", "--threads", "1", "--model", model, "--out", dir}
	_, _, err := plumb(append(fit, "--trace", trace)...)
	refused(t, err, exitFailed, "give the same --split-seed and --split-sizes")
	mustPlumb(t, append(fit, "--layer", "1", "--split-sizes", "3/6/5")...)
	fitted := filepath.Join(dir, "dialect.gguf")
	if file, err := steer.ReadFile(fitted); err != nil || file.Fit.Items != 6 || file.Fit.SplitSizes != "3/6/5" {
		t.Errorf("%+v, %v", file, err)
	}
	_, notes := mustPlumb(t, "audit", "dialect", "--threads", "1", "--model", model, "--steer", fitted, "--bootstrap", "10", "--out", audit)
	contains(t, notes, "the evaluation part")
	if run, _ := readRun(t, audit); run.Dialect.SplitSizes != "3/6/5" {
		t.Errorf("%+v", run.Dialect)
	}
	mustPlumb(t, auditDialect(model, newRun(t), "--steer", fitted, "--split", "tracing", "--sample", "1")...)
	evaluation := newRun(t)
	mustPlumb(t, auditDialect(model, evaluation, "--steer", fitted, "--split", "evaluation", "--sample", "1")...)
	if run, _ := readRun(t, evaluation); run.Dialect.SplitSizes != "3/6/5" {
		t.Errorf("%+v", run.Dialect)
	}
	for _, other := range [][]string{{"--split-seed", "2"}, {"--split-sizes", "3/6/6"}} {
		_, _, err = plumb(auditDialect(model, newRun(t), append(other, "--steer", fitted)...)...)
		refused(t, err, exitUsage, "leave out --split-seed and --split-sizes")
	}
	_, _, err = plumb(append([]string{"steer", "trace"}, "--model", model, "--split-sizes", "3/6", "--out", newRun(t))...)
	refused(t, err, exitUsage, "--split-sizes")
	_, _, err = plumb(append([]string{"steer", "trace"}, "--threads", "1", "--model", model, "--split-sizes", "3/60/500", "--out", newRun(t))...)
	refused(t, err, exitFailed, "too few pairs")
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// What a lexicon calls a slur is masked in a trace and in a sweep too, unless asked for.
func TestDialectSteeringMasked(t *testing.T) {
	ownCache(t)
	model, dir := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir()
	lexicon := filepath.Join(dir, "lexicon.tsv")
	if err := os.WriteFile(lexicon, []byte("class\tmarker\tslur\nAuxiliary\tfinna\tfinna\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := dialectPairs(t, 12)
	with := func(arguments ...string) []string {
		return append(arguments, "--threads", "1", "--model", model, "--data", data, "--split-sizes", "1/3/8", "--lexicon", lexicon)
	}
	fitted := filepath.Join(dir, "dialect.gguf")
	mustPlumb(t, with("steer", "fit", "--method", "dialect", "--layer", "1", "--out", dir)...)
	for _, arguments := range [][]string{
		with("steer", "trace", "--bootstrap", "2", "--json"),
		{"steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", data, "--lexicon", lexicon, "--steer", fitted, "--beta", "0,1", "--bootstrap", "2", "--json"},
	} {
		out := newRun(t)
		text, _ := mustPlumb(t, append(arguments, "--out", out)...)
		if strings.Contains(text, "finna") {
			t.Errorf("plumb %s prints the slur", strings.Join(arguments[:3], " "))
		}
		contains(t, text, "f***a")
		if strings.Contains(text, `"failures": null`) {
			t.Errorf("plumb %s prints no list of failures", strings.Join(arguments[:3], " "))
		}
		text, _ = mustPlumb(t, append(arguments, "--out", out, "--resume", "--unmasked")...)
		contains(t, text, `"finna"`)
	}
}

// The pairs that a file was fitted on are never among those of a sweep or of an audit under it: another lexicon, which deals
// the pairs out otherwise, is refused, and other data is warned about.
func TestDialectPartsOfAnotherLexicon(t *testing.T) {
	ownCache(t)
	model, dir := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir()
	lexicon, data, fitted := filepath.Join(dir, "lexicon.tsv"), dialectPairs(t, 12), filepath.Join(dir, "dialect.gguf")
	if err := os.WriteFile(lexicon, []byte("class\tmarker\nNumber\t7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(data string, arguments ...string) []string {
		return append(arguments, "--threads", "1", "--model", model, "--data", data)
	}
	mustPlumb(t, with(data, "steer", "fit", "--method", "dialect", "--layer", "1", "--lexicon", lexicon, "--out", dir)...)
	for _, arguments := range [][]string{
		{"steer", "sweep", "dialect", "--steer", fitted, "--beta", "0,1", "--bootstrap", "2"},
		{"audit", "dialect", "--steer", fitted, "--wording", "best", "--bootstrap", "2"},
	} {
		_, _, err := plumb(with(data, append(arguments, "--out", newRun(t))...)...)
		refused(t, err, exitFailed, "was fitted on another part of these pairs")
		mustPlumb(t, with(data, append(arguments, "--lexicon", lexicon, "--out", newRun(t))...)...)
		_, notes := mustPlumb(t, with(dialectPairs(t, 13), append(arguments, "--out", newRun(t))...)...)
		contains(t, notes, "was fitted on other data (pairs.jsonl)")
	}
}

// A sweep's report says of the pairs that the steering was fitted on what is known, and no more, in every form.
func TestDialectSweepFittedOn(t *testing.T) {
	ownCache(t)
	model, dir, data := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir(), dialectPairs(t, 12)
	mustPlumb(t, "steer", "fit", "--method", "dialect", "--layer", "1", "--threads", "1", "--model", model, "--data", data, "--out", dir)
	fitted := filepath.Join(dir, "dialect.gguf")
	changed := func(name string, change func(f *steer.Fit)) string {
		file, err := steer.ReadFile(fitted)
		if err != nil {
			t.Fatal(err)
		}
		change(&file.Fit)
		path := filepath.Join(dir, name)
		if err := file.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	silent := changed("silent.gguf", func(f *steer.Fit) { *f = steer.Fit{Seed: f.Seed} })
	partless := changed("partless.gguf", func(f *steer.Fit) { f.PartSHA256 = "" })
	const apart, elsewhere, unknown = "the directions were not fitted on it, and if a trace chose the layers, it saw none of it.", "were fitted on other data; ", "It is not known which pairs"
	for _, test := range []struct{ file, data, says, json, notes string }{
		{fitted, data, apart, `"fitted": "other pairs"`, ""},
		{fitted, dialectPairs(t, 13), elsewhere, `"fitted": "other data"`, "was fitted on other data (pairs.jsonl)"},
		{partless, data, unknown, `"fitted": "unknown"`, "does not say which of these pairs it was fitted on"},
		{silent, data, unknown, `"fitted": "unknown"`, "does not say what it was fitted on"},
	} {
		out := newRun(t)
		table, notes := mustPlumb(t, "steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", test.data, "--steer", test.file, "--beta", "0,1", "--bootstrap", "2", "--out", out)
		contains(t, notes, test.notes)
		markdown, _ := mustPlumb(t, "report", "--bootstrap", "2", "--markdown", out)
		json, _ := mustPlumb(t, "report", "--bootstrap", "2", "--json", out)
		contains(t, json, test.json)
		for _, text := range []string{table, markdown, string(readFile(t, filepath.Join(out, "report.html")))} {
			contains(t, text, test.says)
			for _, other := range []string{apart, elsewhere, unknown} {
				if other != test.says && strings.Contains(text, other) {
					t.Errorf("%s also says %q", filepath.Base(test.file), other)
				}
			}
		}
	}
}

// Directions of the residual stream's norms add that many times what unit directions add, and the sweep says so.
func TestDialectInUnitsOfTheResidualStream(t *testing.T) {
	ownCache(t)
	model, dir, data := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir(), dialectPairs(t, 12)
	files := map[string]*steer.File{}
	for name, more := range map[string][]string{"unit": nil, "residual": {"--residual-norms"}} {
		out := filepath.Join(dir, name)
		table, _ := mustPlumb(t, append([]string{"steer", "fit", "--method", "dialect", "--layer", "0,1", "--threads", "1", "--model", model, "--data", data, "--out", out}, more...)...)
		file, err := steer.ReadFile(filepath.Join(out, "dialect.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
		if strings.Contains(table, "residual stream\n") != (name == "residual") {
			t.Errorf("%s: %s", name, table)
		}
		sweep, _ := mustPlumb(t, "steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", data, "--steer", filepath.Join(out, "dialect.gguf"),
			"--beta", "0,1", "--bootstrap", "2", "--out", filepath.Join(out, "sweep"))
		contains(t, sweep, map[string]string{"unit": "β multiplies directions of norm 1", "residual": "β is in units of the residual stream's mean norm"}[name])
	}
	for l, unit := range files["unit"].Layers {
		long := files["residual"].Layers[l]
		if math.Abs(unit.Norm-1) > 1e-12 || !(long.Norm > 1.1) {
			t.Errorf("layer %d: norms %v and %v", unit.Layer, unit.Norm, long.Norm)
		}
		for i := range unit.Vector {
			if got, want := float64(long.Vector[i]), float64(unit.Vector[i])*long.Norm; math.Abs(got-want) > 1e-6*long.Norm {
				t.Fatalf("layer %d: %v at %d, want %v", unit.Layer, got, i, want)
			}
		}
	}
	_, _, err := plumb("steer", "fit", "--model", model, "--residual-norms")
	refused(t, err, exitUsage, "--residual-norms is of the method dialect")
}

// In a sweep, one layer alone has weight 1, whatever its weight among several.
func TestDialectSweepOfOneLayer(t *testing.T) {
	ownCache(t)
	model, dir, data := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir(), dialectPairs(t, 12)
	mustPlumb(t, "steer", "fit", "--method", "dialect", "--layer", "0,1", "--threads", "1", "--model", model, "--data", data, "--out", dir)
	file, sweep, alone := filepath.Join(dir, "dialect.gguf"), filepath.Join(dir, "sweep"), newRun(t)
	mustPlumb(t, "steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", data, "--steer", file, "--beta", "0,0.5", "--bootstrap", "2", "--out", sweep)
	// the two layers have weight 1/2 each
	mustPlumb(t, auditDialect(model, alone, "--data", data, "--split", "evaluation", "--wording", "best", "--steer", file, "--layer", "0", "--alpha", "1")...)
	_, want := readRun(t, alone)
	_, got := readRun(t, filepath.Join(sweep, "single-0.5"))
	for i := range want {
		if !reflect.DeepEqual(got[i].Options, want[i].Options) {
			t.Errorf("%s: %+v, want %+v", want[i].ID, got[i].Options, want[i].Options)
		}
	}
	json, _ := mustPlumb(t, "report", "--json", sweep)
	contains(t, json, `"strategy": "single",
      "beta": 0.5,`)
}

// A sweep that goes on with other strengths is of those, also when it is printed again; a run of it that is missing is named, and
// so is what a sweep is not for.
func TestDialectSweepOfOtherStrengths(t *testing.T) {
	ownCache(t)
	model, dir, data, out := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir(), dialectPairs(t, 12), newRun(t)
	mustPlumb(t, "steer", "fit", "--method", "dialect", "--layer", "1", "--threads", "1", "--model", model, "--data", data, "--out", dir)
	fitted := filepath.Join(dir, "dialect.gguf")
	sweep := func(betas string, more ...string) []string {
		return append([]string{"steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", data,
			"--steer", fitted, "--beta", betas, "--bootstrap", "2", "--out", out}, more...)
	}
	mustPlumb(t, sweep("0,0.5,1")...)
	_, _, err := plumb(sweep("0,2")...)
	refused(t, err, exitFailed, out+" already holds a sweep; go on with it by --resume")
	printed, _ := mustPlumb(t, sweep("0,2", "--resume")...)
	again, _ := mustPlumb(t, "report", "--bootstrap", "2", out)
	if again != printed || strings.Contains(again, "│ 0.5 ") || !strings.Contains(again, "│ 2 ") {
		t.Errorf("printed again it is\n%s, not\n%s", again, printed)
	}
	alone, _ := mustPlumb(t, sweep("0", "--resume")...)
	contains(t, alone, "Nothing is steered here: 0 is the only strength.")
	for _, never := range []string{"directions of norm 1", "fitted on", "alone\n"} {
		if strings.Contains(alone, never) {
			t.Errorf("unsteered, it says %q", never)
		}
	}
	mustPlumb(t, sweep("0,2", "--resume")...)
	if err := os.RemoveAll(filepath.Join(out, "single-2")); err != nil {
		t.Fatal(err)
	}
	trace := newRun(t)
	mustPlumb(t, "steer", "trace", "--threads", "1", "--model", model, "--data", data, "--split-sizes", "2/4/4", "--bootstrap", "2", "--out", trace)
	bbq := smallRun(t)
	base := filepath.Join(out, "base")
	for _, test := range []struct {
		arguments []string
		status    int
		want      string
	}{
		{[]string{"report", out}, exitFailed, filepath.Join(out, "single-2") + " of the sweep is missing"},
		{[]string{"report", "--no-text", newRun(t), out}, exitFailed, out + " is a sweep of several runs"},
		{[]string{"gate", out}, exitFailed, out + " is a sweep of dialect audits"},
		{[]string{"compare", base, out}, exitFailed, out + " is a sweep of several runs; compare those in it: " + base},
		{[]string{"compare", trace, trace}, exitFailed, trace + " is a causal trace"},
		{[]string{"compare", base, trace}, exitFailed, trace + " is a causal trace"},
		{[]string{"compare", base, bbq}, exitFailed, bbq + ` is a run of benchmark "bbq" and ` + base + ` of "dialect"`},
		{sweep("0,1,1"), exitUsage, "1 stands there twice"},
	} {
		_, _, err := plumb(test.arguments...)
		refused(t, err, test.status, test.want)
	}
	_, notes := mustPlumb(t, auditBBQ(model, newRun(t), "--data", bbqItems(t, 4), "--steer", fitted)...)
	contains(t, notes, "was fitted on pairs of sentences (dialect: direction of pairs.jsonl), not on items: all items are audited")
}

// A sweep does not take an audit's run for its own unasked, nor one that asked otherwise, which it says.
func TestDialectSweepRefusesAnotherBase(t *testing.T) {
	ownCache(t)
	model, dir, data, out := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir(), dialectPairs(t, 12), newRun(t)
	mustPlumb(t, "steer", "fit", "--method", "dialect", "--layer", "1", "--threads", "1", "--model", model, "--data", data, "--out", dir)
	base := filepath.Join(out, "base")
	mustPlumb(t, "audit", "dialect", "--threads", "1", "--model", model, "--data", data, "--split", "evaluation", "--bootstrap", "2", "--out", base)
	sweep := []string{"steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", data, "--steer", filepath.Join(dir, "dialect.gguf"), "--beta", "0,1", "--out", out}
	_, _, err := plumb(sweep...)
	refused(t, err, exitFailed, base+" already holds a run; go on from it by --resume")
	_, _, err = plumb(append(sweep, "--resume")...)
	refused(t, err, exitFailed, base+` holds another run: dialect.wordings was ["best","likely","stylistic"], now ["best"]`)
}

// An audit of the evaluation part is the unsteered run of a sweep that finds it there: the sweep ends in the bytes of one that
// made its own.
func TestDialectSweepGoesOnFromAnAudit(t *testing.T) {
	ownCache(t)
	model, dir, data := tinyModelFile(t, tinyModel{seed: 7}), t.TempDir(), dialectPairs(t, 12)
	mustPlumb(t, "steer", "fit", "--method", "dialect", "--layer", "1", "--threads", "1", "--model", model, "--data", data, "--out", dir)
	sweep := func(out string) []string {
		return []string{"steer", "sweep", "dialect", "--threads", "1", "--model", model, "--data", data,
			"--steer", filepath.Join(dir, "dialect.gguf"), "--beta", "0,1", "--bootstrap", "2", "--out", out}
	}
	whole, after := newRun(t), newRun(t)
	mustPlumb(t, sweep(whole)...)
	base := filepath.Join(after, "base")
	mustPlumb(t, auditDialect(model, base, "--data", data, "--split", "evaluation", "--wording", "best")...)
	audited := readFile(t, filepath.Join(base, record.ItemsFile))
	_, notes := mustPlumb(t, append(sweep(after), "--resume")...)
	contains(t, notes, "going on after 21 of 77 items") // of all four runs: one of the three pairs is not asked with the instruction
	if !bytes.Equal(audited, readFile(t, filepath.Join(base, record.ItemsFile))) {
		t.Error("the audit's items changed")
	}
	for _, run := range []string{"base", "multi-1", "single-1", "prompt"} {
		for _, file := range []string{record.RunFile, record.ItemsFile} {
			if !bytes.Equal(readFile(t, filepath.Join(whole, run, file)), readFile(t, filepath.Join(after, run, file))) {
				t.Errorf("%s of %s differs", file, run)
			}
		}
	}
}

// dialectPairs is a file of n pairs, cut, with a marker in every AAE context.
func dialectPairs(t *testing.T, n int) string {
	t.Helper()
	var pairs []dialect.Pair
	for i := range n {
		p := dialect.Pair{ID: fmt.Sprint(i), AAE: fmt.Sprintf("I'm finna go to %d them shops", i), SAE: fmt.Sprintf("I am going to go to %d of those shops", i)}
		if err := p.Cut(6, 4); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p)
	}
	path := filepath.Join(t.TempDir(), "pairs.jsonl")
	if err := corpus.WriteFile(path, func(w io.Writer) error { return dialect.WriteJSONLines(w, pairs) }); err != nil {
		t.Fatal(err)
	}
	return path
}
