package bbq

import (
	"fmt"
	"strings"
	"text/template"
)

// DefaultPrompt is the prompt used unless the user gives another. The options are not in it: each is scored as its continuation.
const DefaultPrompt = `{{.Context}}
{{.Question}}
Answer:`

// A Prompt is a Go text/template over an item's .Context, .Question and .Options (its three texts). The zero value is not usable.
type Prompt struct {
	text     string
	template *template.Template
}

type promptFields struct {
	Context, Question string
	Options           []string
}

// ParsePrompt makes a Prompt of the text of a template. White space at its end, such as the line break that editors add,
// is dropped: the space before an option belongs to the option. An error has one line.
func ParsePrompt(text string) (*Prompt, error) {
	text = strings.TrimRight(text, " \t\r\n")
	parsed, err := template.New("prompt").Parse(text)
	if err != nil {
		return nil, promptError(err)
	}
	p := &Prompt{text, parsed}
	rendered := [2]string{}
	for i, sign := range []string{"a", "b"} {
		probe := Item{Context: sign, Question: sign, Options: [3]Option{{Text: sign}, {Text: sign}, {Text: sign}}}
		if rendered[i], err = p.Render(&probe); err != nil {
			return nil, err
		}
	}
	if rendered[0] == rendered[1] {
		return nil, fmt.Errorf("the prompt template is the same for all items: it must use {{.Context}} or {{.Question}}")
	}
	return p, nil
}

// String returns the text of the template, which is what a run records.
func (p *Prompt) String() string { return p.text }

// Render returns the prompt for an item. Its continuations are those of Option.Continuation.
func (p *Prompt) Render(item *Item) (string, error) {
	fields := promptFields{Context: item.Context, Question: item.Question}
	for _, option := range item.Options {
		fields.Options = append(fields.Options, option.Text)
	}
	var rendered strings.Builder
	if err := p.template.Execute(&rendered, fields); err != nil {
		return "", promptError(err)
	}
	return rendered.String(), nil
}

func promptError(err error) error {
	return fmt.Errorf("%s; a prompt template may use .Context, .Question and .Options",
		strings.TrimPrefix(oneLine(err.Error()), "template: "))
}

// Continuation is what is scored after the prompt: a space, which becomes part of the first token, and the text of the
// option (GCD, appendix H).
func (o Option) Continuation() string { return " " + o.Text }
