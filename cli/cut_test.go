package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plumb/audit/record"
)

// started is a process of the program that runs.
type started struct {
	*exec.Cmd
	stderr bytes.Buffer
}

func start(t *testing.T, cmd *exec.Cmd) *started {
	t.Helper()
	s := &started{Cmd: cmd}
	cmd.Stderr = &s.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return s
}

// whenLarger waits until the file has more than so many bytes, and returns how many.
func whenLarger(t *testing.T, path string, size int64) int64 {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			return info.Size()
		}
	}
	t.Fatalf("%s does not grow beyond %d bytes", path, size)
	return 0
}

// Killed by SIGKILL at three moments and resumed, an audit leaves the bytes of one that was not.
func TestAuditBBQKilledAndResumed(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	whole, dir := newRun(t), newRun(t)
	// Short prompts, so that a batch holds a dozen items: which ones must not depend on where the run was cut.
	const n = 500
	ask := []string{"--data", bbqItems(t, n), "--prompt", textFile(t, "{{.Question}}")}
	mustPlumb(t, auditBBQ(model, whole, ask...)...)
	info, err := os.Stat(filepath.Join(whole, record.ItemsFile))
	if err != nil {
		t.Fatal(err)
	}
	resume := append(auditBBQ(model, dir, ask...), "--resume")
	done, size := 0, int64(100)
	for _, share := range []int64{0, 15, 20} { // so many percent of the run after what was there before
		p := start(t, process(resume...))
		size = whenLarger(t, filepath.Join(dir, record.ItemsFile), size+info.Size()*share/100)
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := p.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the process was to be killed: %v\n%s", err, &p.stderr)
		}
		_, items := readRun(t, dir)
		if len(items) <= done || len(items) >= n {
			t.Fatalf("killed with %d of %d items, %d before", len(items), n, done)
		}
		done = len(items)
	}
	_, notes := mustPlumb(t, resume...)
	if want := fmt.Sprintf("plumb: going on after %d of %d items\n", done, n); notes != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
	sameRun(t, dir, whole)
}

// A signal lets the batch end, and the run with it; --resume goes on.
func TestAuditBBQInterrupted(t *testing.T) {
	ownCache(t)
	model, whole := tinyModelFile(t, tinyModel{seed: 1}), newRun(t)
	mustPlumb(t, auditBBQ(model, whole, "--sample", "60")...)
	for name, signals := range map[string][]os.Signal{
		"SIGINT": {os.Interrupt}, "SIGTERM": {syscall.SIGTERM}, "twice": {os.Interrupt, os.Interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRun(t)
			p := start(t, process(auditBBQ(model, dir, "--sample", "60")...))
			whenLarger(t, filepath.Join(dir, record.ItemsFile), 100)
			for _, signal := range signals {
				if err := p.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			var exit *exec.ExitError
			if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
				t.Fatalf("%v\n%s", err, &p.stderr)
			}
			_, items := readRun(t, dir)
			if want := fmt.Sprintf("plumb: interrupted after %d of 60 items; the same command with --resume goes on\n", len(items)); p.stderr.String() != want || len(items) == 0 || len(items) >= 60 {
				t.Errorf("it said %q, want %q", &p.stderr, want)
			}
			// What there is can be looked at meanwhile.
			out, _ := mustPlumb(t, "report", dir)
			contains(t, out, fmt.Sprintf("This run is not finished: %d of 60 items.", len(items)))
			mustPlumb(t, auditBBQ(model, dir, "--sample", "60", "--resume")...)
			sameRun(t, dir, whole)
		})
	}
}

// Two processes never write to one run.
func TestAuditBBQWhileAnotherRuns(t *testing.T) {
	ownCache(t)
	model, dir := tinyModelFile(t, tinyModel{seed: 1}), newRun(t)
	p := start(t, process(auditBBQ(model, dir)...))
	whenLarger(t, filepath.Join(dir, record.ItemsFile), 0)
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, _, err := plumb(auditBBQ(model, dir, "--resume")...)
	refused(t, err, exitFailed, "another process is writing to "+dir)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	mustPlumb(t, auditBBQ(model, dir, "--resume")...)
}

// A disk that is full, or a file that may not grow, ends an audit with one line; when there is room it goes on.
func TestAuditBBQOnAFullDisk(t *testing.T) {
	ownCache(t)
	model, data, whole := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 40), newRun(t)
	mustPlumb(t, auditBBQ(model, whole, "--data", data)...) // also puts the self-test into the cache
	dir := newRun(t)
	p := process(auditBBQ(model, dir, "--data", data)...)
	p.Env = append(p.Env, fileLimit+"=2500")
	said, err := p.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Fatalf("%v\n%s", err, said)
	}
	_, items := readRun(t, dir)
	want := fmt.Sprintf("plumb: write %s: file too large; %d of 40 items are kept, go on with --resume\n", filepath.Join(dir, record.ItemsFile), len(items))
	if string(said) != want || len(items) == 0 {
		t.Errorf("it said %q, want %q", said, want)
	}
	mustPlumb(t, auditBBQ(model, dir, "--data", data, "--resume")...)
	sameRun(t, dir, whole)
}

// A result that cannot be printed is a failure.
func TestOutputToAFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	for _, arguments := range [][]string{
		{"--help"}, {"--version"}, {"steer", "fit", "--help"}, {"data", "check", bbqItems(t, 4)}, {"data", "check", "--json", bbqItems(t, 4)},
		{"report", smallRun(t)}, {"report", "--json", smallRun(t)}, {"report", "--csv", smallRun(t)}, {"report", "--markdown", smallRun(t)},
	} {
		p := process(arguments...)
		var stderr strings.Builder
		p.Stdout, p.Stderr = full, &stderr
		var exit *exec.ExitError
		if err := p.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.HasSuffix(stderr.String(), "no space left on device\n") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: %v, %q", arguments, err, &stderr)
		}
	}
}
