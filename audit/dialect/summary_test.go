package dialect

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plumb/audit/metric"
	"plumb/audit/record"
)

func likelihood(sum float64, tokens int) Likelihood { return Likelihood{sum, tokens} }

// handmade are three pairs whose every metric can be computed by hand.
func handmade() []Scores {
	yes, no := true, false
	chose := func(matched, first bool) map[Wording]Choice {
		return map[Wording]Choice{Best: {Sum: Picked{Matched: matched, First: first}}}
	}
	syntactic := []record.Feature{{Class: "Syntactic", Marker: "ain't nobody"}, {Class: "Preverbal", Marker: "ain't"}}
	return []Scores{
		{ID: "1", Natural: &yes, Features: syntactic,
			After:    Sides[Sides[Likelihood]]{AAE: Sides[Likelihood]{likelihood(-12, 4), likelihood(-6, 3)}, SAE: Sides[Likelihood]{likelihood(-20, 4), likelihood(-3, 3)}},
			Choices:  Sides[map[Wording]Choice]{chose(false, true), chose(true, false)},
			LabelAAE: Negative, LabelSAE: Positive, LabelBack: Negative},
		{ID: "2", Natural: &yes, Features: syntactic[1:],
			After:    Sides[Sides[Likelihood]]{AAE: Sides[Likelihood]{likelihood(-2, 2), likelihood(-4, 2)}, SAE: Sides[Likelihood]{likelihood(-6, 2), likelihood(-2, 2)}},
			Choices:  Sides[map[Wording]Choice]{chose(true, true), chose(true, true)},
			LabelAAE: Neutral, LabelSAE: Neutral, LabelBack: Neutral},
		{ID: "3", Natural: &no, LabelAAE: Positive, LabelSAE: Positive, LabelBack: Positive}, // could not be cut
	}
}

func TestMetrics(t *testing.T) {
	s := Summarize(handmade(), []Wording{Best}, false, 50)
	for name, want := range map[string]struct {
		value float64
		n     int
	}{
		PPL(SAE, SAE):                  {math.Exp(5.0 / 5), 2},
		PPL(SAE, AAE):                  {math.Exp(26.0 / 6), 2},
		PPL(AAE, SAE):                  {math.Exp(10.0 / 5), 2},
		PPL(AAE, AAE):                  {math.Exp(14.0 / 6), 2},
		MeanPPL(AAE, AAE):              {(math.Exp(3) + math.Exp(1)) / 2, 2},
		BSAE:                           {(17.0 + 4) / 2, 2},
		BAAE:                           {(-6.0 + 2) / 2, 2},
		LP:                             {(23.0 + 2) / 2, 2},
		LPToken:                        {(((-1.0 + 5) - (-3.0 + 2)) + ((-1.0 + 3) - (-1.0 + 2))) / 2, 2},
		MatchShare(AAE, Best, ReadSum): {0.5, 2},
		MatchShare(SAE, Best, ReadSum): {1, 2},
		FirstShown(Best, ReadSum):      {0.75, 2},
		DGI:                            {2.0 / 3, 3},
		DGI2:                           {2.0 / 3, 3},
		CDGI:                           {0.5, 2}, // of the two that are natural and stable
	} {
		got := s.Values[name]
		if !got.OK || math.Abs(got.V-want.value) > 1e-12 || got.N != want.n || got.Lo > got.V || got.Hi < got.V {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if len(s.Classes) != 2 || s.Classes[0].Class != "Preverbal" || s.Classes[0].Pairs != 2 || s.Classes[1].Pairs != 1 || len(s.Markers) != 2 {
		t.Fatalf("%+v", s.Classes)
	}
	if v := s.Classes[1].Values[LP]; v.V != 23 || !s.Classes[1].Strongest || s.Classes[0].Strongest || s.Classes[0].Values[LP].V != 12.5 {
		t.Errorf("%+v", s.Classes)
	}
	for _, v := range s.Values {
		if v.OK && (math.IsNaN(v.V) || math.IsInf(v.V, 0)) {
			t.Errorf("%+v", v)
		}
	}
}

// Lists without members are lists in JSON, and a summary has the failures of its own pairs.
func TestSummaryLists(t *testing.T) {
	failed := []metric.Failure{{ID: "x", Reason: "too long"}}
	for want, scores := range map[string][]Scores{
		`"classes":[],"markers":[],"failures":[]`:                               {{ID: "1"}},
		`"classes":[],"markers":[],"failures":[{"id":"x","reason":"too long"}]`: {{ID: "1"}, {ID: "2", Failures: failed}},
	} {
		text, err := json.Marshal(Summarize(scores, Wordings, false, 2))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, %v; want %s", text[max(0, len(text)-200):], err, want)
		}
	}
}

// Nothing to measure is undefined, never 0.
func TestUndefined(t *testing.T) {
	s := Summarize([]Scores{{ID: "1"}}, Wordings, false, 10)
	for name, v := range s.Values {
		if v.OK {
			t.Errorf("%s is %+v of nothing", name, v)
		}
	}
	s = Summarize(nil, Wordings, false, 10)
	if s.Values[LP].OK || s.Pairs != 0 {
		t.Errorf("%+v", s)
	}
	huge := []Scores{{ID: "1", After: Sides[Sides[Likelihood]]{SAE: Sides[Likelihood]{likelihood(-2000, 1), likelihood(-1, 1)}}}}
	if v := Summarize(huge, nil, false, 3).Values[PPL(SAE, AAE)]; v.OK {
		t.Errorf("a perplexity of e^2000 is %+v", v)
	}
}

// A pair with identical sides has b = 0 in both contexts, and its choices are ties.
func TestIdenticalSides(t *testing.T) {
	l := Sides[Likelihood]{likelihood(-3, 2), likelihood(-3, 2)}
	s := Scores{After: Sides[Sides[Likelihood]]{l, l}}
	if lp, ok := s.LP(false); lp != 0 || !ok {
		t.Error(lp, ok)
	}
	if p := pick(-3, -3, [2]bool{false, true}); p != (Picked{Tied: true}) {
		t.Errorf("%+v", p)
	}
	if dialect, ok := s.Prefers(); dialect != "" || !ok {
		t.Errorf("it prefers %q, %v", dialect, ok)
	}
}

// A tie is no preference: it is in no Match, no First shown and no vote, by any read-out, and in LP as 0.
func TestTies(t *testing.T) {
	choice := func(index int, context string, same bool) record.Record {
		second := float32(-1)
		if same {
			second = -2
		}
		return record.Record{Index: index, ID: "tie", Template: fmt.Sprint(same), Task: TaskChoice, Condition: context, Category: string(Best), Options: []record.Option{
			record.NewOption("x", AAE, []float32{-2}), record.NewOption("x", SAE, []float32{second}),
			record.NewOption("A", LetterAAE, []float32{-1}), record.NewOption("B", LetterSAE, []float32{-3})}}
	}
	scores, err := ReadScores(func(yield func(record.Record, error) bool) {
		_ = yield(choice(0, AAE, true), nil) && yield(choice(1, SAE, true), nil) && yield(choice(2, AAE, false), nil) && yield(choice(3, SAE, false), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	equal := Sides[Likelihood]{likelihood(-3, 2), likelihood(-3, 2)}
	scores[0].After = Sides[Sides[Likelihood]]{equal, equal}
	scores[1].After = Sides[Sides[Likelihood]]{Sides[Likelihood]{likelihood(-5, 2), likelihood(-3, 2)}, Sides[Likelihood]{likelihood(-5, 2), likelihood(-3, 2)}}
	s := Summarize(scores, []Wording{Best}, false, 20)
	for name, want := range map[string]struct {
		value float64
		n     int
	}{
		MatchShare(AAE, Best, ReadSum): {0, 1}, MatchShare(SAE, Best, ReadSum): {1, 1}, FirstShown(Best, ReadSum): {0, 1},
		MatchShare(AAE, Best, ReadLetter): {1, 1}, MatchShare(SAE, Best, ReadLetter): {0, 1}, FirstShown(Best, ReadLetter): {1, 1},
		LP: {2, 2},
	} {
		if got := s.Values[name]; !got.OK || got.V != want.value || got.N != want.n {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if notes := s.tied(); s.Ties != 1 || len(notes) != 1 || !strings.Contains(notes[0], "In 1 of 2 pairs LP is exactly 0") {
		t.Errorf("%d ties, %q", s.Ties, notes)
	}
	run := func() *Report {
		return &Report{Dir: "run", Run: record.Run{Dialect: &record.Dialect{Wordings: []string{"best"}}}, Scores: scores, Summary: s}
	}
	c, err := Compare([]*Report{run(), run()})
	if err != nil {
		t.Fatal(err)
	}
	if v := c.Votes; v[0].SAEVotes != 0 || !v[0].tied() || v[1].SAEVotes != 2 || v[1].tied() {
		t.Errorf("%+v", v)
	}
	var text strings.Builder
	if err := c.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"│ 2 of 2        │     1 │", "│ 0 of 2        │     0 │", "│ a tie in some │     1 │", "\nIn 1 of 2 pairs LP is exactly 0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// What pairs lack is told by what it costs: a pair without an LP first, with its reason, whatever harmless is missing too.
func TestLost(t *testing.T) {
	failed := func(id, reason string) metric.Failure { return metric.Failure{ID: id, Reason: reason} }
	scores := handmade()
	for i := range scores {
		scores[i].Failures = []metric.Failure{failed(scores[i].ID+"/sentiment/back", noBack)}
	}
	scores[2].Features = []record.Feature{{Class: "Preverbal", Marker: "ain't"}}
	scores[2].Failures = append(scores[2].Failures, failed("3/continuation/aae", "one word"), failed("3/continuation/sae", "one word"), failed("3/choice/aae/best", "one word"))
	scores = append(scores, Scores{ID: "a/b", Failures: []metric.Failure{failed("a/b/choice/aae/best", "too long")}})
	s := Summarize(scores, []Wording{Best}, false, 20)
	want := []string{
		"1 of 4 pairs without LP and perplexities; the first, 3/continuation/aae: one word.",
		"1 of 4 pairs without a forced choice; the first, a/b/choice/aae/best: too long.",
		"3 of 4 pairs without a back-translation, and so without two-way DGI and cDGI.",
	}
	if got := s.lost(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if s.Failures[0].Reason != "one word" || s.Failures[len(s.Failures)-1].Reason != noBack {
		t.Errorf("%+v", s.Failures)
	}
	// the class's mean is of two of its three pairs
	if class := s.Classes[0]; class.Pairs != 3 || pairsOf(class.Values, localised...) != "2" {
		t.Errorf("%+v", class)
	}
	if both := pairsOf(map[string]metric.Value{"a": {N: 3}, "b": {N: 2}}, "a", "b"); both != "3 / 2" {
		t.Error(both)
	}
}

// A mark in a table has its legend below, and a legend its mark.
func TestLegends(t *testing.T) {
	for _, test := range []struct {
		scores []Scores
		dagger bool
		star   bool
	}{{handmade(), true, true}, {handmade()[1:2], false, false}} {
		var text strings.Builder
		r := &Report{Run: record.Run{Dialect: &record.Dialect{}}, Summary: Summarize(test.scores, nil, false, 50)}
		if err := r.WriteTable(&text); err != nil {
			t.Fatal(err)
		}
		for mark, want := range map[string]bool{"†": test.dagger, "★": test.star} {
			marked, legend := strings.Contains(text.String(), mark+" "), strings.Contains(text.String(), "\n"+mark+" ")
			if marked != want || legend != want {
				t.Errorf("%s: mark %v, legend %v in\n%s", mark, marked, legend, &text)
			}
		}
	}
}

func TestInstructedHasNoPerplexity(t *testing.T) {
	s := Summarize(handmade(), []Wording{Best}, true, 10)
	for name := range s.Values {
		if strings.Contains(name, "ppl") {
			t.Error(name)
		}
	}
	if !s.Values[LP].OK {
		t.Error("no LP")
	}
}

// All metrics have the same draws: the interval of LP is that of b_SAE − b_AAE drawn together, and two runs of the same
// pairs are drawn alike.
func TestPairedDraws(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	list := make([]Scores, 40)
	for i := range list {
		l := func() Sides[Likelihood] {
			return Sides[Likelihood]{likelihood(-10*random.Float64(), 3), likelihood(-10*random.Float64(), 3)}
		}
		list[i] = Scores{ID: fmt.Sprint(i), After: Sides[Sides[Likelihood]]{l(), l()}}
		// b_AAE is b_SAE less 7, so that LP is 7 in every draw
		b, _ := list[i].BSAE(false)
		list[i].After.AAE = Sides[Likelihood]{likelihood(b-7-20, 3), likelihood(-20, 3)}
	}
	s := Summarize(list, nil, false, 200)
	if v := s.Values[LP]; math.Abs(v.V-7) > 1e-12 || math.Abs(v.Lo-7) > 1e-9 || math.Abs(v.Hi-7) > 1e-9 {
		t.Errorf("%+v", v)
	}
	a, b := s.Values[BSAE], s.Values[BAAE]
	if math.Abs(a.Lo-b.Lo-7) > 1e-9 || math.Abs(a.Hi-b.Hi-7) > 1e-9 || a.Lo == a.Hi {
		t.Errorf("%+v, %+v", a, b)
	}
}

// Records of questions with made-up scores come back as the same scores.
func TestRecordsRoundTrip(t *testing.T) {
	l := lexicon(t)
	p := Pair{ID: "x", AAE: "ain't nobody out there", SAE: "nobody is out there", Back: "ain't nobody there"}
	if err := p.Cut(2, 2); err != nil {
		t.Fatal(err)
	}
	seenOrders := map[bool]bool{}
	for seed := range uint64(20) {
		asking := Asking{Wordings: Wordings, Seed: seed, Lexicon: l, Instruction: "Be fair."}
		var records []record.Record
		for i, q := range asking.Questions(&p, nil) {
			r := q.Record
			r.Index = i
			for k, o := range r.Options {
				score := float32(-2)
				switch o.Role {
				case SAE, LetterAAE, Negative:
					score = -1
				}
				r.Options[k] = record.NewOption(o.Text, o.Role, []float32{score, score})
			}
			if r.Task != TaskSentiment && string(r.Options[r.Label].Role) != r.Condition {
				t.Errorf("%s: the label is of %s", r.ID, r.Options[r.Label].Role)
			}
			if !strings.HasPrefix(q.Prompt, "Be fair.\n\n") || strings.HasSuffix(q.Prompt, " ") {
				t.Errorf("%q", q.Prompt)
			}
			records = append(records, r)
		}
		scores, err := ReadScores(func(yield func(record.Record, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		})
		if err != nil || len(scores) != 1 || len(scores[0].Failures) > 0 {
			t.Fatal(err, scores)
		}
		s := scores[0]
		if s.Context != (Sides[string]{"ain't nobody", "nobody is"}) || s.Continuation != (Sides[string]{"out there", "out there"}) {
			t.Errorf("%+v", s)
		}
		if b, ok := s.BAAE(false); b != -2 || !ok {
			t.Error(b, ok)
		}
		for _, w := range Wordings {
			aae, sae := s.Choices.AAE[w], s.Choices.SAE[w]
			if aae.Sum.Matched || !aae.Letter.Matched || !sae.Sum.Matched || sae.Token.Matched == false || sae.Letter.Matched {
				t.Errorf("%s: %+v %+v", w, aae, sae)
			}
			if s.Choices.AAE[Best] != aae {
				t.Error("the wordings differ in their order")
			}
			seenOrders[aae.Sum.First] = true
		}
		if s.LabelAAE != Negative || s.LabelBack != Negative || len(s.Features) != 2 {
			t.Errorf("%+v", s)
		}
	}
	if len(seenOrders) != 2 {
		t.Error("the options' order is never drawn otherwise")
	}
}

func TestLayerEffects(t *testing.T) {
	example := func(effects ...[]float64) record.Record {
		return record.Record{Trace: &record.Trace{Effects: effects}}
	}
	// the mean over an example's positions comes first: layer 0 is (mean(-1,-3) + -4) / 2 = -3
	list := LayerEffects([]record.Record{
		example([]float64{-1, -3}, []float64{1, 1}, []float64{-1, 0}, []float64{0, 0}),
		example([]float64{-4}, []float64{1}, []float64{-0.5}, []float64{0}),
	}, 4, 20)
	for l, want := range []float64{-3, 1, -0.5, 0} {
		if list[l].R.V != want || list[l].R.N != 2 {
			t.Errorf("layer %d: %+v", l, list[l])
		}
	}
	// fewer than four are negative: these are used, in proportion
	for l, want := range []float64{3 / 3.5, 0, 0.5 / 3.5, 0} {
		if math.Abs(list[l].Weight-want) > 1e-15 {
			t.Errorf("layer %d: weight %v, want %v", l, list[l].Weight, want)
		}
	}
	six := make([]LayerEffect, 6)
	for l, r := range []float64{-1, -5, -2, -5, -3, 2} {
		six[l] = LayerEffect{Layer: l, R: metric.NewValue([]float64{r}, 1, 0)}
	}
	weigh(six)
	for l, want := range []float64{0, 5.0 / 15, 2.0 / 15, 5.0 / 15, 3.0 / 15, 0} {
		if math.Abs(six[l].Weight-want) > 1e-15 {
			t.Errorf("layer %d: weight %v, want %v", l, six[l].Weight, want)
		}
	}
	if none := LayerEffects(nil, 2, 5); none[0].R.OK || none[0].Weight != 0 {
		t.Errorf("%+v", none)
	}
}

func TestEquallyLikelySentimentsAreNone(t *testing.T) {
	for _, test := range []struct {
		means [3]float64
		want  record.Role
	}{{[3]float64{-1, -2, -3}, Positive}, {[3]float64{-2, -1, -1}, ""}, {[3]float64{-2, -2, -1}, Neutral}} {
		r := record.Record{Task: TaskSentiment, Condition: SAE}
		for i, role := range []record.Role{Positive, Negative, Neutral} {
			r.Options = append(r.Options, record.Option{Role: role, Sum: test.means[i], Tokens: 1})
		}
		var s Scores
		if err := s.add(&r); err != nil || s.LabelSAE != test.want {
			t.Errorf("%v: %q, want %q; %v", test.means, s.LabelSAE, test.want, err)
		}
	}
}
