package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/internal/jsonfile"
)

func corpusBuildCommand() *cli.Command {
	return &cli.Command{
		Name:      "build",
		Usage:     "run the chain from raw texts to a release, as a file says",
		ArgsUsage: "CONFIG",
		Description: `Runs clean, translate, filter, and, where CONFIG has them, validate, agreement and release. CONFIG is JSON: a folder and,
for every stage, the flags of its command by their names (a list for a flag that is repeated):

  {
    "out": "my-corpus",
    "clean": {"input": ["tweets.jsonl"], "id": "tweet_id"},
    "translate": {"endpoint": "http://localhost:8080/v1", "endpoint-model": "a-model", "concurrency": 8},
    "filter": {"reviewed": "sheet.csv"},
    "validate": {"model": "model.gguf", "sentiment": true},
    "agreement": {"input": ["annotator-1.csv", "annotator-2.csv", "annotator-3.csv"]},
    "release": {"name": "My corpus", "licence": "CC BY 4.0"}
  }

The files between the stages, and what each prints, are in the folder. A stage whose flags and input files have not
changed, and whose outputs are as it left them, is skipped; a translation goes on after the answers that it has. Paths
are as on a command line: from the current folder.

EXIT STATUS
   0  every stage is done
   1  a stage failed, or was interrupted
   2  the command line or CONFIG is wrong`,
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the configuration")
			if err != nil {
				return err
			}
			return runCorpusBuild(c.Context, path, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// buildConfig is what a build's file says: the flags of every stage.
type buildConfig struct {
	Out       string         `json:"out"`
	Clean     map[string]any `json:"clean"`
	Translate map[string]any `json:"translate"`
	Filter    map[string]any `json:"filter"`
	Validate  map[string]any `json:"validate"`
	Agreement map[string]any `json:"agreement"`
	Release   map[string]any `json:"release"`
}

func readBuildConfig(path string) (*buildConfig, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config buildConfig
	if err := jsonfile.Decode(data, &config); err != nil {
		return nil, usageError("%s: %s; see plumb corpus build --help for what the file holds", path, err)
	}
	switch {
	case config.Out == "":
		return nil, usageError("%s: where to? \"out\" names a folder", path)
	case config.Clean == nil || config.Translate == nil:
		return nil, usageError("%s: a build has at least the stages \"clean\" and \"translate\"", path)
	}
	return &config, nil
}

// buildStage is a command of the chain with what it reads and writes.
type buildStage struct {
	name    string
	flags   map[string]any // the user's
	inputs  []string       // files that it reads from stages before
	fixed   []string       // flags that the chain sets
	outputs []string
}

// stages lays out the chain.
func (b *buildConfig) stages() []buildStage {
	in := func(name string) string { return filepath.Join(b.Out, name) }
	clean, filtered, final := in("clean.jsonl"), in("filtered.jsonl"), in("filtered.jsonl")
	translated := filepath.Join(in("translated"), tripletsFile)
	list := []buildStage{
		{"clean", b.Clean, nil, []string{"--out", clean}, []string{clean}},
		{"translate", b.Translate, []string{clean}, []string{"--out", in("translated"), "--resume"}, []string{translated}},
		{"filter", b.Filter, []string{translated}, []string{"--out", filtered, "--verdicts", in("verdicts.jsonl")}, []string{filtered, in("verdicts.jsonl")}},
	}
	if b.Validate != nil {
		scores := in("validation.jsonl")
		list = append(list, buildStage{"validate", b.Validate, []string{filtered}, []string{"--out", scores}, []string{scores, validationPage(scores)}})
	}
	if b.Agreement != nil {
		final = in(tripletsFile)
		list = append(list, buildStage{"agreement", b.Agreement, nil, []string{"--triplets", filtered, "--out", final}, []string{final}})
	}
	for i := range list {
		list[i].outputs = append(list[i].outputs, corpus.SummaryPath(list[i].outputs[0]))
	}
	if b.Release != nil {
		release := buildStage{"release", b.Release, []string{final}, []string{"--out", in("release")},
			[]string{filepath.Join(in("release"), corpus.ReleaseFile), filepath.Join(in("release"), corpus.CardFile)}}
		for _, stage := range list {
			release.fixed = append(release.fixed, "--summary", corpus.SummaryPath(stage.outputs[0]))
		}
		list = append(list, release)
	}
	return list
}

// inputFlag is the key of a stage's files in a build's configuration.
const inputFlag = "input"

// noBuildFlags write what people fill in or read beside the chain.
var noBuildFlags = []string{"review", "sheet", "print-rules", "dropped", "json"}

// arguments are the stage's command line.
func (s *buildStage) arguments() ([]string, error) {
	arguments := append([]string{"plumb", "corpus", s.name}, s.fixed...)
	var files []string
	for _, name := range slices.Sorted(maps.Keys(s.flags)) {
		if slices.Contains(s.fixed, "--"+name) {
			return nil, usageError("the stage %s: the build itself sets %q", s.name, name)
		}
		if slices.Contains(noBuildFlags, name) {
			return nil, usageError("the stage %s: %q is for the command itself, plumb corpus %s", s.name, name, s.name)
		}
		values, isList := s.flags[name].([]any)
		if !isList {
			values = []any{s.flags[name]}
		}
		for _, value := range values {
			switch value.(type) {
			case string, bool, json.Number:
			default:
				return nil, usageError("the stage %s: %q is a text, a number, true or false, or a list of these", s.name, name)
			}
			if name == inputFlag {
				files = append(files, fmt.Sprint(value))
			} else {
				arguments = append(arguments, fmt.Sprintf("--%s=%v", name, value))
			}
		}
	}
	if err := s.parse(arguments[3:]); err != nil {
		return nil, err
	}
	arguments = append(append(arguments, "--"), files...)
	return append(arguments, s.inputs...), nil
}

// parse says whether the stage's command knows the flags and can read their values, without running it.
func (s *buildStage) parse(flags []string) error {
	commands := corpusCommand().Subcommands
	command := commands[slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == s.name })]
	set := flag.NewFlagSet(s.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range command.Flags {
		if err := f.Apply(set); err != nil {
			return err
		}
	}
	if err := set.Parse(flags); err != nil {
		return usageError("the stage %s: %v; see plumb corpus %s --help", s.name, err, s.name)
	}
	return nil
}

// stamp is what a stage was done with, and what it left.
type stamp struct {
	Inputs  string            `json:"inputs"`  // a hash of the arguments and of every file that one of them names
	Outputs map[string]string `json:"outputs"` // SHA-256 by file
}

// stampsFile holds the stamps of a build by stage.
const stampsFile = "build.json"

// inputHash hashes the arguments and the files that they name, but for those that the stage writes.
func inputHash(arguments, outputs []string) (string, error) {
	sum := sha256.New()
	for _, argument := range arguments {
		fmt.Fprintf(sum, "%q\n", argument)
		value := argument
		if name, after, found := strings.Cut(argument, "="); found && strings.HasPrefix(name, "--") {
			value = after
		}
		if path, err := modelPath(value); err == nil { // a model's short name stands for its file
			value = path
		}
		if info, err := os.Stat(value); err != nil || !info.Mode().IsRegular() || slices.Contains(outputs, value) {
			continue
		}
		hashOf := textHash
		if strings.HasSuffix(value, ".gguf") {
			hashOf = fileHash
		}
		hash, err := hashOf(value)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s\n", hash)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// outputHashes are the hashes of a stage's outputs, nil if one is missing.
func outputHashes(files []string) map[string]string {
	hashes := map[string]string{}
	for _, file := range files {
		hash, err := textHash(file)
		if err != nil {
			return nil
		}
		hashes[filepath.Base(file)] = hash
	}
	return hashes
}

func runCorpusBuild(ctx context.Context, path string, out, notes io.Writer) error {
	config, err := readBuildConfig(path)
	if err != nil {
		return err
	}
	stages := config.stages()
	commands := make([][]string, len(stages))
	for i, stage := range stages { // before the first one runs, which may take hours
		if commands[i], err = stage.arguments(); err != nil {
			return usageError("%s: %v", path, err)
		}
	}
	if err := makeFolder(config.Out); err != nil {
		return err
	}
	stamps := map[string]stamp{}
	stampsPath := filepath.Join(config.Out, stampsFile)
	if data, err := os.ReadFile(stampsPath); err == nil {
		if err := json.Unmarshal(data, &stamps); err != nil {
			return fmt.Errorf("%s: not what a build writes; remove it, and every stage is done anew", stampsPath)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for i, stage := range stages {
		arguments := commands[i]
		inputs, err := inputHash(arguments, stage.outputs)
		if err != nil {
			return err
		}
		before, done := stamps[stage.name]
		if done && before.Inputs == inputs && maps.Equal(before.Outputs, outputHashes(stage.outputs)) {
			fmt.Fprintf(out, "%s: up to date\n", stage.name)
			continue
		}
		fmt.Fprintf(out, "%s\n", stage.name)
		if err := Run(ctx, arguments, &indented{out: out, atStart: true}, notes); err != nil {
			if ExitStatus(err) == exitUsage {
				return usageError("the stage %s: %v", stage.name, err)
			}
			return fmt.Errorf("the stage %s: %w", stage.name, err)
		}
		stamps[stage.name] = stamp{inputs, outputHashes(stage.outputs)}
		err = corpus.WriteFile(stampsPath, func(file io.Writer) error { return json.NewEncoder(file).Encode(stamps) })
		if err != nil {
			return err
		}
	}
	return nil
}

// indented puts two spaces before every line that is written to it.
type indented struct {
	out     io.Writer
	atStart bool
}

func (w *indented) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if w.atStart && len(bytes.TrimSpace(line)) > 0 {
			line = append([]byte("  "), line...)
		}
		w.atStart = bytes.HasSuffix(line, []byte("\n"))
		if _, err := w.out.Write(line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
