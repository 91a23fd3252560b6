// Package stereoset reads StereoSet (Nadeem et al., 2021, "StereoSet: Measuring stereotypical bias in pretrained language
// models"): the published JSON file, or JSON lines with one item each.
package stereoset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"plumb/audit/record"
)

// Item is a target with three sentences about it.
type Item struct {
	ID        string
	Condition string // record.Intersentence or record.Intrasentence
	BiasType  string // "gender", "profession", "race", "religion"
	Target    string // "Ethiopia": the unit of strata
	Context   string // the sentence before (intersentence), or the sentence with BLANK (intrasentence)

	// The sentences: one that follows the context, or the context with its blank filled in.
	Stereotype, AntiStereotype, Unrelated string
}

// Data is what was read.
type Data struct {
	Items []Item
	File  record.DataFile
}

// sentence is one of an item's in the published file.
type sentence struct {
	Sentence  string `json:"sentence"`
	GoldLabel string `json:"gold_label"`
}

// row is an item as it stands in either kind of file.
type row struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"` // JSON lines only
	Target    string     `json:"target"`
	BiasType  string     `json:"bias_type"`
	Context   string     `json:"context"`
	Sentences []sentence `json:"sentences"` // the published file only

	// JSON lines only.
	Stereotype     string `json:"stereotype"`
	AntiStereotype string `json:"anti-stereotype"`
	Unrelated      string `json:"unrelated"`
}

// published is the file as released: one JSON object.
type published struct {
	Data *struct {
		Intersentence []row `json:"intersentence"`
		Intrasentence []row `json:"intrasentence"`
	} `json:"data"`
}

// Read reads a file of StereoSet. An error has one line and names file, row and what is wrong with it.
func Read(path string) (*Data, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s%w", path, err)
	}
	hash := sha256.Sum256(content)
	data.File = record.DataFile{Name: filepath.Base(path), SHA256: hex.EncodeToString(hash[:]), Items: len(data.Items)}
	return data, nil
}

// rowError is where in a file something is wrong; the path stands before it.
func rowError(line int, format string, args ...any) error {
	return fmt.Errorf(":%d: %s; fetch the file again", line, fmt.Sprintf(format, args...))
}

func parse(content []byte) (*Data, error) {
	if !utf8.Valid(content) {
		return nil, errors.New(": not UTF-8; fetch the file again")
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	var whole published
	err := json.Unmarshal(content, &whole)
	if err == nil && whole.Data != nil {
		return whole.items()
	}
	if err != nil && publishedStart.Match(content) {
		return nil, fmt.Errorf(": not the JSON of StereoSet: %s; fetch the file again", strings.TrimPrefix(err.Error(), "json: "))
	}
	return parseLines(content)
}

// publishedStart is how the published file begins, and JSON lines do not.
var publishedStart = regexp.MustCompile(`^\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\{`)

func (p *published) items() (*Data, error) {
	r := reader{seen: map[string]string{}}
	for _, part := range []struct {
		condition string
		rows      []row
	}{{record.Intersentence, p.Data.Intersentence}, {record.Intrasentence, p.Data.Intrasentence}} {
		for i, item := range part.rows {
			item.Type = part.condition
			where := fmt.Sprintf("%s item %d", part.condition, i+1)
			if err := r.add(where, &item); err != nil {
				return nil, fmt.Errorf(": %s: %w; fetch the file again", where, err)
			}
		}
	}
	return r.data()
}

// maxLine is far above any item.
const maxLine = 1 << 20

func parseLines(content []byte) (*Data, error) {
	r := reader{seen: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var item row
		if err := json.Unmarshal(line, &item); err != nil {
			return nil, rowError(number, "not an item of StereoSet: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if err := r.add(fmt.Sprintf("line %d", number), &item); err != nil {
			return nil, rowError(number, "%s", err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, rowError(number+1, "the line is longer than %d MB", maxLine>>20)
	}
	return r.data()
}

// reader gathers items.
type reader struct {
	items []Item
	seen  map[string]string // where an id was read
}

func (r *reader) data() (*Data, error) {
	if len(r.items) == 0 {
		return nil, errors.New(": holds no items of StereoSet; fetch the file again")
	}
	return &Data{Items: r.items}, nil
}

func (r *reader) add(where string, fields *row) error {
	item, err := fields.item()
	if err != nil {
		return err
	}
	key := item.Condition + "/" + item.ID
	if before, ok := r.seen[key]; ok {
		return fmt.Errorf("id %q was already read from %s", item.ID, before)
	}
	r.seen[key] = where
	r.items = append(r.items, item)
	return nil
}

// item checks a row.
func (r *row) item() (Item, error) {
	item := Item{
		ID: r.ID, Condition: r.Type, BiasType: r.BiasType, Target: strings.TrimSpace(r.Target), Context: strings.TrimSpace(r.Context),
		Stereotype: r.Stereotype, AntiStereotype: r.AntiStereotype, Unrelated: r.Unrelated,
	}
	for _, s := range r.Sentences {
		var to *string
		switch s.GoldLabel {
		case "stereotype":
			to = &item.Stereotype
		case "anti-stereotype":
			to = &item.AntiStereotype
		case "unrelated":
			to = &item.Unrelated
		default:
			return Item{}, fmt.Errorf("gold_label is %q, not stereotype, anti-stereotype or unrelated", s.GoldLabel)
		}
		if *to != "" {
			return Item{}, fmt.Errorf("two sentences are labelled %s", s.GoldLabel)
		}
		*to = s.Sentence
	}
	if item.Condition != record.Intersentence && item.Condition != record.Intrasentence {
		return Item{}, fmt.Errorf("type is %q, not intersentence or intrasentence", item.Condition)
	}
	for _, field := range []struct {
		name string
		text *string
	}{
		{"id", &item.ID}, {"target", &item.Target}, {"bias_type", &item.BiasType}, {"context", &item.Context},
		{"the stereotype", &item.Stereotype}, {"the anti-stereotype", &item.AntiStereotype}, {"the unrelated sentence", &item.Unrelated},
	} {
		*field.text = strings.TrimSpace(*field.text)
		switch {
		case *field.text == "":
			return Item{}, fmt.Errorf("%s is missing or empty", field.name)
		case strings.ContainsRune(*field.text, 0):
			return Item{}, fmt.Errorf("%s holds a NUL character", field.name)
		}
	}
	return item, nil
}
