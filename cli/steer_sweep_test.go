package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"plumb/audit/protocol"
	"plumb/audit/record"
)

// fittedFiles fits directions for the tiny model on the built-in sample, and returns their folder.
func fittedFiles(t *testing.T, model string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "directions")
	if err := os.WriteFile(dir+".prompt", []byte("{{.Question}}"), 0o644); err != nil { // short, as the tests must be
		t.Fatal(err)
	}
	mustPlumb(t, "steer", "fit", "--threads", "1", "--model", model, "--sample", "24", "--prompt", dir+".prompt", "--pooled",
		"--method", "contrast,stratified", "--layer", "all", "--out", dir)
	return dir
}

// sweepOf is the command line of a small sweep.
func sweepOf(model, files, out string, more ...string) []string {
	return append([]string{"steer", "sweep", "--threads", "1", "--model", model, "--sample", "24", "--prompt", files + ".prompt", "--out", out,
		"--steer", filepath.Join(files, "contrast.gguf"), "--steer", filepath.Join(files, "stratified.gguf"),
		"--alpha", "1,4", "--operator", "project,add", "--sign", "+,-", "--placebos", "3"}, more...)
}

// shortSweep is the command line of one with two configurations.
func shortSweep(model, files, out string, more ...string) []string {
	return append([]string{"steer", "sweep", "--threads", "1", "--model", model, "--sample", "24", "--prompt", files + ".prompt", "--out", out,
		"--steer", filepath.Join(files, "contrast.gguf"), "--layer", "1", "--alpha", "1,4", "--placebos", "2", "--bootstrap", "5"}, more...)
}

// fittedByCategory fits the same methods on each category alone.
func fittedByCategory(t *testing.T, model, files string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "by-category")
	mustPlumb(t, "steer", "fit", "--threads", "1", "--model", model, "--sample", "24", "--prompt", files+".prompt",
		"--method", "contrast,stratified", "--strata", "1", "--layer", "all", "--out", dir)
	return dir
}

// sameTree compares all files of two directories.
func sameTree(t *testing.T, a, b string) {
	t.Helper()
	files := func(dir string) map[string]string {
		list := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			list[name] = string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	one, other := files(a), files(b)
	if len(one) != len(other) {
		t.Errorf("%d files in %s, %d in %s", len(one), a, len(other), b)
	}
	for name, content := range one {
		if other[name] != content {
			t.Errorf("%s: %d bytes in %s, other %d bytes in %s", name, len(content), a, len(other[name]), b)
		}
	}
}

func TestSteerSweep(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	files, dir := fittedFiles(t, model), newRun(t)
	text := textFile(t, strings.Repeat("Some words of a text.\n", 10))
	out, notes := mustPlumb(t, sweepOf(model, files, dir, "--oracle", "--prompt-only", "--wording", "--out-of-domain", fittedByCategory(t, model, files),
		"--mmlu", textFile(t, mmluFile), "--wikitext", text, "--segments", "5")...)
	contains(t, out, "Sweep of 24 interventions: tiny.gguf", "Verdict", "zero strength", "prompt only", "oracle", "3 random directions, median",
		"Capability of the selected construction", "Capability knee", "The passage leaves this open", "Fitted on")
	contains(t, notes, "plumb: 24 configurations on ")
	for _, name := range []string{"report.html", "report.md", "configurations.csv", "sweep.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	run, items := readRun(t, filepath.Join(dir, protocol.FitStage))
	n := len(items) / 25
	if len(run.Steerings) != 24 || n == 0 || len(items) != n*25 || run.Items != len(items) || items[len(items)-1].Steering != 24 {
		t.Fatalf("%d steerings, %d records", len(run.Steerings), len(items))
	}
	// Every item under every steering, and nothing of one half on the other.
	templates := map[string]bool{}
	seen := map[int]map[string]bool{}
	for _, item := range items {
		templates[item.Template] = true
		if seen[item.Steering] == nil {
			seen[item.Steering] = map[string]bool{}
		}
		seen[item.Steering][item.ID] = true
	}
	for k := range 25 {
		if len(seen[k]) != n {
			t.Errorf("steering %d has %d items", k, len(seen[k]))
		}
	}
	_, held := readRun(t, filepath.Join(dir, protocol.HeldStage))
	for _, item := range held {
		if templates[item.Template] {
			t.Fatalf("%s is on both halves", item.ID)
		}
	}
	// At strength zero nothing moves, by any bit, although a replay computes it.
	s, err := protocol.Load(dir, protocol.Options{Draws: 5})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range s.Held.Rows {
		if row.Steering.Strength != 0 {
			continue
		}
		for k, item := range s.Held.Runs[i].Items {
			before := s.Held.Base.Items[k]
			if item.Choice != before.Choice || item.Scores != before.Scores {
				t.Errorf("%s: strength zero moved the scores from %+v to %+v", item.ID, s.Held.Base.Items[k].Scores, item.Scores)
			}
		}
	}
	// The instruction to abstain follows the question.
	abstaining, _ := readRun(t, filepath.Join(dir, protocol.PromptOnly))
	if p := abstaining.Prompt.Template; !strings.HasPrefix(p, "{{.Question}}\nIf the text does not say") {
		t.Errorf("the prompt is %q", p)
	}
	// The matrix is whole, and its rows are of different directions.
	categories := map[string]bool{}
	for _, item := range s.Held.Base.Items {
		categories[item.Category] = true
	}
	transfers := s.Transfers()
	if n := len(categories); n < 2 || len(transfers) != n*n {
		t.Errorf("%d categories, a matrix of %d", n, len(transfers))
	}
	own := map[string]bool{}
	for _, c := range s.Held.Comparisons {
		if strings.Contains(c.Steered.Steering.Name, "/") {
			own[c.Steered.Steering.SHA256] = true
		}
	}
	if len(own) != len(categories) {
		t.Errorf("%d different directions for %d categories", len(own), len(categories))
	}
	// Of the wordings only the unknown option's text differs.
	for _, w := range s.Wordings[1:] {
		run, worded := readRun(t, filepath.Join(dir, w.Stage()))
		if len(run.Steerings) != 1 || run.Steerings[0].Half != "held-out" || len(worded) != 2*len(s.Held.Base.Items) {
			t.Fatalf("%s: %d records, %+v", w.Name, len(worded), run.Steerings)
		}
		original := map[string]record.Record{}
		for _, item := range held {
			original[item.ID] = item
		}
		for _, item := range worded {
			for k, option := range item.Options {
				want := original[item.ID].Options[k].Text
				if option.Role == record.Unknown {
					want = w.Text
				}
				if option.Text != want || item.Text != original[item.ID].Text {
					t.Errorf("%s: %q in place of %q", item.ID, option.Text, want)
				}
			}
		}
	}
	// What the audit of one configuration says by itself.
	alone := newRun(t)
	steering := s.Steering()
	mustPlumb(t, auditBBQ(model, alone, "--sample", "24", "--prompt", files+".prompt", "--steer", filepath.Join(files, steering.Name), "--layer", "1", "--alpha", "4", "--half", "fit")...)
	_, audited := readRun(t, alone)
	for k, other := range run.Steerings {
		if other.Name != steering.Name || other.Layers[0] != 1 || other.Strength != 4 || other.Operator != "project" {
			continue
		}
		for _, item := range items {
			if item.Steering != k+1 {
				continue
			}
			for _, one := range audited {
				if one.ID == item.ID && math.Abs(one.Options[0].Sum-item.Options[0].Sum) > 1e-3 {
					t.Errorf("%s: %v in an audit, %v in the sweep", one.ID, one.Options[0].Sum, item.Options[0].Sum)
				}
			}
		}
	}
	again, _ := mustPlumb(t, "report", dir)
	if again != out {
		t.Errorf("plumb report prints another text:\n%s", again)
	}
	sum, _ := mustPlumb(t, "report", dir, "--read-out", "sum", "--json")
	var parsed struct{ Fit, Held []any }
	if err := json.Unmarshal([]byte(sum), &parsed); err != nil || len(parsed.Fit) != 24 {
		t.Errorf("%v, %d rows", err, len(parsed.Fit))
	}
}

// On a quantised model too a replayed block gives the decoded one's bits: what moves under a strength is not rounding.
func TestZeroStrengthIsTheBaseOfAQuantisedModel(t *testing.T) {
	model, files, dir := smollm2(t), newRun(t), newRun(t)
	mustPlumb(t, "steer", "fit", "--threads", "1", "--model", model, "--sample", "8", "--pooled", "--method", "random", "--layer", "22,27", "--out", files)
	mustPlumb(t, "steer", "sweep", "--threads", "1", "--model", model, "--sample", "8", "--steer", filepath.Join(files, "random.gguf"),
		"--operator", "project,add", "--alpha", "0,8", "--placebos", "1", "--bootstrap", "5", "--out", dir)
	for _, stage := range []string{protocol.FitStage, protocol.HeldStage} {
		run, items := readRun(t, filepath.Join(dir, stage))
		base := map[string]record.Record{}
		moved := 0
		for _, item := range items {
			if item.Steering == 0 {
				base[item.ID] = item
			}
		}
		for _, item := range items {
			if item.Steering == 0 {
				continue
			}
			same := reflect.DeepEqual(item.Options, base[item.ID].Options)
			switch zero := run.Steerings[item.Steering-1].Strength == 0; {
			case zero && !same:
				t.Errorf("%s: strength zero moved %+v to %+v", item.ID, base[item.ID].Options, item.Options)
			case !zero && !same:
				moved++
			}
		}
		if moved == 0 {
			t.Errorf("%s: nothing moved the scores", stage)
		}
	}
}

// The gate's answer is an exit status, and its thresholds decide.
func TestGate(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	files, dir := fittedFiles(t, model), newRun(t)
	mustPlumb(t, shortSweep(model, files, dir)...)
	_, _, err := plumb("gate", dir)
	refused(t, err, exitGate, "Rejected: ", "capability knee not measured")
	loose := textFile(t, `{"composition_share": 1000, "placebo_p": 1, "abs_s_dis": false}`)
	out, _, err := plumb("gate", dir, "--thresholds", loose, "--json")
	refused(t, err, exitGate, "capability knee not measured")
	var verdict protocol.Verdict
	if err := json.Unmarshal([]byte(out), &verdict); err != nil || verdict.Accepted || len(verdict.Checks) != 3 || verdict.Thresholds.PlaceboP != 1 {
		t.Errorf("%v, %+v", err, verdict)
	}
	for name, test := range map[string]struct{ content, want string }{
		"no JSON":       {"x", "text: not thresholds: "},
		"unknown":       {`{"fairness": 1}`, `text: not thresholds: unknown field "fairness"`},
		"a probability": {`{"placebo_p": 5}`, "text: placebo_p is 5, not a probability"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := plumb("gate", dir, "--thresholds", textFile(t, test.content))
			refused(t, err, exitFailed, test.want)
		})
	}
	_, _, err = plumb("report", filepath.Join(dir, "fit"))
	refused(t, err, exitFailed, filepath.Join(dir, "fit")+" was scored under 2 interventions; see plumb compare, or plumb report with the directory of the sweep that it is a stage of")
	_, _, err = plumb("gate", files)
	refused(t, err, exitFailed, files+" is not the directory of a sweep: it holds no sweep.json")
	_, _, err = plumb("gate")
	refused(t, err, exitUsage, "gate takes one sweep directory")
}

// Killed by SIGKILL at several moments and resumed, a sweep leaves the bytes of one that was not.
func TestSteerSweepKilledAndResumed(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	files, whole, dir := fittedFiles(t, model), newRun(t), newRun(t)
	text := textFile(t, strings.Repeat("Some words of a text.\n", 10))
	more := []string{"--wikitext", text, "--segments", "5"}
	mustPlumb(t, shortSweep(model, files, whole, more...)...)
	resume := append(shortSweep(model, files, dir, more...), "--resume")
	for _, stage := range []string{protocol.FitStage, protocol.HeldStage} {
		for _, share := range []int64{0, 50} {
			file := filepath.Join(stage, record.ItemsFile)
			info, err := os.Stat(filepath.Join(whole, file))
			if err != nil {
				t.Fatal(err)
			}
			before := int64(0)
			if now, err := os.Stat(filepath.Join(dir, file)); err == nil {
				before = now.Size()
			}
			p := start(t, process(resume...))
			whenLarger(t, filepath.Join(dir, file), max(before, 100+info.Size()*share/100))
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait()
		}
	}
	mustPlumb(t, resume...)
	sameTree(t, dir, whole)
	mustPlumb(t, resume...) // a finished sweep is only reported again
	sameTree(t, dir, whole)
	_, _, err := plumb(shortSweep(model, files, dir, more...)...)
	refused(t, err, exitFailed, dir+" already holds a sweep; go on with it by --resume")
	_, _, err = plumb(append(resume, "--placebos", "3")...)
	refused(t, err, exitFailed, dir+" holds another sweep; ask for the same, or choose another directory")
}

// What is wrong with a grid is said in one line before anything runs.
func TestSteerSweepRefuses(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	files := fittedFiles(t, model)
	contrast := filepath.Join(files, "contrast.gguf")
	gridFile := func(text string) string { return textFile(t, strings.ReplaceAll(text, "FILE", contrast)) }
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      string
	}{
		"no file":           {nil, exitUsage, "which directions? name a steering file"},
		"missing file":      {[]string{"--steer", contrast + "x"}, exitFailed, "no such file"},
		"impossible layer":  {[]string{"--steer", contrast, "--layer", "1,7"}, exitFailed, "there is no layer 7: the model has layers 0 to 1"},
		"layer":             {[]string{"--steer", contrast, "--layer", "a"}, exitUsage, `--layer "a"`},
		"no number":         {[]string{"--steer", contrast, "--alpha", "1,much"}, exitUsage, `--alpha "much": a strength is a number`},
		"NaN":               {[]string{"--steer", contrast, "--alpha", "NaN"}, exitUsage, "the strength NaN is not a finite number"},
		"negative":          {[]string{"--steer", contrast, "--alpha", "-1"}, exitUsage, "the strength -1 is negative; a grid turns an addition round by sign"},
		"operator":          {[]string{"--steer", contrast, "--operator", "rotate"}, exitUsage, "rotate"},
		"sign":              {[]string{"--steer", contrast, "--sign", "*"}, exitUsage, `the sign "*" is neither + nor −`},
		"no such category":  {[]string{"--steer", contrast, "--category", "Hair"}, exitFailed, `no item is of category "Hair"; the data holds Age, `},
		"no such fit":       {[]string{"--steer", contrast, "--out-of-domain", files}, exitFailed, filepath.Join(files, "Age", "contrast.gguf") + ": no such file"},
		"no question":       {[]string{"--steer", contrast, "--prompt-only", "--prompt", textFile(t, "{{.Context}}")}, exitFailed, "--prompt-only: the prompt template has no {{.Question}}"},
		"one category":      {[]string{"--steer", contrast, "--out-of-domain", files, "--category", "Age"}, exitFailed, "--out-of-domain needs items of two categories or more; these are all of Age"},
		"placebos":          {[]string{"--steer", contrast, "--placebos", "-1"}, exitUsage, "--placebos -1"},
		"both":              {[]string{"--steer", contrast, "--grid", contrast}, exitUsage, "--grid and --steer exclude each other"},
		"grid of text":      {[]string{"--grid", textFile(t, "x")}, exitFailed, "text: not a grid: "},
		"unknown key":       {[]string{"--grid", gridFile(`{"steer": ["FILE"], "strength": [1]}`)}, exitFailed, `text: not a grid: unknown field "strength"`},
		"no strengths":      {[]string{"--grid", gridFile(`{"steer": ["FILE"]}`)}, exitFailed, "text: strengths is missing"},
		"a strength's type": {[]string{"--grid", gridFile(`{"steer": ["FILE"], "strengths": ["much"]}`)}, exitFailed, "text: not a grid: "},
		"a null":            {[]string{"--grid", gridFile(`{"steer": ["FILE"], "strengths": [null]}`)}, exitFailed, "text: not a grid: a strength or a layer is null"},
		"grid's layer":      {[]string{"--grid", gridFile(`{"steer": ["FILE"], "strengths": [1], "layers": [9]}`)}, exitFailed, "there is no layer 9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRun(t)
			_, _, err := plumb(append([]string{"steer", "sweep", "--threads", "1", "--model", model, "--out", dir}, test.arguments...)...)
			refused(t, err, test.status, test.want)
			if _, err := os.Stat(dir); err == nil {
				t.Error("a directory was made")
			}
		})
	}
}
