package compare

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestHTML(t *testing.T) {
	c := synthetic(t)
	var out bytes.Buffer
	if err := NewReport([]*Comparison{c}).WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if path := os.Getenv("PLUMB_TEST_PAGE"); path != "" {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, forbidden := range []string{"http:", "https:", "<script", "<link", "@import", "url(", `<b>"Sil`, "NaN", "Inf", "ZgotmplZ"} {
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/", ""), forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	if got := strings.Count(text, "<svg"); got != 3 {
		t.Errorf("%d figures, want one a condition", got)
	}
	for _, needed := range []string{"Composition and preference, disambiguated items", "&lt;b&gt;", "Δs<sub>Dis</sub>", "Text of item", "undefined"} {
		if !strings.Contains(text, needed) {
			t.Errorf("the page lacks %q", needed)
		}
	}
}
