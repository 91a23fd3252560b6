package corpus

import (
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func rules(t testing.TB) []Rule {
	t.Helper()
	list, err := ReadRules("")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// findings are the names of the rules that match in a field.
func findings(t testing.TB, triplet Triplet, field string) []string {
	t.Helper()
	f, err := Filter([]Triplet{triplet}, rules(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, finding := range f.Verdicts[0].Findings {
		if finding.Field == field {
			names = append(names, finding.Rule)
		}
	}
	return names
}

const (
	aae  = "she be workin late every night n ain't nobody never thank her for it"
	sae  = "She works late every night, and nobody ever thanks her for it."
	back = "She be workin late every night and ain't nobody never thank her for it"
)

func TestDefaultRules(t *testing.T) {
	for _, c := range []struct {
		sae  string
		want []string
	}{
		{sae, nil},
		{"", []string{"empty", "too short"}},
		{"...", []string{"empty", "too short"}},
		{"I'm sorry, but I can't help with translating this text for you.", []string{"refusal"}},
		{"As an AI language model I do not have opinions on her working late.", []string{"refusal"}},
		{"Sure! Here's the translation: She works late every night and nobody thanks her.", []string{"preamble"}},
		{"Here is the sentence in standard form: She works late every night.", []string{"preamble"}},
		{"Translation: She works late every night, and nobody ever thanks her.", []string{"preamble"}},
		{sae + " Note: \"n\" stands for and.", []string{"explanation"}},
		{"She works late (meaning overtime) every night, and nobody ever thanks her.", []string{"explanation"}},
		{"She works late every night.\nNobody ever thanks her for it, not ever.", []string{"several lines"}},
		{`"` + sae + `"`, []string{"quotes"}},
		{"“" + sae + "”", []string{"quotes"}},
		{"**She** works late every night, and nobody ever thanks her for it.", []string{"markup"}},
		{"<think>habitual be</think> She works late every night, and nobody thanks her.", []string{"markup"}},
		{"Она works late every night, and nobody ever thanks her for it.", []string{"other script"}},
		{"Ella trabaja hasta tarde todas las noches y nadie nunca se lo agradece.", []string{"other language"}},
		{strings.Repeat("She works late every night and nobody thanks her. ", 4), []string{"too long"}},
		{"She works late.", []string{"too short"}},
		{"She works very very very very very late and nobody thanks her.", []string{"repetition"}},
		{"She works late every night of the 365, and nobody ever thanks her.", []string{"other numbers"}},
		{"SHE BE WORKIN late every night, n ain't nobody never thank her for it!", []string{"copied input"}},
	} {
		if got := findings(t, Triplet{"x", aae, c.sae, back, nil}, FieldSAE); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.sae, got, c.want)
		}
	}
	for _, c := range []struct {
		back string
		want []string
	}{
		{back, nil},
		{"'bout time somebody thank her for workin late every night n not just trippin'", nil}, // no quotes, but elisions
		{"The weather in that town was good for most of those long weeks.", []string{"distortion"}},
		{"she works late every night and nobody ever thanks her for it", []string{"back equals SAE"}},
	} {
		if got := findings(t, Triplet{"x", aae, sae, c.back, nil}, FieldAAEBack); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.back, got, c.want)
		}
	}
}

func TestArtefactsOfTheSourceDoNotCount(t *testing.T) {
	source := `"note: i'm sorry but i can't do that ** here's the text: ok"`
	same := Triplet{"x", source, source, source, nil}
	for _, field := range []string{FieldSAE, FieldAAEBack} {
		want := map[string]string{FieldSAE: "copied input", FieldAAEBack: "back equals SAE"}[field]
		if got := findings(t, same, field); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", field, got)
		}
	}
}

func TestFlagsAreKeptUntilAsked(t *testing.T) {
	triplets := []Triplet{{"copy", aae, aae, back, nil}, {"good", aae, sae, back, nil}, {"equal", aae, sae, strings.ToLower(sae), nil}, {"empty", aae, "", "", nil}}
	f, err := Filter(triplets, rules(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Kept, triplets[:3]) {
		t.Errorf("kept %+v", f.Kept)
	}
	f, err = Filter(triplets, rules(t), []string{"copied input", "back equals SAE"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Kept, triplets[1:2]) {
		t.Errorf("kept %+v", f.Kept)
	}
	for _, c := range f.Counts() {
		want := map[string]int{"copied input": 1, "back equals SAE": 2, "empty": 1, "too short": 1, "distortion": 1}[c.Rule]
		if c.Matched != want {
			t.Errorf("%s matched %d, want %d", c.Rule, c.Matched, want)
		}
	}
	if _, err := Filter(triplets, rules(t), []string{"nothing"}, nil); err == nil {
		t.Error("a rule that there is not was taken")
	}
}

// TestFilterTwiceChangesNothing: what was kept is kept again, with the same verdicts.
func TestFilterTwiceChangesNothing(t *testing.T) {
	triplets := []Triplet{{"a", aae, sae, back, nil}, {"b", aae, aae, back, nil}, {"c", aae, "no", "no", nil}}
	once, err := Filter(triplets, rules(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Filter(once.Kept, rules(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(once.Kept, twice.Kept) || len(once.Kept) != 2 {
		t.Errorf("kept %+v, and then %+v", once.Kept, twice.Kept)
	}
}

func TestReview(t *testing.T) {
	var triplets []Triplet
	for i := range 40 {
		s, b := sae, back
		switch {
		case i%4 == 0:
			s = `"` + sae + `"`
		case i == 1:
			b = ""
		}
		triplets = append(triplets, Triplet{string(rune('A'+i/10)) + string(rune('0'+i%10)), aae, s, b, nil})
	}
	f, err := Filter(triplets, rules(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1.csv"), filepath.Join(dir, "2.csv")
	for _, path := range []string{first, second} {
		if n, err := f.WriteReview(path, triplets, 12, 7); err != nil || n != 12 {
			t.Fatalf("%d on the sheet, %v", n, err)
		}
	}
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(second)
	if string(a) != string(b) {
		t.Error("the same seed gives two sheets")
	}
	sheet, err := csv.NewReader(strings.NewReader(string(a))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	for _, row := range sheet[1:] {
		if row[4] != "" {
			matched++
			row[5] = "KEEP " // people think that quotes are no fault
		} else if matched == 1 && row[5] == "" {
			row[5] = "drop"
		}
		if row[0] == "A1" && row[4] != "empty; too short; distortion" {
			t.Errorf("the rules of A1 are %q", row[4])
		}
	}
	if matched != 6 || !strings.Contains(string(a), "\nA1,") {
		t.Errorf("%d rows of the sheet were matched, want 6, A1 among them:\n%s", matched, a)
	}
	filled := filepath.Join(dir, "filled.csv")
	if err := WriteFile(filled, func(out io.Writer) error { return csv.NewWriter(out).WriteAll(sheet) }); err != nil {
		t.Fatal(err)
	}
	reviewed, err := ReadReview(filled)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Filter(triplets, rules(t), nil, reviewed)
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	for id, r := range reviewed {
		kept := slices.ContainsFunc(g.Kept, func(x Triplet) bool { return x.ID == id })
		if kept != (r.Verdict == Keep) {
			t.Errorf("%s: people say %s, and it is kept: %v", id, r.Verdict, kept)
		}
		if r.Verdict == Drop {
			dropped++
		}
	}
	if dropped == 0 {
		t.Fatal("the test's people dropped nothing")
	}
	for _, c := range g.Counts() {
		if c.Rule == "quotes" && (c.Reviewed != 5 || c.PeopleToo != 0 || c.Matched != 10) {
			t.Errorf("%+v", c)
		}
		if c.Rule == ReviewRule && c.Matched != dropped {
			t.Errorf("%+v", c)
		}
	}
	for _, wrong := range []string{"id,verdict\nA1,maybe\n", "id,verdict\nA1,\n", "id\nA1\n", "id,verdict\nA1,keep\nA1,drop\n"} {
		if _, err := ReadReview(write(t, "r.csv", wrong)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error is %v", wrong, err)
		}
	}
	if _, err := Filter(triplets, rules(t), nil, map[string]Review{"nobody": {Keep, "r.csv:2"}}); err == nil {
		t.Error("a review of a triplet that there is not was taken")
	}
}

func TestRulesRefused(t *testing.T) {
	for _, c := range []struct{ rules, want string }{
		{`{`, "not a file of rules"},
		{`{"rules":[]}`, "there are no rules"},
		{`{"rules":[{"name":"a","fields":["sae"],"test":"empty","action":"drop","colour":1}]}`, "colour"},
		{`{"rules":[{"name":"","fields":["sae"],"test":"empty","action":"drop"}]}`, "rule 1 has no name"},
		{`{"rules":[{"name":"a","fields":["aae"],"test":"empty","action":"drop"}]}`, `rule "a": the fields are sae and aae_back`},
		{`{"rules":[{"name":"a","fields":["sae"],"test":"pattern","pattern":"(","action":"drop"}]}`, "not a regular expression"},
		{`{"rules":[{"name":"a","fields":["sae"],"test":"empty","action":"burn"}]}`, `the action is drop or flag, not "burn"`},
		{`{"rules":[{"name":"a","fields":["sae"],"test":"same","action":"drop"}]}`, `needs the name of a text`},
		{`{"rules":[{"name":"a","fields":["sae"],"test":"smell","action":"drop"}]}`, `no test "smell"`},
		{`{"rules":[{"name":"a","fields":["sae"],"test":"empty","action":"drop"}]} x`, "something follows the object"},
	} {
		_, err := ReadRules(write(t, "rules.json", c.rules))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v, want %q", c.rules, err, c.want)
		}
	}
}

func TestLongestRepeat(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 1, "a b a": 1, "a a": 2, "a a a b": 3, "a b a b a b": 3, "x a b a b a": 2, "a b c d a b c d": 2} {
		if got := longestRepeat(strings.Fields(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// FuzzFilter: no text makes a rule panic; a triplet is kept exactly if no dropping rule matched, and what is kept is kept
// again.
func FuzzFilter(f *testing.F) {
	f.Add(aae, sae, back)
	f.Add("", "\xff\n", "«»")
	list := rules(f)
	f.Fuzz(func(t *testing.T, a, s, b string) {
		once, err := Filter([]Triplet{{"x", a, s, b, nil}}, list, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		drops := slices.ContainsFunc(once.Verdicts[0].Findings, func(x Finding) bool { return x.Action == Drop })
		if drops == (len(once.Kept) == 1) {
			t.Errorf("%+v, and %d kept", once.Verdicts[0], len(once.Kept))
		}
		if len(once.Kept) == 1 && once.Kept[0] != (Triplet{"x", a, s, b, nil}) {
			t.Errorf("filtering changed the triplet to %+v", once.Kept[0])
		}
		if f1 := trigramF1(a, b); f1 < 0 || f1 > 1 || f1 != trigramF1(b, a) || trigramF1(a, a) != 1 {
			t.Errorf("overlaps %v, %v, %v", f1, trigramF1(b, a), trigramF1(a, a))
		}
	})
}
