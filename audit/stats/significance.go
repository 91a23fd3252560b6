package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// McNemar is a paired test of two yes-or-no answers to the same items.
type McNemar struct {
	Exact      float64 // two-sided binomial p-value
	ChiSquared float64 // continuity-corrected statistic, (|b − c| − 1)² / (b + c), never below 0; one degree of freedom
	Corrected  float64 // its p-value
}

// NewMcNemar tests b items that went from yes to no against c that went from no to yes. Without any, every p is 1.
// Exact and corrected forms: McNemar (1947), Edwards (1948). Where b = c the corrected statistic is 0, as in R;
// statsmodels has 1 / (b + c) there.
func NewMcNemar(b, c int) McNemar {
	test := McNemar{Exact: SignTest(b, c), Corrected: 1}
	if b+c > 0 {
		gap := max(math.Abs(float64(b-c))-1, 0)
		test.ChiSquared = gap * gap / float64(b+c)
		test.Corrected = distuv.ChiSquared{K: 1}.Survival(test.ChiSquared)
	}
	return test
}

// SignTest is the two-sided exact binomial p-value of so many positive against so many negative signs; zeros are left
// out by the caller. Without any sign it is 1.
func SignTest(positive, negative int) float64 {
	n := positive + negative
	if n == 0 {
		return 1
	}
	tail := distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(min(positive, negative)))
	return min(1, 2*tail)
}

// Holm adjusts p-values for the number of tests by Holm's (1979) step-down method, in the order given.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = highest
	}
	return adjusted
}

// Wilson is the 95 % score interval (Wilson 1927) of a share of k in n. Not defined for n = 0.
func Wilson(k, n int) (low, high float64, ok bool) {
	if n == 0 {
		return 0, 0, false
	}
	z, size, share := distuv.UnitNormal.Quantile(0.975), float64(n), float64(k)/float64(n)
	center := (share + z*z/(2*size)) / (1 + z*z/size)
	half := z / (1 + z*z/size) * math.Sqrt(share*(1-share)/size+z*z/(4*size*size))
	return max(0, center-half), min(1, center+half), true
}
