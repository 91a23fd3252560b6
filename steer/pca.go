package steer

import (
	"errors"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// firstComponent finds the first principal component of the rows from column `from` on, as wide as their mean: the unit
// vector of largest variance, of either sign, and its share of the whole variance. It decomposes the smaller of the two
// matrices of products, that of the rows (n × n) or that of the components (width × width), which have the same
// eigenvalues.
func firstComponent(rows [][]float32, from int, mean []float64) (component []float64, share float64, err error) {
	n, width := len(rows), len(mean)
	centred := mat.NewDense(n, width, nil)
	for i, row := range rows {
		out := centred.RawRowView(i)
		for j := range out {
			out[j] = float64(row[from+j]) - mean[j]
		}
	}
	var products mat.SymDense
	byRow := n <= width
	if byRow {
		products.SymOuterK(1, centred)
	} else {
		products.SymOuterK(1, centred.T())
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(&products, true) {
		return nil, 0, errors.New("the eigenvalues of the differences did not converge")
	}
	values := eigen.Values(nil) // ascending
	total, largest := floats.Sum(values), values[len(values)-1]
	// The differences are float32; what varies less than their rounding is no component.
	if norm := floats.Norm(mean, 2); !(largest > 1e-12*norm*norm*float64(n)) {
		return nil, 0, errors.New("the differences of the items are all the same, so that they have no principal component")
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	last := vectors.ColView(len(values) - 1)
	if !byRow {
		return mat.Col(nil, 0, last), largest / total, nil
	}
	var v mat.VecDense
	v.MulVec(centred.T(), last)
	floats.Scale(1/v.Norm(2), v.RawVector().Data)
	return v.RawVector().Data, largest / total, nil
}
