package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
)

func corpusCommand() *cli.Command {
	return &cli.Command{
		Name:  "corpus",
		Usage: "make a parallel corpus of AAE and SAE, and check it",
		Subcommands: []*cli.Command{
			corpusCleanCommand(),
			corpusTranslateCommand(),
			corpusFilterCommand(),
			corpusValidateCommand(),
			corpusAgreementCommand(),
			corpusSampleCommand(),
			corpusReleaseCommand(),
			corpusHydrateCommand(),
			corpusBuildCommand(),
			corpusSegmentCommand(),
		},
	}
}

// oneFile is the one file that a command takes; flags may stand behind it.
func oneFile(c *cli.Context, what string) (string, error) {
	arguments, err := laterFlags(c)
	if err == nil && len(arguments) != 1 {
		err = usageError("corpus %s takes one file, %s; see plumb corpus %s --help", c.Command.Name, what, c.Command.Name)
	}
	if err != nil {
		return "", err
	}
	return arguments[0], nil
}

// checkOutput refuses to write a file over one that is read.
func checkOutput(out string, inputs ...string) error {
	if out == "" {
		return usageError("where to? --out FILE")
	}
	return checkSideOutput("out", out, inputs...)
}

// checkSideOutput is checkOutput for the file of another flag, "" if it is not given.
func checkSideOutput(flag, path string, others ...string) error {
	if path == "" {
		return nil
	}
	there, err := os.Stat(path)
	if err != nil {
		return nil // there is nothing to lose
	}
	for _, other := range others {
		if info, err := os.Stat(other); err == nil && os.SameFile(info, there) {
			return usageError("--%s %s is a file that is read; choose another name", flag, path)
		}
	}
	return nil
}

// checkApart refuses two flags that name one file to write.
func checkApart(flag, path, out string) error {
	if path != "" && filepath.Clean(path) == filepath.Clean(out) {
		return usageError("--%s and --out both name %s; choose another name", flag, path)
	}
	return nil
}

// checkNew refuses to write over a file that people may have worked on.
func checkNew(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is there already, and people may have worked on it; choose another name, or move it away", path)
	}
	return nil
}

// makeFolder makes a folder for output, if it is not there.
func makeFolder(path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return usageError("--out %s is a file; name a folder", path)
	}
	return os.MkdirAll(path, 0o755)
}

// nothingKept is the error of a stage after which nothing would be left. Its output stays as it was.
func nothingKept(out string, s corpus.Summary, remedy string) error {
	var facts []string
	for _, fact := range s.Facts {
		if fact.Value != "0" {
			facts = append(facts, fact.Name+" "+fact.Value)
		}
	}
	return fmt.Errorf("nothing is kept, so %s is not written (%s); %s", out, strings.Join(facts, "; "), remedy)
}

// textHash is the SHA-256 of a file in hexadecimal. Unlike fileHash it reads the file every time.
func textHash(path string) (string, error) {
	sum := sha256.New()
	err := hashInto(sum, path)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// reportStage writes what a stage did beside its output, and prints it, for people or as JSON.
func reportStage(s corpus.Summary, output string, asJSON bool, out io.Writer) error {
	if err := s.WriteFile(output); err != nil {
		return err
	}
	if asJSON {
		return s.WriteJSON(out)
	}
	width := 0
	for _, fact := range s.Facts {
		width = max(width, utf8.RuneCountInString(fact.Name))
	}
	var text strings.Builder
	for _, fact := range s.Facts {
		fmt.Fprintf(&text, "%-*s  %s\n", width, fact.Name, fact.Value)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
