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
	"testing"

	"github.com/urfave/cli/v2"

	"plumb/audit/record"
)

// smallRun writes a finished run of 8 items: the biased option in 2 of 4 ambiguous items, unknown in the others; always
// right on disambiguated ones.
func smallRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := record.Create(dir, record.Run{Benchmark: "bbq", Model: record.Model{Name: "tiny.gguf"}, Items: 8})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		item := record.Record{Index: i, ID: fmt.Sprintf("Age/%d", i), Category: "Age", Template: "Age/1", Condition: record.Ambiguous, Label: 2, Text: "SECRET"}
		best := 2 * (i % 2)
		if i >= 4 {
			item.Condition, item.Label, best = record.Disambiguated, i%2, i%2
		}
		for k, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
			score := float32(-3 - k)
			if k == best {
				score = -1
			}
			item.Options = append(item.Options, record.NewOption("SECRET", role, []float32{score}))
		}
		if err := w.Append([]record.Record{item}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runReportCommand runs "plumb report" with the arguments and returns what it prints to stdout and stderr.
func runReportCommand(arguments ...string) (out, notes string, err error) {
	var outBuffer, notesBuffer bytes.Buffer
	app := &cli.App{Name: "plumb", Commands: []*cli.Command{reportCommand()}, Writer: &outBuffer, ErrWriter: &notesBuffer,
		ExitErrHandler: func(*cli.Context, error) {}}
	err = app.Run(append([]string{"plumb", "report"}, arguments...))
	return outBuffer.String(), notesBuffer.String(), err
}

func TestReport(t *testing.T) {
	dir := smallRun(t)
	page := filepath.Join(dir, "report.html")
	out, notes, err := runReportCommand(dir)
	if err != nil || notes != "" || !strings.HasSuffix(out, "Report: "+page+"\n") {
		t.Fatalf("%v\n%s%s", err, out, notes)
	}
	for _, want := range []string{"Age 4 2 0.500 1.000† 0.500 0.500†", "Age 4 4 1.000 0.000 0.500 0.500 0.000", "8 items, read-out mean"} {
		if !strings.Contains(tableWords(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if data, err := os.ReadFile(page); err != nil || !bytes.Contains(data, []byte("</html>")) {
		t.Errorf("report.html: %v", err)
	}
}

// Flags may stand before the run or after it.
func TestReportFormats(t *testing.T) {
	dir := smallRun(t)
	for _, arguments := range [][]string{{"--json", "--bootstrap", "7", dir}, {dir, "--json", "--bootstrap", "7"}, {"--json", dir, "--bootstrap=7"}} {
		out, _, err := runReportCommand(arguments...)
		var parsed struct {
			Done    int
			Summary struct {
				Draws int `json:"bootstrap_draws"`
			}
		}
		if err := cmpError(err, json.Unmarshal([]byte(out), &parsed)); err != nil || parsed.Done != 8 || parsed.Summary.Draws != 7 {
			t.Errorf("%q: %v, %+v", arguments, err, parsed)
		}
	}
	for format, want := range map[string]string{"--csv": "Age,ambig,s_amb,0.5,", "--markdown": "## Ambiguous items"} {
		out, _, err := runReportCommand(dir, format)
		if err != nil || !strings.Contains(out, want) || strings.Contains(out, "Report: ") {
			t.Errorf("%s: %v\n%s", format, err, out)
		}
	}
	out, _, err := runReportCommand(dir, "--read-out", "forced", "--csv")
	if err != nil || !strings.Contains(out, "Age,ambig,pr_u,0,0,0,4,0\n") {
		t.Errorf("--read-out forced: %v\n%s", err, out)
	}
}

func cmpError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestReportWithoutText(t *testing.T) {
	dir, copied := smallRun(t), filepath.Join(t.TempDir(), "copy")
	out, _, err := runReportCommand("--no-text", copied, dir)
	if err != nil || !strings.Contains(out, "Report: "+filepath.Join(copied, "report.html")) {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := record.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for item, err := range r.Records() {
		if err != nil || item.Text != "" || item.Options[0].Text != "" {
			t.Fatalf("%+v, %v", item, err)
		}
	}
	if r.Done() != 8 {
		t.Errorf("%d items were copied", r.Done())
	}
}

// Where report.html cannot be written the numbers are still printed.
func TestReportOfAReadOnlyRun(t *testing.T) {
	ownCache(t)
	dir := smallRun(t)
	if err := os.Mkdir(filepath.Join(dir, "report.html"), 0o755); err != nil {
		t.Fatal(err)
	}
	pairs := newRun(t)
	mustPlumb(t, auditDialect(tinyModelFile(t, tinyModel{seed: 1}), pairs, "--sample", "2")...)
	page := filepath.Join(pairs, "report.html")
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(page, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{dir: "8 items", pairs: "Forced choice"} {
		out, notes, err := runReportCommand(dir)
		if err != nil || !strings.Contains(out, want) || !strings.Contains(notes, "plumb: ") || !strings.Contains(notes, "report.html") {
			t.Errorf("%v\n%s%s", err, out, notes)
		}
	}
}

// A disk without room for report.html is told by status and in one line, and the page from before stays.
func TestReportOnAFullDisk(t *testing.T) {
	dir := smallRun(t)
	page := filepath.Join(dir, "report.html")
	if _, _, err := runReportCommand(dir); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, page)
	p := process("report", dir)
	p.Env = append(p.Env, fileLimit+"=2500")
	var out, notes strings.Builder
	p.Stdout, p.Stderr = &out, &notes
	var exit *exec.ExitError
	if err := p.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Error(err)
	}
	want := fmt.Sprintf("plumb: the report cannot be written: %s: file too large; an older page stays as it was; make room, then plumb report %s writes it\n", page, dir)
	if notes.String() != want || !strings.Contains(out.String(), "8 items") {
		t.Errorf("%s%s, want %s", &out, &notes, want)
	}
	if !bytes.Equal(before, readFile(t, page)) {
		t.Error("the page from before is gone")
	}
	if left, err := filepath.Glob(page + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestReportErrors(t *testing.T) {
	dir, empty := smallRun(t), t.TempDir()
	for _, test := range []struct {
		arguments []string
		status    int
		want      string
	}{
		{nil, exitUsage, "report takes one run directory"},
		{[]string{dir, dir}, exitUsage, "report takes one run directory"},
		{[]string{dir, "--json", "--csv"}, exitUsage, "--json, --csv and --markdown exclude each other"},
		{[]string{dir, "--read-out", "median"}, exitUsage, `--read-out: no read-out is called "median"; there are mean, sum, first, forced`},
		{[]string{dir, "--bootstrap", "1"}, exitUsage, "--bootstrap 1: an interval needs at least 2 draws"},
		{[]string{dir, "--bootstrap", "x"}, exitUsage, "--bootstrap: parse error"},
		{[]string{dir, "--bootstrap"}, exitUsage, "flag needs an argument: --bootstrap"},
		{[]string{dir, "--colour"}, exitUsage, "flag provided but not defined: --colour"},
		{[]string{dir, "--", "--json"}, exitUsage, "report takes one run directory"},
		{[]string{empty}, exitFailed, empty + " is not a run directory: it has no run.json"},
		{[]string{filepath.Join(empty, "x")}, exitFailed, "no such file or directory"},
		{[]string{"--no-text", dir, dir}, exitFailed, "already holds a finished run"},
	} {
		_, _, err := runReportCommand(test.arguments...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || ExitStatus(err) != test.status {
			t.Errorf("%q: status %d, %v, want %q", test.arguments, ExitStatus(err), err, test.want)
		}
	}
}
