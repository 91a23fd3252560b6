package bbq

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// good is an item of the published format; tests change one thing in it.
const good = `{"example_id": 7, "question_index": "3", "question_polarity": "nonneg", "context_condition": "disambig", ` +
	`"category": "Age", "answer_info": {"ans0": ["uncle", "old"], "ans1": ["boy", "nonOld"], "ans2": ["Not known", "unknown"]}, ` +
	`"additional_metadata": {"subcategory": "None", "stereotyped_groups": ["old"], "version": "a", "source": ""}, ` +
	`"context": "An uncle and a boy sat down. The boy slept.", "question": "Who was awake?", ` +
	`"ans0": "The uncle", "ans1": "The boy ", "ans2": "Not known", "label": 0}`

func change(t *testing.T, pairs ...string) string {
	t.Helper()
	line := good
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(line, pairs[i]) {
			t.Fatalf("%q is not in the line", pairs[i])
		}
		line = strings.ReplaceAll(line, pairs[i], pairs[i+1])
	}
	return line
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, paths ...string) *Data {
	t.Helper()
	data, err := Read(paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadItem(t *testing.T) {
	path := write(t, "Age.jsonl", []byte(good+"\n"))
	data := read(t, path)
	want := Item{
		ID: "Age/7", Category: "Age", Template: "Age/3", Condition: Disambiguated, Polarity: NonNegative,
		Context: "An uncle and a boy sat down. The boy slept.", Question: "Who was awake?",
		// The targeted group is old, the polarity non-negative: the biased option is the boy.
		Options: [3]Option{{"The uncle", Anti}, {"The boy", Biased}, {"Not known", Unknown}},
		Label:   0, File: path, Line: 1,
	}
	if len(data.Items) != 1 || !reflect.DeepEqual(data.Items[0], want) {
		t.Fatalf("got %+v\nwant %+v", data.Items, want)
	}
	if find := [3]int{want.Find(Biased), want.Find(Anti), want.Find(Unknown)}; find != [3]int{1, 0, 2} {
		t.Errorf("Find returns %v", find)
	}
	sum := sha256.Sum256([]byte(good + "\n"))
	if file := (File{"Age.jsonl", hex.EncodeToString(sum[:]), 1, 1}); len(data.Files) != 1 || data.Files[0] != file {
		t.Errorf("files %+v, want %+v", data.Files, file)
	}

	data = read(t, write(t, "a.jsonl", []byte(change(t, "nonneg", "neg"))))
	if got := data.Items[0].Options; got != [3]Option{{"The uncle", Biased}, {"The boy", Anti}, {"Not known", Unknown}} {
		t.Errorf("negative polarity: %v", got)
	}
}

func TestReadForms(t *testing.T) {
	second := change(t, `"example_id": 7`, `"example_id": "8"`, `"question_index": "3"`, `"question_index": 4`, `"label": 0`, `"label": "0"`)
	plain := good + "\n" + second + "\n"
	var zipped, zstandard bytes.Buffer
	zipWriter := gzip.NewWriter(&zipped)
	zipWriter.Write([]byte("\ufeff" + plain))
	zipWriter.Close()
	zstdWriter, err := zstd.NewWriter(&zstandard)
	if err != nil {
		t.Fatal(err)
	}
	zstdWriter.Write([]byte(plain))
	zstdWriter.Close()
	forms := map[string][]byte{
		"plain.jsonl":            []byte(plain),
		"no final line feed.txt": []byte(strings.TrimSuffix(plain, "\n")),
		"mark.jsonl":             []byte("\ufeff" + plain),
		"crlf.jsonl":             []byte("\ufeff" + strings.ReplaceAll(plain, "\n", "\r\n")),
		"empty lines.jsonl":      []byte("\n\n" + strings.ReplaceAll(plain, "\n", "\n \n")),
		"zipped.jsonl.gz":        zipped.Bytes(),
		"zstd.jsonl.zst":         zstandard.Bytes(),
		"any name":               zstandard.Bytes(),
	}
	for name, content := range forms {
		data := read(t, write(t, name, content))
		if len(data.Items) != 2 || data.Bad != 0 || data.Items[0].ID != "Age/7" || data.Items[1].ID != "Age/8" ||
			data.Items[1].Template != "Age/4" || data.Items[1].Label != 0 {
			t.Errorf("%s: %+v", name, data)
		}
		sum := sha256.Sum256(content)
		if data.Files[0].SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the hash is not that of the stored file", name)
		}
	}
}

func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	for name, line := range map[string]string{
		"b/Age.jsonl":     good,
		"a.jsonl":         change(t, `"example_id": 7`, `"example_id": 1`),
		"notes.txt":       "not of BBQ",
		"target.csv":      "not of BBQ",
		".cache/x.jsonl":  "hidden",
		"b/.hidden.jsonl": "hidden",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table, err := os.ReadFile("testdata/sample.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.parquet"), table, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{dir, link} {
		data := read(t, root)
		var names []string
		for _, file := range data.Files {
			names = append(names, file.Name)
		}
		if !reflect.DeepEqual(names, []string{"a.jsonl", "b/Age.jsonl", "c.parquet"}) {
			t.Errorf("files %q", names)
		}
		if data.Items[0].ID != "Age/1" || data.Items[0].File != filepath.Join(root, "a.jsonl") {
			t.Errorf("first item %+v", data.Items[0])
		}
	}
}

func TestBadRows(t *testing.T) {
	tests := []struct{ name, line, reason string }{
		{"cut", good[:len(good)/2], "not a JSON object of BBQ: unexpected end of JSON input"},
		{"not JSON", "example_id,label", "not a JSON object of BBQ: invalid character 'e' looking for beginning of value"},
		{"array", "[" + good + "]", "not a JSON object of BBQ: cannot unmarshal array"},
		{"null", "null", "category is missing or empty"},
		{"two objects", good + good, "not a JSON object of BBQ: invalid character '{' after top-level value"},
		{"invalid UTF-8", change(t, "The uncle", "The \xffncle"), "invalid UTF-8"},
		{"half a surrogate", change(t, "The uncle", `The \ud83duncle`), "ans0 is damaged: it holds the replacement character U+FFFD"},
		{"NUL", change(t, "The uncle", `The uncle\u0000`), "ans0 holds a NUL character"},
		{"no ans2", change(t, `"ans2": "Not known",`, ""), "ans2 is missing or empty"},
		{"empty ans1", change(t, `"The boy "`, `" "`), "ans1 is missing or empty"},
		{"null context", change(t, `"context": "An uncle and a boy sat down. The boy slept."`, `"context": null`), "context is missing or empty"},
		{"number for text", change(t, `"Who was awake?"`, "5"), "question is of the wrong type: a JSON number"},
		{"two unknown", change(t, `"nonOld"`, `"unknown"`), "two options are tagged unknown: ans1 and ans2"},
		{"no unknown", change(t, `["Not known", "unknown"]`, `["Not known", "old"]`), "no option is tagged unknown"},
		{"no info", change(t, `"answer_info"`, `"answers"`), "answer_info has 0 entries for ans0, not a text and a tag"},
		{"short info", change(t, `["boy", "nonOld"]`, `["boy"]`), "answer_info has 1 entries for ans1, not a text and a tag"},
		{"label 3", change(t, `"label": 0`, `"label": 3`), `label is "3", not 0, 1 or 2`},
		{"label -1", change(t, `"label": 0`, `"label": -1`), `label is "-1", not 0, 1 or 2`},
		{"label text", change(t, `"label": 0`, `"label": "ans0"`), `label is "ans0", not 0, 1 or 2`},
		{"label object", change(t, `"label": 0`, `"label": {}`), "neither a number nor a string"},
		{"no label", change(t, `, "label": 0`, ""), "label is missing, not 0, 1 or 2"},
		{"label of the other condition", change(t, `"label": 0`, `"label": 2`), "label 2 contradicts context_condition disambig: the unknown option is ans2"},
		{"condition of the other label", change(t, "disambig", "ambig"), "label 0 contradicts context_condition ambig: the unknown option is ans2"},
		{"condition", change(t, "disambig", "clear"), `context_condition is "clear", not ambig or disambig`},
		{"polarity", change(t, "nonneg", strings.Repeat("long\\n", 50)), `question_polarity is "long\nlong\n`},
		{"no id", change(t, `"example_id": 7, `, ""), "example_id is missing"},
		{"broken id", change(t, `"example_id": 7`, `"example_id": 7.5`), `example_id is "7.5", not a whole number`},
		{"control character", change(t, `"category": "Age"`, `"category": "A\u0007ge"`), "another control character"},
		{"slash", change(t, `"question_index": "3"`, `"question_index": "3/4"`), "category or question_index holds a slash"},
		{"same text", change(t, `"The boy "`, `"The uncle"`), "two options have the same text"},
		{"other category", change(t, `"Age"`, `"Religion"`), `category is "Religion" in a file of Age`},
		{"long line", change(t, "The boy slept.", strings.Repeat("The boy slept. ", maxLine/15+1)), "the line is longer than 16 MB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// The row after the bad one is read all the same.
			path := write(t, "Age.jsonl", []byte(change(t, `"example_id": 7`, `"example_id": 1`)+"\n"+test.line+"\n"+good+"\n"))
			data := read(t, path)
			if len(data.Items) != 2 || data.Bad != 1 || len(data.BadRows) != 1 || data.Files[0].Rows != 3 || data.Files[0].Items != 2 {
				t.Fatalf("%d items, %d bad rows %v", len(data.Items), data.Bad, data.BadRows)
			}
			message := data.BadRows[0].Error()
			if !strings.HasPrefix(message, path+":2: ") || !strings.Contains(message, test.reason) || strings.ContainsAny(message, "\n\r") {
				t.Errorf("got %q, want %q", message, test.reason)
			}
		})
	}
}

func TestBigItem(t *testing.T) {
	line := change(t, "The boy slept.", strings.Repeat("The boy slept. ", 1<<20/15))
	if data := read(t, write(t, "Age.jsonl", []byte(line))); len(data.Items) != 1 || len(data.Items[0].Context) < 1<<20-100 {
		t.Errorf("an item with a context of 1 MB: %d items, bad rows %v", len(data.Items), data.BadRows)
	}
}

func TestDuplicates(t *testing.T) {
	path := write(t, "Age.jsonl", []byte(good+"\n"+good+"\n"))
	data := read(t, path, path)
	if len(data.Items) != 1 || data.Bad != 3 {
		t.Fatalf("%d items, bad rows %v", len(data.Items), data.BadRows)
	}
	if want := path + ":2: Age/7 was already read from " + path + ":1"; data.BadRows[0].Error() != want {
		t.Errorf("got %q, want %q", data.BadRows[0].Error(), want)
	}
}

func TestManyBadRows(t *testing.T) {
	data := read(t, write(t, "Age.jsonl", []byte(strings.Repeat("x\n", 3*maxBadRows))))
	if data.Bad != 3*maxBadRows || len(data.BadRows) != maxBadRows {
		t.Errorf("%d bad rows, %d of them kept", data.Bad, len(data.BadRows))
	}
}

func TestLeftOut(t *testing.T) {
	lines := []string{
		good,
		change(t, `"example_id": 7`, `"example_id": 8`, `"nonOld"`, `"old"`),
		change(t, `"example_id": 7`, `"example_id": 9`, `["old"]`, `[]`),
		change(t, `"example_id": 7`, `"example_id": 3`, `"Age"`, `"Religion"`),
	}
	data := read(t, write(t, "mixed.jsonl", []byte(strings.Join(lines, "\n"))))
	want := []LeftOut{{"Age/8", "Age", bothTargeted}, {"Age/9", "Age", noGroup}}
	if !reflect.DeepEqual(data.LeftOut, want) || data.Bad != 0 {
		t.Errorf("left out %v, want %v; bad rows %v", data.LeftOut, want, data.BadRows)
	}
	counts := []CategoryCount{{"Age", 3, 1, 2}, {"Religion", 1, 1, 0}}
	if got := data.Categories(); !reflect.DeepEqual(got, counts) {
		t.Errorf("counts %v, want %v", got, counts)
	}
}

func TestReadErrors(t *testing.T) {
	var zipped bytes.Buffer
	zipWriter := gzip.NewWriter(&zipped)
	for i := range 1000 {
		fmt.Fprintln(zipWriter, change(t, `"example_id": 7`, fmt.Sprintf(`"example_id": %d`, i)))
	}
	zipWriter.Close()
	tests := []struct {
		path, message string
	}{
		{write(t, "Age.jsonl", nil), "the file holds no rows; fetch it again"},
		{write(t, "Age.jsonl", []byte(" \n\n")), "the file holds no rows; fetch it again"},
		{filepath.Join(t.TempDir(), "none.jsonl"), "no such file or directory"},
		{t.TempDir(), "no BBQ files in this folder (.jsonl, .jsonl.gz, .jsonl.zst, .parquet)"},
		{write(t, "cut.jsonl.gz", zipped.Bytes()[:zipped.Len()/2]), "cannot be read at line "},
		{write(t, "cut.jsonl.gz", zipped.Bytes()[:5]), "cannot be decompressed"},
		{write(t, "bad.jsonl.zst", []byte("\x28\xb5\x2f\xfdgarbage")), "cannot be read at line 1: "},
	}
	for _, test := range tests {
		_, err := Read([]string{test.path}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), test.path+": ") || !strings.Contains(err.Error(), test.message) ||
			strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), test.path) != 1 {
			t.Errorf("%s: error %v, want %q", test.path, err, test.message)
		}
	}
}

// FuzzReadJSONL looks for panics, for messages of more than a line, and for items that are no items.
func FuzzReadJSONL(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(good + "\r\n" + good[:200] + "\n\n{}\nnull\n[]"))
	f.Add([]byte(strings.Replace(good, `"Age"`, `"Race_x_gender"`, 1)))
	f.Add([]byte("\ufeff" + strings.ReplaceAll(good, "nonOld", "old")))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add(builtin[:5000])
	f.Fuzz(func(t *testing.T, lines []byte) {
		data, err := readItems("fuzz", lines)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		ids := map[string]bool{}
		for i := range data.Items {
			if problem := invalid(&data.Items[i]); problem != "" {
				t.Errorf("%s: %+v", problem, data.Items[i])
			}
			if ids[data.Items[i].ID] {
				t.Errorf("two items %s", data.Items[i].ID)
			}
			ids[data.Items[i].ID] = true
		}
		for _, bad := range data.BadRows {
			if strings.ContainsAny(bad.Reason, "\n\r") {
				t.Errorf("a reason of several lines: %q", bad.Reason)
			}
		}
		if rows := len(data.Items) + len(data.LeftOut) + data.Bad; rows != data.Files[0].Rows || len(data.Items) != data.Files[0].Items {
			t.Errorf("%d rows, %d of them accounted for", data.Files[0].Rows, rows)
		}
	})
}

// invalid says what is wrong with an item, if anything is.
func invalid(item *Item) string {
	roles := map[Role]int{}
	texts := map[string]bool{}
	for _, option := range item.Options {
		roles[option.Role]++
		texts[option.Text] = true
	}
	switch {
	case roles[Biased] != 1 || roles[Anti] != 1 || roles[Unknown] != 1:
		return "not one option of each role"
	case len(texts) != 3 || texts[""] || item.Context == "" || item.Question == "":
		return "a text is missing or doubled"
	case item.Label < 0 || item.Label > 2 || (item.Options[item.Label].Role == Unknown) != (item.Condition == Ambiguous):
		return "the label contradicts the condition"
	case item.Polarity != Negative && item.Polarity != NonNegative:
		return "no polarity"
	case strings.Count(item.ID, "/") != 1 || strings.Count(item.Template, "/") != 1:
		return "an ambiguous identifier"
	}
	if _, err := json.Marshal(item); err != nil {
		return err.Error()
	}
	return ""
}

// badLines is an endless file of rows that are no items, cut off after some bytes, and notes the heap while it is read.
type badLines struct {
	left, reads int
	heap        uint64
}

func (b *badLines) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	if b.reads++; b.reads%500 == 0 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		b.heap = max(b.heap, stats.HeapAlloc)
	}
	n := copy(p, strings.Repeat(good[:len(good)-1]+"\n", len(p)/len(good)+1))
	b.left -= n
	return n, nil
}

// What is no item takes no memory, however much of it there is.
func TestStreaming(t *testing.T) {
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	lines := &badLines{left: 64 << 20}
	r := newReader(nil)
	r.data.Files = []File{{}}
	if err := r.jsonLines(source{"endless", "endless"}, bufio.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bad rows; the heap grew by at most %d kB", r.data.Bad, (max(lines.heap, before.HeapAlloc)-before.HeapAlloc)>>10)
	if r.data.Bad < 60000 || lines.heap > before.HeapAlloc+16<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, lines.heap)
	}
}
