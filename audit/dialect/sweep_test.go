package dialect

import (
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
