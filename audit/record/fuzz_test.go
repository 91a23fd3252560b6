package record

import (
	"path/filepath"
	"testing"
)

// Whatever the files hold, reading ends with records that are valid and in order, or with an error.
func FuzzOpen(f *testing.F) {
	dir := writeRun(f, testRun(9), testGroups(9))
	description, items := mustRead(f, filepath.Join(dir, RunFile)), mustRead(f, filepath.Join(dir, ItemsFile))
	f.Add(description, items)
	f.Add(description, items[:len(items)-1])
	f.Add(description, items[:bindingSize])
	f.Add([]byte("{}"), []byte{})
	f.Add([]byte(`{"format":1,"items":3}`), items[bindingSize:])
	f.Fuzz(func(t *testing.T, description, items []byte) {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, RunFile), description)
		mustWrite(t, filepath.Join(dir, ItemsFile), items)
		got, cut, _ := readAll(dir)
		for i := range got {
			if got[i].Index != i || got[i].validate() != nil {
				t.Fatalf("record %d: %+v", i, got[i])
			}
		}
		if cut < 0 || cut > int64(len(items)) {
			t.Fatalf("%d bytes cut off of %d", cut, len(items))
		}
	})
}

// Frames with a right checksum reach the parser: any text at all may be in them.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"index":0,"id":"a","options":[{"role":"biased","tokens":1,"sum":-1,"logprobs":[-1]}]}` + "\n"))
	f.Add([]byte(`{"index":0,"id":"a","error":"too long"}`))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		g := groups{lines: lines}
		group, err := g.parse()
		if err != nil {
			return
		}
		if len(group) == 0 {
			t.Fatal("no records and no error")
		}
		for i := range group {
			if group[i].Index != i || group[i].validate() != nil {
				t.Fatalf("record %d: %+v", i, group[i])
			}
		}
	})
}
