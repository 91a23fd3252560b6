package record

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// testRun describes a run of n items.
func testRun(n int) Run {
	return Run{
		Plumb: "0.1.0", LlamaCpp: "b1", Benchmark: "bbq", Device: "CPU", Seed: 0, Items: n,
		Model:   Model{SHA256: "aa", Name: "tiny.gguf", Architecture: "llama", Description: "llama 1M F32", NLayer: 2, NEmbd: 8},
		Data:    Data{Files: []DataFile{{Name: "Age.jsonl", SHA256: "bb", Items: n + 1}}, Kept: n, LeftOut: []LeftOut{{Reason: "two unknown options", Count: 1, IDs: []string{"Age/9"}}}},
		Prompt:  Prompt{Template: "{{.Context}} <{{.Question}}>\n", SHA256: "cc"},
		Scoring: Scoring{ContextTokens: 4096, BatchRows: 512, Trie: true},
	}
}

// testGroups makes n seeded records, in groups of 1 to 6; every eleventh item could not be scored.
func testGroups(n int) [][]Record {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	var groups [][]Record
	for i := 0; i < n; {
		var group []Record
		for range min(1+rng.IntN(6), n-i) {
			item := Record{
				Index: i, ID: fmt.Sprintf("Age/%d", i), Category: "Age", Template: fmt.Sprintf("Age/%d", i/4),
				Condition: Ambiguous, Polarity: Negative, Label: 2, Text: "Déjà vu: <b>who & what?</b>\n",
			}
			for k, role := range []Role{Biased, Anti, Unknown} {
				logProbs := make([]float32, 1+rng.IntN(4))
				for t := range logProbs {
					logProbs[t] = float32(-5 * rng.Float64())
				}
				item.Options = append(item.Options, NewOption(fmt.Sprintf("option %d", k), role, logProbs))
			}
			if i%11 == 10 {
				item.Error = "prompt is 300000 tokens; the context holds 4096"
				for k := range item.Options {
					item.Options[k] = NewOption(item.Options[k].Text, item.Options[k].Role, nil)
				}
			}
			group = append(group, item)
			i++
		}
		groups = append(groups, group)
	}
	return groups
}

// appendFrom appends the groups that the writer does not have yet.
func appendFrom(tb testing.TB, w *Writer, groups [][]Record) {
	tb.Helper()
	for _, group := range groups {
		if group[0].Index < w.Done() {
			continue
		}
		if err := w.Append(group); err != nil {
			tb.Fatal(err)
		}
	}
}

// writeRun writes a whole run and returns its directory.
func writeRun(tb testing.TB, run Run, groups [][]Record) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "run")
	w, err := Create(dir, run)
	if err != nil {
		tb.Fatal(err)
	}
	appendFrom(tb, w, groups)
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// readAll reads every record of a run.
func readAll(dir string) (items []Record, cut int64, err error) {
	r, err := Open(dir)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	for item, err := range r.Records() {
		if err != nil {
			return items, 0, err
		}
		items = append(items, item)
	}
	if _, err := r.Next(); err != io.EOF {
		return nil, 0, errors.New("no end after the last record")
	}
	return items, r.Cut(), nil
}

func mustRead(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func mustWrite(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// memoryDir is a folder in memory where the system has one: tests that resume a thousand times wait for no disk.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "plumb-record-")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}
