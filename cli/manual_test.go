package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that a person sees has a page, with all of its flags, and nothing that the formatter takes for itself.
func TestManual(t *testing.T) {
	folder := t.TempDir()
	mustPlumb(t, "manual", folder)
	for page, want := range map[string][]string{
		"plumb.1":           {`.TH PLUMB 1`, `.BR plumb\-audit (1)`, "measure a model on a benchmark"},
		"plumb-audit-bbq.1": {`.TH PLUMB\-AUDIT\-BBQ 1`, `.SH EXIT STATUS`, `\-\-shard`, `\-\-tensor\-split`, ".SH SEVERAL MACHINES"},
		"plumb-merge.1":     {`plumb\-merge \- put the shards of an audit together`, "SHARD…"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, page))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(text), want...)
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && strings.TrimLeft(line[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == line[1:] && !strings.HasPrefix(line, ".nf") && !strings.HasPrefix(line, ".fi") {
				t.Errorf("%s: a line that is a request by mistake: %q", page, line)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "plumb-manual.1")); err == nil {
		t.Error("the hidden command has a page")
	}
	_, _, err := plumb("completion", "fish")
	refused(t, err, exitUsage, "bash or zsh")
}
