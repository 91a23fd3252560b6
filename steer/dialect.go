package steer

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// DialectFit fits a dialect's directions, v̂_l = Δ̄_l / ‖Δ̄_l‖, where Δ̄_l is the mean over pairs of h_l(x^AAE) − h_l(x^SAE) at
// the last token of the contexts x (Wu et al., 2026, eqs. 5 and 6). All layers are fitted at once.
type DialectFit struct {
	layers []int
	width  int
	n      int
	sum    []float64 // of the differences, layer after layer
	norms  []float64 // sums of the states' norms, of both contexts, by layer
}

// NewDialectFit starts a fit for ascending layers of a model whose residual stream is width floats.
func NewDialectFit(layers []int, width int) (*DialectFit, error) {
	sums, err := newRoleSums(layers, width) // for its checks
	if err != nil {
		return nil, err
	}
	return &DialectFit{layers: sums.layers, width: width, sum: sums.biased, norms: make([]float64, len(sums.layers))}, nil
}

// Pairs is how many pairs the fit has taken.
func (f *DialectFit) Pairs() int { return f.n }

// Add takes a pair: its states at all layers, one after the other. A pair that is refused leaves the fit as it was.
func (f *DialectFit) Add(aae, sae []float32) error {
	if len(aae) != len(f.sum) || len(sae) != len(f.sum) {
		return fmt.Errorf("the contexts have %d and %d numbers; %d layers of width %d need %d", len(aae), len(sae), len(f.layers), f.width, len(f.sum))
	}
	for i := range aae {
		if d := float64(aae[i]) - float64(sae[i]); math.IsNaN(d) || math.IsInf(d, 0) {
			return fmt.Errorf("a state is not finite at layer %d", f.layers[i/f.width])
		}
	}
	for l := range f.layers {
		var squaresAAE, squaresSAE float64
		for i := l * f.width; i < (l+1)*f.width; i++ {
			x, y := float64(aae[i]), float64(sae[i])
			f.sum[i] += x - y
			squaresAAE += x * x
			squaresSAE += y * y
		}
		f.norms[l] += math.Sqrt(squaresAAE) + math.Sqrt(squaresSAE)
	}
	f.n++
	return nil
}

// ResidualNorms are the residual stream's mean norms at each layer, ‖h_l(x)‖ at the last token of both contexts x: what
// strengths are multiples of that are given in units of the residual stream.
func (f *DialectFit) ResidualNorms() []float64 {
	norms := make([]float64, len(f.layers))
	for l := range norms {
		norms[l] = f.norms[l] / float64(2*f.n)
	}
	return norms
}

// Directions are the unit directions, from SAE to AAE.
func (f *DialectFit) Directions() (*Directions, error) {
	if f.n == 0 {
		return nil, errNoItems
	}
	d := &Directions{Method: Dialect, Layers: slices.Clone(f.layers)}
	for l := range f.layers {
		v := slices.Clone(f.sum[l*f.width : (l+1)*f.width])
		norm := floats.Norm(v, 2)
		if norm == 0 {
			return nil, fmt.Errorf("dialect, layer %d: AAE and SAE contexts have the same states", f.layers[l])
		}
		floats.Scale(1/norm, v)
		d.Vectors = append(d.Vectors, v)
	}
	return d, d.check()
}
