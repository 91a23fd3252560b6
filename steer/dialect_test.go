package steer

import (
	"math"
	"slices"
	"testing"
)

// Two pairs at two layers of width 2, by hand.
func TestDialectFit(t *testing.T) {
	fit, err := NewDialectFit([]int{1, 4}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fit.Directions(); err == nil {
		t.Error("directions of no pair")
	}
	for _, pair := range [][2][]float32{
		{{3, 4, 1, 0}, {0, 0, 0, 1}}, // differences (3, 4), (1, −1)
		{{6, 8, 0, 3}, {3, 4, 4, 0}}, // differences (3, 4), (−4, 3)
	} {
		if err := fit.Add(pair[0], pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := fit.Add([]float32{1, 2, float32(math.NaN()), 4}, make([]float32, 4)); err == nil {
		t.Error("a NaN was taken")
	}
	if err := fit.Add(make([]float32, 3), make([]float32, 4)); err == nil {
		t.Error("a short state was taken")
	}
	d, err := fit.Directions()
	if err != nil {
		t.Fatal(err)
	}
	root := math.Sqrt(13) // the mean difference at layer 4 is (−1.5, 1)
	for l, want := range [][]float64{{0.6, 0.8}, {-3 / root, 2 / root}} {
		for i := range want {
			if math.Abs(d.Vectors[l][i]-want[i]) > 1e-12 {
				t.Errorf("layer %d: %v, want %v", d.Layers[l], d.Vectors[l], want)
			}
		}
	}
	// layer 1: 5, 0, 10, 5; layer 4: 1, 1, 3, 4
	if norms := fit.ResidualNorms(); fit.Pairs() != 2 || !slices.Equal(norms, []float64{5, 2.25}) {
		t.Errorf("%d pairs, norms %v", fit.Pairs(), norms)
	}
}
