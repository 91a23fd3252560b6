package steer

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// Gaussian is a vector of independent standard Gaussian components, drawn by a PCG generator from the seed and the
// layer alone: it does not depend on which other layers are asked for.
func Gaussian(seed uint64, layer, width int) []float64 {
	generator := rand.New(rand.NewPCG(seed, uint64(layer)))
	v := make([]float64, width)
	for i := range v {
		v[i] = generator.NormFloat64()
	}
	return v
}

// NewRandom is a Gaussian direction a layer, the placebo of every method. Its norms are about the square root of the
// width; WithNorms gives it another direction's.
func NewRandom(seed uint64, layers []int, width int) (*Directions, error) {
	if len(layers) == 0 || width < 1 {
		return nil, errors.New("a random direction needs a layer and a width")
	}
	d := &Directions{Method: Random, Seed: seed, Layers: slices.Clone(layers)}
	for _, layer := range layers {
		d.Vectors = append(d.Vectors, Gaussian(seed, layer, width))
	}
	return d, d.check()
}
