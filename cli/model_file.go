package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"

	"github.com/urfave/cli/v2"

	"plumb/bindings"
	thirdparty "plumb/third_party"
)

// modelOptions say which model is opened, and how.
type modelOptions struct {
	model   string
	threads int
	devices deviceOptions
}

func (o *modelOptions) flags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "open the GGUF `FILE`, or a pinned model by its short name", Destination: &o.model},
		&cli.IntFlag{Name: "threads", Usage: "compute with `N` CPU threads (0: one a core)", Destination: &o.threads},
	}, o.devices.flags()...)
}

// maxThreads is the number of threads that ggml can make.
const maxThreads = 512

// openedModel is a model with the facts that a run records of it.
type openedModel struct {
	*bindings.Model
	path     string
	sha256   string
	selfTest bindings.SelfTest
}

// open opens the causal language model that the flags name, and tests it if it was not tested before.
func (o *modelOptions) open(options bindings.ModelOptions) (*openedModel, error) {
	model, err := o.load(options)
	if err != nil {
		return nil, err
	}
	if err := model.check(); err != nil {
		model.Close()
		return nil, err
	}
	return model, nil
}

// load opens the model that the flags name, an encoder or a causal language model.
func (o *modelOptions) load(options bindings.ModelOptions) (*openedModel, error) {
	if o.model == "" {
		return nil, usageError("which model? --model FILE.gguf, or --model smollm2 after `plumb model fetch smollm2`")
	}
	if o.threads < 0 || o.threads > maxThreads {
		return nil, usageError("--threads %d: a number of threads is at least 0, at most %d", o.threads, maxThreads)
	}
	if err := o.devices.apply(&options); err != nil {
		return nil, err
	}
	path, err := modelPath(o.model)
	if err != nil {
		return nil, err
	}
	options.Threads = o.threads
	if options.Threads == 0 { // what a container may use, which the native library does not ask for
		options.Threads = min(runtime.GOMAXPROCS(0), maxThreads)
	}
	model, err := bindings.OpenModel(path, options)
	if err != nil {
		return nil, err
	}
	hash, err := fileHash(path)
	if err != nil {
		model.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &openedModel{Model: model, path: path, sha256: hash}, nil
}

// check refuses an encoder, and tests a causal language model if it was not tested before.
func (m *openedModel) check() error {
	if info := m.Info(); info.IsEncoder {
		return fmt.Errorf("%s: an encoder (%s), which continues no text; give a causal language model, and the encoder as --embed-model where there is one", m.path, info.Architecture)
	}
	var err error
	if m.selfTest, err = m.test(); err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	return nil
}

// modelPath finds a model by its file or its short name.
func modelPath(name string) (string, error) {
	pinned, ok := thirdparty.Find(name)
	if !ok {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("there is no model file %s; give a .gguf file, or a name that `plumb model fetch --help` lists", name)
		}
		return name, nil
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil // a file of this name wins
	}
	path, err := pinned.Path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the model %s is not on this machine yet; fetch it by `plumb model fetch %s`", name, name)
	}
	return path, nil
}

// test returns the self-test's result, from the cache if this file was tested by this version on these devices.
func (m *openedModel) test() (bindings.SelfTest, error) {
	var result bindings.SelfTest
	devices := sha256.Sum256([]byte(m.Info().Devices))
	cached, err := cachePath("self-test", m.sha256+"-"+bindings.Version()+"-"+bindings.LlamaVersion()+"-"+hex.EncodeToString(devices[:4])+".json")
	if err != nil {
		return result, err
	}
	if data, err := os.ReadFile(cached); err == nil && json.Unmarshal(data, &result) == nil {
		return result, nil
	}
	if result, err = m.SelfTest(); err != nil {
		return result, fmt.Errorf("self-test: %w", err)
	}
	// a cache that cannot be written costs a second next time, and nothing else
	_ = writeCache(cached, result)
	return result, nil
}

// cachePath returns the place of a file in Plumb's cache.
func cachePath(elements ...string) (string, error) {
	cache, err := thirdparty.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(append([]string{cache}, elements...)...), nil
}

func writeCache(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// hashed is a file's SHA-256 and what tells that it is still that file.
type hashed struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds
	SHA256   string `json:"sha256"`
}

// fileHash returns the SHA-256 of a GGUF file in hexadecimal; of all parts, in order, if it is the first of a split one.
// Hashing a large model takes longer than loading it, so the result is kept until size or time of change differ.
func fileHash(path string) (string, error) {
	parts, err := splitParts(path)
	if err != nil {
		return "", err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	now := hashed{Path: absolute}
	for _, part := range parts {
		info, err := os.Stat(part)
		if err != nil {
			return "", err
		}
		now.Size += info.Size()
		now.Modified = max(now.Modified, info.ModTime().UnixNano())
	}
	key := sha256.Sum256([]byte(absolute))
	cached, err := cachePath("sha256", hex.EncodeToString(key[:8])+".json")
	if err != nil {
		return "", err
	}
	var before hashed
	if data, err := os.ReadFile(cached); err == nil && json.Unmarshal(data, &before) == nil {
		now.SHA256 = before.SHA256
		if now == before {
			return before.SHA256, nil
		}
	}
	sum := sha256.New()
	for _, part := range parts {
		if err := hashInto(sum, part); err != nil {
			return "", err
		}
	}
	now.SHA256 = hex.EncodeToString(sum.Sum(nil))
	_ = writeCache(cached, now)
	return now.SHA256, nil
}

func hashInto(sum io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(sum, file)
	return err
}

var splitName = regexp.MustCompile(`^(.*-)00001(-of-)(\d{5})(\.gguf)$`)

// splitParts returns the files of a model: path alone, or path and the parts after it.
func splitParts(path string) ([]string, error) {
	match := splitName.FindStringSubmatch(path)
	if match == nil {
		return []string{path}, nil
	}
	count, err := strconv.Atoi(match[3])
	if err != nil {
		return nil, err
	}
	var parts []string
	for i := 1; i <= count; i++ {
		part := fmt.Sprintf("%s%05d%s%s%s", match[1], i, match[2], match[3], match[4])
		if _, err := os.Stat(part); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("part %s of the model is missing", part)
		}
		parts = append(parts, part)
	}
	return parts, nil
}
