package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	thirdparty "plumb/third_party"
)

// asProgram, set in its environment, makes the test binary the program: some tests need a process of their own, to kill it
// or to put it under a limit. fileLimit is the largest file that it may write then, in bytes.
const (
	asProgram = "PLUMB_TEST_AS_PROGRAM"
	fileLimit = "PLUMB_TEST_FILE_LIMIT"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		limitFiles(os.Getenv(fileLimit))
		err := Run(context.Background(), os.Args, os.Stdout, os.Stderr)
		if err != nil {
			fmt.Fprintf(os.Stderr, "plumb: %v\n", err)
		}
		os.Exit(ExitStatus(err))
	}
	os.Exit(m.Run())
}

func limitFiles(bytes string) {
	if bytes == "" {
		return
	}
	var limit uint64
	_, err := fmt.Sscan(bytes, &limit)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit})
	}
	if err != nil {
		panic(err)
	}
}

// process is the program with the arguments, as a process that was not started yet.
func process(arguments ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], arguments...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// plumb runs the program with the arguments in this process and returns what it prints to stdout and stderr.
func plumb(arguments ...string) (out, notes string, err error) {
	var outBuffer, notesBuffer bytes.Buffer
	err = Run(context.Background(), append([]string{"plumb"}, arguments...), &outBuffer, &notesBuffer)
	return outBuffer.String(), notesBuffer.String(), err
}

// mustPlumb is plumb where nothing may fail.
func mustPlumb(t *testing.T, arguments ...string) (out, notes string) {
	t.Helper()
	out, notes, err := plumb(arguments...)
	if err != nil {
		t.Fatalf("plumb %s: %v\n%s%s", strings.Join(arguments, " "), err, out, notes)
	}
	return out, notes
}

// refused is an error of one line that holds every part of want, and the exit status that goes with it.
func refused(t *testing.T, err error, status int, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; it should say %q", want)
		return
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("the error has more than one line: %q", err)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q; it should say %q", err, part)
		}
	}
	if ExitStatus(err) != status {
		t.Errorf("exit status %d after %q, want %d", ExitStatus(err), err, status)
	}
}

// contains looks for parts of a text.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// tableWords is a table without its lines: its words, one space apart.
func tableWords(table string) string {
	blank := func(r rune) rune {
		if r >= '─' && r <= '╿' {
			return ' '
		}
		return r
	}
	return strings.Join(strings.Fields(strings.Map(blank, table)), " ")
}

// smollm2 is the pinned model's file. `make test-go` fetches it.
func smollm2(t *testing.T) string {
	t.Helper()
	model, ok := thirdparty.Find("smollm2")
	if !ok {
		t.Fatal("smollm2 is not pinned")
	}
	path, err := model.Path()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SmolLM2 was not fetched yet (plumb model fetch smollm2): %v", err)
	}
	return path
}
