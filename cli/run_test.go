package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is refused before anything is started; csrc/tests/run_test.py starts programs.
func TestRunRefusesInOneLine(t *testing.T) {
	file := filepath.Join("..", "steer", "testdata", "projection.gguf")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		reason string
	}{
		{nil, exitUsage, "needs --steer"},
		{[]string{"--steer", file}, exitUsage, "needs a program"},
		{[]string{"--steer", file + ":much", "--", "true"}, exitUsage, "a strength, a number"},
		{[]string{"--steer", "none.gguf", "--", "true"}, exitFailed, "none.gguf"},
		{[]string{"--steer", file, "--", "no-such-program"}, exitFailed, "no-such-program"},
		{[]string{"--steer", file, "--", script}, exitFailed, "a script?"},
	} {
		err := Run(t.Context(), append([]string{"plumb", "run"}, c.args...), os.Stdout, os.Stderr)
		if ExitStatus(err) != c.status || !strings.Contains(err.Error(), c.reason) || strings.Contains(err.Error(), "\n") {
			t.Errorf("plumb run %q: %v", c.args, err)
		}
	}
}

func TestRunNamesTheFilesStrength(t *testing.T) {
	path, err := filepath.Abs(filepath.Join("..", "steer", "testdata", "projection.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{path + ":8": "8 ", path + ":-0.5": "-0.5 "} {
		if line, err := runLine(text); err != nil || line != want+path+"\n" {
			t.Errorf("%s gives %q, %v", text, line, err)
		}
	}
}
