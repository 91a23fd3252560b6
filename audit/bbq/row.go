package bbq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A row is one published item as it stands in a file; missing fields are empty.
type row struct {
	ExampleID     scalar `json:"example_id"`
	QuestionIndex scalar `json:"question_index"`
	Polarity      string `json:"question_polarity"`
	Condition     string `json:"context_condition"`
	Category      string `json:"category"`
	AnswerInfo    struct {
		Ans0 []string `json:"ans0"`
		Ans1 []string `json:"ans1"`
		Ans2 []string `json:"ans2"`
	} `json:"answer_info"`
	AdditionalMetadata struct {
		StereotypedGroups []string `json:"stereotyped_groups"`
	} `json:"additional_metadata"`
	Context  string `json:"context"`
	Question string `json:"question"`
	Ans0     string `json:"ans0"`
	Ans1     string `json:"ans1"`
	Ans2     string `json:"ans2"`
	Label    scalar `json:"label"`
}

// A scalar is a number or a string: files and mirrors differ in how they write ids and labels.
type scalar string

func (s *scalar) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*s = scalar(strings.TrimSpace(text))
		return nil
	}
	if strings.ContainsAny(string(data[:1]), "{[tf") {
		return errors.New("an id or a label is neither a number nor a string")
	}
	if string(data) != "null" {
		*s = scalar(data)
	}
	return nil
}

// parseRow decodes one JSON line. Its error is the reason why the row is bad, on one line.
func parseRow(line []byte) (*row, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("invalid UTF-8")
	}
	r := &row{}
	if err := json.Unmarshal(line, r); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) && mismatch.Field != "" {
			return nil, fmt.Errorf("%s is of the wrong type: a JSON %s", mismatch.Field, mismatch.Value)
		}
		return nil, fmt.Errorf("not a JSON object of BBQ: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return r, nil
}

// item checks the row and makes an item of it, whose options have no role yet except the unknown one; the answers as
// published come with it. The error is the reason why the row is bad, on one line.
func (r *row) item() (Item, [3]answer, error) {
	fail := func(format string, args ...any) (Item, [3]answer, error) {
		return Item{}, [3]answer{}, fmt.Errorf(format, args...)
	}
	fields := []struct {
		name string
		text *string
	}{
		{"category", &r.Category}, {"context", &r.Context}, {"question", &r.Question},
		{"ans0", &r.Ans0}, {"ans1", &r.Ans1}, {"ans2", &r.Ans2},
		{"question_index", (*string)(&r.QuestionIndex)},
	}
	for _, field := range fields {
		*field.text = strings.TrimSpace(*field.text)
		switch {
		case *field.text == "":
			return fail("%s is missing or empty", field.name)
		case !utf8.ValidString(*field.text):
			return fail("%s is not valid UTF-8", field.name)
		case strings.ContainsRune(*field.text, utf8.RuneError):
			return fail("%s is damaged: it holds the replacement character U+FFFD", field.name)
		case strings.ContainsRune(*field.text, 0):
			return fail("%s holds a NUL character", field.name)
		}
	}
	// The two are parts of identifiers that join them by a slash.
	unfit := func(c rune) bool { return c == '/' || unicode.IsControl(c) }
	if strings.ContainsFunc(r.Category, unfit) || strings.ContainsFunc(string(r.QuestionIndex), unfit) {
		return fail("category or question_index holds a slash, a tab, a line break or another control character")
	}
	id, err := strconv.Atoi(string(r.ExampleID))
	if err != nil || id < 0 {
		return fail("example_id is %s, not a whole number of at least 0", quoted(string(r.ExampleID)))
	}
	label, err := strconv.Atoi(string(r.Label))
	if err != nil || label < 0 || label > 2 {
		return fail("label is %s, not 0, 1 or 2", quoted(string(r.Label)))
	}
	if !slices.Contains([]string{Ambiguous, Disambiguated}, r.Condition) {
		return fail("context_condition is %s, not ambig or disambig", quoted(r.Condition))
	}
	if !slices.Contains([]string{Negative, NonNegative}, r.Polarity) {
		return fail("question_polarity is %s, not neg or nonneg", quoted(r.Polarity))
	}

	answers := [3]answer{{text: r.Ans0}, {text: r.Ans1}, {text: r.Ans2}}
	unknown := -1
	for i, pair := range [3][]string{r.AnswerInfo.Ans0, r.AnswerInfo.Ans1, r.AnswerInfo.Ans2} {
		if len(pair) != 2 {
			return fail("answer_info has %d entries for ans%d, not a text and a tag", len(pair), i)
		}
		answers[i].infoText, answers[i].tag = pair[0], pair[1]
		if !answers[i].unknown() {
			continue
		}
		if unknown >= 0 {
			return fail("two options are tagged unknown: ans%d and ans%d", unknown, i)
		}
		unknown = i
	}
	if unknown < 0 {
		return fail("no option is tagged unknown")
	}
	if r.Ans0 == r.Ans1 || r.Ans0 == r.Ans2 || r.Ans1 == r.Ans2 {
		return fail("two options have the same text")
	}
	// Without this the accuracy on ambiguous items would not be the rate of the unknown option (GCD, section 3).
	if (label == unknown) != (r.Condition == Ambiguous) {
		return fail("label %d contradicts context_condition %s: the unknown option is ans%d", label, r.Condition, unknown)
	}

	item := Item{
		ID:        r.Category + "/" + strconv.Itoa(id),
		Category:  r.Category,
		Template:  r.Category + "/" + string(r.QuestionIndex),
		Condition: r.Condition,
		Polarity:  r.Polarity,
		Context:   r.Context,
		Question:  r.Question,
		Label:     label,
	}
	for i := range answers {
		item.Options[i].Text = answers[i].text
	}
	item.Options[unknown].Role = Unknown
	return item, answers, nil
}

// assign gives the two other options their roles; biased is the index of the biased one.
func (it *Item) assign(biased int) {
	for i := range it.Options {
		if it.Options[i].Role == Unknown {
			continue
		}
		it.Options[i].Role = Anti
		if i == biased {
			it.Options[i].Role = Biased
		}
	}
}

// quoted shows a value of the data in a message of one short line.
func quoted(value string) string {
	if value == "" {
		return "missing"
	}
	if runes := []rune(value); len(runes) > 40 {
		value = string(runes[:40]) + "…"
	}
	return strconv.Quote(value)
}
