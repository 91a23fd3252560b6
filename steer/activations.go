package steer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Activations fits directions from the residual stream at the last token of each option's continuation. (At the last
// prompt token the three states are one.)
type Activations struct {
	sums   *roleSums
	strata []stratum

	keep        bool
	differences [][]float32 // h_S − h_A, an item each, all layers; kept for PCA only
}

type stratum struct {
	n   int
	sum []float64 // of h_S − h_A, layer after layer
}

// ActivationOptions say what the fit must be able to answer at the end.
type ActivationOptions struct {
	// Strata is the number of strata of the stratified contrast; each costs one float64 a layer and component.
	// 0: none.
	Strata int
	// PCA keeps every item's difference, since a principal component needs them all: 4 bytes for each item, layer and
	// component. It is the only method whose memory grows with the items.
	PCA bool
}

// NewActivations starts a fit for ascending layers of a model whose residual stream is width floats.
func NewActivations(layers []int, width int, options ActivationOptions) (*Activations, error) {
	sums, err := newRoleSums(layers, width)
	if err != nil {
		return nil, err
	}
	if options.Strata < 0 {
		return nil, fmt.Errorf("%d strata are not possible", options.Strata)
	}
	a := &Activations{sums: sums, keep: options.PCA, strata: make([]stratum, options.Strata)}
	for i := range a.strata {
		a.strata[i].sum = make([]float64, len(sums.biased))
	}
	return a, nil
}

// Items is how many items the fit has taken.
func (a *Activations) Items() int { return a.sums.n }

// Add takes an item. Its stratum, of those given by Strata, is ignored in a fit without strata. An item that is refused,
// for a wrong size or a value that is not finite, leaves the fit as it was.
func (a *Activations) Add(sample Sample, stratum int) error {
	if len(a.strata) > 0 && (stratum < 0 || stratum >= len(a.strata)) {
		return fmt.Errorf("stratum %d is not among the %d of the fit", stratum, len(a.strata))
	}
	if err := a.sums.add(sample); err != nil {
		return err
	}
	if len(a.strata) > 0 {
		s := &a.strata[stratum]
		s.n++
		for i := range s.sum {
			s.sum[i] += float64(sample.Biased[i]) - float64(sample.Anti[i])
		}
	}
	if a.keep {
		difference := make([]float32, len(sample.Biased))
		for i := range difference {
			difference[i] = sample.Biased[i] - sample.Anti[i]
		}
		a.differences = append(a.differences, difference)
	}
	return nil
}

// directions calls find for every layer and checks what it returns.
func (a *Activations) directions(method Method, find func(l int) ([]float64, error)) (*Directions, error) {
	if a.sums.n == 0 {
		return nil, errNoItems
	}
	d := &Directions{Method: method, Layers: slices.Clone(a.sums.layers)}
	for l, layer := range d.Layers {
		v, err := find(l)
		if err != nil {
			return nil, fmt.Errorf("%s, layer %d: %w", method, layer, err)
		}
		d.Vectors = append(d.Vectors, v)
	}
	return d, d.check()
}

// Contrast is the mean of h_S − h_A (GCD, appendix H, "Contrastive direction").
func (a *Activations) Contrast() (*Directions, error) {
	return a.directions(Contrast, func(l int) ([]float64, error) {
		return a.sums.mean(l, 1, -1, 0), nil
	})
}

// Stratified is the mean over the strata of the contrast within each (GCD, section 5, "matched confidence strata");
// strata without an item do not count. With as many items in each stratum it is the contrast itself.
func (a *Activations) Stratified() (*Directions, error) {
	if len(a.strata) == 0 {
		return nil, errors.New("stratified: the fit was made without strata")
	}
	width := a.sums.width
	return a.directions(Stratified, func(l int) ([]float64, error) {
		v, used := make([]float64, width), 0
		for _, s := range a.strata {
			if s.n > 0 {
				floats.AddScaled(v, 1/float64(s.n), s.sum[l*width:(l+1)*width])
				used++
			}
		}
		floats.Scale(1/float64(used), v)
		return v, nil
	})
}

// Projected is the contrast with the non-committal axis, the mean of h_U − (h_S + h_A)/2, projected out (GCD, sections
// 4 and 5). AxisCosine is the contrast's cosine with that axis, UnprojectedCosine its cosine with the result.
func (a *Activations) Projected() (*Directions, error) {
	var axisCosine, unprojectedCosine []float64
	d, err := a.directions(Projected, func(l int) ([]float64, error) {
		contrast, axis := a.sums.mean(l, 1, -1, 0), a.sums.mean(l, -0.5, -0.5, 1)
		if floats.Norm(contrast, 2) == 0 {
			return nil, errors.New("the contrast is zero")
		}
		if floats.Norm(axis, 2) == 0 {
			return nil, errors.New("the non-committal axis is zero")
		}
		rest, ok := without(contrast, axis)
		if !ok {
			return nil, errors.New("the contrast lies along the non-committal axis; nothing is left of it")
		}
		axisCosine = append(axisCosine, cosine(contrast, axis))
		unprojectedCosine = append(unprojectedCosine, cosine(contrast, rest))
		return rest, nil
	})
	if err != nil {
		return nil, err
	}
	d.AxisCosine, d.UnprojectedCosine = axisCosine, unprojectedCosine
	return d, nil
}

// PCA is the first principal component of h_S − h_A, centred, of norm 1, with the sign that makes its product with the
// contrast positive.
func (a *Activations) PCA() (*Directions, error) {
	if !a.keep {
		return nil, errors.New("pca: the fit did not keep the items' differences")
	}
	var explained []float64
	d, err := a.directions(PCA, func(l int) ([]float64, error) {
		contrast := a.sums.mean(l, 1, -1, 0)
		component, share, err := firstComponent(a.differences, l*a.sums.width, contrast)
		if err != nil {
			return nil, err
		}
		agreement := floats.Dot(component, contrast)
		if math.Abs(agreement) <= 1e-14*floats.Norm(contrast, 2) {
			return nil, errors.New("the component is orthogonal to the contrast, so that its sign is not determined")
		}
		if agreement < 0 {
			floats.Scale(-1, component)
		}
		explained = append(explained, share)
		return component, nil
	})
	if err != nil {
		return nil, err
	}
	d.Explained = explained
	return d, nil
}
