package dialect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumb/audit/record"
	"plumb/internal/shared"
)

func lexicon(t *testing.T) *Lexicon {
	t.Helper()
	l, err := PaperLexicon()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFind(t *testing.T) {
	l := lexicon(t)
	for text, want := range map[string][]string{
		"She BE working":                        {"she be"},
		"ain’t nobody home":                     {"ain't", "ain't nobody"}, // two classes at once
		"AINT NOBODY home":                      {"aint", "aint nobody"},
		"the beach, behe be, sheba, hebe":       nil, // inside words
		"they\n  been gone":                     {"they been"},
		"“finna”, 'tryna' and (imma)":           {"finna", "tryna", "imma"},
		"onion lion ion":                        {"ion"},
		"I'mma go; ima go":                      {"i'mma", "ima"},
		"y`all was there":                       {"y'all was"},
		"Hawai'i be nice":                       nil, // the i is of a word
		"she don't never":                       {"she don't", "don't never"},
		"he done, he don't, she done":           {"he done", "he don't", "she done"},
		"stay. steady? outstay unsteady steady": {"stay", "steady"},
		"éhe be":                                nil,
		"":                                      nil,
	} {
		var got []string
		for _, f := range l.Features(text) {
			got = append(got, f.Marker)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		for _, m := range l.Find(text) {
			if !strings.EqualFold(strings.Join(strings.Fields(strings.NewReplacer("’", "'", "`", "'").Replace(text[m.Start:m.End])), " "), m.Marker) {
				t.Errorf("%q: %q stands at %d to %d", text, m.Marker, m.Start, m.End)
			}
		}
	}
}

func TestPaperLexicon(t *testing.T) {
	l := lexicon(t)
	if !slices.Equal(l.Classes, []string{"Auxiliary", "Aspectual", "Preverbal", "Syntactic"}) || l.File.Items != 58 || len(l.Slurs) != 2 {
		t.Errorf("%v, %+v", l.Classes, l.File)
	}
	facts, err := os.ReadFile(filepath.Join(shared.Data(t, "lexicon"), "table6.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := parseLexicon("", string(facts))
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b marker) bool { return a.Feature == b.Feature }
	if !slices.EqualFunc(l.markers, want.markers, same) {
		t.Error("the lexicon is not Table 6")
	}
}

func TestMask(t *testing.T) {
	slurs := lexicon(t).Slurs
	for _, slur := range slurs {
		masked := Mask("them "+strings.ToUpper(slur)+" was", slurs)
		if strings.Contains(strings.ToLower(masked), slur) || !strings.HasSuffix(masked, "was") || !strings.Contains(masked, "*") {
			t.Errorf("%q", masked)
		}
	}
	if got := Mask("nothing here", slurs); got != "nothing here" {
		t.Errorf("%q", got)
	}
}

func TestReadLexicon(t *testing.T) {
	l, err := ReadLexicon(write(t, "own.tsv", "\ufeffclass\tmarker\r\nCopula\tzero is\r\n\r\n"))
	if err != nil || !slices.Equal(l.Features("a Zero  is"), []record.Feature{{Class: "Copula", Marker: "zero is"}}) {
		t.Error(l, err)
	}
	for text, want := range map[string]string{
		"":                          "no marker",
		"a\tb\n":                    ":1: the first line must name",
		"class\tmarker\nonly\n":     ":2: a row is a class and a marker",
		"class\tmarker\n":           "no marker; add rows",
		"class\tmarker\nx\t\xff\n":  "not a text in UTF-8",
		"class\tmarker\n\tno class": ":2: a row is",
		"class\tmarker\nx\ty\nonly\nz\tzz\nonly\n": ":3: a row is a class and a marker with a tab between them (bad rows: 2)",
	} {
		if _, err := ReadLexicon(write(t, "bad.tsv", text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.tsv:") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	l, err := PaperLexicon()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("he be ain’t nobody İ ıı")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range l.Find(text) {
			if m.Start < 0 || m.End > len(text) || m.Start >= m.End {
				t.Fatalf("%+v in %d bytes", m, len(text))
			}
		}
	})
}
