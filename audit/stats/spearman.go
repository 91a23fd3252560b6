package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Spearman is a rank correlation.
type Spearman struct {
	Rho       float64
	P         float64 // two-sided, from Student's t with n − 2 degrees of freedom, as scipy.stats.spearmanr
	Low, High float64 // 95 % interval by Fisher's z with standard error 1/√(n − 3); −1 to 1 for n = 3
}

// NewSpearman correlates the ranks of two equally long samples, ties having their mean rank. Not defined for fewer than
// three pairs, for samples of different lengths, or where one sample is constant.
func NewSpearman(x, y []float64) (Spearman, bool) {
	n := len(x)
	if n != len(y) || n < 3 || constant(x) || constant(y) {
		return Spearman{}, false
	}
	rho := min(1, max(-1, stat.Correlation(ranks(x), ranks(y), nil)))
	s := Spearman{Rho: rho, Low: -1, High: 1}
	if math.Abs(rho) < 1 {
		t := math.Abs(rho) * math.Sqrt(float64(n-2)/((1-rho)*(1+rho)))
		s.P = 2 * distuv.StudentsT{Sigma: 1, Nu: float64(n - 2)}.Survival(t)
	}
	if n > 3 {
		z, half := math.Atanh(rho), distuv.UnitNormal.Quantile(0.975)/math.Sqrt(float64(n-3))
		s.Low, s.High = math.Tanh(z-half), math.Tanh(z+half)
	}
	return s, true
}

func constant(x []float64) bool { return slices.Min(x) == slices.Max(x) }

// ranks are 1 … n, with the mean rank for ties.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	ranked := make([]float64, len(x))
	for start := 0; start < len(order); {
		end := start + 1
		for end < len(order) && x[order[end]] == x[order[start]] {
			end++
		}
		for _, i := range order[start:end] {
			ranked[i] = float64(start+1+end) / 2
		}
		start = end
	}
	return ranked
}
