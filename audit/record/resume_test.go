package record

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// frameStarts returns where each data frame of an items file starts, and the file's end.
func frameStarts(t *testing.T, path string) []int64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	g, err := newGroups(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.decoder.Close()
	if _, err := g.binding(); err != nil {
		t.Fatal(err)
	}
	starts := []int64{g.offset}
	for {
		if _, err := g.next(); err == io.EOF {
			return starts
		} else if err != nil {
			t.Fatal(err)
		}
		starts = append(starts, g.offset)
	}
}

// resumed resumes dir, appends what is missing, and checks that the bytes are those of the uninterrupted run.
func resumed(t *testing.T, dir string, run Run, groups [][]Record, want []byte) (before int) {
	t.Helper()
	w, err := Resume(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	before = w.Done()
	appendFrom(t, w, groups)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mustRead(t, filepath.Join(dir, ItemsFile)), want) {
		t.Fatalf("bytes differ after resuming at item %d", before)
	}
	return before
}

// The file is cut at every byte of its last two frames and of its first bytes; the run goes on at the last whole group.
func TestResumeAfterEveryCut(t *testing.T) {
	run, groups := testRun(16), testGroups(16)
	whole := writeRun(t, run, groups)
	want := mustRead(t, filepath.Join(whole, ItemsFile))
	starts := frameStarts(t, filepath.Join(whole, ItemsFile))
	if len(starts) != len(groups)+1 || starts[len(starts)-1] != int64(len(want)) {
		t.Fatalf("%d frames for %d groups", len(starts)-1, len(groups))
	}
	dir := memoryDir(t)
	mustWrite(t, filepath.Join(dir, RunFile), mustRead(t, filepath.Join(whole, RunFile)))
	try := func(length int64) {
		mustWrite(t, filepath.Join(dir, ItemsFile), want[:length])
		done := 0
		for i, start := range starts[1:] {
			if start <= length {
				done = groups[i][len(groups[i])-1].Index + 1
			}
		}
		items, _, err := readAll(dir)
		if err != nil || len(items) != done {
			t.Fatalf("cut at byte %d: read %d items, want %d, %v", length, len(items), done, err)
		}
		if before := resumed(t, dir, run, groups, want); before != done {
			t.Fatalf("cut at byte %d: resumed at %d, want %d", length, before, done)
		}
	}
	for length := int64(0); length < starts[1]+20; length++ {
		try(length)
	}
	for length := starts[len(starts)-3]; length <= int64(len(want)); length++ {
		try(length)
	}
}

// Every byte of the last frame is damaged in turn, and garbage is put behind it.
func TestResumeAfterDamage(t *testing.T) {
	run, groups := testRun(12), testGroups(12)
	whole := writeRun(t, run, groups)
	want := mustRead(t, filepath.Join(whole, ItemsFile))
	starts := frameStarts(t, filepath.Join(whole, ItemsFile))
	last := groups[len(groups)-1][0].Index
	whole12, _, err := readAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	dir := memoryDir(t)
	mustWrite(t, filepath.Join(dir, RunFile), mustRead(t, filepath.Join(whole, RunFile)))
	for at := starts[len(starts)-2]; at < int64(len(want)); at++ {
		damaged := bytes.Clone(want)
		damaged[at] ^= 0x10
		mustWrite(t, filepath.Join(dir, ItemsFile), damaged)
		if items, _, err := readAll(dir); err == nil && len(items) == 12 && reflect.DeepEqual(items, whole12) {
			continue // a bit of the frame header that says nothing
		}
		if before := resumed(t, dir, run, groups, want); before != last {
			t.Fatalf("byte %d damaged: resumed at %d, want %d", at, before, last)
		}
	}
	for _, tail := range []string{"\x00", "garbage", strings.Repeat("\x00", 4096), "\x28\xb5\x2f\xfd", string(want[:bindingSize]), string(want[starts[0] : starts[1]-1])} {
		mustWrite(t, filepath.Join(dir, ItemsFile), append(bytes.Clone(want), tail...))
		w, err := Resume(dir, run)
		if err != nil {
			t.Fatal(err)
		}
		if w.Done() != 12 || w.Cut() != int64(len(tail)) {
			t.Errorf("tail %q: %d items, %d bytes cut off", tail, w.Done(), w.Cut())
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mustRead(t, filepath.Join(dir, ItemsFile)), want) {
			t.Errorf("tail %q was not cut off", tail)
		}
	}
}

// run.json is cut at every byte, or missing, or only its temporary copy exists.
func TestResumeWithHalfARunFile(t *testing.T) {
	run, groups := testRun(12), testGroups(12)
	whole := writeRun(t, run, groups)
	want := mustRead(t, filepath.Join(whole, ItemsFile))
	description := mustRead(t, filepath.Join(whole, RunFile))
	for _, items := range [][]byte{want, want[:len(want)-3], want[:bindingSize+5], nil} {
		for length := -1; length < len(description); length += 7 {
			dir := memoryDir(t)
			mustWrite(t, filepath.Join(dir, ItemsFile), items)
			if length >= 0 {
				mustWrite(t, filepath.Join(dir, RunFile), description[:length])
			}
			mustWrite(t, filepath.Join(dir, RunFile+".tmp"), description[:len(description)/2])
			resumed(t, dir, run, groups, want)
			if !bytes.Equal(mustRead(t, filepath.Join(dir, RunFile)), description) {
				t.Fatalf("run.json cut at %d was not made whole", length)
			}
		}
	}
	other := run
	other.Model.SHA256 = "dd"
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, ItemsFile), want)
	mustWrite(t, filepath.Join(dir, RunFile), description[:20])
	if _, err := Resume(dir, other); err == nil || !strings.Contains(err.Error(), "items of another run") {
		t.Errorf("another run took the items over: %v", err)
	}
	mustWrite(t, filepath.Join(dir, ItemsFile), nil)
	mustWrite(t, filepath.Join(dir, RunFile), []byte("not ours"))
	if _, err := Resume(dir, run); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a strange run.json was overwritten: %v", err)
	}
}

func TestResumeStartsWhereThereIsNothing(t *testing.T) {
	run, groups := testRun(12), testGroups(12)
	want := mustRead(t, filepath.Join(writeRun(t, run, groups), ItemsFile))
	resumed(t, filepath.Join(t.TempDir(), "a", "b"), run, groups, want)
	resumed(t, t.TempDir(), run, groups, want)
}

// A file that cannot be written leaves the one from before and nothing else, and the error names it, not a temporary one.
func TestWriteAtomically(t *testing.T) {
	dir := t.TempDir()
	path, taken := filepath.Join(dir, "file"), filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "another"} {
		if err := WriteAtomically(path, []byte(text)); err != nil || string(mustRead(t, path)) != text {
			t.Error(err)
		}
	}
	for _, bad := range []string{taken, filepath.Join(dir, "none", "file")} {
		if err := WriteAtomically(bad, []byte("x")); err == nil || !strings.HasPrefix(err.Error(), bad+": ") || strings.Contains(err.Error(), ".tmp") {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	dir := writeRun(t, testRun(12), testGroups(12))
	tests := map[string]struct {
		change func(*Run)
		want   string
	}{
		"model":    {func(r *Run) { r.Model.SHA256 = "dd"; r.Model.NLayer = 3 }, `model.sha256 was "aa", now "dd"`},
		"data":     {func(r *Run) { r.Data.Files = []DataFile{{Name: "Age.jsonl", SHA256: "ee", Items: 13}} }, `data.files[0].sha256 was "bb", now "ee"`},
		"files":    {func(r *Run) { r.Data.Files = nil }, `data.files was [{"name":"Age.jsonl","sha256":"bb","items":13}], now null`},
		"prompt":   {func(r *Run) { r.Prompt.SHA256 = "x" }, `prompt.sha256 was "cc", now "x"`},
		"seed":     {func(r *Run) { r.Seed = 1 }, `seed was 0, now 1`},
		"steering": {func(r *Run) { r.Steering = &Steering{Name: "gcd.gguf", Layers: []int{19}} }, `steering was null, now {"name":"gcd.gguf"`},
		"items":    {func(r *Run) { r.Items = 13 }, `items was 12, now 13`},
		"wordings": {func(r *Run) { r.Items, r.Dialect = 13, &Dialect{Wordings: []string{"best"}} }, `dialect was null, now {`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run := testRun(12)
			test.change(&run)
			_, err := Resume(dir, run)
			if err == nil || !strings.Contains(err.Error(), dir+" holds another run: "+test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	// The refusals changed nothing.
	resumed(t, dir, testRun(12), testGroups(12), mustRead(t, filepath.Join(dir, ItemsFile)))
	// An edited description is not read as that of these items.
	data := mustRead(t, filepath.Join(dir, RunFile))
	mustWrite(t, filepath.Join(dir, RunFile), bytes.Replace(data, []byte("tiny.gguf"), []byte("huge.gguf"), 1))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "belongs to another run.json") {
		t.Errorf("an edited run.json was read: %v", err)
	}
	mustWrite(t, filepath.Join(dir, RunFile), bytes.Replace(data, []byte("\n  \"seed\""), []byte("\n\n  \"seed\""), 1))
	if _, err := Resume(dir, testRun(12)); err == nil || !strings.Contains(err.Error(), "run.json was edited") {
		t.Errorf("a reformatted run.json was taken: %v", err)
	}
}

// Damage before whole groups is told by both sides, and nothing is thrown away; a file of something else is left as it is.
func TestDamageIsNoCut(t *testing.T) {
	run, groups := testRun(16), testGroups(16)
	dir := writeRun(t, run, groups)
	path := filepath.Join(dir, ItemsFile)
	starts, whole := frameStarts(t, path), mustRead(t, path)
	damaged := bytes.Clone(whole)
	damaged[starts[1]+9] ^= 0x40
	mustWrite(t, path, damaged)
	for name, act := range map[string]func() error{
		"resume": func() error { _, err := Resume(dir, run); return err },
		"read":   func() error { _, _, err := readAll(dir); return err },
	} {
		if err := act(); err == nil || !strings.Contains(err.Error(), "items.jsonl.zst is damaged after item ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !bytes.Equal(mustRead(t, path), damaged) {
		t.Error("the damaged file was changed")
	}
	mustWrite(t, path, []byte("notes"))
	if _, err := Resume(dir, run); err == nil || !strings.Contains(err.Error(), "is not the items file of a run") {
		t.Errorf("a foreign file: %v", err)
	}
	if string(mustRead(t, path)) != "notes" {
		t.Error("the foreign file was changed")
	}
}
