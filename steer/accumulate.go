package steer

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Sample is one item's vectors: for each of its options the rows of all layers of the fit, one after the other, in the
// order of the layers, n_embd floats each.
type Sample struct {
	Biased, Anti, Unknown []float32
}

// roleSums adds up samples by role. Its size does not depend on how many it has seen.
type roleSums struct {
	layers                []int
	width                 int
	n                     int
	biased, anti, unknown []float64 // layer after layer
}

func newRoleSums(layers []int, width int) (*roleSums, error) {
	if len(layers) == 0 {
		return nil, errors.New("no layer to fit a direction for")
	}
	if width < 1 {
		return nil, fmt.Errorf("%d is no width of a residual stream", width)
	}
	for i, layer := range layers {
		if layer < 0 {
			return nil, fmt.Errorf("layer %d is out of range; layers count from 0", layer)
		}
		if i > 0 && layer <= layers[i-1] {
			return nil, fmt.Errorf("layers %v are not ascending", layers)
		}
	}
	size := len(layers) * width
	return &roleSums{
		layers: slices.Clone(layers), width: width,
		biased: make([]float64, size), anti: make([]float64, size), unknown: make([]float64, size),
	}, nil
}

// add takes a sample whole or, with an error, not at all.
func (s *roleSums) add(sample Sample) error {
	roles := []struct {
		name string
		rows []float32
		sum  []float64
	}{{"biased", sample.Biased, s.biased}, {"anti", sample.Anti, s.anti}, {"unknown", sample.Unknown, s.unknown}}
	for _, role := range roles {
		if len(role.rows) != len(role.sum) {
			return fmt.Errorf("the %s option has %d numbers; %d layers of width %d need %d",
				role.name, len(role.rows), len(s.layers), s.width, len(role.sum))
		}
		for i, x := range role.rows {
			if x64 := float64(x); math.IsNaN(x64) || math.IsInf(x64, 0) {
				return fmt.Errorf("the %s option has a value that is not finite at layer %d", role.name, s.layers[i/s.width])
			}
		}
	}
	for _, role := range roles {
		for i, x := range role.rows {
			role.sum[i] += float64(x)
		}
	}
	s.n++
	return nil
}

// mean is the mean, at the layer with index l, of the weighted sum of the roles.
func (s *roleSums) mean(l int, biased, anti, unknown float64) []float64 {
	out := make([]float64, s.width)
	for i := range out {
		j := l*s.width + i
		out[i] = (biased*s.biased[j] + anti*s.anti[j] + unknown*s.unknown[j]) / float64(s.n)
	}
	return out
}

var errNoItems = errors.New("no item to fit a direction on")
