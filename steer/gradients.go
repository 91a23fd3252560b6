package steer

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Constraint names the option whose score a GCD direction leaves unchanged, to first order.
type Constraint string

const (
	ConstrainUnknown    Constraint = "unknown"    // GCD itself
	ConstrainStereotype Constraint = "stereotype" // ablation: the biased option
	ConstrainAnti       Constraint = "anti"       // ablation: the anti option
	ConstrainNothing    Constraint = "nothing"    // ablation: the preference gradient alone
)

// Constraints are all of them.
var Constraints = []Constraint{ConstrainUnknown, ConstrainStereotype, ConstrainAnti, ConstrainNothing}

// Gradients fits directions from the gradients of the options' scores with respect to the residual stream.
type Gradients struct {
	sums *roleSums
}

// NewGradients starts a fit for ascending layers of a model whose residual stream is width floats.
func NewGradients(layers []int, width int) (*Gradients, error) {
	sums, err := newRoleSums(layers, width)
	if err != nil {
		return nil, err
	}
	return &Gradients{sums}, nil
}

// Items is how many items the fit has taken.
func (g *Gradients) Items() int { return g.sums.n }

// Add takes the gradients of an item's options. An item that is refused, for a wrong size or a value that is not
// finite, leaves the fit as it was.
func (g *Gradients) Add(sample Sample) error { return g.sums.add(sample) }

// GCD is the preference gradient ḡ_A − ḡ_S without its part along the constrained option's mean gradient; with
// ConstrainUnknown, (I − ĝ_U ĝ_Uᵀ)(ḡ_A − ḡ_S) (GCD, eqs. 7 to 9; the ablations of appendix G otherwise). Its norm is left
// as it comes out.
func (g *Gradients) GCD(constraint Constraint) (*Directions, error) {
	if !slices.Contains(Constraints, constraint) {
		return nil, fmt.Errorf("there is no constraint %q; choose among %q", constraint, Constraints)
	}
	if g.sums.n == 0 {
		return nil, errNoItems
	}
	d := &Directions{Method: GCD, Constraint: constraint, Layers: slices.Clone(g.sums.layers)}
	for l, layer := range d.Layers {
		v := g.sums.mean(l, -1, 1, 0)
		if constraint != ConstrainNothing {
			axis := g.constrained(l, constraint)
			if floats.Norm(axis, 2) == 0 {
				return nil, fmt.Errorf("gcd, layer %d: the mean gradient of the option to constrain (%s) is zero", layer, constraint)
			}
			rest, ok := without(v, axis)
			if !ok && floats.Norm(v, 2) > 0 {
				return nil, fmt.Errorf("gcd, layer %d: the preference gradient lies along the constrained one (%s); nothing is left of it", layer, constraint)
			}
			v = rest
		}
		d.Vectors = append(d.Vectors, v)
	}
	return d, d.check()
}

func (g *Gradients) constrained(l int, constraint Constraint) []float64 {
	switch constraint {
	case ConstrainStereotype:
		return g.sums.mean(l, 1, 0, 0)
	case ConstrainAnti:
		return g.sums.mean(l, 0, 1, 0)
	}
	return g.sums.mean(l, 0, 0, 1)
}

// RandomOrthogonal is a Gaussian vector a layer with its part along the unknown option's mean gradient taken out: a
// placebo that meets GCD's constraint (GCD, appendix G).
func (g *Gradients) RandomOrthogonal(seed uint64) (*Directions, error) {
	if g.sums.n == 0 {
		return nil, errNoItems
	}
	d := &Directions{Method: RandomOrthogonal, Seed: seed, Layers: slices.Clone(g.sums.layers)}
	for l, layer := range d.Layers {
		axis := g.sums.mean(l, 0, 0, 1)
		if floats.Norm(axis, 2) == 0 {
			return nil, fmt.Errorf("random-orthogonal, layer %d: the mean gradient of the unknown option is zero", layer)
		}
		v, ok := without(Gaussian(seed, layer, g.sums.width), axis)
		if !ok {
			return nil, errors.New("random-orthogonal needs a residual stream of at least two components")
		}
		d.Vectors = append(d.Vectors, v)
	}
	return d, d.check()
}
