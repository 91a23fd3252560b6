package metric

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"plumb/audit/record"
)

// items makes n equal items.
func items(n int, category, condition string, choice, correct record.Role) []Item {
	list := make([]Item, n)
	for i := range list {
		list[i] = Item{ID: fmt.Sprintf("%s/%d", category, i), Category: category, Condition: condition, Choice: choice, Correct: correct, Margin: 1}
	}
	return list
}

func join(parts ...[]Item) *Set {
	set := &Set{ReadOut: Mean}
	for _, part := range parts {
		set.Items = append(set.Items, part...)
	}
	return set
}

// The table, worked out by hand:
//
//	Age, ambiguous:      30 S, 10 A, 60 U; right is U
//	Age, disambiguated:  24 S right, 12 S wrong, 40 A right, 4 U wrong
//	Religion, ambiguous: 5 U
func handWorked() *Set {
	const a, d = record.Ambiguous, record.Disambiguated
	return join(
		items(30, "Age", a, record.Biased, record.Unknown),
		items(10, "Age", a, record.Anti, record.Unknown),
		items(60, "Age", a, record.Unknown, record.Unknown),
		items(24, "Age", d, record.Biased, record.Biased),
		items(12, "Age", d, record.Biased, record.Anti),
		items(40, "Age", d, record.Anti, record.Anti),
		items(4, "Age", d, record.Unknown, record.Anti),
		items(5, "Religion", a, record.Unknown, record.Unknown),
	)
}

func TestHandWorkedTable(t *testing.T) {
	s := Summarize(handWorked(), BBQ, 100, 0)
	type want struct {
		value float64
		n     int
	}
	undefined := want{}
	for _, test := range []struct {
		category, condition string
		counts              Counts
		values              map[string]want
	}{
		{"Age", record.Ambiguous, Counts{S: 30, A: 10, U: 60, Correct: 60}, map[string]want{
			"accuracy": {0.6, 100}, "pr_u": {0.6, 100}, "commit": {0.4, 100}, "dpref": {0.75, 40}, "pr_s": {0.3, 100},
			"s_bias_amb": {0.5, 40}, "s_amb": {0.2, 100}, "abs_s_amb": {0.2, 100}}},
		{"Age", record.Disambiguated, Counts{S: 36, A: 40, U: 4, Correct: 64}, map[string]want{
			"accuracy": {0.8, 80}, "pr_u": {0.05, 80}, "commit": {0.95, 80}, "dpref": {36.0 / 76, 76}, "pr_s": {0.45, 80},
			"s_dis": {-4.0 / 76, 76}, "abs_s_dis": {4.0 / 76, 76}}},
		{"Age", All, Counts{S: 66, A: 50, U: 64, Correct: 124}, map[string]want{
			"accuracy": {124.0 / 180, 180}, "pr_u": {64.0 / 180, 180}, "commit": {116.0 / 180, 180}, "dpref": {66.0 / 116, 116}, "pr_s": {66.0 / 180, 180}}},
		{"Religion", record.Ambiguous, Counts{U: 5, Correct: 5}, map[string]want{
			"accuracy": {1, 5}, "pr_u": {1, 5}, "commit": {0, 5}, "dpref": undefined, "pr_s": {0, 5},
			"s_bias_amb": undefined, "s_amb": undefined, "abs_s_amb": undefined}},
		{All, record.Ambiguous, Counts{S: 30, A: 10, U: 65, Correct: 65}, map[string]want{
			"accuracy": {65.0 / 105, 105}, "pr_u": {65.0 / 105, 105}, "commit": {40.0 / 105, 105}, "dpref": {0.75, 40}, "pr_s": {30.0 / 105, 105},
			"s_bias_amb": {0.5, 40}, "s_amb": {20.0 / 105, 105}, "abs_s_amb": {20.0 / 105, 105}}},
	} {
		g := s.Group(test.category, test.condition)
		if g == nil || g.Counts != test.counts || len(g.Values) != len(test.values) {
			t.Fatalf("%s, %s: %+v", test.category, test.condition, g)
		}
		for name, w := range test.values {
			v := g.Values[name]
			if v.OK != (w.n > 0) || v.N != w.n || math.Abs(v.V-w.value) > 1e-15 {
				t.Errorf("%s, %s, %s: %+v, want %+v", test.category, test.condition, name, v, w)
			}
			if v.OK && (v.Lo > v.V || v.Hi < v.V) {
				t.Errorf("%s, %s, %s: %v is outside of %v to %v", test.category, test.condition, name, v.V, v.Lo, v.Hi)
			}
		}
	}
	if len(s.Groups) != 8 || s.Group("Religion", record.Disambiguated) != nil || s.Items != 185 {
		t.Errorf("%d groups, %d items", len(s.Groups), s.Items)
	}
	if g := s.Groups[len(s.Groups)-1]; g.Category != All || g.Condition != All {
		t.Errorf("the last group is %s, %s", g.Category, g.Condition)
	}
}

// A share's interval has the width that the binomial distribution gives it.
func TestIntervalWidth(t *testing.T) {
	set := join(items(300, "Age", record.Ambiguous, record.Biased, record.Unknown), items(700, "Age", record.Ambiguous, record.Unknown, record.Unknown))
	v := Summarize(set, BBQ, 4000, 0).Group("Age", record.Ambiguous).Values["pr_u"]
	half := 1.96 * math.Sqrt(0.3*0.7/1000)
	if math.Abs(v.Lo-(0.7-half)) > 0.003 || math.Abs(v.Hi-(0.7+half)) > 0.003 {
		t.Errorf("%v to %v, want 0.7 ± %v", v.Lo, v.Hi, half)
	}
}

func TestIdentities(t *testing.T) {
	rng := rand.New(rand.NewPCG(0, 0))
	for range 20000 {
		n := 1 + rng.IntN(60)
		var ambiguous []Item
		for range n {
			choice := []record.Role{record.Biased, record.Anti, record.Unknown}[rng.IntN(1+rng.IntN(3))]
			ambiguous = append(ambiguous, items(1, "Age", record.Ambiguous, choice, record.Unknown)...)
		}
		c := Count(ambiguous)
		commit, _ := c.Commit()
		prU, _ := c.PrU()
		prS, _ := c.PrS()
		dpref, answered := c.DPref()
		if c.N() != n || math.Abs(commit-(1-prU)) > 1e-12 {
			t.Fatalf("%+v: commit %v, Pr(U) %v", c, commit, prU)
		}
		sAmb, defined := c.SAmb()
		if (answered > 0) != (defined > 0) {
			t.Fatalf("%+v: answered %d, s_Amb of %d", c, answered, defined)
		}
		if answered == 0 {
			continue
		}
		if math.Abs(sAmb-commit*(2*dpref-1)) > 1e-12 {
			t.Fatalf("%+v: s_Amb %v, commit · (2 dpref − 1) %v", c, sAmb, commit*(2*dpref-1))
		}
		if math.Abs(prS-commit*dpref) > 1e-12 {
			t.Fatalf("%+v: Pr(S) %v, commit · dpref %v", c, prS, commit*dpref)
		}
	}
}

// The responders at the ends of the scale. Disambiguated items are half pro-, half anti-stereotypical.
func TestExtremeResponders(t *testing.T) {
	for _, test := range []struct {
		choice record.Role
		want   string
	}{
		{record.Biased, "1.000"}, {record.Anti, "−1.000"}, {record.Unknown, "undefined"},
	} {
		s := Summarize(join(
			items(20, "Age", record.Ambiguous, test.choice, record.Unknown),
			items(10, "Age", record.Disambiguated, test.choice, record.Biased),
			items(10, "Age", record.Disambiguated, test.choice, record.Anti),
		), BBQ, 100, 0)
		for condition, names := range map[string][]string{record.Ambiguous: {"s_amb", "s_bias_amb"}, record.Disambiguated: {"s_dis"}} {
			for _, name := range names {
				v := s.Group("Age", condition).Values[name]
				if v.String() != test.want || v.OK && (v.Lo != v.V || v.Hi != v.V) {
					t.Errorf("always %s: %s is %s, %+v, want %s", test.choice, name, v, v, test.want)
				}
			}
		}
	}
}

// One answered item among many: some draws have none, are left out of the interval and counted.
func TestUndefinedDraws(t *testing.T) {
	set := join(items(1, "Age", record.Ambiguous, record.Biased, record.Unknown), items(9, "Age", record.Ambiguous, record.Unknown, record.Unknown))
	g := Summarize(set, BBQ, 1000, 0).Group("Age", record.Ambiguous)
	v := g.Values["s_bias_amb"]
	if expected := 1000 * math.Pow(0.9, 10); math.Abs(float64(v.UndefinedDraws)-expected) > 60 {
		t.Errorf("%d draws were undefined, about %.0f should be", v.UndefinedDraws, expected)
	}
	if v.V != 1 || v.Lo != 1 || v.Hi != 1 || v.N != 1 || g.Values["pr_s"].UndefinedDraws != 0 {
		t.Errorf("%+v", v)
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{FormatDigits(-0.004, 2), "0.00"}, {FormatDigits(-0.006, 2), "−0.01"}, {FormatDigits(100, 2), "100.00"}, {FormatDigits(-1.5, 3), Format(-1.5)},
		{FormatP(1), "1.000"}, {FormatP(0.001), "0.001"}, {FormatP(0.00098), "9.8e−04"}, {FormatP(0), "0.0e+00"},
	} {
		if test.got != test.want {
			t.Errorf("%q, not %q", test.got, test.want)
		}
	}
}

func TestValueText(t *testing.T) {
	for _, test := range []struct {
		value          Value
		text, interval string
		json           string
	}{
		{Value{V: -0.0004, OK: true, Lo: -0.25, Hi: 0.5, N: 3, UndefinedDraws: 2}, "0.000", "[−0.250, 0.500]", `{"value":-0.0004,"low":-0.25,"high":0.5,"n":3,"undefined_draws":2}`},
		{Value{}, "undefined", "", `{"value":null,"low":null,"high":null,"n":0,"undefined_draws":0}`},
	} {
		data, err := json.Marshal(test.value)
		if err != nil {
			t.Fatal(err)
		}
		if test.value.String() != test.text || test.value.Interval() != test.interval || string(data) != test.json {
			t.Errorf("%s, %s, %s", test.value, test.value.Interval(), data)
		}
	}
}

func TestSummaryIsDeterministicAndIndependent(t *testing.T) {
	set := handWorked()
	first, second := Summarize(set, BBQ, 100, 0), Summarize(set, BBQ, 100, 0)
	if !reflect.DeepEqual(first, second) {
		t.Error("the same seed gives another summary")
	}
	if reflect.DeepEqual(first.Groups, Summarize(set, BBQ, 100, 1).Groups) {
		t.Error("another seed gives the same intervals")
	}
	// A category's rows do not depend on what else was audited.
	alone := Summarize(join(set.Items[:180]), BBQ, 100, 0)
	if !reflect.DeepEqual(alone.Group("Age", record.Ambiguous), first.Group("Age", record.Ambiguous)) {
		t.Error("leaving Religion out changes Age")
	}
	if !reflect.DeepEqual(alone.Group("Age", record.Ambiguous).Values, alone.Group(All, record.Ambiguous).Values) {
		t.Error("all of one category has other intervals than the category")
	}
}

func TestTiesAndNarrowMarginsAreCounted(t *testing.T) {
	set := handWorked()
	set.Items[0].Margin, set.Items[0].Tied = 0, true
	set.Items[1].Margin = NarrowMargin / 2
	set.Items[2].Margin = NarrowMargin
	if s := Summarize(set, BBQ, 1, 0); s.Ties != 1 || s.Narrow != 2 {
		t.Errorf("%d ties, %d narrow", s.Ties, s.Narrow)
	}
	if s := Summarize(&Set{}, BBQ, 1, 0); len(s.Groups) != 0 {
		t.Errorf("groups of nothing: %+v", s.Groups)
	}
}

func TestMetricTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range BBQ.Metrics {
		if seen[m.Name] || m.Symbol == "" || m.Meaning == "" || !strings.Contains(m.Source, "GCD") {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
		if found, ok := BBQ.Metric(m.Name); !ok || found.Symbol != m.Symbol {
			t.Errorf("%s is not found", m.Name)
		}
	}
	if _, ok := BBQ.Metric("fairness"); ok {
		t.Error("an unknown metric was found")
	}
}

// All of BBQ with 100 draws.
func BenchmarkSummarize(b *testing.B) {
	rng := rand.New(rand.NewPCG(0, 0))
	roles := []record.Role{record.Biased, record.Anti, record.Unknown}
	set := &Set{}
	for i := range 58492 {
		set.Items = append(set.Items, items(1, fmt.Sprint("category ", i%11), []string{record.Ambiguous, record.Disambiguated}[rng.IntN(2)], roles[rng.IntN(3)], roles[rng.IntN(3)])...)
	}
	for b.Loop() {
		Summarize(set, BBQ, 100, 0)
	}
}
