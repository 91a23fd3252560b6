package steer

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// reference is a fit with its values in NumPy; testdata/directions.py made it.
type reference struct {
	Width   int       `json:"width"`
	Strata  int       `json:"strata"`
	Margins []float64 `json:"margins"`
	Stratum []int     `json:"stratum"`
	Items   []Sample  `json:"items"`
	Want    struct {
		Contrast, Stratified, Projected, PCA [][]float64
		AxisCosine                           []float64 `json:"axis_cosine"`
		UnprojectedCosine                    []float64 `json:"unprojected_cosine"`
		Explained                            []float64
		Unknown, Stereotype, Anti, Nothing   [][]float64 // GCD, by constraint
	} `json:"want"`
}

func references(t *testing.T) []reference {
	t.Helper()
	data, err := os.ReadFile("testdata/directions.json")
	if err != nil {
		t.Fatal(err)
	}
	var fits []reference
	if err := json.Unmarshal(data, &fits); err != nil {
		t.Fatal(err)
	}
	return fits
}

func (r *reference) layers() []int { return []int{2, 5, 9}[:len(r.Want.Contrast)] }

func (r *reference) fit(t *testing.T) (*Activations, *Gradients) {
	t.Helper()
	activations, err := NewActivations(r.layers(), r.Width, ActivationOptions{Strata: r.Strata, PCA: true})
	if err != nil {
		t.Fatal(err)
	}
	gradients, err := NewGradients(r.layers(), r.Width)
	if err != nil {
		t.Fatal(err)
	}
	strata, err := MarginStrata(r.Margins, r.Strata)
	if err != nil {
		t.Fatal(err)
	}
	for i, sample := range r.Items {
		if err := activations.Add(sample, strata[i]); err != nil {
			t.Fatal(err)
		}
		if err := gradients.Add(sample); err != nil {
			t.Fatal(err)
		}
	}
	return activations, gradients
}

func TestDirectionsAgainstNumPy(t *testing.T) {
	for _, r := range references(t) {
		if strata, _ := MarginStrata(r.Margins, r.Strata); !slices.Equal(strata, r.Stratum) {
			t.Errorf("strata %v, want %v", strata, r.Stratum)
		}
		activations, gradients := r.fit(t)
		gcd := func(c Constraint) func() (*Directions, error) {
			return func() (*Directions, error) { return gradients.GCD(c) }
		}
		for _, test := range []struct {
			name string
			find func() (*Directions, error)
			want [][]float64
		}{
			{"contrast", activations.Contrast, r.Want.Contrast},
			{"stratified", activations.Stratified, r.Want.Stratified},
			{"projected", activations.Projected, r.Want.Projected},
			{"pca", activations.PCA, r.Want.PCA},
			{"gcd", gcd(ConstrainUnknown), r.Want.Unknown},
			{"gcd stereotype", gcd(ConstrainStereotype), r.Want.Stereotype},
			{"gcd anti", gcd(ConstrainAnti), r.Want.Anti},
			{"gcd nothing", gcd(ConstrainNothing), r.Want.Nothing},
		} {
			d, err := test.find()
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				continue
			}
			for l := range test.want {
				// The reference takes the same float32 differences for PCA; everything else is float64 on both sides.
				if !floats.EqualApprox(d.Vectors[l], test.want[l], 1e-10) {
					t.Errorf("%s, layer %d: %v, want %v", test.name, d.Layers[l], d.Vectors[l], test.want[l])
				}
			}
			for _, diagnostic := range []struct{ got, want []float64 }{
				{d.Explained, r.Want.Explained}, {d.AxisCosine, r.Want.AxisCosine}, {d.UnprojectedCosine, r.Want.UnprojectedCosine},
			} {
				if diagnostic.got != nil && !floats.EqualApprox(diagnostic.got, diagnostic.want, 1e-7) {
					t.Errorf("%s: diagnostic %v, want %v", test.name, diagnostic.got, diagnostic.want)
				}
			}
		}
		if d, _ := activations.PCA(); d.Explained == nil {
			t.Error("pca does not say what it explains")
		}
		if d, _ := activations.Projected(); d.AxisCosine == nil || d.UnprojectedCosine == nil {
			t.Error("projected does not give its cosines")
		}
	}
}

func TestOrthogonality(t *testing.T) {
	for _, r := range references(t) {
		_, gradients := r.fit(t)
		gcd, err := gradients.GCD(ConstrainUnknown)
		if err != nil {
			t.Fatal(err)
		}
		placebo, err := gradients.RandomOrthogonal(3)
		if err != nil {
			t.Fatal(err)
		}
		if placebo, err = placebo.WithNorms(gcd.Norms()); err != nil {
			t.Fatal(err)
		}
		if !floats.EqualApprox(placebo.Norms(), gcd.Norms(), 1e-12) {
			t.Errorf("norms %v, want %v", placebo.Norms(), gcd.Norms())
		}
		for l := range gcd.Vectors {
			axis := gradients.sums.mean(l, 0, 0, 1)
			for _, d := range []*Directions{gcd, placebo} {
				if c := cosine(d.Vectors[l], axis); math.Abs(c) > 1e-15 {
					t.Errorf("%s: the cosine with the unknown option's gradient is %g", d.Method, c)
				}
			}
		}
	}
}

func TestContrastOverEqualStrataIsTheContrast(t *testing.T) {
	r := references(t)[0] // six items in three strata of two
	activations, _ := r.fit(t)
	contrast, _ := activations.Contrast()
	stratified, _ := activations.Stratified()
	for l := range contrast.Vectors {
		if !floats.EqualApprox(contrast.Vectors[l], stratified.Vectors[l], 1e-12) {
			t.Errorf("layer %d: %v and %v", contrast.Layers[l], contrast.Vectors[l], stratified.Vectors[l])
		}
	}
}

func TestCosines(t *testing.T) {
	a := &Directions{Method: Contrast, Layers: []int{4}, Vectors: [][]float64{{1, 0}}}
	b := &Directions{Method: GCD, Layers: []int{4}, Vectors: [][]float64{{-3, 3}}}
	tables, err := Cosines(a, b)
	if err != nil {
		t.Fatal(err)
	}
	half := math.Sqrt(0.5)
	for i, row := range [][]float64{{1, -half}, {-half, 1}} {
		if !floats.EqualApprox(tables[0].Cosines[i], row, 1e-15) {
			t.Errorf("row %d is %v, want %v", i, tables[0].Cosines[i], row)
		}
	}
	b.Layers = []int{5}
	if _, err := Cosines(a, b); err == nil {
		t.Error("directions of different layers were compared")
	}
}

func TestDegenerateFitsAreErrors(t *testing.T) {
	nan, zero := float32(math.NaN()), []float32{0, 0}
	activations := func(samples ...Sample) *Activations {
		a, err := NewActivations([]int{7}, 2, ActivationOptions{Strata: 1, PCA: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if err := a.Add(s, 0); err != nil {
				t.Fatal(err)
			}
		}
		return a
	}
	gradients := func(samples ...Sample) *Gradients {
		g, err := NewGradients([]int{7}, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if err := g.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		return g
	}
	same := Sample{Biased: []float32{1, 2}, Anti: []float32{1, 2}, Unknown: []float32{3, 4}}
	apart := Sample{Biased: []float32{1, 2}, Anti: []float32{3, 5}, Unknown: zero}
	alongAxis := Sample{Biased: []float32{1, 0}, Anti: []float32{-1, 0}, Unknown: []float32{5, 0}}
	opposed := Sample{Biased: []float32{0, 0}, Anti: []float32{1, 2}, Unknown: []float32{3, 4}}
	back := Sample{Biased: []float32{1, 2}, Anti: []float32{0, 0}, Unknown: []float32{3, 4}}
	for name, test := range map[string]struct {
		find func() (*Directions, error)
		want string
	}{
		"no items":                 {activations().Contrast, "no item"},
		"no items, pca":            {activations().PCA, "no item"},
		"zero contrast":            {activations(same).Contrast, "layer 7 is zero"},
		"zero stratified":          {activations(same).Stratified, "layer 7 is zero"},
		"zero contrast, projected": {activations(same).Projected, "contrast is zero"},
		"along the axis":           {activations(alongAxis).Projected, "along the non-committal axis"},
		"one item, pca":            {activations(apart).PCA, "all the same"},
		"equal items, pca":         {activations(apart, apart, apart).PCA, "all the same"},
		"pca without sign":         {activations(opposed, back).PCA, "sign is not determined"},
		"no gradients":             {func() (*Directions, error) { return gradients().GCD(ConstrainUnknown) }, "no item"},
		"zero unknown gradient":    {func() (*Directions, error) { return gradients(apart).GCD(ConstrainUnknown) }, "(unknown) is zero"},
		"zero preference":          {func() (*Directions, error) { return gradients(same).GCD(ConstrainUnknown) }, "layer 7 is zero"},
		"along the constraint":     {func() (*Directions, error) { return gradients(alongAxis).GCD(ConstrainUnknown) }, "nothing is left"},
		"unknown constraint":       {func() (*Directions, error) { return gradients(apart).GCD("polarity") }, "no constraint"},
		"zero axis, placebo":       {func() (*Directions, error) { return gradients(apart).RandomOrthogonal(1) }, "is zero"},
	} {
		if _, err := test.find(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v; it should say %q", name, err, test.want)
		}
	}

	a := activations(apart)
	for name, s := range map[string]Sample{
		"NaN":      {Biased: []float32{1, nan}, Anti: zero, Unknown: zero},
		"infinity": {Biased: zero, Anti: zero, Unknown: []float32{float32(math.Inf(1)), 0}},
		"short":    {Biased: zero, Anti: []float32{0}, Unknown: zero},
		"empty":    {},
	} {
		if err := a.Add(s, 0); err == nil {
			t.Errorf("%s was added", name)
		}
	}
	if err := a.Add(apart, 1); err == nil {
		t.Error("a stratum out of range was added")
	}
	if d, err := a.Contrast(); err != nil || a.Items() != 1 || !slices.Equal(d.Vectors[0], []float64{-2, -3}) {
		t.Errorf("refused items changed the fit: %v, %v, %d items", d, err, a.Items())
	}
	for _, layers := range [][]int{nil, {-1}, {3, 3}, {4, 2}} {
		if _, err := NewGradients(layers, 2); err == nil {
			t.Errorf("layers %v were taken", layers)
		}
	}
}

func TestMarginStrata(t *testing.T) {
	strata, err := MarginStrata([]float64{5, 1, 1, 1, 9}, 2)
	if err != nil || !slices.Equal(strata, []int{1, 1, 1, 1, 1}) {
		t.Errorf("equal margins are in strata %v, %v", strata, err) // the median is 1, and what is not below it is above
	}
	for _, margins := range [][]float64{nil, {1, math.NaN()}, {math.Inf(1)}} {
		if _, err := MarginStrata(margins, 2); err == nil {
			t.Errorf("margins %v were taken", margins)
		}
	}
	if _, err := MarginStrata([]float64{1}, 0); err == nil {
		t.Error("no strata at all were made")
	}
	if m := TopTwoMargin([]float64{-3, -1, -1.5}); m != 0.5 {
		t.Errorf("the margin is %v, not 0.5", m)
	}
	if m := TopTwoMargin([]float64{-3}); !math.IsNaN(m) {
		t.Errorf("one score has the margin %v", m)
	}
}

func TestGaussianIsAFunctionOfSeedAndLayer(t *testing.T) {
	both, err := NewRandom(11, []int{3, 8}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := NewRandom(11, []int{8}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(both.Vectors[1], alone.Vectors[0]) {
		t.Error("a layer's vector depends on the other layers")
	}
	if slices.Equal(both.Vectors[0], both.Vectors[1]) || slices.Equal(Gaussian(12, 3, 2000), both.Vectors[0]) {
		t.Error("two layers or two seeds share a vector")
	}
	// Fixed, so that placebos can be drawn again by any later version.
	if got := Gaussian(1, 0, 3); !slices.Equal(got, []float64{-0.8024826241110656, 0.424707052949676, -0.4985070978632815}) {
		t.Errorf("the first components are %v", got)
	}
	mean, square := floats.Sum(both.Vectors[0])/2000, floats.Dot(both.Vectors[0], both.Vectors[0])/2000
	if math.Abs(mean) > 5/math.Sqrt(2000) || math.Abs(square-1) > 5*math.Sqrt(2.0/2000) {
		t.Errorf("mean %v and mean square %v are not a standard Gaussian's", mean, square)
	}
}

// TestPCAFindsAPlantedComponent has more items than components and a component of much larger variance.
func TestPCAFindsAPlantedComponent(t *testing.T) {
	generator := rand.New(rand.NewPCG(5, 5))
	a, err := NewActivations([]int{0}, 30, ActivationOptions{PCA: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 400 {
		s := Sample{Biased: make([]float32, 30), Anti: make([]float32, 30), Unknown: make([]float32, 30)}
		for i := range s.Biased {
			s.Biased[i] = float32(0.1 * generator.NormFloat64())
		}
		s.Biased[4] += float32(2 + 3*generator.NormFloat64())
		if err := a.Add(s, 0); err != nil {
			t.Fatal(err)
		}
	}
	d, err := a.PCA()
	if err != nil {
		t.Fatal(err)
	}
	if v := d.Vectors[0][4]; v < 0.999 {
		t.Errorf("the planted component is %v, not close to +1", v)
	}
	if d.Explained[0] < 0.9 {
		t.Errorf("it explains %v", d.Explained[0])
	}
}
