package corpus

import (
	"crypto/sha256"
	"fmt"
	"plumb/audit/report"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Sentence is a cleaned text of the AAE side.
type Sentence struct {
	ID  string `json:"id"`
	AAE string `json:"aae"`
}

// DefaultMinWords is how many words a text must have (section 3).
const DefaultMinWords = 10

// Reasons why Clean drops a text.
const (
	Empty     = "empty"     // nothing is left of it
	TooShort  = "too short" // fewer words than asked for
	Duplicate = "duplicate" // equal to an earlier text, but for case
)

// Dropped is a text that was left out.
type Dropped struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Of     string `json:"of,omitempty"` // the id of the text that a duplicate repeats
}

// Stripped counts what was taken out of texts.
type Stripped struct {
	Folded   int `json:"folded"`    // non-ASCII characters that were written in ASCII
	NonASCII int `json:"non_ascii"` // non-ASCII characters that were removed
	URLs     int `json:"urls"`
	Mentions int `json:"mentions"`
}

func (s *Stripped) add(other Stripped) {
	s.Folded += other.Folded
	s.NonASCII += other.NonASCII
	s.URLs += other.URLs
	s.Mentions += other.Mentions
}

var (
	urlPattern = regexp.MustCompile(`(?i)https?:/\S*|\b(?:www\.|t\.co/|pic\.twitter\.com/)\S+`)
	// the character before tells a mention from an e-mail address
	mentionPattern = regexp.MustCompile(`(^|[^A-Za-z0-9_])@[A-Za-z0-9_]+`)
)

// CleanText strips a text as section 3 asks, in this order:
//
//  1. Non-ASCII characters. One that has a form in ASCII is written in it, so that "don’t" does not turn into the AAE
//     spelling "dont" nor "café" into "caf": compatibility forms by NFKD (accents, ligatures, full-width and mathematical
//     letters, "…"), and typographic quotes, dashes and slashes. Of what remains, letters, marks and
//     invisible characters (joiners, variation selectors) go without a trace; emoji, symbols, punctuation, control
//     characters and bytes that are no UTF-8 become a space, so that the words beside them stay apart.
//  2. URLs: from http:/, https:/, www., t.co/ or pic.twitter.com/ to the next space.
//  3. Mentions: @ and the letters, digits and underscores after it, where no such character stands before.
//  4. Every run of white space becomes one space.
//
// 2 and 3 are repeated until nothing changes, as one removal can uncover another. A cleaned text is cleaned to itself.
func CleanText(text string) (string, Stripped) {
	var s Stripped
	text = s.toASCII(text)
	for {
		urls := len(urlPattern.FindAllStringIndex(text, -1))
		text = urlPattern.ReplaceAllString(text, " ")
		mentions := len(mentionPattern.FindAllStringIndex(text, -1))
		text = mentionPattern.ReplaceAllString(text, "$1 ")
		s.URLs += urls
		s.Mentions += mentions
		if urls+mentions == 0 {
			return strings.Join(strings.Fields(text), " "), s
		}
	}
}

// asciiForms are those that Unicode's compatibility forms lack.
var asciiForms = map[rune]string{
	'‘': "'", '’': "'", '‚': "'", '‛': "'", '′': "'", 'ʼ': "'", '“': `"`, '”': `"`, '„': `"`, '‟': `"`, '″': `"`,
	'‐': "-", '‑': "-", '‒': "-", '–': "-", '—': "-", '―': "-", '−': "-", '⁄': "/", '∕': "/",
}

func (s *Stripped) toASCII(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r <= unicode.MaxASCII {
			if unicode.IsControl(r) {
				r = ' '
			}
			out.WriteRune(r)
			continue
		}
		folded, removed := asciiForm(r)
		if removed {
			s.NonASCII++
		} else {
			s.Folded++
		}
		out.WriteString(folded)
	}
	return out.String()
}

// asciiForm returns what stands for a character that is not ASCII, and whether it was removed.
func asciiForm(r rune) (form string, removed bool) {
	var out strings.Builder
	for _, part := range norm.NFKD.String(string(r)) {
		if ascii, ok := asciiForms[part]; ok {
			out.WriteString(ascii)
		} else if part <= unicode.MaxASCII && !unicode.IsControl(part) {
			out.WriteRune(part)
		}
	}
	switch {
	case out.Len() > 0:
		return out.String(), false
	case unicode.In(r, unicode.L, unicode.M, unicode.Cf):
		return "", true
	}
	return " ", true
}

// words counts the words of a text: what stands between spaces and has a letter or a digit.
func words(text string) int {
	n := 0
	for _, field := range strings.Fields(text) {
		if strings.ContainsFunc(field, isAlphanumeric) {
			n++
		}
	}
	return n
}

func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// CleanOptions say how texts are cleaned.
type CleanOptions struct {
	TextField string // the field with the text; "": "aae", or "text" where there is none
	IDField   string // the field with the id; "": "id", or file and line where there is none
	MinWords  int
}

// Cleaned is what Clean kept and dropped, in the order of the rows.
type Cleaned struct {
	Rows      int
	Sentences []Sentence
	Dropped   []Dropped
	Stripped  Stripped // over all rows
}

// Clean reads the rows of files, keeps their ids, strips their texts by CleanText, and drops those that are then empty, too
// short, or equal to an earlier one but for case. A word is what stands between spaces and has a letter or a digit.
// A row without a text, or with an id that was there before, is an error.
func Clean(paths []string, options CleanOptions) (*Cleaned, error) {
	c := &Cleaned{}
	seen := ids{}
	first := map[[sha256.Size]byte]string{} // the id of each text
	for _, path := range paths {
		for row, err := range Rows(path) {
			if err != nil {
				return nil, err
			}
			id, text, err := options.fields(&row)
			if err == nil {
				err = seen.add(id, &row)
			}
			if err != nil {
				return nil, err
			}
			c.Rows++
			text, stripped := CleanText(text)
			c.Stripped.add(stripped)
			key := sha256.Sum256([]byte(strings.ToLower(text)))
			of, repeated := first[key]
			switch {
			case text == "":
				c.Dropped = append(c.Dropped, Dropped{ID: id, Reason: Empty})
			case words(text) < options.MinWords:
				c.Dropped = append(c.Dropped, Dropped{ID: id, Reason: TooShort})
			case repeated:
				c.Dropped = append(c.Dropped, Dropped{id, Duplicate, of})
			default:
				first[key] = id
				c.Sentences = append(c.Sentences, Sentence{id, text})
			}
		}
	}
	if c.Rows == 0 {
		return nil, fmt.Errorf("%s: there are no rows to clean; give files with texts in them", strings.Join(paths, ", "))
	}
	return c, nil
}

// fields are a row's id and text.
func (o *CleanOptions) fields(row *Row) (id, text string, err error) {
	textFields, idField := []string{o.TextField}, o.IDField
	if o.TextField == "" {
		textFields = []string{"aae", TextField}
	}
	found := false
	for _, name := range textFields {
		if text, found = row.Fields[name]; found {
			break
		}
	}
	if !found {
		return "", "", fmt.Errorf("%s: there is no field %s; name the field that holds the text (--text)", row.at(), strings.Join(textFields, " or "))
	}
	if idField == "" {
		idField = "id"
	}
	id, ok := row.Fields[idField]
	switch {
	case !ok && o.IDField != "":
		return "", "", fmt.Errorf("%s: there is no field %s for the id; name another one (--id)", row.at(), idField)
	case !ok:
		id = row.lineID()
	}
	return strings.TrimSpace(id), text, nil
}

// Summary is what was read, kept, dropped and stripped.
func (c *Cleaned) Summary() Summary {
	reasons := map[string]int{Empty: 0, TooShort: 0, Duplicate: 0}
	for _, d := range c.Dropped {
		reasons[d.Reason]++
	}
	return Summary{
		Stage: "clean",
		Facts: []Fact{
			{"Rows read", report.Thousands(c.Rows)},
			{"Kept", report.Thousands(len(c.Sentences))},
			{"Dropped, too short", report.Thousands(reasons[TooShort])},
			{"Dropped, duplicate", report.Thousands(reasons[Duplicate])},
			{"Dropped, empty", report.Thousands(reasons[Empty])},
			{"URLs stripped", report.Thousands(c.Stripped.URLs)},
			{"Mentions stripped", report.Thousands(c.Stripped.Mentions)},
			{"Non-ASCII characters written in ASCII", report.Thousands(c.Stripped.Folded)},
			{"Non-ASCII characters removed", report.Thousands(c.Stripped.NonASCII)},
		},
		Details: struct {
			Rows     int            `json:"rows"`
			Kept     int            `json:"kept"`
			Dropped  map[string]int `json:"dropped"`
			Stripped Stripped       `json:"stripped"`
		}{c.Rows, len(c.Sentences), reasons, c.Stripped},
	}
}
