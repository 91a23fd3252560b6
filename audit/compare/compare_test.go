package compare

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/stats"
)

const (
	ambig    = record.Ambiguous
	disambig = record.Disambiguated
)

func near(a metric.Value, want float64) bool { return a.OK && math.Abs(a.V-want) < 1e-12 }

func TestCompareByHand(t *testing.T) {
	age := outcome{category: "Age", template: "1", condition: disambig}
	with := func(choice, forced string) outcome {
		o := age
		o.choice, o.forced = choice, forced
		return o
	}
	// Ten items: S S S S A A A U U U before; S S U U A U A S U U after.
	before := []outcome{with("S", ""), with("S", ""), with("S", ""), with("S", ""), with("A", ""), with("A", ""), with("A", ""), with("U", "S"), with("U", "A"), with("U", "S")}
	after := []outcome{with("S", ""), with("S", ""), with("U", "S"), with("U", "A"), with("A", ""), with("U", "A"), with("A", ""), with("S", ""), with("U", "S"), with("U", "A")}
	c := compare(t, before, after, 50)
	g := c.Group("Age", disambig)
	if g == nil || g.Items != 10 || g.Before != (metric.Counts{S: 4, A: 3, U: 3, Correct: 3}) || g.After != (metric.Counts{S: 3, A: 2, U: 5, Correct: 2}) {
		t.Fatalf("%+v", g)
	}
	for name, want := range map[string][3]float64{
		"accuracy": {0.3, 0.2, -0.1}, "pr_u": {0.3, 0.5, 0.2}, "pr_s": {0.4, 0.3, -0.1},
		"dpref": {4.0 / 7, 0.6, 0.6 - 4.0/7}, "s_dis": {1.0 / 7, 0.2, 0.2 - 1.0/7}, "abs_s_dis": {1.0 / 7, 0.2, 0.2 - 1.0/7},
	} {
		if v := g.Changes[name]; !near(v.Before, want[0]) || !near(v.After, want[1]) || !near(v.Delta, want[2]) {
			t.Errorf("%s: %v, want %v", name, v, want)
		}
	}
	if _, ok := g.Changes["s_amb"]; ok {
		t.Error("disambiguated items have an s_Amb")
	}
	if !near(g.Channels.Composition.Change, -0.2*4/7) || !near(g.Channels.Preference.Change, 0.5*(0.6-4.0/7)) || !near(g.Channels.AnswerRate.Change, 0.2) {
		t.Errorf("%+v", g.Channels)
	}
	// Flipped: two S and one A. Stayed: two S and two A. One came back.
	f := g.Flips
	if f.Flipped != 3 || f.Returned != 1 || !near(f.Rate, 0.3) || !near(f.FlippedS, 2.0/3) || !near(f.StayedS, 0.5) || !near(f.Difference, 2.0/3-0.5) {
		t.Errorf("%+v", f)
	}
	if len(f.Examples) != 3 || f.Examples[0].ID != "Age/2" || f.Examples[0].Text != "Text of item 2?" || f.Examples[0].Before != record.Biased ||
		f.Examples[0].Options[2] != (ExampleOption{"unknown answer", record.Unknown, -4, -1}) {
		t.Errorf("%+v", f.Examples)
	}
	// Free: items 2 and 3 lost S, item 7 gained it. Forced: S S S S A A A S A S → S S S A A A A S S A.
	if g.Free.BeforeOnly != 2 || g.Free.AfterOnly != 1 || g.Forced.BeforeOnly != 2 || g.Forced.AfterOnly != 1 {
		t.Errorf("free %+v, forced %+v", g.Free, g.Forced)
	}
	if g.Free.Exact != 1 || g.Free.Holm == nil || *g.Free.Holm != 1 || c.Group(metric.All, disambig).Free.Holm != nil {
		t.Errorf("%+v", g.Free)
	}
	// The shifts of the scores, item by item, with U against the better of S and A.
	sum := [4]float64{}
	for i := range before {
		b, a := scoresOf(before[i]), scoresOf(after[i])
		s, an, u := record.Biased, record.Anti, record.Unknown
		for k, x := range []float64{a[s] - b[s], a[an] - b[an], a[u] - b[u], a[u] - max(a[s], a[an]) - b[u] + max(b[s], b[an])} {
			sum[k] += x / 10
		}
	}
	for k, v := range []metric.Value{g.Shifts.S, g.Shifts.A, g.Shifts.U, g.Shifts.Margin} {
		if !near(v, sum[k]) {
			t.Errorf("shift %d is %v, want %v", k, v, sum[k])
		}
	}
}

func TestHolmIsOverCategoriesOfACondition(t *testing.T) {
	var before, after []outcome
	for category, flips := range map[string]int{"Age": 8, "Religion": 6, "SES": 1} {
		o := outcome{category: category, template: "1", condition: ambig, choice: "S"}
		before = append(before, repeat(10, o)...)
		turned := o
		turned.choice = "A"
		after = append(after, append(repeat(flips, turned), repeat(10-flips, o)...)...)
	}
	c := compare(t, before, after, 2)
	for category, want := range map[string][2]float64{"Age": {2 * math.Pow(0.5, 8), 3 * 2 * math.Pow(0.5, 8)}, "Religion": {2 * math.Pow(0.5, 6), 2 * 2 * math.Pow(0.5, 6)}, "SES": {1, 1}} {
		for _, condition := range []string{ambig, metric.All} {
			m := c.Group(category, condition).Free
			if math.Abs(m.Exact-want[0]) > 1e-12 || math.Abs(*m.Holm-want[1]) > 1e-12 {
				t.Errorf("%s, %s: p = %v, adjusted %v, want %v", category, condition, m.Exact, *m.Holm, want)
			}
		}
	}
}

func TestSelectionCorrection(t *testing.T) {
	one := outcome{category: "Age", template: "1", condition: disambig, choice: "S"}
	two := outcome{category: "Age", template: "2", condition: disambig, choice: "A"}
	silent := outcome{category: "Age", template: "2", condition: disambig, choice: "U", forced: "A"}
	before := append(repeat(50, one), repeat(50, two)...)

	// Forty answers of the second template fall silent. Nobody's preference changes, and yet the naive score moves.
	after := slices.Concat(repeat(50, one), repeat(10, two), repeat(40, silent))
	s := compare(t, before, after, 100).Group("Age", disambig).Selection
	if !near(s.Before, 0) || !near(s.Naive, 2*50.0/60-1) || !near(s.Corrected, 0) || !near(s.Explained, 1) || !near(s.LostWeight, 0) || len(s.LostTemplates) != 0 {
		t.Errorf("%+v", s)
	}

	// All of them do: the template leaves the sum, and half of the weight is lost.
	after = append(repeat(50, one), repeat(50, silent)...)
	s = compare(t, before, after, 100).Group("Age", disambig).Selection
	if !near(s.Corrected, 1) || !near(s.LostWeight, 0.5) || !slices.Equal(s.LostTemplates, []string{"Age/2"}) {
		t.Errorf("%+v", s)
	}

	// Nothing is answered any more.
	quiet := one
	quiet.choice, quiet.forced = "U", "S"
	g := compare(t, before, append(repeat(50, quiet), repeat(50, silent)...), 100).Group("Age", disambig)
	if g.Selection.Corrected.OK || g.Selection.Naive.OK || !near(g.Selection.LostWeight, 1) {
		t.Errorf("%+v", g.Selection)
	}
	if !near(g.Channels.Preference.Change, 0) || !near(g.Channels.Composition.Change, -0.5) || g.Changes["s_dis"].Delta.OK {
		t.Errorf("%+v", g.Channels)
	}
}

// randomRuns are two runs of the same items over two categories, both conditions and several templates.
func randomRuns(n int, seed uint64) (before, after []outcome) {
	rng := rand.New(rand.NewPCG(seed, 0))
	choices := []string{"S", "A", "U"}
	for i := range n {
		o := outcome{category: []string{"Age", "SES"}[i%2], template: choices[rng.IntN(3)], condition: []string{ambig, disambig}[i/2%2], forced: choices[rng.IntN(2)]}
		o.choice = choices[rng.IntN(3)]
		before = append(before, o)
		o.choice, o.forced, o.lift = choices[rng.IntN(3)], choices[rng.IntN(2)], rng.NormFloat64()
		after = append(after, o)
	}
	return before, after
}

// TestDrawsAgainstResampledItems does the bootstrap over with the items themselves laid out, and eq. 6 written out.
func TestDrawsAgainstResampledItems(t *testing.T) {
	before, after := randomRuns(80, 3)
	c := compare(t, before, after, 30)
	request := request(len(before))
	base, turned := load(t, "b", request, records(before)), load(t, "s", steered(request), records(after))
	var corrected, change, margin []float64
	for _, counts := range stats.Bootstrap(80, 30, 0, "all/all") {
		var b, a []metric.Item
		for i, count := range counts {
			for range count {
				b, a = append(b, base.Items[i]), append(a, turned.Items[i])
			}
		}
		score := func(items []metric.Item, template string) (s, answered float64) {
			for _, item := range items {
				if item.Choice != record.Unknown && (template == "" || item.Template == template) {
					answered++
					if item.Choice == record.Biased {
						s++
					}
				}
			}
			return s, answered
		}
		sum, weights := 0.0, 0.0
		for _, template := range []string{"Age/S", "Age/A", "Age/U", "SES/S", "SES/A", "SES/U"} {
			_, n0 := score(b, template)
			if s1, n1 := score(a, template); n1 > 0 {
				sum += n0 * (2*s1/n1 - 1)
				weights += n0
			}
		}
		corrected = append(corrected, sum/weights)
		s0, n0 := score(b, "")
		s1, n1 := score(a, "")
		change = append(change, s1/n1-s0/n0)
		m := 0.0
		for i := range a {
			x, y := b[i].Scores, a[i].Scores
			m += (y.U - max(y.S, y.A) - x.U + max(x.S, x.A)) / 80
		}
		margin = append(margin, m)
	}
	g := c.Group(metric.All, metric.All)
	for name, test := range map[string]struct {
		got  metric.Value
		want []float64
	}{"corrected": {g.Selection.Corrected, corrected}, "dpref": {g.Changes["dpref"].Delta, change}, "margin": {g.Shifts.Margin, margin}} {
		low, high, _ := stats.Interval95(test.want)
		if !near(test.got, test.want[0]) || math.Abs(test.got.Lo-low) > 1e-12 || math.Abs(test.got.Hi-high) > 1e-12 {
			t.Errorf("%s is %+v, want %v in [%v, %v]", name, test.got, test.want[0], low, high)
		}
	}
}

func TestBaseValuesAreThoseOfAnAudit(t *testing.T) {
	before, after := randomRuns(60, 9)
	c := compare(t, before, after, 40)
	base := load(t, "base", request(len(before)), records(before))
	summary := metric.Summarize(&metric.Set{ReadOut: metric.Mean, Items: base.Items}, metric.BBQ, 40, 0)
	if len(summary.Groups) != len(c.Groups) {
		t.Fatalf("%d groups, the audit has %d", len(c.Groups), len(summary.Groups))
	}
	for i, g := range summary.Groups {
		if c.Groups[i].Category != g.Category || c.Groups[i].Condition != g.Condition {
			t.Fatalf("group %d is %s/%s, the audit's %s/%s", i, c.Groups[i].Category, c.Groups[i].Condition, g.Category, g.Condition)
		}
		for name, want := range g.Values {
			if got := c.Groups[i].Changes[name].Before; got != want {
				t.Errorf("%s/%s: %s is %+v, the audit's is %+v", g.Category, g.Condition, name, got, want)
			}
		}
	}
}

func TestARunAgainstItself(t *testing.T) {
	before, _ := randomRuns(40, 1)
	c := compare(t, before, before, 20)
	for _, g := range c.Groups {
		for name, change := range g.Changes {
			if change.Delta.OK && (change.Delta.V != 0 || change.Delta.Lo != 0 || change.Delta.Hi != 0) {
				t.Errorf("%s/%s: %s changes by %+v", g.Category, g.Condition, name, change.Delta)
			}
		}
		if ch := g.Channels; ch.CompositionShare.OK || ch.Composition.Kept != ch.Composition.Draws || ch.Composition.Range == nil || *ch.Composition.Range != (Range{}) {
			t.Errorf("%s/%s: %+v", g.Category, g.Condition, ch)
		}
		if g.Selection.Explained.OK || g.Flips.Flipped != 0 || g.Flips.FlippedS.OK || g.Free.Exact != 1 {
			t.Errorf("%s/%s: %+v %+v %+v", g.Category, g.Condition, g.Selection, g.Flips, g.Free)
		}
	}
}

func TestSignsAndRange(t *testing.T) {
	o := outcome{category: "Age", template: "1", condition: ambig, choice: "S"}
	quiet := o
	quiet.choice, quiet.forced = "U", "S"
	before := repeat(20, o)
	after := append(repeat(10, o), repeat(10, quiet)...)
	ch := compare(t, before, after, 100).Group("Age", ambig).Channels.AnswerRate
	if ch.Draws != 100 || ch.Kept != 100 || ch.Change.V != 0.5 || ch.Range.Min >= 0.5 || ch.Range.Max <= 0.5 || ch.Range.Min <= 0 {
		t.Errorf("%+v, %+v", ch, ch.Range)
	}
	// One item up, one item down: the sign of the preference is a matter of chance.
	mixed := outcome{category: "Age", template: "1", condition: ambig, choice: "A"}
	before = append(repeat(3, o), repeat(2, mixed)...)
	after = append(repeat(2, mixed), repeat(3, o)...)
	ch = compare(t, before, after, 100).Group("Age", ambig).Channels.Preference
	if ch.Change.V != 0 || ch.Kept == 0 || ch.Kept == 100 || ch.Range.Min >= 0 || ch.Range.Max <= 0 {
		t.Errorf("%+v, %+v", ch, ch.Range)
	}
}

func TestJSON(t *testing.T) {
	before, after := randomRuns(40, 2)
	first, err := json.Marshal(compare(t, before, after, 20))
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(compare(t, before, after, 20))
	if err != nil || string(first) != string(second) {
		t.Error("the same runs make other bytes")
	}
	var plain struct {
		Groups []struct {
			Channels struct {
				Composition struct {
					Change struct{ Value, Low, High *float64 }
					Draws  int
					Range  *Range
				}
			}
		}
	}
	if err := json.Unmarshal(first, &plain); err != nil || plain.Groups[0].Channels.Composition.Change.Low == nil ||
		plain.Groups[0].Channels.Composition.Draws != 20 || plain.Groups[0].Channels.Composition.Range == nil {
		t.Errorf("%+v, %v", plain, err)
	}
}

func TestRunsThatDoNotBelongTogether(t *testing.T) {
	before, after := randomRuns(12, 5)
	base := request(12)
	change := func(change func(*record.Run)) record.Run {
		run := steered(base)
		run.Data.Files = slices.Clone(run.Data.Files)
		change(&run)
		return run
	}
	edit := func(edit func([]record.Record)) []record.Record {
		items := records(after)
		edit(items)
		return items
	}
	good := records(after)
	for name, test := range map[string]struct {
		run   record.Run
		items []record.Record
		want  string
	}{
		"benchmark": {change(func(r *record.Run) { r.Benchmark = "stereoset" }), good, "the benchmark is bbq in the first, stereoset in the second"},
		"model":     {change(func(r *record.Run) { r.Model.SHA256 = "ffffffffffffffff" }), good, "tiny.gguf (SHA-256 ffffffffffff…)"},
		"data":      {change(func(r *record.Run) { r.Data.Files[0].SHA256 = "ee" }), good, "only the second has read Age.jsonl"},
		"prompt":    {change(func(r *record.Run) { r.Prompt.Chat = true }), good, "in the prompt and in the steering"},
		"id":        {steered(base), edit(func(r []record.Record) { r[3].ID = "Age/99" }), "1 item that base does not have"},
		"template":  {steered(base), edit(func(r []record.Record) { r[3].Template = "SES/9" }), `item SES/3: its template is "SES/`},
		"condition": {steered(base), edit(func(r []record.Record) { r[3].Condition = ambig }), `its condition is "disambig" in the first`},
		"polarity":  {steered(base), edit(func(r []record.Record) { r[3].Polarity = record.NonNegative }), "its polarity"},
		"label":     {steered(base), edit(func(r []record.Record) { r[3].Label = 0 }), "its correct option"},
	} {
		_, err := Compare(load(t, "base", base, records(before)), load(t, "steered", test.run, test.items), metric.Mean, 2, 0)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v; it should say %q", name, err, test.want)
		}
	}

	unfinished := base
	unfinished.Items = 13
	if _, err := Load(write(t, "unfinished", unfinished, records(before)), metric.Mean); err == nil || !strings.Contains(err.Error(), "12 of its 13 items") {
		t.Errorf("an unfinished run was loaded: %v", err)
	}
	if _, err := Load(t.TempDir(), metric.Mean); err == nil {
		t.Error("a directory without a run was loaded")
	}
}

func TestItemsOfOneRunOnly(t *testing.T) {
	before, after := randomRuns(12, 5)
	all, half := records(before), records(after)[4:]
	for i := range half {
		half[i].Index = i
	}
	fail := func(r *record.Record) {
		r.Error = "too long"
		for i, o := range r.Options {
			r.Options[i] = record.NewOption(o.Text, o.Role, nil)
		}
	}
	fail(&all[0])  // not in the half
	fail(&all[5])  // scored in the half
	fail(&half[2]) // scored in the base run
	fail(&all[7])  // item 7 fails in both
	fail(&half[3])
	base, held := request(12), steered(request(8))
	c, err := Compare(load(t, "base", base, all), load(t, "held-out", held, half), metric.Mean, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c.Items != 5 || c.Unpaired != 4 || c.Unscored != 3 {
		t.Errorf("%d paired, %d unpaired, %d unscored", c.Items, c.Unpaired, c.Unscored)
	}
	// The order in which the second run has the items does not matter.
	shuffled := slices.Clone(half)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for i := range shuffled {
		shuffled[i].Index = i
	}
	again, err := Compare(load(t, "base", base, all), load(t, "held-out", held, shuffled), metric.Mean, 5, 0)
	if err != nil || !reflect.DeepEqual(c, again) {
		t.Errorf("the order of the items matters: %v", err)
	}
	note := held
	note.Device = "CUDA0"
	c, err = Compare(load(t, "base", base, all), load(t, "gpu", note, half), metric.Mean, 5, 0)
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "CUDA0") || !strings.Contains(c.Difference, "layer 4, strength 8") {
		t.Errorf("%+v, %v", c, err)
	}
}
