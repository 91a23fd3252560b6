package bbq

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Data is what was read: the items that can be audited, and an account of everything else.
type Data struct {
	Items    []Item
	LeftOut  []LeftOut // well-formed items without a unique targeted option, in the order of the files
	BadRows  []BadRow  // the first maxBadRows of them
	Bad      int       // how many bad rows there are
	Files    []File
	Metadata *File // the metadata file, where one was used
}

// A File is what a run records of a file that it read.
type File struct {
	Name   string `json:"name"`   // relative to the folder in which it was found, or its base name: no folder of the user's
	SHA256 string `json:"sha256"` // of the file as stored, compressed or not
	Rows   int    `json:"rows"`
	Items  int    `json:"items"` // rows that are now Items
}

// LeftOut is an item without a unique decomposition into the targeted group's option, the other one and the unknown one.
type LeftOut struct {
	ID       string `json:"id"`
	Category string `json:"-"`
	Reason   string `json:"reason"`
}

// A BadRow is a row that is not an item.
type BadRow struct {
	File   string `json:"file"` // as the user named it
	Line   int    `json:"line"` // or the row in a Parquet file, counted from 1
	Reason string `json:"reason"`
}

func (b BadRow) Error() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// maxBadRows bounds the memory that a file which is no BBQ file can take.
const maxBadRows = 1000

// A CategoryCount counts what was read of one category; bad rows belong to none.
type CategoryCount struct {
	Category string `json:"category"`
	Rows     int    `json:"rows"`
	Kept     int    `json:"kept"`
	LeftOut  int    `json:"left_out"`
}

// Categories counts the items by category, sorted by its name.
func (d *Data) Categories() []CategoryCount {
	counts := map[string]*CategoryCount{}
	of := func(category string) *CategoryCount {
		if counts[category] == nil {
			counts[category] = &CategoryCount{Category: category}
		}
		counts[category].Rows++
		return counts[category]
	}
	for i := range d.Items {
		of(d.Items[i].Category).Kept++
	}
	for _, left := range d.LeftOut {
		of(left.Category).LeftOut++
	}
	list := make([]CategoryCount, 0, len(counts))
	for _, count := range counts {
		list = append(list, *count)
	}
	slices.SortFunc(list, func(a, b CategoryCount) int { return cmp.Compare(a.Category, b.Category) })
	return list
}

// Read reads files and folders of BBQ in the given order, folders with all that is below them in the order of the names.
// A file is JSON lines as published, plain or compressed by gzip or zstd, or Parquet with the same columns.
// The roles come from the metadata where it is not nil, else from the items themselves.
//
// A row that is not an item does not stop the reading: see Data.BadRows. An error, of one line and with the file's name,
// is a file that cannot be read or decompressed, one without any row, or a folder without files of BBQ.
func Read(paths []string, metadata *Metadata) (*Data, error) {
	sources, err := find(paths)
	if err != nil {
		return nil, err
	}
	r := newReader(metadata)
	for _, source := range sources {
		if err := r.file(source); err != nil {
			return nil, err
		}
	}
	return r.data, nil
}

// A source is a file to read.
type source struct{ path, name string }

// suffixes are the names that files of BBQ have in a folder. A file given by its own name may have any.
var suffixes = []string{".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"}

func find(paths []string) ([]source, error) {
	var sources []source
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, pathError(path, err)
		}
		if !info.IsDir() {
			sources = append(sources, source{path, filepath.Base(path)})
			continue
		}
		before := len(sources)
		// os.DirFS follows a link to a folder, and the entries' names are the ones to record.
		err = fs.WalkDir(os.DirFS(path), ".", func(name string, entry fs.DirEntry, err error) error {
			isHidden := name != "." && strings.HasPrefix(entry.Name(), ".")
			isData := slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
			switch {
			case err != nil:
				return pathError(filepath.Join(path, name), err)
			case entry.IsDir() && isHidden:
				return fs.SkipDir
			case !entry.IsDir() && isData && !isHidden:
				sources = append(sources, source{filepath.Join(path, name), name})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(sources) == before {
			return nil, fmt.Errorf("%s: no BBQ files in this folder (%s)", path, strings.Join(suffixes, ", "))
		}
	}
	return sources, nil
}

// pathError says what went wrong with a path, once and on one line.
func pathError(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// A reader gathers what it is fed, row by row.
type reader struct {
	data     *Data
	metadata *Metadata
	seen     map[string]place // by item ID
}

type place struct {
	path string
	line int
}

func newReader(metadata *Metadata) *reader {
	r := &reader{data: &Data{}, metadata: metadata, seen: map[string]place{}}
	if metadata != nil {
		r.data.Metadata = &metadata.File
	}
	return r
}

func (r *reader) file(source source) error {
	file, err := os.Open(source.path)
	if err != nil {
		return pathError(source.path, err)
	}
	defer file.Close()
	hash := sha256.New()
	buffered := bufio.NewReader(io.TeeReader(file, hash))
	magic, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return pathError(source.path, err)
	}

	r.data.Files = append(r.data.Files, File{Name: source.name})
	if string(magic) == "PAR1" {
		err = r.parquet(source, file)
	} else {
		err = r.jsonLines(source, buffered)
	}
	if err != nil {
		return pathError(source.path, err)
	}
	record := &r.data.Files[len(r.data.Files)-1]
	if record.Rows == 0 {
		return fmt.Errorf("%s: the file holds no rows; fetch it again", source.path)
	}
	// What nobody has read yet belongs to the hash too.
	if _, err := io.Copy(io.Discard, buffered); err != nil {
		return pathError(source.path, err)
	}
	record.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return nil
}

// add takes a row, or the reason why there is none, from a line of the file that is being read.
func (r *reader) add(source source, line int, fields *row, err error) {
	file := &r.data.Files[len(r.data.Files)-1]
	file.Rows++
	bad := func(reason string) {
		r.data.Bad++
		if len(r.data.BadRows) < maxBadRows {
			r.data.BadRows = append(r.data.BadRows, BadRow{source.path, line, reason})
		}
	}
	if err != nil {
		bad(err.Error())
		return
	}
	item, answers, err := fields.item()
	if err != nil {
		bad(err.Error())
		return
	}
	// A published file is named after its category.
	stem, _, _ := strings.Cut(filepath.Base(source.name), ".")
	if _, published := rules[stem]; published && item.Category != stem {
		bad(fmt.Sprintf("category is %s in a file of %s", quoted(item.Category), stem))
		return
	}
	if first, ok := r.seen[item.ID]; ok {
		bad(fmt.Sprintf("%s was already read from %s:%d", item.ID, first.path, first.line))
		return
	}
	r.seen[item.ID] = place{source.path, line}

	biased, reason := r.biased(&item, answers, fields)
	if reason != "" {
		r.data.LeftOut = append(r.data.LeftOut, LeftOut{item.ID, item.Category, reason})
		return
	}
	item.assign(biased)
	item.File, item.Line = source.path, line
	r.data.Items = append(r.data.Items, item)
	file.Items++
}

// biased returns the index of the biased option, or the reason why there is no single one.
func (r *reader) biased(item *Item, answers [3]answer, fields *row) (int, string) {
	if r.metadata != nil {
		return r.metadata.biased(item, string(fields.QuestionIndex))
	}
	question := string(fields.QuestionIndex)
	target, reason := targeted(item.Category, question, answers, fields.AdditionalMetadata.StereotypedGroups)
	if reason != "" || item.Polarity == Negative {
		return target, reason
	}
	for i, option := range item.Options {
		if i != target && option.Role != Unknown {
			return i, ""
		}
	}
	return -1, noneTargeted
}

// readItems reads JSON lines that are already in memory.
func readItems(name string, lines []byte) (*Data, error) {
	r := newReader(nil)
	r.data.Files = []File{{Name: name}}
	if err := r.jsonLines(source{name, name}, bufio.NewReader(bytes.NewReader(lines))); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sum := sha256.Sum256(lines)
	r.data.Files[0].SHA256 = hex.EncodeToString(sum[:])
	return r.data, nil
}
