package dialect

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plumb/audit/metric"
	"plumb/audit/record"
)

// The reduction in a sweep's table: of |LP|, in percent, with a true minus, and undefined where there is no bias to reduce.
func TestSweepReduction(t *testing.T) {
	summary := func(lp float64) *Summary {
		return &Summary{Values: map[string]metric.Value{LP: {V: lp, OK: true}}}
	}
	for _, test := range []struct {
		before, now float64
		want        string
	}{{4, 3, "25.00"}, {4, 5, "−25.00"}, {4, 4.00001, "0.00"}, {0, 1, metric.Undefined}, {-4, -2, "50.00"},
		{9, -9, "0.00"}, {9, -12, "−33.33"}, {9, -3, "66.67"}, {60.64, 57.88, "4.55"}} {
		row := (&Sweep{}).row("1", &SweepRow{Summary: summary(test.now)}, summary(test.before))
		if row[2] != test.want {
			t.Errorf("from %g to %g: %q, not %q", test.before, test.now, row[2], test.want)
		}
	}
}

// A strength that turns LP from +9 to −9 reduces nothing: the one nearest to even-handed is chosen, on either side of 0.
func TestSweepChoice(t *testing.T) {
	row := func(lp, ppl, match float64) SweepRow {
		values := map[string]metric.Value{}
		for name, v := range map[string]float64{LP: lp, PPL(SAE, SAE): ppl, MatchShare(SAE, Best, ReadSum): match} {
			values[name] = metric.NewValue([]float64{v}, 1, 0)
		}
		return SweepRow{choose: &Summary{Values: values}}
	}
	for _, test := range []struct {
		rows []SweepRow
		want int
	}{
		{[]SweepRow{row(9, 20, 0.9), row(6, 20, 0.9), row(-9, 20, 0.9)}, 1},
		{[]SweepRow{row(9, 20, 0.9), row(-9, 20, 0.9), row(-18, 20, 0.9)}, 0},
		{[]SweepRow{row(9, 20, 0.9), row(6, 20, 0.9), row(-3, 20, 0.9)}, 2},
		{[]SweepRow{row(-9, 20, 0.9), row(-3, 20, 0.9), row(9, 20, 0.9)}, 1},
		{[]SweepRow{row(9, 20, 0.9), row(6, 20, 0.9), row(1, 40, 0.9)}, 1},
		{[]SweepRow{row(9, 20, 0.9), row(6, 10, 1), row(4.5, 20, 0.6)}, 1},
	} {
		if got, err := choose(test.rows); err != nil || got != test.want {
			t.Errorf("%d, %v; want %d", got, err, test.want)
		}
	}
}

// Steering and the instruction are compared by what they take of |LP|.
func TestRatioOfReductions(t *testing.T) {
	for _, test := range []struct {
		lp   []float64
		want string
	}{{[]float64{9, 3, 6}, "2.000"}, {[]float64{9, -3, 6}, "2.000"}, {[]float64{9, -9, 6}, "0.000"}, {[]float64{9, 3, -9}, metric.Undefined}, {[]float64{-9, -3, -6}, "2.000"}} {
		c := Comparison{Votes: []Vote{{LP: test.lp}}}
		if got := c.ratioOfReductions(2).String(); got != test.want {
			t.Errorf("%v: %s, not %s", test.lp, got, test.want)
		}
	}
}

// A sweep needs pairs to choose its strength on and pairs to report, and says so before it scores any.
func TestCheckSweepable(t *testing.T) {
	var choosing, reported []Pair
	for i := range 40 {
		if p := (Pair{ID: strconv.Itoa(i)}); choosingID(p.ID) {
			choosing = append(choosing, p)
		} else {
			reported = append(reported, p)
		}
	}
	if len(choosing) < 5 || len(choosing) > 15 {
		t.Errorf("%d of 40 pairs choose", len(choosing))
	}
	for _, some := range [][]Pair{choosing, reported} {
		if CheckSweepable(some) == nil {
			t.Errorf("%+v can be swept", some)
		}
	}
	if err := CheckSweepable(append(choosing, reported...)); err != nil {
		t.Error(err)
	}
}

// A sweep is of the strengths that it was last asked for, whatever else lies in its directory.
func TestSweepFile(t *testing.T) {
	dir := t.TempDir()
	if IsSweep(dir) {
		t.Error("an empty directory is a sweep")
	}
	for _, betas := range [][]float64{{0.1, 0.5}, {1}, nil} {
		if err := WriteSweep(dir, betas); err != nil {
			t.Fatal(err)
		}
		runs, err := ReadSweep(dir)
		if err != nil || !IsSweep(dir) || !slices.Equal(runs.Betas, betas) || len(runs.All()) != 2+2*len(betas) {
			t.Errorf("%+v, %v", runs, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, baseRun), 0o755); err != nil {
		t.Fatal(err)
	}
	runs, err := ReadSweep(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSweep(runs, 2, false); err == nil || !strings.Contains(err.Error(), runs.Base+" of the sweep is missing; ") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, SweepFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSweep(dir); err == nil || !strings.Contains(err.Error(), SweepFile+" is damaged") {
		t.Error(err)
	}
}

// One pair is told as one, in a text and on a page.
func TestOnePair(t *testing.T) {
	var text, html strings.Builder
	r := &Report{Run: record.Run{Dialect: &record.Dialect{}, Items: 1}, Done: 1, Summary: Summarize(handmade()[:1], nil, false, 2)}
	if err := cmp.Or(r.WriteTable(&text), r.WriteHTML(&html)); err != nil {
		t.Fatal(err)
	}
	lead := (&Sweep{Pairs: 1, Choosing: 1}).lead()
	for _, got := range []string{text.String(), html.String(), lead} {
		if !strings.Contains(got, "1 pair") || strings.Contains(got, "1 pairs") || strings.Contains(got, "1 others") {
			t.Errorf("%s", got)
		}
	}
}
