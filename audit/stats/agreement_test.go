package stats

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// agreementCase is a case of testdata/agreement.json, which agreement.py writes with statsmodels and krippendorff.
type agreementCase struct {
	Name          string
	Counts        [][]int
	Whole         []bool // judged by every rater
	Fleiss, Alpha *float64
	Cohen         []struct {
		Table [][]float64
		Kappa *float64
	}
}

func TestAgreementAgainstReference(t *testing.T) {
	data, err := os.ReadFile("testdata/agreement.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct{ Cases []agreementCase }
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	if len(reference.Cases) < 8 {
		t.Fatalf("%d cases", len(reference.Cases))
	}
	for _, c := range reference.Cases {
		var whole [][]int
		for i, row := range c.Counts {
			if c.Whole[i] {
				whole = append(whole, row)
			}
		}
		check := func(what string, want *float64) func(float64, bool) {
			return func(got float64, ok bool) {
				if ok != (want != nil) || ok && math.Abs(got-*want) > 1e-12 {
					t.Errorf("%s: %s is %v (%v), the reference has %v", c.Name, what, got, ok, want)
				}
			}
		}
		check("Fleiss' κ", c.Fleiss)(FleissKappa(whole, nil))
		check("Krippendorff's α", c.Alpha)(KrippendorffAlpha(c.Counts, nil))
		for _, pair := range c.Cohen {
			check("Cohen's κ", pair.Kappa)(CohenKappa(pair.Table))
		}
	}
}

// TestAgreementOfThePaper: 93.0 % exact agreement on sentiment preservation goes with κ = −0.024 (section 3).
func TestAgreementOfThePaper(t *testing.T) {
	counts := append(slices.Repeat([][]int{{0, 3}}, 930), slices.Repeat([][]int{{1, 2}}, 70)...)
	exact, _ := ExactAgreement(counts, nil)
	kappa, _ := FleissKappa(counts, nil)
	near(t, "exact agreement", exact, 0.93, 1e-12)
	if math.Abs(kappa - -0.0239) > 5e-5 {
		t.Errorf("κ = %v", kappa)
	}
}

// TestAgreementTimes: an item that counts twice is two items, and one that counts zero times is none.
func TestAgreementTimes(t *testing.T) {
	counts := [][]int{{2, 1}, {3, 0}, {0, 3}, {1, 2}}
	times := []int32{2, 0, 1, 3}
	var drawn [][]int
	for i, n := range times {
		drawn = append(drawn, slices.Repeat(counts[i:i+1], int(n))...)
	}
	for name, of := range map[string]func([][]int, []int32) (float64, bool){"exact": ExactAgreement, "κ": FleissKappa, "α": KrippendorffAlpha} {
		got, ok := of(counts, times)
		want, wantOK := of(drawn, nil)
		if ok != wantOK || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
}

func TestAgreementUndefined(t *testing.T) {
	for _, counts := range [][][]int{nil, {{1, 0}, {0, 1}}, {{0, 0}}} {
		for name, of := range map[string]func([][]int, []int32) (float64, bool){"exact": ExactAgreement, "κ": FleissKappa, "α": KrippendorffAlpha} {
			if got, ok := of(counts, nil); ok {
				t.Errorf("%s of %v is %v", name, counts, got)
			}
		}
	}
	if got, ok := CohenKappa([][]float64{{0, 0}, {0, 0}}); ok {
		t.Errorf("κ of no items is %v", got)
	}
}
