package corpus

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"plumb/internal/jsonfile"
)

// Actions of a rule.
const (
	Drop = "drop"
	Flag = "flag"
)

// Rule is a named criterion by which triplets are dropped or flagged (section 3, "Translation and back-translation": added
// explanations, semantic distortions, translation artefacts). It looks at one or both translations. The source of the SAE
// text is the AAE text, that of AAE_back the SAE text.
type Rule struct {
	Name   string   `json:"name"`
	Why    string   `json:"why"`    // what a match means, for people
	Fields []string `json:"fields"` // the texts to look at: sae, aae_back

	// Test is one of
	//
	//	empty         the text has no letter and no digit
	//	pattern       it matches Pattern, a regular expression in Go's syntax
	//	common words  of its words, fewer than the share Min are among Words; for texts of MinWords words or more
	//	length ratio  its words are less than Min, or more than Max, times the source's
	//	repetition    a run of one to four words stands more than Max times in a row
	//	overlap       the F1 score of character trigrams shared with the text As is below Min
	//	numbers       the numbers of two digits or more are not those of the source
	//	same          it equals the text As, but for case, punctuation and spaces
	Test         string   `json:"test"`
	As           string   `json:"as,omitempty"`
	Pattern      string   `json:"pattern,omitempty"`
	Words        []string `json:"words,omitempty"`
	Min          float64  `json:"min,omitempty"`
	Max          float64  `json:"max,omitempty"`
	MinWords     int      `json:"min_words,omitempty"`
	UnlessSource bool     `json:"unless_source,omitempty"` // no match where the test is true of the AAE text too
	Action       string   `json:"action"`

	match func(t *Triplet, field string) bool
}

//go:embed rules.json
var defaultRules []byte

// DefaultRules are the rules that are used where the user names none.
func DefaultRules() []byte { return bytes.Clone(defaultRules) }

// ReadRules reads rules from a file; from the default ones if path is empty.
func ReadRules(path string) ([]Rule, error) {
	if path == "" {
		return parseRules("rules.json", defaultRules)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	return parseRules(path, data)
}

func parseRules(name string, data []byte) ([]Rule, error) {
	var file struct {
		Rules []Rule `json:"rules"`
	}
	if err := jsonfile.Decode(data, &file); err != nil {
		return nil, fmt.Errorf("%s: not a file of rules: %w; `plumb corpus filter --print-rules` shows one", name, err)
	}
	if len(file.Rules) == 0 {
		return nil, fmt.Errorf("%s: there are no rules in the file", name)
	}
	seen := map[string]bool{ReviewRule: true}
	for i := range file.Rules {
		rule := &file.Rules[i]
		if rule.Name == "" || seen[rule.Name] {
			return nil, fmt.Errorf("%s: rule %d has no name of its own (%q)", name, i+1, rule.Name)
		}
		seen[rule.Name] = true
		if err := rule.prepare(); err != nil {
			return nil, fmt.Errorf("%s: rule %q: %w", name, rule.Name, err)
		}
	}
	return file.Rules, nil
}

// prepare checks the rule and makes its match.
func (r *Rule) prepare() error {
	for _, field := range r.Fields {
		if field != FieldSAE && field != FieldAAEBack {
			return fmt.Errorf("the fields are sae and aae_back, not %q", field)
		}
	}
	needsAs := r.Test == "overlap" || r.Test == "same"
	switch {
	case len(r.Fields) == 0:
		return fmt.Errorf("it has no fields")
	case r.Action != Drop && r.Action != Flag:
		return fmt.Errorf("the action is %s or %s, not %q", Drop, Flag, r.Action)
	case needsAs && !slices.Contains([]string{FieldAAE, FieldSAE, FieldAAEBack}, r.As):
		return fmt.Errorf("the test %q needs the name of a text in \"as\", not %q", r.Test, r.As)
	case r.UnlessSource && needsAs:
		return fmt.Errorf("the test %q compares two texts; leave out unless_source", r.Test)
	}
	alone, err := r.alone()
	if err != nil {
		return err
	}
	if alone != nil {
		r.match = func(t *Triplet, field string) bool {
			return alone(t.text(field)) && !(r.UnlessSource && alone(t.AAE))
		}
		return nil
	}
	switch r.Test {
	case "length ratio":
		r.match = func(t *Triplet, field string) bool {
			n, source := float64(words(t.text(field))), float64(words(sourceOf(t, field)))
			return n < r.Min*source || r.Max > 0 && n > r.Max*source
		}
	case "overlap":
		r.match = func(t *Triplet, field string) bool { return trigramF1(t.text(field), t.text(r.As)) < r.Min }
	case "numbers":
		r.match = func(t *Triplet, field string) bool {
			return !slices.Equal(numbers(t.text(field)), numbers(sourceOf(t, field)))
		}
	case "same":
		r.match = func(t *Triplet, field string) bool { return fold(t.text(field)) == fold(t.text(r.As)) }
	default:
		return fmt.Errorf("there is no test %q", r.Test)
	}
	return nil
}

// alone is the test as a function of one text, nil for a test that compares two.
func (r *Rule) alone() (func(text string) bool, error) {
	switch r.Test {
	case "empty":
		return func(text string) bool { return !strings.ContainsFunc(text, isAlphanumeric) }, nil
	case "pattern":
		pattern, err := regexp.Compile(r.Pattern)
		if err != nil || r.Pattern == "" {
			return nil, fmt.Errorf("the pattern %q is not a regular expression in Go's syntax", r.Pattern)
		}
		return pattern.MatchString, nil
	case "common words":
		common := map[string]bool{}
		for _, word := range r.Words {
			common[strings.ToLower(word)] = true
		}
		return func(text string) bool {
			list := wordList(text)
			n := 0
			for _, word := range list {
				if common[word] {
					n++
				}
			}
			return len(list) > 0 && len(list) >= r.MinWords && float64(n) < r.Min*float64(len(list))
		}, nil
	case "repetition":
		if r.Max < 1 {
			return nil, fmt.Errorf("the test %q needs a max of 1 or more", r.Test)
		}
		return func(text string) bool { return longestRepeat(wordList(text)) > int(r.Max) }, nil
	}
	return nil, nil
}

// sourceOf is the text that a translation was made of.
func sourceOf(t *Triplet, field string) string {
	if field == FieldSAE {
		return t.AAE
	}
	return t.SAE
}

// wordList are the words of a text in lower case, with typographic apostrophes as ASCII's, without punctuation around them.
func wordList(text string) []string {
	var list []string
	for _, field := range strings.Fields(strings.ReplaceAll(strings.ToLower(text), "’", "'")) {
		if word := strings.TrimFunc(field, func(r rune) bool { return !isAlphanumeric(r) }); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// fold is a text's letters and digits, in lower case.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if isAlphanumeric(r) {
			return r
		}
		return -1
	}, strings.ToLower(text))
}

var numberPattern = regexp.MustCompile(`\d[\d.,]*\d`)

// numbers are those of two digits or more, sorted; smaller ones are often words, as in "2" for "to".
func numbers(text string) []string {
	list := numberPattern.FindAllString(text, -1)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], ",", "")
	}
	slices.Sort(list)
	return list
}

// longestRepeat is how many times in a row the same one to four words stand, at most.
func longestRepeat(list []string) int {
	longest := min(1, len(list))
	for size := 1; size <= 4; size++ {
		run := 0 // of words that equal the one `size` places before
		for i := size; i < len(list); i++ {
			if list[i] != list[i-size] {
				run = 0
				continue
			}
			run++
			longest = max(longest, 1+run/size)
		}
	}
	return longest
}

// trigramF1 is the F1 score of the character trigrams that two texts share, counted with multiplicity, of their letters and
// digits in lower case. It is 1 for two texts that have none.
func trigramF1(a, b string) float64 {
	count := func(text string) (map[string]int, int) {
		runes, grams := []rune(fold(text)), map[string]int{}
		for i := 0; i+3 <= len(runes); i++ {
			grams[string(runes[i:i+3])]++
		}
		return grams, max(0, len(runes)-2)
	}
	inA, totalA := count(a)
	inB, totalB := count(b)
	if totalA+totalB == 0 {
		return 1
	}
	shared := 0
	for gram, n := range inA {
		shared += min(n, inB[gram])
	}
	return 2 * float64(shared) / float64(totalA+totalB)
}
