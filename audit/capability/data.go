// Package capability measures what an intervention costs: the accuracy on MMLU (Hendrycks et al., 2021) and the perplexity
// of a text (Answerability Confounds (GCD), section 6.7). It reads the data, and it sums up and compares runs.
package capability

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"plumb/audit/record"
)

// Benchmark is record.Run.Benchmark of a capability audit.
const Benchmark = "capability"

// Values of record.Record.Condition.
const (
	MMLU     = "mmlu"     // a question with four options
	Segments = "segments" // a line of a text, scored from its second token on, the first being the BOS where the model asks for one
	Windows  = "windows"  // WindowTokens tokens of a text, of which the second half is scored: llama.cpp's perplexity
)

// WindowTokens is the size of a window, the default context of llama.cpp's perplexity program.
const WindowTokens = 512

// Question is an item of MMLU.
type Question struct {
	ID      string // "anatomy/17", the number of its row
	Subject string
	Text    string
	Options [4]string
	Label   int // index of the right option
}

// ReadMMLU reads a file of MMLU's published CSV (question, four options and the right one's letter, without a header), or
// every file *_test.csv of a folder or of the folder test in it, in the order of their names, which is the published order
// of the subjects. A file's name begins with its subject. An error has one line and names file, row and what is wrong.
func ReadMMLU(path string) ([]Question, []record.DataFile, error) {
	paths, err := mmluFiles(path)
	if err != nil {
		return nil, nil, err
	}
	var questions []Question
	var files []record.DataFile
	for _, path := range paths {
		content, file, err := readFile(path)
		if err != nil {
			return nil, nil, err
		}
		subject := strings.TrimSuffix(strings.TrimSuffix(file.Name, ".csv"), "_test")
		list, err := parseMMLU(subject, content)
		if err != nil {
			return nil, nil, fmt.Errorf("%s%w; fetch the file again", path, err)
		}
		file.Items = len(list)
		questions, files = append(questions, list...), append(files, file)
	}
	return questions, files, nil
}

func mmluFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	for _, folder := range []string{path, filepath.Join(path, "test")} {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, pathError(folder, err)
		}
		var files []string
		for _, entry := range entries { // sorted by name
			if strings.HasSuffix(entry.Name(), "_test.csv") {
				files = append(files, filepath.Join(folder, entry.Name()))
			}
		}
		if len(files) > 0 {
			return files, nil
		}
	}
	return nil, fmt.Errorf("%s: no files of MMLU in this folder (SUBJECT_test.csv)", path)
}

func parseMMLU(subject string, content []byte) ([]Question, error) {
	if !utf8.Valid(content) {
		return nil, errors.New(": not UTF-8")
	}
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	rows.FieldsPerRecord = 6
	var questions []Question
	for {
		fields, err := rows.Read()
		if err == io.EOF {
			break
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			return nil, fmt.Errorf(":%d: not a question, four options and a letter: %w", broken.Line, broken.Err)
		}
		if err != nil {
			return nil, fmt.Errorf(": %w", err)
		}
		line, _ := rows.FieldPos(0)
		q := Question{ID: fmt.Sprintf("%s/%d", subject, len(questions)), Subject: subject, Text: strings.TrimSpace(fields[0])}
		for i := range q.Options {
			q.Options[i] = strings.TrimSpace(fields[1+i])
		}
		q.Label = slices.Index([]string{"A", "B", "C", "D"}, strings.TrimSpace(fields[5]))
		switch {
		case q.Label < 0:
			return nil, fmt.Errorf(":%d: the right option is %q, not A, B, C or D", line, fields[5])
		case q.Text == "" || slices.Contains(q.Options[:], ""):
			return nil, fmt.Errorf(":%d: the question or an option is empty", line)
		case strings.ContainsRune(strings.Join(fields, ""), 0):
			return nil, fmt.Errorf(":%d: holds a NUL character", line)
		}
		questions = append(questions, q)
	}
	if len(questions) == 0 {
		return nil, errors.New(": holds no questions")
	}
	return questions, nil
}

// ReadText reads a text file, such as WikiText-2's wiki.test.raw. Like llama.cpp's programs it drops one line feed at the
// end.
func ReadText(path string) (string, record.DataFile, error) {
	content, file, err := readFile(path)
	if err != nil {
		return "", file, err
	}
	if !utf8.Valid(content) || bytes.ContainsRune(content, 0) {
		return "", file, fmt.Errorf("%s: not a text in UTF-8", path)
	}
	text := strings.TrimSuffix(string(content), "\n")
	if strings.TrimSpace(text) == "" {
		return "", file, fmt.Errorf("%s: holds no text", path)
	}
	return text, file, nil
}

// Lines are a text's lines that are not empty, without their line feeds.
func Lines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
	}
	return lines
}

func readFile(path string) ([]byte, record.DataFile, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, record.DataFile{}, pathError(path, err)
	}
	hash := sha256.Sum256(content)
	return content, record.DataFile{Name: filepath.Base(path), SHA256: hex.EncodeToString(hash[:]), Items: 1}, nil
}

func pathError(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
