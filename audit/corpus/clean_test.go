package corpus

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

func TestCleanText(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		stripped         Stripped
	}{
		{"nothing to do", "she finna go to the store", "she finna go to the store", Stripped{}},
		{"typographic quotes do not make markers", "he don’t know “nobody”", `he don't know "nobody"`, Stripped{Folded: 3}},
		{"accents and ligatures", "naïve café ﬁne", "naive cafe fine", Stripped{Folded: 3}},
		{"full-width and mathematical letters", "ｌｏ 𝓂ℯ", "lo me", Stripped{Folded: 4}},
		{"ellipsis and dashes", "wait… what – no—yes", "wait... what - no-yes", Stripped{Folded: 3}},
		{"emoji keep words apart", "lol😂😂ok", "lol ok", Stripped{NonASCII: 2}},
		{"an emoji of several characters", "ok 🤦🏾‍♂️ ok", "ok ok", Stripped{NonASCII: 5}},
		{"letters without a form in ASCII", "straße привет 你好 ok", "strae ok", Stripped{NonASCII: 9}},
		{"bytes that are no UTF-8", "a\xffb\x00c", "a b c", Stripped{NonASCII: 1}},
		{"URLs", "see https://t.co/x1 www.a.com t.co/x HTTP://B.C/d?e=f. ok", "see ok", Stripped{URLs: 4}},
		{"a URL against a word", "lolhttp://t.co/x😂word", "lol word", Stripped{URLs: 1, NonASCII: 1}},
		{"a URL with non-ASCII characters", "see http://пример.рф/päge ok", "see ok", Stripped{URLs: 1, NonASCII: 8, Folded: 1}},
		{"a mention inside a URL", "see http://a.b/@me ok", "see ok", Stripped{URLs: 1}},
		{"mentions", "@a_1 hey .@bob, @c@d ＠eve", "hey . ,", Stripped{Mentions: 5, Folded: 1}},
		{"an e-mail address is no mention", "write me@home.org", "write me@home.org", Stripped{}},
		{"a mention that comes apart", "@@bob x", "@ x", Stripped{Mentions: 1}},
		{"a mention of accented letters", "@josé hey", "hey", Stripped{Mentions: 1, Folded: 1}},
		{"white space", " a\t b\n\u00a0c\u3000 ", "a b c", Stripped{Folded: 2}},
		{"a keycap", "1️⃣ 2nd ½", "1 2nd 1/2", Stripped{NonASCII: 2, Folded: 1}},
	} {
		text, stripped := CleanText(c.text)
		if text != c.want || stripped != c.stripped {
			t.Errorf("%s: %q becomes %q %+v, want %q %+v", c.name, c.text, text, stripped, c.want, c.stripped)
		}
	}
}

// FuzzCleanText: what is cleaned is ASCII in single spaces, holds no URL and no mention, and is cleaned to itself.
func FuzzCleanText(f *testing.F) {
	for _, seed := range []string{"@@a@b@c http:http://x/ /www.www.x", "@é1 ＠x h😂ttp://a", "a\u00a0\u200db ½ﬁ\xff\x7f\x00", "t.co/t.co/ @\u0301a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean, _ := CleanText(text)
		if strings.ContainsFunc(clean, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
			t.Errorf("%q becomes %q, which is not all printable ASCII", text, clean)
		}
		if clean != strings.Join(strings.Fields(clean), " ") {
			t.Errorf("%q becomes %q, whose spaces are not single", text, clean)
		}
		if again, stripped := CleanText(clean); again != clean || stripped != (Stripped{}) {
			t.Errorf("%q becomes %q, and that %q %+v", text, clean, again, stripped)
		}
	})
}

// write writes a file for a test.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClean(t *testing.T) {
	const long = "she be workin late every night n ain't nobody thank her"
	for _, c := range []struct{ name, text string }{
		{"a.jsonl", `{"id":"x","text":"` + long + `"}` + "\n\n" + `{"id":7,"text":"too short","other":[1]}` + "\n" +
			`{"id":"y","text":"@me SHE be workin late every night n ain’t nobody thank her"}` + "\n" + `{"id":"z","text":"😂"}`},
		{"a.csv", "\ufeffid,text\nx,\"" + long + "\"\n7,too short\ny,@me SHE be workin late every night n ain’t nobody thank her\nz,😂\n"},
		{"a.tsv", "id\ttext\nx\t" + long + "\r\n7\ttoo short\ny\t@me SHE be workin late every night n ain’t nobody thank her\nz\t😂\n"},
		{"a pipe", `{"id":"x","text":"` + long + `"}` + "\n" + `{"id":"7","text":"too short"}` + "\r\n" +
			`{"id":"y","text":"@me SHE be workin late every night n ain’t nobody thank her"}` + "\n" + `{"id":"z","text":"😂"}`},
	} {
		cleaned, err := Clean([]string{write(t, c.name, c.text)}, CleanOptions{MinWords: 10})
		if err != nil {
			t.Fatal(err)
		}
		want := []Sentence{{"x", long}}
		dropped := []Dropped{{"7", TooShort, ""}, {"y", Duplicate, "x"}, {"z", Empty, ""}}
		if cleaned.Rows != 4 || !reflect.DeepEqual(cleaned.Sentences, want) || !reflect.DeepEqual(cleaned.Dropped, dropped) {
			t.Errorf("%s: %+v", c.name, cleaned)
		}
		if s := cleaned.Stripped; s.Mentions != 1 || s.Folded != 1 || s.NonASCII != 1 {
			t.Errorf("%s: stripped %+v", c.name, s)
		}
	}
}

func TestCleanTwiceChangesNothing(t *testing.T) {
	raw := write(t, "raw.txt", "@a he been knew she ain’t comin to the cookout 😂 tho http://x.y\nnah\nhe been knew she ain't comin to the cookout tho\nwe was all sittin outside when they pulled up n started trippin\n")
	once, err := Clean([]string{raw}, CleanOptions{MinWords: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(once.Sentences) != 2 || once.Sentences[1].ID != "raw/4" {
		t.Fatalf("cleaned to %+v", once.Sentences)
	}
	path := filepath.Join(t.TempDir(), "clean.jsonl")
	if err := WriteJSONLines(path, once.Sentences); err != nil {
		t.Fatal(err)
	}
	twice, err := Clean([]string{path}, CleanOptions{MinWords: 10})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(once.Sentences, twice.Sentences) || len(twice.Dropped) != 0 || twice.Stripped != (Stripped{}) {
		t.Errorf("cleaned again to %+v", twice)
	}
}

func TestCleanRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.jsonl", `{"id":"x","text":"a"}` + "\n" + `{"id":"x","text":"b"}`, `a.jsonl:2: the id "x" was already read from`},
		{"a.jsonl", `{"id":"x","text":"a"}` + "\n" + `["x"]`, "a.jsonl:2: not a JSON object"},
		{"a.jsonl", `{"id":"","text":"a"}`, "a.jsonl:1: the id is empty"},
		{"a.jsonl", `{"id":"x","tweet":"a"}`, "a.jsonl:1: there is no field aae or text; name the field that holds the text (--text)"},
		{"a.csv", "id,text\nx,a\ny\n", "a.csv:3: wrong number of fields"},
		{"a.csv", "id,text\n", "there are no rows"},
		{"a.txt", "", "there are no rows"},
		{"a.txt", "she\nbe\x00workin", "a.txt:2: a zero byte, so this is no text in UTF-8"},
		{"a.txt", strings.Repeat("she be workin\n", 20000) + "\x00", "a.txt:20001: a zero byte"},
		{"a.csv", "id,text\nx,a\x00\n", "a.csv:2: a zero byte"},
		{"a.txt", "%PDF-1.7 she be workin", "a.txt: no text in UTF-8, but application/pdf; unpack or convert it first"},
		{"a.txt", "\x1f\x8b\x08\x08\x01\x01", "a.txt: no text in UTF-8, but application/x-gzip"},
	} {
		_, err := Clean([]string{write(t, c.name, c.text)}, CleanOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error is %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzRows: no input makes the readers panic, and errors are of one line with the file's name.
func FuzzRows(f *testing.F) {
	f.Add(".jsonl", []byte(`{"id":1,"text":"a\nb"}`))
	f.Add(".csv", []byte("id,id\n\"a\"\"\",b\n\"c"))
	f.Add(".tsv", []byte("a\tb\n\"\t\n"))
	f.Add(".txt", []byte("a\x00\r\n\r\n\xff"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, suffix string, data []byte) {
		if strings.ContainsAny(suffix, "/\x00\n") || len(suffix) > 20 {
			t.Skip() // a file's name is told as it is
		}
		path := filepath.Join(dir, "rows"+suffix)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Skip()
		}
		for row, err := range Rows(path) {
			if err != nil {
				if !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
					t.Errorf("the error is %q", err)
				}
				break
			}
			if row.Line < 1 {
				t.Errorf("a row at line %d", row.Line)
			}
		}
	})
}
