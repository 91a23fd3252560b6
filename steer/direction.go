// Package steer finds directions in a model's residual stream and keeps them in steering files.
//
// A fit is fed item by item: Activations takes the residual stream at the options' last tokens (contrast, stratified,
// projected, pca), Gradients the gradients of the options' scores (gcd, random-orthogonal). Each then yields Directions, one vector a
// layer, for every layer that it was fed. NewFile makes a steering File of them.
//
// S, A and U are an item's biased, anti and unknown option, where biased and anti follow the question's polarity.
// Layers are 0-based block indices: layer L is the residual stream after block L. Sums are kept in float64 and in the
// order in which the items come, so the same items give the same bytes.
package steer

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Method is a way to find a direction.
type Method string

const (
	Contrast         Method = "contrast"          // mean of h_S − h_A
	Stratified       Method = "stratified"        // the contrast within strata of the baseline's confidence, averaged
	Projected        Method = "projected"         // the contrast without its part along the non-committal axis
	PCA              Method = "pca"               // first principal component of h_S − h_A
	GCD              Method = "gcd"               // preference gradient without its part along a constrained option's gradient
	Random           Method = "random"            // Gaussian
	RandomOrthogonal Method = "random-orthogonal" // Gaussian, in the orthogonal complement of the unknown option's gradient
	Dialect          Method = "dialect"           // mean of h(AAE) − h(SAE), of norm 1; points from SAE to AAE
	Imported         Method = "imported"          // another program's
)

// Directions are what one method found: a vector a layer, with the method's own sign and norm.
type Directions struct {
	Method     Method
	Constraint Constraint  // of GCD
	Seed       uint64      // of the random methods
	Layers     []int       // ascending
	Vectors    [][]float64 // one a layer, n_embd components; finite and not zero

	// Diagnostics, one number a layer, of the methods that have them.
	Explained         []float64 // pca: the share of the differences' variance along the component
	AxisCosine        []float64 // projected: the contrast with the non-committal axis
	UnprojectedCosine []float64 // projected: the contrast with the projected contrast
}

// towardsAnti says whether the method's vectors point from S to A (1) or from A to S (-1). It gives a positive
// strength of addition one meaning for all methods. A random vector points nowhere; it keeps its sign.
func (m Method) towardsAnti() float64 {
	switch m {
	case Contrast, Stratified, Projected, PCA:
		return -1
	}
	return 1
}

// Norms are the vectors' Euclidean lengths, one a layer.
func (d *Directions) Norms() []float64 {
	norms := make([]float64, len(d.Vectors))
	for i, v := range d.Vectors {
		norms[i] = floats.Norm(v, 2)
	}
	return norms
}

// WithNorms are the same directions with the given lengths, one a layer: a placebo's strength of addition means the same
// as the direction's that it stands beside only if their norms agree. Projection ignores the norm.
func (d *Directions) WithNorms(norms []float64) (*Directions, error) {
	if len(norms) != len(d.Vectors) {
		return nil, fmt.Errorf("%d norms for %d layers", len(norms), len(d.Vectors))
	}
	out := *d
	out.Vectors = make([][]float64, len(d.Vectors))
	for i, v := range d.Vectors {
		if !(norms[i] > 0) || math.IsInf(norms[i], 0) {
			return nil, fmt.Errorf("layer %d: %v is no norm of a direction", d.Layers[i], norms[i])
		}
		out.Vectors[i] = slices.Clone(v)
		floats.Scale(norms[i]/floats.Norm(v, 2), out.Vectors[i])
	}
	return &out, out.check()
}

// check refuses what cannot steer: a vector that is zero or not finite.
func (d *Directions) check() error {
	for i, v := range d.Vectors {
		norm := floats.Norm(v, 2)
		switch {
		case math.IsNaN(norm) || math.IsInf(norm, 0):
			return fmt.Errorf("the %s direction of layer %d is not finite", d.Method, d.Layers[i])
		case norm == 0:
			return fmt.Errorf("the %s direction of layer %d is zero", d.Method, d.Layers[i])
		}
	}
	return nil
}

// LayerCosines is the table of cosines between several methods' directions at one layer.
type LayerCosines struct {
	Layer   int
	Cosines [][]float64 // symmetric, in the order of the directions given
}

// Cosines compares directions with each other, layer by layer, in each method's own sign (a contrast points from A to
// S, GCD from S to A). All must be of the same layers and width.
func Cosines(directions ...*Directions) ([]LayerCosines, error) {
	if len(directions) == 0 {
		return nil, nil
	}
	layers := directions[0].Layers
	for _, d := range directions {
		if !slices.Equal(d.Layers, layers) {
			return nil, fmt.Errorf("%s has layers %v, %s has layers %v", directions[0].Method, layers, d.Method, d.Layers)
		}
	}
	tables := make([]LayerCosines, len(layers))
	for l, layer := range layers {
		vectors := make([][]float64, len(directions))
		for i, d := range directions {
			if vectors[i] = d.Vectors[l]; len(vectors[i]) != len(vectors[0]) {
				return nil, fmt.Errorf("%s is %d wide, %s is %d wide", directions[0].Method, len(vectors[0]), d.Method, len(vectors[i]))
			}
		}
		tables[l] = LayerCosines{Layer: layer, Cosines: cosineMatrix(vectors)}
	}
	return tables, nil
}

func cosineMatrix(vectors [][]float64) [][]float64 {
	out := make([][]float64, len(vectors))
	for i, a := range vectors {
		out[i] = make([]float64, len(vectors))
		for j, b := range vectors {
			out[i][j] = cosine(a, b)
		}
	}
	return out
}

// cosine of two vectors that are not zero, within [-1, 1].
func cosine(a, b []float64) float64 {
	c := floats.Dot(a, b) / floats.Norm(a, 2) / floats.Norm(b, 2)
	return math.Max(-1, math.Min(1, c))
}

// collinear is the share of a vector's norm below which what a projection leaves of it is taken for rounding error.
const collinear = 1e-10

// without returns v − ⟨v, â⟩â, its part orthogonal to the axis a, which must not be zero; ok is false where nothing is left.
// It projects twice, so that what remains along the axis is of the order of rounding in the result, not in v.
func without(v, axis []float64) (rest []float64, ok bool) {
	unit := slices.Clone(axis)
	floats.Scale(1/floats.Norm(axis, 2), unit)
	rest = slices.Clone(v)
	for range 2 {
		floats.AddScaled(rest, -floats.Dot(rest, unit), unit)
	}
	return rest, floats.Norm(rest, 2) > collinear*floats.Norm(v, 2)
}
