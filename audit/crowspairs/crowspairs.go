// Package crowspairs reads CrowS-Pairs (Nangia et al., 2020, "CrowS-Pairs: A Challenge Dataset for Measuring Social Biases
// in Masked Language Models") as published: CSV.
package crowspairs

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

// Item is a pair of sentences that differ in the group they name.
type Item struct {
	ID        string // "pair/17", the number of its row
	Condition string // record.Stereo or record.Antistereo: what the pair's stereotyped sentence does
	BiasType  string // "race-color"

	More, Less string // the more and the less stereotyping sentence
}

// Data is what was read.
type Data struct {
	Items []Item
	File  record.DataFile
}

// Read reads the published file. An error has one line and names file, row and what is wrong with it.
func Read(path string) (*Data, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	items, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s%w; fetch the file again", path, err)
	}
	hash := sha256.Sum256(content)
	return &Data{items, record.DataFile{Name: filepath.Base(path), SHA256: hex.EncodeToString(hash[:]), Items: len(items)}}, nil
}

// columns are those that are read; the file has more.
var columns = []string{"sent_more", "sent_less", "stereo_antistereo", "bias_type"}

func parse(content []byte) ([]Item, error) {
	if !utf8.Valid(content) {
		return nil, errors.New(": not UTF-8")
	}
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	header, err := rows.Read()
	if err == io.EOF {
		return nil, errors.New(": empty")
	}
	if err != nil {
		return nil, csvError(err)
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		if at[i] = slices.Index(header, name); at[i] < 0 {
			return nil, fmt.Errorf(":1: no column %s, as CrowS-Pairs has", name)
		}
	}
	var items []Item
	for {
		fields, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, csvError(err)
		}
		line, _ := rows.FieldPos(0)
		item := Item{
			ID:   fmt.Sprintf("pair/%d", len(items)),
			More: strings.TrimSpace(fields[at[0]]), Less: strings.TrimSpace(fields[at[1]]),
			Condition: fields[at[2]], BiasType: strings.TrimSpace(fields[at[3]]),
		}
		switch {
		case item.More == "" || item.Less == "" || item.BiasType == "":
			return nil, fmt.Errorf(":%d: a sentence or the bias type is empty", line)
		case strings.ContainsRune(item.More+item.Less, 0):
			return nil, fmt.Errorf(":%d: a sentence holds a NUL character", line)
		case item.Condition != record.Stereo && item.Condition != record.Antistereo:
			return nil, fmt.Errorf(":%d: stereo_antistereo is %q, not stereo or antistereo", line, item.Condition)
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		return nil, errors.New(": holds no pairs")
	}
	return items, nil
}

// csvError says where a file is not CSV.
func csvError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf(":%d: not CSV: %w", parse.Line, parse.Err)
	}
	return fmt.Errorf(": %w", err)
}
