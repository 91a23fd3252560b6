package bbq

import (
	"strings"
	"testing"
)

var item = Item{
	Context: "A & B <sat> down.", Question: "Who \"slept\"?",
	Options: [3]Option{{"The {{uncle}}", Anti}, {"The boy", Biased}, {"Not known", Unknown}},
}

func TestPrompt(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"default", DefaultPrompt, "A & B <sat> down.\nWho \"slept\"?\nAnswer:"},
		{"white space at the end", "{{.Context}}\nQ: {{.Question}}\nA: \r\n\n", "A & B <sat> down.\nQ: Who \"slept\"?\nA:"},
		{"options", "{{.Question}}{{range $i, $o := .Options}} ({{$i}}) {{$o}}{{end}}\nAnswer:",
			"Who \"slept\"? (0) The {{uncle}} (1) The boy (2) Not known\nAnswer:"},
	}
	for _, test := range tests {
		prompt, err := ParsePrompt(test.text)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		got, err := prompt.Render(&item)
		if err != nil || got != test.want {
			t.Errorf("%s: %q (%v), want %q", test.name, got, err, test.want)
		}
		if prompt.String() != strings.TrimRight(test.text, " \r\n") {
			t.Errorf("%s: the text of the template is %q", test.name, prompt.String())
		}
	}
	if got := item.Options[1].Continuation(); got != " The boy" {
		t.Errorf("continuation %q", got)
	}
}

func TestPromptErrors(t *testing.T) {
	tests := []struct{ name, text, message string }{
		{"empty", "", "must use {{.Context}} or {{.Question}}"},
		{"fixed", "Who slept?\nAnswer:", "must use {{.Context}} or {{.Question}}"},
		{"open action", "{{.Context}}\n{{.Question", "prompt:2: unclosed action"},
		{"unknown field", "{{.Context}} {{.context}}", "can't evaluate field context"},
		{"role", "{{range .Options}}{{.Role}}{{end}}", "can't evaluate field Role"},
		{"index", "{{index .Options 3}}", "out of range"},
		{"unknown function", "{{shout .Context}}", `function "shout" not defined`},
		{"line break in an action", "{{.Context\n\n| nothing}}", "nothing"},
		{"endless", `{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, "template depth"},
	}
	for _, test := range tests {
		_, err := ParsePrompt(test.text)
		if err == nil || !strings.Contains(err.Error(), test.message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", test.name, err, test.message)
		}
	}
}
