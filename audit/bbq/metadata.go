package bbq

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Metadata is BBQ's additional_metadata.csv: for each item the index of the biased option (column target_loc), worked
// out by the authors of BBQ from their templates.
type Metadata struct {
	File   File
	target map[metadataKey]int // noLocation where the file has none
}

// The published analysis joins the file to the items by these three.
type metadataKey struct{ category, question, example string }

const noLocation = -1

// ReadMetadata reads the file, plain or compressed by gzip or zstd. Needed are the columns category, question_index (or
// question_id), example_id and target_loc; the others are not looked at. An error has one line and names file and line.
//
// Since BBQ's release of July 2022 target_loc is the other group's option in items of non-negative polarity. Before, it
// was the targeted group's in all: such a file is refused, because half of its items would be scored the wrong way round.
func ReadMetadata(path string) (*Metadata, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	defer file.Close()
	hash := sha256.New()
	stored := bufio.NewReader(io.TeeReader(file, hash))
	text, closeText, err := decompress(stored)
	if err != nil {
		return nil, pathError(path, err)
	}
	defer closeText()

	m := &Metadata{File: File{Name: filepath.Base(path)}, target: map[metadataKey]int{}}
	if err := m.read(path, csv.NewReader(text)); err != nil {
		return nil, err
	}
	if err := m.checkRelease(path); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, stored); err != nil {
		return nil, pathError(path, err)
	}
	m.File.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return m, nil
}

func (m *Metadata) read(path string, table *csv.Reader) error {
	table.ReuseRecord = true
	header, err := table.Read()
	var noTable *csv.ParseError
	if err != nil && err != io.EOF && !errors.As(err, &noTable) {
		return csvError(path, err)
	}
	column := func(names ...string) int {
		return slices.IndexFunc(header, func(name string) bool { return slices.Contains(names, name) })
	}
	category, question := column("category"), column("question_index", "question_id")
	example, target := column("example_id"), column("target_loc")
	if min(category, question, example, target) < 0 {
		return fmt.Errorf("%s: not BBQ's additional_metadata.csv: it needs the columns category, question_index, example_id "+
			"and target_loc", path)
	}
	for {
		record, err := table.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return csvError(path, err)
		}
		location := noLocation
		if value := record[target]; value != "" && value != "NA" {
			location = slices.Index([]string{"0", "1", "2"}, value)
			if location < 0 {
				line, _ := table.FieldPos(target)
				return fmt.Errorf("%s:%d: target_loc is %s, not 0, 1, 2 or NA", path, line, quoted(value))
			}
		}
		key := metadataKey{record[category], record[question], record[example]}
		// The published file repeats some items. Where the repetitions differ there is no single target.
		if before, ok := m.target[key]; ok && before != location {
			location = noLocation
		}
		m.target[key] = location
		m.File.Rows++
	}
	if m.File.Rows == 0 {
		return fmt.Errorf("%s: the file holds no rows; fetch it again", path)
	}
	return nil
}

func csvError(path string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s:%d: %w", path, parse.Line, parse.Err)
	}
	return pathError(path, fmt.Errorf("cannot be read: %w; fetch the file again", err))
}

// checkRelease tells the two releases apart. The items 4k … 4k+3 are one instance of a template with the options in one
// order: two items of negative polarity, then two of non-negative. Where all four have the same target, the target is a group.
func (m *Metadata) checkRelease(path string) error {
	same, different := 0, 0
	for key, first := range m.target {
		id, err := strconv.Atoi(key.example)
		if err != nil || id%4 != 0 || first == noLocation {
			continue
		}
		key.example = strconv.Itoa(id + 2)
		switch second, ok := m.target[key]; {
		case !ok || second == noLocation:
		case second == first:
			same++
		default:
			different++
		}
	}
	if same > different {
		return fmt.Errorf("%s: target_loc does not change with the polarity of the question, as in BBQ's releases before "+
			"July 2022; take additional_metadata.csv of a later one", path)
	}
	return nil
}

// biased returns the index of the item's biased option, or the reason why there is none.
func (m *Metadata) biased(item *Item, question string) (int, string) {
	example := item.ID[len(item.Category)+1:]
	location, ok := m.target[metadataKey{item.Category, question, example}]
	switch {
	case !ok:
		return -1, notInFile
	case location == noLocation:
		return -1, noTarget
	case item.Options[location].Role == Unknown:
		return -1, badTarget
	}
	return location, ""
}
