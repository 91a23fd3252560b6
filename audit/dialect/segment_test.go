package dialect

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestShift(t *testing.T) {
	for _, test := range []struct {
		left, right []float64
		want        float64
	}{
		{[]float64{1, 0}, []float64{3, 0}, 0},
		{[]float64{1, 0}, []float64{0, 2}, 1},
		{[]float64{1, 0}, []float64{-1, 0}, 2},
		{[]float64{1, 1}, []float64{1, 0}, 1 - math.Sqrt(0.5)},
		{[]float64{0, 0}, []float64{1, 0}, 0},
		{nil, []float64{1}, 0},
	} {
		if got := Shift(test.left, test.right); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%v, %v: %v, want %v", test.left, test.right, got, test.want)
		}
	}
}

// Equation 12 by hand: of six words, j = 2, 3, 4 lose 0.3·{1/6, 0, 1/6}, and 1 and 5 are too near the ends; of four words, j =
// 1, 2, 3 lose 0.3·{1/4, 0, 1/4}.
func TestBoundary(t *testing.T) {
	for _, test := range []struct {
		shifts []float64
		want   int
	}{
		{[]float64{0, 0, 0, 0, 0}, 3},
		{[]float64{0, 0.051, 0, 0, 0}, 2},
		{[]float64{0, 0.049, 0, 0, 0}, 3},
		{[]float64{2, 0, 0, 0.051, 2}, 4},
		{[]float64{0.076, 0, 0}, 1},
		{[]float64{0.074, 0, 0.074}, 2},
		{[]float64{0, 0, 0, 0.001}, 2},
		{[]float64{0, 0.001}, 2},
		{[]float64{1}, 1},
	} {
		if got := Boundary(test.shifts); got != test.want {
			t.Errorf("%v: %d, want %d", test.shifts, got, test.want)
		}
	}
}

func vector(random *rand.Rand) []float64 {
	v := make([]float64, 24)
	for i := range v {
		v[i] = random.NormFloat64()
	}
	return v
}

// Words that a permutation and a little noise take to each other are linked, whatever their places, and no others.
func TestAlignFollowsMeaning(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var sae, aae Tokens
	for i := range 8 {
		sae.States, sae.Word = append(sae.States, vector(random)), append(sae.Word, i)
	}
	order := random.Perm(8)
	for i, from := range order {
		state := slices.Clone(sae.States[from])
		for j := range state {
			state[j] += 0.1 * random.NormFloat64()
		}
		aae.States, aae.Word = append(aae.States, state), append(aae.Word, i)
	}
	links := Align(sae, aae)
	if len(links) != 8 {
		t.Fatalf("%d links: %+v", len(links), links)
	}
	for _, l := range links {
		if order[l.AAE] != l.SAE || !(l.Weight > 0.5 && l.Weight <= 1) || !l.Sure {
			t.Errorf("%+v in %v", l, order)
		}
	}
}

// A word of two tokens is linked by either, and a state common to all tokens does not matter.
func TestAlignTokensOfWords(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	a, b, c, common := vector(random), vector(random), vector(random), vector(random)
	with := func(v []float64) []float64 {
		out := slices.Clone(v)
		for i := range out {
			out[i] += 5 * common[i]
		}
		return out
	}
	links := Align(Tokens{[][]float64{with(a), with(b), with(c)}, []int{0, 0, 1}}, Tokens{[][]float64{with(b), with(c)}, []int{0, 1}})
	for _, want := range [][2]int{{0, 0}, {1, 1}} {
		if !slices.ContainsFunc(links, func(l Link) bool { return l.SAE == want[0] && l.AAE == want[1] }) {
			t.Errorf("%v is not among %+v", want, links)
		}
	}
	if links := Align(Tokens{}, Tokens{[][]float64{a}, []int{0}}); len(links) != 0 {
		t.Errorf("%+v", links)
	}
}

// sureLinks link words one to one.
func sureLinks(places ...[2]int) []Link {
	var links []Link
	for _, p := range places {
		links = append(links, Link{p[0], p[1], 1, true})
	}
	return links
}

// The cut follows the links, not the place: here the AAE sentence is much shorter before it. It stays in the middle half.
func TestProject(t *testing.T) {
	five := sureLinks([2]int{5, 0}, [2]int{6, 1}, [2]int{7, 2}, [2]int{8, 3}, [2]int{9, 4})
	for cut, want := range map[int]int{7: 2, 8: 3, 9: 3} {
		if got, err := Project(five, cut, 5); got != want || err != nil {
			t.Errorf("cut %d: %d, %v, want %d", cut, got, err, want)
		}
	}
	// words 2 and 3 are surely linked to none: the boundaries around them are as good, and the first is taken
	open := sureLinks([2]int{0, 0}, [2]int{1, 1}, [2]int{4, 4}, [2]int{5, 5})
	if got, err := Project(open, 2, 6); got != 2 || err != nil {
		t.Error(got, err)
	}
	// unless an unsure link says where one of them belongs
	if got, err := Project(append(open, Link{1, 2, 0.2, false}), 2, 6); got != 3 || err != nil {
		t.Error(got, err)
	}
}

// However many unsure links there are, as each word of a long text has some to most others, the sure ones place the cut.
func TestProjectOfALongText(t *testing.T) {
	const n = 700
	var links []Link
	for i := range n {
		for j := range n {
			links = append(links, Link{i, j, 1.0 / n, i == j})
		}
	}
	for _, cut := range []int{180, 300, 350, 520} {
		if got, err := Project(links, cut, n); got != cut || err != nil {
			t.Errorf("cut %d: %d, %v", cut, got, err)
		}
	}
}

func TestProjectRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		links []Link
		want  error
	}{
		"nothing at all": {nil, errUnlinked},
		"no sure link":   {[]Link{{0, 0, 0.2, false}}, errUnlinked},
		"links too few":  {sureLinks([2]int{0, 0}, [2]int{1, 1}, [2]int{19, 19}), errOpen},
		"another order":  {sureLinks([2]int{0, 10}, [2]int{4, 14}, [2]int{9, 19}, [2]int{10, 0}, [2]int{14, 4}, [2]int{19, 9}), errCrossed},
	} {
		if _, err := Project(test.links, 10, 20); err != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// Of words that a text repeats, none is surely another's.
func TestAlignOfARepetitiveText(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var tokens Tokens
	words := [][]float64{vector(random), vector(random), vector(random)}
	for i := range 30 {
		tokens.States, tokens.Word = append(tokens.States, words[i%3]), append(tokens.Word, i)
	}
	links := Align(tokens, tokens)
	if len(links) < 300 || slices.ContainsFunc(links, func(l Link) bool { return l.Sure }) {
		t.Errorf("%d links", len(links))
	}
}

func TestCut(t *testing.T) {
	p := Pair{AAE: "we  was\nout 🙂", SAE: "we were out"}
	if err := p.Cut(2, 3); err != nil {
		t.Fatal(err)
	}
	if p.Segments.AAE != (Segment{"we  was\nout", "🙂"}) || p.Segments.SAE != (Segment{"we were", "out"}) {
		t.Errorf("%+v", p.Segments)
	}
	for _, n := range [][2]int{{0, 1}, {3, 1}, {1, 4}} {
		if err := p.Cut(n[0], n[1]); err == nil {
			t.Errorf("%v: no error", n)
		}
	}
	if err := (&Pair{AAE: "alone", SAE: "two words"}).Cuttable(); err != errOneWord {
		t.Error(err)
	}
	if err := p.Cuttable(); err != nil {
		t.Error(err)
	}
}

func numbered(n int) []Pair {
	pairs := make([]Pair, n)
	for i := range pairs {
		pairs[i] = Pair{ID: string(rune('a'+i%26)) + "/" + Words("x")[0], AAE: "he be " + string(rune(0x4e00+i)), SAE: "he is " + string(rune(0x4e00+i))}
	}
	return pairs
}

// The parts are disjoint, have their shares, and a sentence is in one of them only; the same seed gives the same parts.
func TestSplit(t *testing.T) {
	pairs := numbered(1000)
	for i := range 100 { // the SAE sentence of another pair
		pairs[i].SAE = " HE  is " + string(rune(0x4e00+500+i))
	}
	odd := func(i int) (bool, error) { return i%2 == 1, nil }
	s, err := Split(pairs, Deal{Seed: 7}, odd)
	if err != nil {
		t.Fatal(err)
	}
	part := map[int]string{}
	for name, list := range map[string][]int{"t": s.Tracing, "d": s.Direction, "e": s.Evaluation} {
		for _, i := range list {
			if part[i] != "" {
				t.Errorf("pair %d is in two parts", i)
			}
			part[i] = name
		}
		if !slices.IsSorted(list) {
			t.Error(name, "is not in order")
		}
	}
	for i := range 100 {
		if a, b := part[i], part[500+i]; a != "" && b != "" && a != b {
			t.Errorf("pairs %d and %d share a sentence and are in %s and %s", i, 500+i, a, b)
		}
	}
	for _, i := range s.Tracing {
		if i%2 == 0 {
			t.Errorf("pair %d cannot be traced", i)
		}
	}
	if n := []int{len(s.Tracing), len(s.Direction), len(s.Evaluation)}; n[0] < 105 || n[0] > 110 || n[1] < 600 || n[2] < 255 || n[2] > 272 {
		t.Errorf("%v", n)
	}
	again, err := Split(pairs, Deal{Seed: 7}, odd)
	if err != nil || !slices.Equal(again.Direction, s.Direction) || !slices.Equal(again.Tracing, s.Tracing) {
		t.Error("another split of the same seed", err)
	}
	other, err := Split(pairs, Deal{Seed: 8}, odd)
	if err != nil || slices.Equal(other.Evaluation, s.Evaluation) {
		t.Error("the same split of another seed", err)
	}
}

// Sizes that are asked for are met exactly, also where pairs share sentences; if the pairs do not suffice, that is said.
func TestSplitOfSizes(t *testing.T) {
	pairs := numbered(144)
	for i := range 20 {
		pairs[i].SAE = pairs[100+i].SAE
	}
	sizes, err := ParseSizes("16/64/40")
	if err != nil || sizes.String() != "16/64/40" {
		t.Fatal(sizes, err)
	}
	odd := func(i int) (bool, error) { return i%2 == 1, nil }
	for seed := range uint64(20) {
		s, err := Split(pairs, Deal{seed, sizes}, odd)
		if err != nil || len(s.Tracing) != 16 || len(s.Direction) != 64 || len(s.Evaluation) != 40 {
			t.Error(seed, err)
		}
	}
	if _, err := Split(pairs, Deal{1, Sizes{16, 64, 65}}, odd); !errors.Is(err, ErrTooFewPairs) {
		t.Error("145 of 144 pairs:", err)
	}
	if _, err := Split(pairs, Deal{1, Sizes{73, 1, 1}}, odd); !errors.Is(err, ErrTooFewPairs) {
		t.Error("73 of 72 that can be traced:", err)
	}
	for _, text := range []string{"16", "16/64", "16/64/x", "16/-1/3", "0/1/1", "1/2/3/4"} {
		if _, err := ParseSizes(text); err == nil {
			t.Errorf("%q are sizes", text)
		}
	}
}

// With more than the paper's 11,200 pairs the parts have its sizes.
func TestSplitOfACorpus(t *testing.T) {
	s, err := Split(numbered(17000), Deal{Seed: 1}, func(int) (bool, error) { return true, nil })
	if err != nil || len(s.Tracing) != 1200 || len(s.Direction) != 7000 || len(s.Evaluation) != 3000 {
		t.Error(err, len(s.Tracing), len(s.Direction), len(s.Evaluation))
	}
}
