package dialect

import (
	"strconv"
	"testing"

	"plumb/audit/metric"
)

// The reduction in a sweep's table: in percent, with a true minus, and undefined where there is no bias to reduce.
func TestSweepReduction(t *testing.T) {
	summary := func(lp float64) *Summary {
		return &Summary{Values: map[string]metric.Value{LP: {V: lp, OK: true}}}
	}
	for _, test := range []struct {
		before, now float64
		want        string
	}{{4, 3, "25.00"}, {4, 5, "−25.00"}, {4, 4.00001, "0.00"}, {0, 1, metric.Undefined}, {-4, -2, "50.00"}} {
		row := (&Sweep{}).row("1", &SweepRow{Summary: summary(test.now)}, summary(test.before))
		if row[2] != test.want {
			t.Errorf("from %g to %g: %q, not %q", test.before, test.now, row[2], test.want)
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
