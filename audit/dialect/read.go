package dialect

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/internal/jsonfile"
)

// Data is what was read: the pairs, and an account of everything else.
type Data struct {
	Pairs []Pair
	Bad   []BadRow
	Files []record.DataFile
}

// BadRow is a row that is no pair.
type BadRow struct {
	File   string // as the user named it
	Line   int    // counted from 1
	Reason string
}

func (b BadRow) Error() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

//go:embed builtin.jsonl
var builtin []byte

// Builtin returns the sample that is part of the program: everyday sentences of our own, written for trying things out.
// Whether a back-translation is natural was judged by who wrote it.
func Builtin() (*Data, error) {
	r := reader{data: &Data{}, seen: map[string]bool{}}
	if err := r.text("built-in", "built-in", builtin); err != nil {
		return nil, err
	}
	return r.data, nil
}

// Read reads files of pairs in the given order, as UTF-8 with or without a byte order mark:
//
//   - JSON lines, or CSV or TSV with a header: the fields id, aae, sae, aae_back, natural, and aae_context,
//     aae_continuation, sae_context, sae_continuation; all but aae and sae are optional;
//   - TSV of two columns without a header: AAE, SAE;
//   - TSV of three columns without a header: a task's name, SAE, AAE, in which \n stands for a line break.
//
// A row that is no pair does not stop the reading. An error has one line and the file's name.
func Read(paths []string) (*Data, error) {
	r := reader{data: &Data{}, seen: map[string]bool{}}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			var inner *fs.PathError
			if errors.As(err, &inner) {
				err = inner.Err
			}
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := r.text(path, filepath.Base(path), text); err != nil {
			return nil, err
		}
	}
	return r.data, nil
}

type reader struct {
	data *Data
	seen map[string]bool // ids
	path string
	stem string // of the file's name, for ids
	rows int
}

func (r *reader) text(path, name string, text []byte) error {
	hash := sha256.Sum256(text)
	r.path, r.rows = path, 0
	r.stem = r.newStem(name, hex.EncodeToString(hash[:]))
	before := len(r.data.Pairs)
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return fmt.Errorf("%s: not a text in UTF-8; save it as one", path)
	}
	first, _, _ := bytes.Cut(bytes.TrimLeft(text, " \t\r\n"), []byte("\n"))
	var err error
	switch {
	case bytes.HasPrefix(first, []byte("{")):
		r.jsonLines(text)
	case bytes.Contains(first, []byte("\t")):
		r.tabs(text, strings.Split(strings.TrimRight(string(first), "\r"), "\t"))
	default:
		err = r.commas(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if r.rows == 0 {
		return fmt.Errorf("%s: the file holds no rows; give one of the formats that plumb audit dialect --help names", path)
	}
	r.data.Files = append(r.data.Files, record.DataFile{Name: name, SHA256: hex.EncodeToString(hash[:]), Items: len(r.data.Pairs) - before})
	return nil
}

// newStem is what the ids of a file's rows that have none begin with: its name, and a number if another file has that name. A
// file that is read twice keeps it, so that its rows are refused.
func (r *reader) newStem(name, sha256 string) string {
	stem, _, _ := strings.Cut(name, ".")
	same := 1
	for _, f := range r.data.Files {
		if other, _, _ := strings.Cut(f.Name, "."); other == stem && f.SHA256 != sha256 {
			same++
		}
	}
	if same == 1 {
		return stem
	}
	return fmt.Sprintf("%s-%d", stem, same)
}

// row is a pair as JSON lines hold it; the names are those of CSV columns too.
type row struct {
	ID              string `json:"id"`
	AAE             string `json:"aae"`
	SAE             string `json:"sae"`
	Back            string `json:"aae_back,omitempty"`
	Natural         *bool  `json:"natural,omitempty"`
	AAEContext      string `json:"aae_context,omitempty"`
	AAEContinuation string `json:"aae_continuation,omitempty"`
	SAEContext      string `json:"sae_context,omitempty"`
	SAEContinuation string `json:"sae_continuation,omitempty"`
}

func (r *reader) jsonLines(text []byte) {
	line := 0
	for content := range bytes.Lines(text) {
		line++
		if content = bytes.TrimSpace(content); len(content) == 0 {
			continue
		}
		var fields row
		if err := json.Unmarshal(content, &fields); err != nil {
			r.bad(line, "not a JSON object of a pair: "+jsonfile.InWords(err).Error())
			continue
		}
		r.add(line, fields)
	}
}

// tabs reads TSV, in which a quotation mark is a character like others.
func (r *reader) tabs(text []byte, first []string) {
	header := first
	named := slices.Contains(first, "aae") && slices.Contains(first, "sae")
	switch {
	case named:
	case len(first) == 2:
		header = []string{"aae", "sae"}
	case len(first) == 3:
		header = []string{"", "sae", "aae"}
	}
	line := 0
	for content := range strings.Lines(string(text)) {
		line++
		content = strings.TrimRight(content, "\r\n")
		if strings.TrimSpace(content) == "" {
			continue
		}
		cells := strings.Split(content, "\t")
		if named && slices.Equal(cells, first) {
			named = false // the header; a row like it further down is a row
			continue
		}
		if len(header) == 3 && header[0] == "" {
			for i := range cells {
				cells[i] = strings.ReplaceAll(cells[i], `\n`, "\n")
			}
		}
		r.cells(line, header, cells)
	}
}

func (r *reader) commas(text []byte) error {
	table := csv.NewReader(bytes.NewReader(text))
	table.FieldsPerRecord = -1
	header, err := table.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return fmt.Errorf("not CSV: %s; save it again as one, or as JSON lines", oneLine(err.Error()))
	}
	for _, column := range []string{"aae", "sae"} {
		if !slices.Contains(header, column) {
			return fmt.Errorf("the first line names no column %q; name the columns as plumb audit dialect --help does", column)
		}
	}
	for {
		cells, err := table.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not CSV: %s; save it again as one, or as JSON lines", oneLine(err.Error()))
		}
		line, _ := table.FieldPos(0)
		r.cells(line, header, cells)
	}
}

// cells takes a row of a table.
func (r *reader) cells(line int, header, cells []string) {
	if len(cells) != len(header) {
		r.bad(line, fmt.Sprintf("the row has %s, not %d", report.Count(len(cells), "column"), len(header)))
		return
	}
	var fields row
	for i, name := range header {
		switch name {
		case "id":
			fields.ID = cells[i]
		case "aae":
			fields.AAE = cells[i]
		case "sae":
			fields.SAE = cells[i]
		case "aae_back":
			fields.Back = cells[i]
		case "natural":
			if cells[i] == "" {
				continue
			}
			natural, err := strconv.ParseBool(strings.ToLower(cells[i]))
			if err != nil {
				r.bad(line, fmt.Sprintf("natural is %.20q; write true, false or nothing", cells[i]))
				return
			}
			fields.Natural = &natural
		case "aae_context":
			fields.AAEContext = cells[i]
		case "aae_continuation":
			fields.AAEContinuation = cells[i]
		case "sae_context":
			fields.SAEContext = cells[i]
		case "sae_continuation":
			fields.SAEContinuation = cells[i]
		}
	}
	r.add(line, fields)
}

func (r *reader) bad(line int, reason string) {
	r.rows++
	r.data.Bad = append(r.data.Bad, BadRow{r.path, line, reason})
}

// add takes a row that was read.
func (r *reader) add(line int, fields row) {
	pair, err := fields.pair()
	if pair.ID == "" {
		pair.ID = fmt.Sprintf("%s/%d", r.stem, line)
	}
	if err == nil && r.seen[pair.ID] {
		err = fmt.Errorf("the id %.80q stands in an earlier row; give every pair its own", pair.ID)
	}
	if err != nil {
		r.bad(line, err.Error())
		return
	}
	r.rows++
	r.seen[pair.ID] = true
	pair.File, pair.Line = r.path, line
	r.data.Pairs = append(r.data.Pairs, pair)
}

func (f row) pair() (Pair, error) {
	p := Pair{ID: strings.TrimSpace(f.ID), Natural: f.Natural}
	for _, text := range []struct {
		name string
		from string
		to   *string
		need bool
	}{{"aae", f.AAE, &p.AAE, true}, {"sae", f.SAE, &p.SAE, true}, {"aae_back", f.Back, &p.Back, false}} {
		*text.to = strings.TrimSpace(text.from)
		if *text.to == "" && text.need {
			return p, fmt.Errorf("%s is empty; fill it in, or take the row out", text.name)
		}
		if strings.ContainsRune(*text.to, 0) {
			return p, fmt.Errorf("%s holds a zero byte; take it out", text.name)
		}
	}
	parts := []string{f.AAEContext, f.AAEContinuation, f.SAEContext, f.SAEContinuation}
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if strings.Join(parts, "") == "" {
		return p, nil
	}
	p.Segments = &Segments{AAE: Segment{parts[0], parts[1]}, SAE: Segment{parts[2], parts[3]}}
	return p, p.Segments.Check(&p)
}

// Check says why the segments are not those of the pair.
func (s *Segments) Check(p *Pair) error {
	if slices.Contains([]string{s.AAE.Context, s.AAE.Continuation, s.SAE.Context, s.SAE.Continuation}, "") {
		return errors.New("of the four segments some are empty; fill in all of them, or none")
	}
	for _, side := range []struct {
		name, text string
		segment    Segment
	}{{"aae", p.AAE, s.AAE}, {"sae", p.SAE, s.SAE}} {
		whole := strings.Fields(side.segment.Context + " " + side.segment.Continuation)
		if !slices.Equal(whole, strings.Fields(side.text)) {
			return fmt.Errorf("%s_context and %s_continuation do not make up %s; move the cut without changing words", side.name, side.name, side.name)
		}
	}
	return nil
}

// WriteJSONLines writes pairs so that Read reads them again, segments included.
func WriteJSONLines(w io.Writer, pairs []Pair) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, p := range pairs {
		fields := row{ID: p.ID, AAE: p.AAE, SAE: p.SAE, Back: p.Back, Natural: p.Natural}
		if s := p.Segments; s != nil {
			fields.AAEContext, fields.AAEContinuation = s.AAE.Context, s.AAE.Continuation
			fields.SAEContext, fields.SAEContinuation = s.SAE.Context, s.SAE.Continuation
		}
		if err := encoder.Encode(fields); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
