package bbq

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestBuiltin(t *testing.T) {
	data, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if data.Bad != 0 || len(data.LeftOut) != 0 || len(data.Items) < 120 {
		t.Fatalf("%d items, bad rows %v, left out %v", len(data.Items), data.BadRows, data.LeftOut)
	}
	templates := map[string]map[string]bool{}
	unknowns := map[string]int{}
	for i := range data.Items {
		item := &data.Items[i]
		if problem := invalid(item); problem != "" {
			t.Errorf("%s: %+v", problem, item)
		}
		if templates[item.Category] == nil {
			templates[item.Category] = map[string]bool{}
		}
		templates[item.Category][item.Template] = true
		unknowns[item.Options[item.Find(Unknown)].Text]++
	}
	if len(templates) < 3 {
		t.Errorf("%d categories", len(templates))
	}
	for category, names := range templates {
		if len(names) < 4 {
			t.Errorf("%d templates of %s", len(names), category)
		}
	}
	if len(unknowns) < 5 {
		t.Errorf("the unknown option has the wordings %v only", unknowns)
	}
	// Balance: no answer is favored by what is not about the people.
	half := len(data.Items) / 2
	for what, n := range map[string]int{
		"ambiguous items": sum(data.Items, func(it *Item) bool { return it.Condition == Ambiguous }),
		"negative items":  sum(data.Items, func(it *Item) bool { return it.Polarity == Negative }),
	} {
		if n != half {
			t.Errorf("%d of %d are %s", n, len(data.Items), what)
		}
	}
	if n := sum(data.Items, func(it *Item) bool { return it.Options[it.Label].Role == Biased }); n != half/2 {
		t.Errorf("the right answer is the biased one in %d of %d unambiguous items", n, half)
	}
	for place := range 3 {
		for _, role := range []Role{Biased, Anti, Unknown} {
			n := sum(data.Items, func(it *Item) bool { return it.Find(role) == place })
			if n < len(data.Items)/4 || n > len(data.Items)*5/12 {
				t.Errorf("the %s option has place %d in %d of %d items", role, place, n, len(data.Items))
			}
		}
	}
}

func sum(items []Item, is func(*Item) bool) (n int) {
	for i := range items {
		if is(&items[i]) {
			n++
		}
	}
	return n
}

// The embedded file is what the generator writes.
func TestBuiltinIsGenerated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "builtin.jsonl")
	if output, err := exec.Command("go", "run", "./testdata/generate", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, builtin) {
		t.Error("builtin.jsonl is out of date: run go generate ./audit/bbq")
	}
}
