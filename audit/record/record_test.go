package record

import (
	"bytes"
	"math"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	groups := testGroups(50)
	dir := writeRun(t, testRun(50), groups)
	items, cut, err := readAll(dir)
	if err != nil || cut != 0 {
		t.Fatalf("cut %d, %v", cut, err)
	}
	want := slices.Concat(groups...)
	for i := range want {
		for k := range want[i].Options {
			if want[i].Error != "" {
				want[i].Options[k].LogProbs = nil
			}
		}
	}
	if !reflect.DeepEqual(items, want) {
		t.Fatalf("read %+v\nwrote %+v", items[0], want[0])
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d := difference(r.Run, testRun(50)); d != "" {
		t.Fatal(d)
	}
	group, err := r.Next()
	if err != nil || len(group) != len(groups[0]) {
		t.Fatalf("the first group has %d records, %v", len(group), err)
	}
}

// The same records give the same bytes, and the items file is one that the zstd program reads.
func TestBytesAreDeterministicZstd(t *testing.T) {
	groups := testGroups(300)
	first, second := writeRun(t, testRun(300), groups), writeRun(t, testRun(300), groups)
	for _, name := range []string{RunFile, ItemsFile} {
		if !bytes.Equal(mustRead(t, filepath.Join(first, name)), mustRead(t, filepath.Join(second, name))) {
			t.Errorf("%s differs between two equal runs", name)
		}
	}
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Skip("no zstd program here to read the file with")
	}
	out, err := exec.Command("zstd", "-dc", filepath.Join(first, ItemsFile)).Output()
	if err != nil || bytes.Count(out, []byte("\n")) != 300 {
		t.Fatalf("zstd -dc: %d lines, %v", bytes.Count(out, []byte("\n")), err)
	}
}

func TestRunJSONIsCanonical(t *testing.T) {
	data := mustRead(t, filepath.Join(writeRun(t, testRun(3), testGroups(3)), RunFile))
	if !bytes.HasPrefix(data, []byte("{\n  \"format\": 1,\n")) || !bytes.HasSuffix(data, []byte("\n}\n")) {
		t.Errorf("run.json:\n%s", data)
	}
	if !bytes.Contains(data, []byte(`<{{.Question}}>`)) {
		t.Errorf("texts are escaped more than JSON needs:\n%s", data)
	}
}

func TestAppendRefuses(t *testing.T) {
	scored := func(logProbs ...float32) []Option { return []Option{NewOption("a", Biased, logProbs)} }
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	tests := map[string]struct {
		items []Record
		want  string
	}{
		"empty":        {nil, "must not be empty"},
		"gap":          {[]Record{{Index: 1, ID: "x", Options: scored(-1)}}, "record 1 appended where record 0"},
		"doubled":      {[]Record{{Index: 0, ID: "x", Options: scored(-1)}, {Index: 0, ID: "y", Options: scored(-1)}}, "record 0 appended where record 1"},
		"too many":     {[]Record{{Index: 0, ID: "x", Options: scored(-1)}, {Index: 1, ID: "y", Options: scored(-1)}, {Index: 2, ID: "z", Options: scored(-1)}}, "record 2 of 2"},
		"no id":        {[]Record{{Index: 0, Options: scored(-1)}}, "item 0 has no id"},
		"label":        {[]Record{{Index: 0, ID: "x", Label: 1, Options: scored(-1)}}, "label 1"},
		"NaN":          {[]Record{{Index: 0, ID: "x", Options: scored(-1, nan)}}, "item x, option 0: a token's log-probability is NaN"},
		"infinity":     {[]Record{{Index: 0, ID: "x", Options: scored(inf)}}, "is -Inf"},
		"no scores":    {[]Record{{Index: 0, ID: "x", Options: scored()}}, "scores or an error"},
		"both":         {[]Record{{Index: 0, ID: "x", Error: "too long", Options: scored(-1)}}, "scores or an error"},
		"wrong sum":    {[]Record{{Index: 0, ID: "x", Options: []Option{{Role: Biased, Tokens: 1, Sum: -2, LogProbs: []float32{-1}}}}}, "the sum -2"},
		"NaN sum":      {[]Record{{Index: 0, ID: "x", Options: []Option{{Role: Biased, Tokens: 1, Sum: math.NaN(), LogProbs: []float32{-1}}}}}, "the sum NaN"},
		"wrong tokens": {[]Record{{Index: 0, ID: "x", Options: []Option{{Role: Biased, Tokens: 2, Sum: -1, LogProbs: []float32{-1}}}}}, "2 tokens with 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			w, err := Create(dir, testRun(2))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Append(test.items); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			// What was refused left no trace, and the writer goes on.
			if err := w.Append([]Record{{Index: 0, ID: "x", Options: scored(-1)}}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if items, cut, err := readAll(dir); err != nil || cut != 0 || len(items) != 1 {
				t.Fatalf("%d items, cut %d, %v", len(items), cut, err)
			}
		})
	}
}

func TestCopyWithoutText(t *testing.T) {
	run := testRun(30)
	run.Prompt.Own = true
	run.Prompt.Template = "my secret prompt"
	groups := testGroups(30)
	src := writeRun(t, run, groups)
	dst := filepath.Join(t.TempDir(), "copy")
	if err := CopyWithoutText(src, dst); err != nil {
		t.Fatal(err)
	}
	items, _, err := readAll(dst)
	if err != nil || len(items) != 30 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	for i, item := range items {
		original := slices.Concat(groups...)[i]
		if item.Text != "" || item.Options[0].Text != "" || item.ID != original.ID || item.Options[1].Sum != original.Options[1].Sum || item.Error != original.Error {
			t.Fatalf("item %d: %+v", i, item)
		}
	}
	if data := mustRead(t, filepath.Join(dst, RunFile)); bytes.Contains(data, []byte("secret")) || !bytes.Contains(data, []byte(`"no_text": true`)) {
		t.Errorf("run.json of the copy:\n%s", data)
	}
	if err := CopyWithoutText(src, src); err == nil {
		t.Error("a run was copied onto itself")
	}
	if err := CopyWithoutText(t.TempDir(), filepath.Join(t.TempDir(), "x")); err == nil || !strings.Contains(err.Error(), "is not a run directory") {
		t.Error(err)
	}
}
