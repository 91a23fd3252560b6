package stats

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"testing"
)

// reference is testdata/reference.json, which testdata/reference.py writes with NumPy, SciPy and statsmodels.
type reference struct {
	Percentile []struct{ Values, Q, Want []float64 }
	McNemar    []struct {
		B, C             int
		Exact, Corrected float64
		ChiSquared       float64 `json:"chi_squared"`
	}
	Sign []struct {
		Positive, Negative int
		Want               float64
	}
	Holm     []struct{ P, Want []float64 }
	Spearman []struct {
		X, Y              []float64
		Rho, P, Low, High float64
	}
	Wilson []struct {
		K, N      int
		Low, High float64
	}
	Bootstrap struct {
		Values          []float64
		Cluster         []int
		Items, Clusters distribution
	}
}

type distribution struct{ Mean, Std, Low, High float64 }

func load(t *testing.T) reference {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Percentile) == 0 || len(r.McNemar) == 0 || len(r.Sign) == 0 || len(r.Holm) == 0 || len(r.Spearman) == 0 || len(r.Wilson) == 0 {
		t.Fatal("a part of the reference is missing")
	}
	return r
}

// near checks to a relative tolerance, which also small p-values have to meet.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Abs(want)+1e-300 {
		t.Errorf("%s: got %.17g, want %.17g", what, got, want)
	}
}

func TestAgainstReference(t *testing.T) {
	r := load(t)
	for _, c := range r.Percentile {
		for i, q := range c.Q {
			got, ok := Percentile(c.Values, q)
			if !ok {
				t.Fatal("not defined")
			}
			near(t, fmt.Sprintf("percentile %v of %d", q, len(c.Values)), got, c.Want[i], 1e-12)
		}
	}
	for _, c := range r.McNemar {
		got, name := NewMcNemar(c.B, c.C), fmt.Sprintf("McNemar %d, %d", c.B, c.C)
		near(t, name+" exact", got.Exact, c.Exact, 1e-9)
		near(t, name+" statistic", got.ChiSquared, c.ChiSquared, 1e-12)
		near(t, name+" corrected", got.Corrected, c.Corrected, 1e-9)
	}
	for _, c := range r.Sign {
		near(t, fmt.Sprintf("sign test %d, %d", c.Positive, c.Negative), SignTest(c.Positive, c.Negative), c.Want, 1e-9)
	}
	for _, c := range r.Holm {
		for i, got := range Holm(c.P) {
			near(t, fmt.Sprintf("Holm %d of %v", i, c.P), got, c.Want[i], 1e-12)
		}
	}
	for _, c := range r.Spearman {
		got, ok := NewSpearman(c.X, c.Y)
		if !ok {
			t.Fatal("not defined")
		}
		name := fmt.Sprintf("Spearman of %d", len(c.X))
		near(t, name+" rho", got.Rho, c.Rho, 1e-12)
		near(t, name+" p", got.P, c.P, 1e-9)
		near(t, name+" low", got.Low, c.Low, 1e-9)
		near(t, name+" high", got.High, c.High, 1e-9)
	}
	for _, c := range r.Wilson {
		low, high, ok := Wilson(c.K, c.N)
		if !ok {
			t.Fatal("not defined")
		}
		near(t, fmt.Sprintf("Wilson %d of %d low", c.K, c.N), low, c.Low, 1e-9)
		near(t, fmt.Sprintf("Wilson %d of %d high", c.K, c.N), high, c.High, 1e-9)
	}
}

// ofClusters turns counts of clusters into counts of their items.
func ofClusters(cluster []int, draws iter.Seq2[int, []int32]) iter.Seq2[int, []int32] {
	return func(yield func(int, []int32) bool) {
		for draw, drawn := range draws {
			var counts []int32
			for _, c := range cluster {
				counts = append(counts, drawn[c])
			}
			if !yield(draw, counts) {
				return
			}
		}
	}
}

// Many draws have the distribution that listing every resample gives, to sampling error.
func TestBootstrapDistribution(t *testing.T) {
	const draws = 200_000
	b := load(t).Bootstrap
	for name, test := range map[string]struct {
		next func(func(int, []int32) bool)
		want distribution
	}{
		"items":    {Bootstrap(len(b.Values), draws, 0, "items"), b.Items},
		"clusters": {ofClusters(b.Cluster, Bootstrap(slices.Max(b.Cluster)+1, draws, 0, "clusters")), b.Clusters},
	} {
		var means []float64
		total, squares := 0.0, 0.0
		test.next(func(draw int, counts []int32) bool {
			sum, n := 0.0, 0.0
			for i, c := range counts {
				sum += float64(c) * b.Values[i]
				n += float64(c)
			}
			means = append(means, sum/n)
			total += sum / n
			squares += sum / n * (sum / n)
			return true
		})
		mean := total / draws
		near(t, name+" mean", mean, test.want.Mean, 0.005)
		near(t, name+" std", math.Sqrt(squares/draws-mean*mean), test.want.Std, 0.01)
		low, high, ok := Interval95(means)
		if !ok || len(means) != draws {
			t.Fatalf("%d draws", len(means))
		}
		near(t, name+" low", low, test.want.Low, 0.02)
		near(t, name+" high", high, test.want.High, 0.02)
	}
}

func TestBootstrapDraws(t *testing.T) {
	collect := func(seed uint64, stream string) (all [][]int32) {
		for draw, counts := range Bootstrap(50, 4, seed, stream) {
			sum := int32(0)
			for _, c := range counts {
				sum += c
				if draw == 0 && c != 1 {
					t.Fatal("the first draw is not the sample itself")
				}
			}
			if sum != 50 || draw != len(all) {
				t.Fatalf("draw %d has %d items", draw, sum)
			}
			all = append(all, slices.Clone(counts))
		}
		return all
	}
	first := collect(0, "a")
	if len(first) != 4 || slices.Equal(first[1], first[2]) {
		t.Error("draws repeat")
	}
	if !slices.EqualFunc(first, collect(0, "a"), slices.Equal[[]int32]) {
		t.Error("the same seed gives other draws")
	}
	if slices.Equal(first[1], collect(1, "a")[1]) || slices.Equal(first[1], collect(0, "b")[1]) {
		t.Error("another seed or stream gives the same draws")
	}
	for range Bootstrap(0, 3, 0, "") {
	}
	for draw := range Bootstrap(50, 4, 0, "a") {
		if draw == 1 {
			break
		}
	}
}

func TestUndefined(t *testing.T) {
	if _, ok := Percentile(nil, 50); ok {
		t.Error("a percentile of nothing")
	}
	if _, _, ok := Interval95(nil); ok {
		t.Error("an interval of nothing")
	}
	if _, _, ok := Wilson(0, 0); ok {
		t.Error("a share of nothing")
	}
	for _, pair := range [][2][]float64{{{1, 2}, {1, 2}}, {{1, 1, 1}, {1, 2, 3}}, {{1, 2, 3}, {4, 4, 4}}, {{1, 2, 3}, {1, 2}}} {
		if _, ok := NewSpearman(pair[0], pair[1]); ok {
			t.Errorf("a correlation of %v", pair)
		}
	}
	if three, ok := NewSpearman([]float64{1, 2, 3}, []float64{1, 3, 2}); !ok || three.Low != -1 || three.High != 1 {
		t.Errorf("three pairs: %+v", three)
	}
	if falling, ok := NewSpearman([]float64{1, 2, 3, 4}, []float64{9, 7, 2, -1}); !ok || falling != (Spearman{Rho: -1, Low: -1, High: -1}) {
		t.Errorf("a perfect correlation: %+v", falling)
	}
	if even := NewMcNemar(4, 4); even != (McNemar{Exact: 1, ChiSquared: 0, Corrected: 1}) {
		t.Errorf("b = c: %+v", even)
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("Holm of nothing: %v", got)
	}
	if p := SignTest(0, 0); p != 1 {
		t.Errorf("no signs: %v", p)
	}
}

// The worked example of Answerability Confounds (GCD), appendix C: 20 placebos, none as far, p = 0.048.
func TestEmpiricalP(t *testing.T) {
	placebo := make([]float64, 20)
	for i := range placebo {
		placebo[i] = 0.001 * float64(i-10)
	}
	near(t, "none as far", EmpiricalP(-0.03, placebo), 1.0/21, 1e-15)
	near(t, "either side counts", EmpiricalP(0.009, placebo), 4.0/21, 1e-15)
	near(t, "no placebo", EmpiricalP(1, nil), 1, 1e-15)
}
