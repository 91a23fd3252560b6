package record

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line with %q", err, want)
	}
}

func TestCreateRefuses(t *testing.T) {
	finished := writeRun(t, testRun(12), testGroups(12))
	_, err := Create(finished, testRun(12))
	wantError(t, err, "already holds a finished run; print it with `plumb report ")

	half := filepath.Join(t.TempDir(), "run")
	w, err := Create(half, testRun(12))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(testGroups(12)[0]); err != nil {
		t.Fatal(err)
	}
	_, err = Resume(half, testRun(12))
	wantError(t, err, "another process is writing to")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Create(half, testRun(12))
	wantError(t, err, fmt.Sprintf("already holds a run with %d of 12 items; go on with it by --resume", len(testGroups(12)[0])))

	other := t.TempDir()
	mustWrite(t, filepath.Join(other, "letters.txt"), []byte("mine"))
	for _, start := range []func(string, Run) (*Writer, error){Create, Resume} {
		_, err = start(other, testRun(12))
		wantError(t, err, "is not a run directory and not empty")
	}
	_, err = Open(other)
	wantError(t, err, "is not a run directory: it has no run.json")
	_, err = Open(filepath.Join(other, "nothing"))
	wantError(t, err, "no such file")
	_, err = Create(filepath.Join(other, "letters.txt"), testRun(12))
	wantError(t, err, "is a file or below one, and a run is kept in a directory")

	mustWrite(t, filepath.Join(other, RunFile), []byte(`{"format": 2}`))
	_, err = Open(other)
	wantError(t, err, "run format 2 is not one that this version reads")
	mustWrite(t, filepath.Join(half, ItemsFile), []byte(strings.Repeat("PK\x03\x04", 100)))
	_, err = Open(half)
	wantError(t, err, "is not the items file of a run")
	_, err = Resume(half, testRun(12))
	wantError(t, err, "is not the items file of a run")
	if err := os.Remove(filepath.Join(half, ItemsFile)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(half)
	wantError(t, err, "has no items.jsonl.zst")
}

// The system's own answer, also where the tests run as root: this thread gives up root's right to write anywhere.
func TestReadOnlyDirectory(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "run")
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		for folder := parent; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
			if err := os.Chmod(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	_, err := Create(dir, testRun(12))
	wantError(t, err, "the run directory cannot be written: open "+filepath.Join(dir, ItemsFile)+": permission denied")
}

// A device without room: nothing can be started.
func TestFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, ItemsFile)); err != nil {
		t.Fatal(err)
	}
	_, err := Resume(dir, testRun(12))
	wantError(t, err, "no space left on device; 0 of 12 items are kept, go on with --resume")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v does not wrap ENOSPC", err)
	}
}

// A run whose file may not grow beyond a limit stops with one line; what was appended stays, and the run goes on when
// there is room. The limit holds for a process, so a second one writes.
func TestFileLimit(t *testing.T) {
	const n = 200
	run, groups := testRun(n), testGroups(n)
	want := mustRead(t, filepath.Join(writeRun(t, run, groups), ItemsFile))
	if dir := os.Getenv("PLUMB_TEST_LIMITED"); dir != "" {
		limit := syscall.Rlimit{Cur: uint64(len(want) / 2), Max: uint64(len(want) / 2)}
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		w, err := Create(dir, run)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			if err = w.Append(group); err != nil {
				break
			}
		}
		fmt.Printf("stopped: %v\nagain: %v\n", err, w.Append(groups[len(groups)-1]))
		return
	}
	dir := filepath.Join(t.TempDir(), "run")
	child := exec.Command(os.Args[0], "-test.run=^TestFileLimit$")
	child.Env = append(os.Environ(), "PLUMB_TEST_LIMITED="+dir)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	items, cut, err := readAll(dir)
	if err != nil || cut != 0 || len(items) == 0 || len(items) >= n {
		t.Fatalf("%d items, cut %d, %v\n%s", len(items), cut, err, out)
	}
	line := fmt.Sprintf("write %s: file too large; %d of %d items are kept, go on with --resume", filepath.Join(dir, ItemsFile), len(items), n)
	if !strings.Contains(string(out), "stopped: "+line+"\nagain: "+line+"\n") {
		t.Errorf("the limited process said:\n%s", out)
	}
	if before := resumed(t, dir, run, groups, want); before != len(items) {
		t.Errorf("resumed at %d, want %d", before, len(items))
	}
}

// Killed by SIGKILL while it appends, several times over, a run ends with the bytes of one that was not.
func TestKilledAndResumed(t *testing.T) {
	const n = 4000
	run, groups := testRun(n), testGroups(n)
	if dir := os.Getenv("PLUMB_TEST_KILLED"); dir != "" {
		w, err := Resume(dir, run)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.Done() + n/5
		for _, group := range groups {
			if group[0].Index < w.Done() {
				continue
			}
			if w.Done() > stop {
				if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Append(group); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	want := mustRead(t, filepath.Join(writeRun(t, run, groups), ItemsFile))
	dir := filepath.Join(t.TempDir(), "run")
	for kill := range 3 {
		child := exec.Command(os.Args[0], "-test.run=^TestKilledAndResumed$")
		child.Env = append(os.Environ(), "PLUMB_TEST_KILLED="+dir)
		var exit *exec.ExitError
		if err := child.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the process was to be killed: %v", err)
		}
		if items, _, err := readAll(dir); err != nil || len(items) < (kill+1)*n/5 {
			t.Fatalf("kill %d: %d items, %v", kill, len(items), err)
		}
	}
	resumed(t, dir, run, groups, want)
}
