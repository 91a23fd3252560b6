package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"plumb/audit/record"
)

// head writes the first n bytes of a file, or all but the last -n.
func head(t *testing.T, file string, n int) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n < 0 {
		n += len(data)
	}
	path := filepath.Join(t.TempDir(), "cut.gguf")
	if err := os.WriteFile(path, data[:n], 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is not a model, for the command that opens one and says what it is, and for an audit.
func TestModelsThatCannotBeOpened(t *testing.T) {
	ownCache(t)
	tiny, folder := tinyModelFile(t, tinyModel{seed: 1}), t.TempDir()
	metadata := len((&gguf{}).bytes()) + 100
	for name, test := range map[string]struct {
		model string
		want  []string
	}{
		"missing":             {filepath.Join(folder, "none.gguf"), []string{"there is no model file ", "none.gguf; give a .gguf file, or a name that `plumb model fetch --help` lists"}},
		"directory":           {folder, []string{folder + ": is a directory; give the .gguf file inside it"}},
		"empty":               {head(t, tiny, 0), []string{"cut.gguf: not a GGUF file", "convert the model with llama.cpp"}},
		"text":                {textFile(t, "GGML is another format"), []string{"text: not a GGUF file", "convert the model with llama.cpp"}},
		"cut in the magic":    {head(t, tiny, 3), []string{"cut.gguf: not a GGUF file"}},
		"cut in the header":   {head(t, tiny, 20), []string{"cut.gguf: its GGUF header is broken or cut off", "fetch the file again"}},
		"cut in the metadata": {head(t, tiny, metadata), []string{"cut.gguf: its GGUF header is broken or cut off", "fetch the file again"}},
		"cut in the tensors":  {head(t, tiny, 100_000), []string{"cut.gguf: cut off: 100000 bytes of 182336; fetch the file again"}},
		"cut at the end":      {head(t, tiny, -1), []string{"cut.gguf: cut off: 182335 bytes of 182336; fetch the file again"}},
		"too many layers":     {tinyModelFile(t, tinyModel{layers: 513}), []string{"tiny.gguf: llama.block_count is 513, and llama.cpp takes 1 to 512 layers; convert the model again"}},
		"no tensor":           {textFile(t, string((&gguf{}).bytes())), []string{"text: llama.cpp cannot load it: "}},
		"architecture":        {textFile(t, strings.Replace(string(tinyModel{}.bytes()), "architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00llama", "architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00lemma", 1)), []string{"text: llama.cpp cannot load it: ", "unknown model architecture: 'lemma'"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := plumb("model", "info", "--threads", "1", test.model)
			refused(t, err, exitFailed, test.want...)
			if out != "" {
				t.Errorf("output %q", out)
			}
			dir := newRun(t)
			_, _, err = plumb(auditBBQ(test.model, dir)...)
			refused(t, err, exitFailed, test.want...)
			if _, err := os.Stat(dir); err == nil {
				t.Error("a run directory was made")
			}
		})
	}
}

// The same with the head of a real model, whose metadata is larger than a reader's buffer.
func TestModelThatIsCut(t *testing.T) {
	model := smollm2(t)
	for _, size := range []int{4, 24, 1000, 300_000, 5_000_000, -1} {
		_, _, err := plumb("model", "info", "--threads", "1", head(t, model, size))
		refused(t, err, exitFailed, "cut.gguf: ", "cut off", "; fetch the file again")
	}
}

// Everything else that keeps an audit from starting.
func TestAuditBBQRefuses(t *testing.T) {
	ownCache(t)
	model, data := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 4)
	untold := tinyModelFile(t, tinyModel{seed: 1, noVocabulary: true})
	odd := tinyModelFile(t, tinyModel{seed: 1, chatTemplate: "{{ nothing that llama.cpp knows }}"})
	empty, missing := bbqFile(t, "empty.jsonl"), filepath.Join(t.TempDir(), "missing")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "letter"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      []string
	}{
		"no model":             {[]string{"--data", data}, exitUsage, []string{"which model? --model FILE.gguf"}},
		"not fetched":          {[]string{"--model", "gemma3"}, exitFailed, []string{"the model gemma3 is not on this machine yet; fetch it by `plumb model fetch gemma3`"}},
		"no vocabulary":        {[]string{"--model", untold, "--data", data}, exitFailed, []string{untold + ": the model has no vocabulary, so it cannot read text"}},
		"an argument":          {[]string{"--model", model, data}, exitUsage, []string{"takes no arguments, only flags: " + data}},
		"an unknown flag":      {[]string{"--model", model, "--temperature", "1"}, exitUsage, []string{"flag provided but not defined: -temperature"}},
		"a flag's value":       {[]string{"--model"}, exitUsage, []string{"flag needs an argument: -model"}},
		"threads":              {[]string{"--model", model, "--threads", "-1"}, exitUsage, []string{"--threads -1: a number of threads is at least 0, at most 512"}},
		"many threads":         {[]string{"--model", model, "--threads", "4294967297"}, exitUsage, []string{"at most 512"}},
		"no number":            {[]string{"--model", model, "--threads", "all"}, exitUsage, []string{`invalid value "all" for flag -threads`}},
		"sample":               {[]string{"--model", model, "--sample", "-1"}, exitUsage, []string{"--sample -1: a number of items is not negative"}},
		"chat":                 {[]string{"--model", model, "--chat", "yes"}, exitUsage, []string{`--chat is on or off, not "yes"`}},
		"metadata":             {[]string{"--model", model, "--metadata", data}, exitUsage, []string{"--metadata goes with --data"}},
		"formats":              {[]string{"--model", model, "--json", "--csv"}, exitUsage, []string{"--json, --csv and --markdown exclude each other"}},
		"draws":                {[]string{"--model", model, "--bootstrap", "1"}, exitUsage, []string{"--bootstrap 1: an interval needs at least 2 draws"}},
		"read-out":             {[]string{"--model", model, "--read-out", "median"}, exitUsage, []string{"--read-out: no read-out is called \"median\""}},
		"no data":              {[]string{"--model", model, "--data", missing}, exitFailed, []string{missing + ": no such file or directory"}},
		"empty data":           {[]string{"--model", model, "--data", empty}, exitFailed, []string{empty + ": the file holds no rows; fetch it again"}},
		"useless data":         {[]string{"--model", model, "--data", bbqFile(t, "useless.jsonl", bbqRow(0, noTarget...))}, exitFailed, []string{"no item of ", "useless.jsonl can be used; plumb data check says why"}},
		"no template":          {[]string{"--model", model, "--data", data, "--chat", "on"}, exitFailed, []string{model + ": the model file holds no chat template; leave out --chat on"}},
		"an unknown template":  {[]string{"--model", odd, "--data", data, "--chat", "on"}, exitFailed, []string{odd + ": llama.cpp's library does not know the model's chat template; leave out --chat on"}},
		"no prompt":            {[]string{"--model", model, "--prompt", missing}, exitFailed, []string{missing + ": no such file or directory"}},
		"an empty prompt":      {[]string{"--model", model, "--prompt", textFile(t, "")}, exitFailed, []string{"text: the prompt template is the same for all items"}},
		"a constant prompt":    {[]string{"--model", model, "--prompt", textFile(t, "Who was it?")}, exitFailed, []string{"text: the prompt template is the same for all items: it must use {{.Context}} or {{.Question}}"}},
		"prompt syntax":        {[]string{"--model", model, "--prompt", textFile(t, "{{.Context}")}, exitFailed, []string{"text: prompt:1: ", "a prompt template may use .Context, .Question and .Options"}},
		"an unknown field":     {[]string{"--model", model, "--prompt", textFile(t, "{{.Context}} {{.Answer}}")}, exitFailed, []string{"text: ", "can't evaluate field Answer", "a prompt template may use"}},
		"a fourth option":      {[]string{"--model", model, "--prompt", textFile(t, "{{.Context}} {{index .Options 3}}")}, exitFailed, []string{"text: ", "out of range"}},
		"a prompt in Latin-1":  {[]string{"--model", model, "--prompt", textFile(t, "{{.Context}} \xe4")}, exitFailed, []string{"text: not a text in UTF-8"}},
		"a prompt with a zero": {[]string{"--model", model, "--prompt", textFile(t, "{{.Context}} \x00")}, exitFailed, []string{"text: not a text in UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRun(t)
			out, _, err := plumb(append([]string{"audit", "bbq", "--out", dir, "--threads", "1"}, test.arguments...)...)
			refused(t, err, test.status, test.want...)
			if _, err := os.Stat(dir); err == nil || out != "" {
				t.Errorf("a run directory was made, or something was printed: %q", out)
			}
		})
	}
	// The place of the run itself.
	for name, test := range map[string]struct {
		dir  string
		want []string
	}{
		"a file":               {data, []string{data + " is a file or below one, and a run is kept in a directory; choose another name"}},
		"below a file":         {filepath.Join(data, "run"), []string{"is a file or below one"}},
		"another's folder":     {full, []string{full + " is not a run directory and not empty; choose another one"}},
		"a place that is none": {filepath.Join(os.DevNull, "run"), []string{"is a file or below one"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := plumb(auditBBQ(model, test.dir, "--data", data)...)
			refused(t, err, exitFailed, test.want...)
		})
	}
}

// The system's own answer, also where the tests run as root: this thread gives up root's right to write anywhere.
func TestAuditBBQIntoAReadOnlyDirectory(t *testing.T) {
	ownCache(t)
	model, data, parent := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 4), t.TempDir()
	dir := filepath.Join(parent, "run")
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		for _, folder := range []string{parent, filepath.Dir(model), filepath.Dir(data), os.Getenv("XDG_CACHE_HOME")} {
			for ; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
				if err := os.Chmod(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	_, _, err := plumb(auditBBQ(model, dir, "--data", data)...)
	refused(t, err, exitFailed, "the run directory cannot be written: open "+filepath.Join(dir, record.ItemsFile)+": permission denied")
	_, _, err = plumb(auditBBQ(model, filepath.Join(dir, "deeper"), "--data", data)...)
	refused(t, err, exitFailed, "mkdir "+filepath.Join(dir, "deeper")+": permission denied")
}

// A run is only gone on with as it was begun: the error names what differs, and the run stays as it was.
func TestAuditBBQResumesTheSameRunOnly(t *testing.T) {
	ownCache(t)
	model, data, dir := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 12), newRun(t)
	begun := []string{"--data", data, "--sample", "8", "--seed", "3"}
	mustPlumb(t, auditBBQ(model, dir, begun...)...)
	items := filepath.Join(dir, record.ItemsFile)
	if info, err := os.Stat(items); err != nil || os.Truncate(items, info.Size()-1) != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(items)
	if err != nil {
		t.Fatal(err)
	}
	_, done := readRun(t, dir)
	if len(done) == 0 || len(done) >= 8 {
		t.Fatalf("%d items are left", len(done))
	}

	_, _, err = plumb(auditBBQ(model, dir, begun...)...)
	refused(t, err, exitFailed, dir+" already holds a run with ", " of 8 items; go on with it by --resume, or choose another directory")

	another := dir + " holds another run: "
	other := bbqFile(t, "items.jsonl", bbqRow(0), bbqRow(1), bbqRow(2), bbqRow(3), bbqRow(4), bbqRow(5), bbqRow(6), bbqRow(7))
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"model":    {auditBBQ(tinyModelFile(t, tinyModel{seed: 2}), dir, begun...), "model.sha256 was "},
		"data":     {auditBBQ(model, dir, "--data", other, "--sample", "8", "--seed", "3"), "data.files[0].sha256 was "},
		"seed":     {auditBBQ(model, dir, "--data", data, "--sample", "8", "--seed", "4"), "seed was 3, now 4"},
		"sample":   {auditBBQ(model, dir, "--data", data, "--sample", "7", "--seed", "3"), "sample was 8, now 7"},
		"all":      {auditBBQ(model, dir, "--data", data), "sample was 8, now 0"},
		"built-in": {auditBBQ(model, dir, "--sample", "8", "--seed", "3"), `data.files[0].name was "items.jsonl", now "built-in sample"`},
		"prompt":   {append(auditBBQ(model, dir, begun...), "--prompt", textFile(t, "{{.Question}}")), "prompt.template was "},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := plumb(append(test.arguments, "--resume")...)
			refused(t, err, exitFailed, another, test.want, "; ask for the same, or choose another directory")
		})
	}
	if after, err := os.ReadFile(items); err != nil || string(after) != string(before) {
		t.Errorf("the refused runs changed the items: %v", err)
	}

	_, notes := mustPlumb(t, append(auditBBQ(model, dir, begun...), "--resume")...)
	contains(t, notes, "plumb: going on after ", " of 8 items\n")
	whole := newRun(t)
	mustPlumb(t, auditBBQ(model, whole, begun...)...)
	sameRun(t, dir, whole)
	_, _, err = plumb(auditBBQ(model, dir, begun...)...)
	refused(t, err, exitFailed, dir+" already holds a finished run; print it with `plumb report "+dir+"`, or choose another directory")
}
