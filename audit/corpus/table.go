// Package corpus makes a parallel corpus of African American English and Standard American English as the dialect paper
// does for Real-AAE (section 3 and appendix A): it starts from real AAE text, cleans it, has it translated to SAE and back,
// filters and validates the triplets, measures how far annotators agree, and writes what may be published. Models and
// endpoints translate, score and embed; they stay outside this package, which works on texts, tables and numbers.
package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Row is a row of a table: the fields of a JSON object or of a CSV record as text, or a line of plain text.
type Row struct {
	File   string // as it was named by the user
	Line   int    // where the row begins, from 1
	Fields map[string]string
}

// at says where the row stands, for errors.
func (r *Row) at() string { return fmt.Sprintf("%s:%d", r.File, r.Line) }

// lineID is the id of a row that has none of its own: the file's name without folder and suffix, and the line.
func (r *Row) lineID() string {
	stem, _, _ := strings.Cut(filepath.Base(r.File), ".")
	return stem + "/" + strconv.Itoa(r.Line)
}

// TextField is the field that holds a line of plain text.
const TextField = "text"

// maxLine is the longest line that is read, in bytes; a longer one is no line of a corpus.
const maxLine = 16 << 20

// Rows streams the rows of a file: JSON lines (.jsonl, .json), CSV or TSV with a header (.csv, .tsv), or for any other name
// (a pipe's) JSON lines if the first line is a JSON object, and else plain text, whose lines become rows with the one field
// TextField. Empty lines are no rows. Of a JSON object, null is a field that is not there, and what is not a string keeps
// JSON's spelling. The first error, of one line and with file and line, ends the rows. What is no UTF-8 text is an error.
func Rows(path string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(Row{}, pathError(path, err))
			return
		}
		defer file.Close()
		in := bufio.NewReaderSize(&textOnly{path: path, in: file}, headSize)
		head, err := in.Peek(headSize)
		if err == nil || err == io.EOF {
			err = checkHead(path, head)
		} else {
			err = pathError(path, err)
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		if bytes.HasPrefix(head, []byte("\ufeff")) {
			_, _ = in.Discard(3) // cannot fail after the Peek
		}
		switch strings.ToLower(filepath.Ext(path)) {
		case ".jsonl", ".json":
			jsonRows(path, in, yield)
		case ".csv":
			csvRows(path, ',', in, yield)
		case ".tsv":
			csvRows(path, '\t', in, yield)
		default:
			if isObject(bytes.TrimPrefix(head, []byte("\ufeff"))) {
				jsonRows(path, in, yield)
			} else {
				textRows(path, in, yield)
			}
		}
	}
}

// headSize is how much of a file tells what it is.
const headSize = 1 << 16

// checkHead refuses a file that begins as no UTF-8 text does.
func checkHead(path string, head []byte) error {
	kind := http.DetectContentType(head)
	if len(head) == 0 || strings.HasPrefix(kind, "text/") && !strings.Contains(kind, "utf-16") {
		return nil
	}
	return fmt.Errorf("%s: no text in UTF-8, but %s; unpack or convert it first", path, kind)
}

// isObject says whether the first line that is not empty is a JSON object.
func isObject(head []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	var object map[string]json.RawMessage
	return json.Unmarshal(line, &object) == nil && object != nil
}

// textOnly reads on as long as there is no zero byte, which no text has.
type textOnly struct {
	path string
	in   io.Reader
	line int // complete lines so far
}

func (t *textOnly) Read(to []byte) (int, error) {
	n, err := t.in.Read(to)
	if at := bytes.IndexByte(to[:n], 0); at >= 0 {
		return at, fmt.Errorf("%s:%d: a zero byte, so this is no text in UTF-8; unpack or convert it first", t.path, t.line+bytes.Count(to[:at], []byte("\n"))+1)
	}
	t.line += bytes.Count(to[:n], []byte("\n"))
	return n, err
}

// lines streams the lines of a file that are not empty.
func lines(path string, in io.Reader, yield func(line int, text []byte) bool) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, 1<<16), maxLine)
	line := 0
	for scanner.Scan() {
		line++
		if len(bytes.TrimSpace(scanner.Bytes())) > 0 && !yield(line, scanner.Bytes()) {
			return nil
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: the line is longer than %d bytes; a corpus has a text a line", path, line+1, maxLine)
	}
	if scanner.Err() != nil {
		return pathError(path, scanner.Err())
	}
	return nil
}

func textRows(path string, in io.Reader, yield func(Row, error) bool) {
	err := lines(path, in, func(line int, text []byte) bool {
		return yield(Row{path, line, map[string]string{TextField: string(text)}}, nil)
	})
	if err != nil {
		yield(Row{}, err)
	}
}

func jsonRows(path string, in io.Reader, yield func(Row, error) bool) {
	err := lines(path, in, func(line int, text []byte) bool {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil || object == nil {
			yield(Row{}, fmt.Errorf("%s:%d: not a JSON object; a .jsonl file has one a line", path, line))
			return false
		}
		row := Row{path, line, map[string]string{}}
		for name, value := range object {
			var s string
			switch {
			case string(value) == "null":
			case json.Unmarshal(value, &s) == nil:
				row.Fields[name] = s
			default:
				row.Fields[name] = string(value)
			}
		}
		return yield(row, nil)
	})
	if err != nil {
		yield(Row{}, err)
	}
}

func csvRows(path string, comma rune, in io.Reader, yield func(Row, error) bool) {
	reader := csv.NewReader(in)
	reader.Comma = comma
	header, err := reader.Read()
	if err == io.EOF {
		return
	}
	for err == nil {
		var record []string
		if record, err = reader.Read(); err == nil {
			line, _ := reader.FieldPos(0)
			row := Row{path, line, map[string]string{}}
			for i, value := range record {
				row.Fields[strings.TrimSpace(header[i])] = value
			}
			if !yield(row, nil) {
				return
			}
		}
	}
	var parse *csv.ParseError
	switch {
	case err == io.EOF:
	case errors.As(err, &parse):
		yield(Row{}, fmt.Errorf("%s:%d: %w; a row has as many fields as the header, and quotes stand around a whole field", path, parse.Line, parse.Err))
	default:
		yield(Row{}, pathError(path, err))
	}
}

// pathError says what went wrong with a path, once and on one line, and what to do about it.
func pathError(path string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), path+":") { // said already, while it was read
		return err
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	for _, known := range []struct {
		err    error
		remedy string
	}{
		{fs.ErrNotExist, "; give a file that is there, in a folder that is there"},
		{fs.ErrPermission, "; change its permissions, or choose another place"},
		{unix.EISDIR, "; give a file"},
		{unix.ENOTDIR, "; a part of the path is a file and no folder"},
		{unix.ENOSPC, "; make room, and give the same command again"},
	} {
		if errors.Is(err, known.err) {
			return fmt.Errorf("%s: %w%s", path, err, known.remedy)
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// ids are the ids read so far, with where each was read. Everything is joined on them, so one may stand only once.
type ids map[string]string

func (seen ids) add(id string, row *Row) error {
	if id == "" {
		return fmt.Errorf("%s: the id is empty; give every row one", row.at())
	}
	if before, ok := seen[id]; ok {
		return fmt.Errorf("%s: the id %q was already read from %s; give every row its own", row.at(), id, before)
	}
	seen[id] = row.at()
	return nil
}

// WriteJSONLines writes a value a line. The file is there whole or not at all.
func WriteJSONLines[T any](path string, values []T) error {
	return WriteFile(path, func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		for i := range values {
			if err := encoder.Encode(&values[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteFile writes a file by way of a temporary one beside it, so that it is there whole or not at all. A link is followed;
// what is no plain file, such as a pipe, is written to as it is.
func WriteFile(path string, write func(io.Writer) error) error {
	target := path
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		target = resolved
	}
	if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(target, os.O_WRONLY, 0)
		if err == nil {
			err = writeAndClose(file, write)
		}
		return pathError(path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(target), ".plumb-*")
	if err != nil {
		return pathError(path, err)
	}
	defer os.Remove(file.Name())
	err = file.Chmod(0o644)
	if err == nil {
		err = writeAndClose(file, write)
	}
	if err == nil {
		err = os.Rename(file.Name(), target)
	}
	return pathError(path, err)
}

func writeAndClose(file *os.File, write func(io.Writer) error) error {
	out := bufio.NewWriter(file)
	return cmp.Or(write(out), out.Flush(), file.Close())
}
