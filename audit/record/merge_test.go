package record

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeShards writes the run's groups as shards that begin with the groups of the given numbers.
func writeShards(tb testing.TB, run Run, groups [][]Record, starts ...int) []string {
	tb.Helper()
	var dirs []string
	for i, start := range starts {
		end := len(groups)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		part := groups[start:end]
		shard := run
		shard.Shard = &Shard{Number: i + 1, Of: len(starts), Total: run.Items, First: run.Items}
		if start < len(groups) {
			shard.Shard.First = groups[start][0].Index
		}
		shard.Items = len(slices.Concat(part...))
		dir := filepath.Join(tb.TempDir(), fmt.Sprintf("%d-of-%d", i+1, len(starts)))
		w, err := Create(dir, shard)
		if err != nil {
			tb.Fatal(err)
		}
		for _, group := range part {
			if err := w.Append(group); err != nil {
				tb.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			tb.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// Shards, one of them empty, given in any order, make the bytes of the whole run; so does a merge that was cut anywhere.
func TestMerge(t *testing.T) {
	run, groups := testRun(60), testGroups(60)
	whole := writeRun(t, run, groups)
	shards := writeShards(t, run, groups, 0, 3, 3, 9, len(groups))
	slices.Reverse(shards)
	dst := filepath.Join(t.TempDir(), "merged")
	if err := Merge(dst, shards); err != nil {
		t.Fatal(err)
	}
	same := func() {
		t.Helper()
		for _, name := range []string{RunFile, ItemsFile} {
			if !bytes.Equal(mustRead(t, filepath.Join(dst, name)), mustRead(t, filepath.Join(whole, name))) {
				t.Errorf("%s differs from the whole run's", name)
			}
		}
	}
	same()
	items := filepath.Join(dst, ItemsFile)
	for size := len(mustRead(t, items)); size >= 0; size -= 97 {
		if err := os.Truncate(items, int64(size)); err != nil {
			t.Fatal(err)
		}
		if err := Merge(dst, shards); err != nil {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
		same()
	}
}

// A shard is resumed as a whole run is, and its items carry the whole run's indices.
func TestResumeAShard(t *testing.T) {
	run, groups := testRun(60), testGroups(60)
	dir := writeShards(t, run, groups, 0, 5)[1]
	path := filepath.Join(dir, ItemsFile)
	whole := mustRead(t, path)
	shard := run
	shard.Shard = &Shard{Number: 2, Of: 2, First: groups[5][0].Index, Total: 60}
	shard.Items = 60 - shard.Shard.First
	for size := len(whole); size >= 0; size -= 131 {
		mustWrite(t, path, whole[:size])
		w, err := Resume(dir, shard)
		if err != nil {
			t.Fatal(err)
		}
		if w.Next() != shard.Shard.First+w.Done() {
			t.Fatalf("%d done, the next is %d", w.Done(), w.Next())
		}
		for _, group := range groups[5:] {
			if group[0].Index >= w.Next() {
				if err := w.Append(group); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mustRead(t, path), whole) {
			t.Fatalf("resumed from %d bytes, the shard differs", size)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	run, groups := testRun(60), testGroups(60)
	shards := func() []string { return writeShards(t, run, groups, 0, 4, 9) }
	other := run
	other.Model.SHA256 = "ff"
	changed := slices.Clone(groups)
	changed[10] = slices.Clone(groups[10])
	changed[10][0].ID = groups[2][0].ID
	cut := shards()
	path := filepath.Join(cut[1], ItemsFile)
	if err := os.Truncate(path, int64(len(mustRead(t, path))-1)); err != nil {
		t.Fatal(err)
	}
	good := shards()
	for name, test := range map[string]struct {
		shards []string
		want   string
	}{
		"none":              {nil, "no shard to merge"},
		"a whole run":       {[]string{writeRun(t, run, groups)}, "is a whole run, not a shard"},
		"not a run":         {[]string{t.TempDir()}, "is not a run directory"},
		"another model":     {append(good[:2:2], writeShards(t, other, groups, 0, 4, 9)[2]), `are shards of different runs: model.sha256 was "aa", now "ff"`},
		"another division":  {append(good[:2:2], writeShards(t, run, groups, 0, 4, 9, 11)[2]), "are shards of different runs: shard.of was 3, now 4"},
		"the first missing": {good[1:], "shard 1 of 3 is missing; do it with --shard 1/3"},
		"the last missing":  {good[:2], "shard 3 of 3 is missing"},
		"twice":             {append(good[:3:3], shards()[1]), "shard 2 of 3 is there twice"},
		"other batches":     {append(good[:1:1], writeShards(t, run, groups, 0, 5, 9)[1:]...), fmt.Sprintf("begins with item %d where item %d belongs", groups[5][0].Index, groups[4][0].Index)},
		"unfinished":        {cut, fmt.Sprintf("holds %d of %d items; finish it", groups[8][0].Index-groups[4][0].Index, groups[9][0].Index-groups[4][0].Index)},
		"a double item":     {append(good[:2:2], writeShards(t, run, changed, 0, 4, 9)[2]), "item " + groups[2][0].ID + " is double"},
	} {
		dst := filepath.Join(t.TempDir(), "merged")
		err := Merge(dst, test.shards)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if _, err := os.Stat(dst); err == nil {
			t.Errorf("%s: a refused merge left a directory", name)
		}
	}
}
