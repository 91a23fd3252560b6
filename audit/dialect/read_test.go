package dialect

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumb/audit/record"
	"plumb/internal/shared"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, name, text string) *Data {
	t.Helper()
	data, err := Read([]string{write(t, name, text)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The same two pairs in every format, with a byte order mark and CR LF in some.
func TestFormats(t *testing.T) {
	for name, text := range map[string]string{
		"a.jsonl":   `{"aae":"he be here","sae":"he is usually here"}` + "\n\n" + `{"aae":"we was out, y’all","sae":"we were out, \"all\""}` + "\n",
		"a.csv":     "sae,aae\r\nhe is usually here,he be here\r\n\"we were out, \"\"all\"\"\",\"we was out, y’all\"\r\n",
		"bom.csv":   "\ufeffaae,sae\nhe be here,he is usually here\n\"we was out, y’all\",\"we were out, \"\"all\"\"\"\n",
		"head.tsv":  "\ufeffsae\taae\r\nhe is usually here\the be here\r\nwe were out, \"all\"\twe was out, y’all\r\n",
		"plain.txt": "he be here\the is usually here\nwe was out, y’all\twe were out, \"all\"",
		"redial.tsv": "maths\the is usually here\the be here\n" +
			"maths\twe were out, \"all\"\twe was out, y’all\n",
	} {
		data := read(t, name, text)
		if len(data.Bad) > 0 || len(data.Pairs) != 2 {
			t.Errorf("%s: %+v", name, data)
			continue
		}
		for i, want := range [][2]string{{"he be here", "he is usually here"}, {"we was out, y’all", `we were out, "all"`}} {
			if p := data.Pairs[i]; p.AAE != want[0] || p.SAE != want[1] || p.Segments != nil || p.Back != "" || p.Natural != nil {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if data.Files[0].Items != 2 || len(data.Files[0].SHA256) != 64 {
			t.Errorf("%s: %+v", name, data.Files)
		}
	}
	if p := read(t, "redial.tsv", "maths\tone\\ntwo\tuno\\ndos\n").Pairs[0]; p.SAE != "one\ntwo" || p.AAE != "uno\ndos" {
		t.Errorf("%+v", p)
	}
}

func TestBadRows(t *testing.T) {
	for text, want := range map[string]string{
		`{"aae":"he be here","sae":" "}`:          ":1: sae is empty; fill it in, or take the row out",
		`{"aae":1,"sae":"x"}`:                     ":1: not a JSON object of a pair: aae is a JSON number; it has to be a text",
		`{"aae":"a b","sae":"x","natural":"yes"}`: ":1: not a JSON object of a pair: natural is a JSON string; it has to be true or false",
		`{"aae":"a b","sae":"x"}` + "\n[1]":       ":2: not a JSON object of a pair: it is a JSON array, not an object",
		`{"aae":"a b","sae":x}`:                   ":1: not a JSON object of a pair: invalid character 'x' looking for beginning of value, at byte 20",
		`{"aae":"a b","sae":"a b","aae_context":"a","aae_continuation":"c","sae_context":"a","sae_continuation":"b"}`: "aae_context and aae_continuation do not make up aae",
		`{"aae":"a b","sae":"a b","aae_context":"a"}`:                                                                 "of the four segments some are empty",
		`{"id":"p","aae":"a","sae":"b"}` + "\n" + `{"id":"p","aae":"c","sae":"d"}`:                                    `:2: the id "p" stands in an earlier row`,
		"aae,sae,natural\na,b,perhaps":                                                                                `:2: natural is "perhaps"; write true, false or nothing`,
		"aae,sae\na,b,c":                                                                                              ":2: the row has 3 columns, not 2",
		"a\tb\nc":                                                                                                     ":2: the row has 1 column, not 2",
	} {
		data := read(t, "pairs.any", text)
		if len(data.Bad) != 1 || !strings.Contains(data.Bad[0].Error(), want) || strings.Contains(data.Bad[0].Error(), "\n") {
			t.Errorf("%s: %v, want %q", text, data.Bad, want)
		}
	}
	for text, want := range map[string]string{
		"":                "the file holds no rows",
		"\xff\xfe":        "not a text in UTF-8",
		"text,label\na,b": `the first line names no column "aae"`,
		"aae,sae\n\"a,b":  "not CSV",
	} {
		if _, err := Read([]string{write(t, "x.csv", text)}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read([]string{"/nowhere/at all"}); err == nil || err.Error() != "/nowhere/at all: no such file or directory" {
		t.Error(err)
	}
}

// Rows without ids of two files with one name are all read; those of one file that is given twice are not.
func TestSameNames(t *testing.T) {
	a, b := write(t, "pairs.tsv", "he be here\the is here\n"), write(t, "pairs.tsv", "we was out\twe were out\n")
	data, err := Read([]string{a, b})
	if err != nil || len(data.Bad) > 0 || len(data.Pairs) != 2 || data.Pairs[0].ID != "pairs/1" || data.Pairs[1].ID != "pairs-2/1" {
		t.Errorf("%+v, %v", data, err)
	}
	if data, err = Read([]string{a, a}); err != nil || len(data.Bad) != 1 || len(data.Pairs) != 1 {
		t.Errorf("%+v, %v", data, err)
	}
}

// What is written is read again, segments and judgements included.
func TestWriteAndRead(t *testing.T) {
	yes := true
	pairs := []Pair{
		{ID: "1", AAE: "he be here", SAE: "he is here", Back: "he be right here", Natural: &yes},
		{ID: "2", AAE: "we was 🙂 out", SAE: "we were <out>"},
	}
	if err := pairs[0].Cut(2, 1); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WriteJSONLines(&text, pairs); err != nil {
		t.Fatal(err)
	}
	got := read(t, "x.jsonl", text.String()).Pairs
	if len(got) != 2 || *got[0].Segments != *pairs[0].Segments || !*got[0].Natural || got[0].Back != pairs[0].Back || got[1].SAE != pairs[1].SAE || got[1].Natural != nil {
		t.Errorf("%+v", got)
	}
	if s := *got[0].Segments; s.SAE != (Segment{"he is", "here"}) || s.AAE != (Segment{"he", "be here"}) {
		t.Errorf("%+v", s)
	}
}

// The sample holds 10 to 30 words a sentence, every class and every marker but the slurs, and a back-translation each.
func TestBuiltin(t *testing.T) {
	data, err := Builtin()
	if err != nil || len(data.Bad) > 0 || len(data.Pairs) < 120 {
		t.Fatal(err, data.Bad, len(data.Pairs))
	}
	lexicon, err := PaperLexicon()
	if err != nil {
		t.Fatal(err)
	}
	seen, texts := map[string]bool{}, map[string]bool{}
	for _, p := range data.Pairs {
		for _, text := range []string{p.AAE, p.SAE, p.Back} {
			if n := len(Words(text)); n < 9 || n > 30 {
				t.Errorf("%s: %d words: %s", p.ID, n, text)
			}
		}
		if texts[p.AAE] || texts[p.SAE] || p.Natural == nil || p.AAE == p.SAE {
			t.Errorf("%s: %+v", p.ID, p)
		}
		texts[p.AAE], texts[p.SAE] = true, true
		features := lexicon.Features(p.AAE)
		if len(features) == 0 {
			t.Errorf("%s has no marker: %s", p.ID, p.AAE)
		}
		for _, f := range features {
			seen[f.Class], seen[f.Marker] = true, true
		}
		for _, slur := range lexicon.Slurs {
			if strings.Contains(strings.ToLower(p.AAE), slur) {
				t.Errorf("%s holds a slur", p.ID)
			}
		}
	}
	for _, m := range lexicon.markers {
		masked := Mask(m.Marker, lexicon.Slurs)
		if masked == m.Marker && !seen[m.Marker] {
			t.Errorf("no sentence holds the marker %q", m.Marker)
		}
	}
}

func TestPublishedLayouts(t *testing.T) {
	dir := shared.Data(t, "aae_pairs")
	data, err := Read([]string{filepath.Join(dir, "habitual.txt"), filepath.Join(dir, "redial_pairs.tsv")})
	if err != nil || len(data.Bad) > 0 {
		t.Fatal(err, data.Bad[:min(3, len(data.Bad))])
	}
	if data.Files[0].Items != 699 || data.Files[1].Items != 1216 {
		t.Errorf("%+v", data.Files)
	}
	lexicon, err := PaperLexicon()
	if err != nil {
		t.Fatal(err)
	}
	habitual := 0
	for _, p := range data.Pairs[:699] {
		if slices.ContainsFunc(lexicon.Features(p.AAE), func(f record.Feature) bool { return f.Class == "Aspectual" }) {
			habitual++
		}
	}
	if habitual != 699 {
		t.Errorf("%d of 699 sentences of habitual be hold an aspectual marker", habitual)
	}
}

// Whatever a file holds, reading it ends with pairs that can be asked about, or with an error of one line.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"aae":"he be","sae":"he is","natural":null}`))
	f.Add([]byte("aae,sae\n\"a\nb\",c\n"))
	f.Add([]byte("\ufeffaae\tsae\r\na\tb\r\n"))
	f.Add([]byte("x\ty\tz\n"))
	f.Add([]byte("{\x00"))
	lexicon, err := PaperLexicon()
	if err != nil {
		f.Fatal(err)
	}
	asking := Asking{Wordings: Wordings, Lexicon: lexicon}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := reader{data: &Data{}, seen: map[string]bool{}}
		if err := r.text("x", "x", text); err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q", err)
			}
			return
		}
		ids := map[string]bool{}
		for i := range r.data.Pairs {
			p := &r.data.Pairs[i]
			uncut := p.Cuttable()
			if uncut == nil && p.Segments == nil {
				if err := p.Cut(1, len(Words(p.AAE))-1); err != nil {
					t.Fatal(err)
				}
			}
			questions := asking.Questions(p, uncut)
			if len(questions) != asking.PerPair() {
				t.Fatal(len(questions))
			}
			for _, q := range questions {
				if ids[q.Record.ID] {
					t.Fatalf("two records are called %q", q.Record.ID)
				}
				ids[q.Record.ID] = true
				if q.Record.Error == "" && (q.Prompt == "" || len(q.Options) != len(q.Record.Options)) {
					t.Fatalf("%+v", q)
				}
			}
		}
	})
}
