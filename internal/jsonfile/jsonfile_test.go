package jsonfile

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	type file struct {
		P     float64        `json:"p"`
		N     []int          `json:"n"`
		Name  string         `json:"name"`
		On    bool           `json:"on"`
		Inner map[string]any `json:"inner"`
	}
	var v file
	if err := Decode([]byte(` {"p": 0.5, "n": [1], "inner": {"x": 12345678901234567890}} `), &v); err != nil {
		t.Fatal(err)
	}
	if v.P != 0.5 || v.Inner["x"] != json.Number("12345678901234567890") {
		t.Errorf("%+v", v)
	}
	for content, want := range map[string]string{
		"":                  "the file is empty",
		`{"p": 1`:           "ends within the object",
		`{"p": x}`:          "at byte 7",
		`[1]`:               "it is a JSON array, not an object",
		`{"p": "1"}`:        "p is a JSON string; it has to be a number",
		`{"n": 1}`:          "n is a JSON number; it has to be a list",
		`{"n": [1.5]}`:      "it has to be a whole number",
		`{"name": 1}`:       "it has to be a text",
		`{"on": 1}`:         "it has to be true or false",
		`{"inner": []}`:     "it has to be an object",
		`{"q": 1}`:          `unknown field "q"`,
		`{"p": 1} {"p": 2}`: "something follows the object",
	} {
		if err := Decode([]byte(content), &file{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}
