package dialect

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"plumb/audit/record"
)

//go:embed lexicon.tsv
var builtinLexicon string

// Lexicon is a list of a dialect's markers in classes.
type Lexicon struct {
	File    record.DataFile
	Classes []string // in the file's order
	Slurs   []string // words that reports mask, in lower case

	markers []marker
}

type marker struct {
	record.Feature
	pattern *regexp.Regexp
}

// Match is a marker found in a text, text[Start:End].
type Match struct {
	record.Feature
	Start, End int
}

// PaperLexicon is the paper's Table 6 (Harris et al., 2022): 58 markers of the classes Auxiliary, Aspectual, Preverbal and
// Syntactic.
func PaperLexicon() (*Lexicon, error) { return parseLexicon("table6", builtinLexicon) }

// ReadLexicon reads a TSV file with the columns class and marker and, optionally, slur: the word of the marker that
// reports mask. The first line names them.
func ReadLexicon(path string) (*Lexicon, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lexicon, err := parseLexicon(filepath.Base(path), string(text))
	if err != nil {
		return nil, fmt.Errorf("%s%w", path, err)
	}
	return lexicon, nil
}

// parseLexicon's errors begin with what follows a file's name.
func parseLexicon(name, text string) (*Lexicon, error) {
	hash := sha256.Sum256([]byte(text))
	if !utf8.ValidString(text) {
		return nil, errors.New(": not a text in UTF-8; save it as one")
	}
	l := &Lexicon{File: record.DataFile{Name: name, SHA256: hex.EncodeToString(hash[:])}}
	row, bad, firstBad := 0, 0, 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		row++
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case row == 1 && len(cells) >= 2 && cells[0] == "class" && cells[1] == "marker":
		case row == 1:
			return nil, errors.New(":1: the first line must name the columns class and marker, with a tab between them")
		case strings.Join(cells, "") == "":
		case len(cells) < 2 || cells[0] == "" || cells[1] == "":
			if bad++; bad == 1 {
				firstBad = row
			}
		default:
			l.add(cells[0], cells[1])
			if len(cells) > 2 && cells[2] != "" && !slices.Contains(l.Slurs, strings.ToLower(cells[2])) {
				l.Slurs = append(l.Slurs, strings.ToLower(cells[2]))
			}
		}
	}
	if bad > 0 {
		return nil, fmt.Errorf(":%d: a row is a class and a marker with a tab between them (bad rows: %d)", firstBad, bad)
	}
	if len(l.markers) == 0 {
		return nil, errors.New(": no marker; add rows of a class and a marker")
	}
	l.File.Items = len(l.markers)
	return l, nil
}

// apostrophes are the characters that stand for one in the wild.
const apostrophes = "'’‘ʼ`´"

func (l *Lexicon) add(class, text string) {
	if !slices.Contains(l.Classes, class) {
		l.Classes = append(l.Classes, class)
	}
	var words []string
	for _, word := range strings.Fields(text) {
		var pattern strings.Builder
		for _, r := range word {
			if strings.ContainsRune(apostrophes, r) {
				pattern.WriteString("[" + apostrophes + "]")
			} else {
				pattern.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
		words = append(words, pattern.String())
	}
	l.markers = append(l.markers, marker{record.Feature{Class: class, Marker: text}, regexp.MustCompile(`(?i)` + strings.Join(words, `\s+`))})
}

// Find returns the markers in a text in the order of their places. A marker begins and ends at a word's boundary, its case
// and the shape of its apostrophe do not matter, and markers may overlap: a text can have several classes.
func (l *Lexicon) Find(text string) []Match {
	var matches []Match
	for _, m := range l.markers {
		for _, at := range m.pattern.FindAllStringIndex(text, -1) {
			if startsWord(text, at[0]) && endsWord(text, at[1]) {
				matches = append(matches, Match{m.Feature, at[0], at[1]})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b Match) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	return matches
}

// Features are the markers of a text, each once.
func (l *Lexicon) Features(text string) []record.Feature {
	var features []record.Feature
	for _, m := range l.Find(text) {
		if !slices.Contains(features, m.Feature) {
			features = append(features, m.Feature)
		}
	}
	return features
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// startsWord says whether no word reaches from before at into it; an apostrophe after a letter is inside a word.
func startsWord(text string, at int) bool {
	before, size := utf8.DecodeLastRuneInString(text[:at])
	if size > 0 && strings.ContainsRune(apostrophes, before) {
		before, _ = utf8.DecodeLastRuneInString(text[:at-size])
	}
	return !isWordRune(before)
}

func endsWord(text string, at int) bool {
	after, _ := utf8.DecodeRuneInString(text[at:])
	return !isWordRune(after)
}

// Mask replaces all but the first and the last letter of the given words, in whatever case, by asterisks.
func Mask(text string, words []string) string {
	for _, word := range words {
		pattern := regexp.MustCompile(`(?i)` + regexp.QuoteMeta(word))
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			letters := []rune(found)
			for i := 1; i < len(letters)-1; i++ {
				letters[i] = '*'
			}
			return string(letters)
		})
	}
	return text
}
