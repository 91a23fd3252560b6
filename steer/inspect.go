package steer

import (
	"fmt"
	"math"
	"slices"
)

// Description is a steering file without its vectors, for people and for JSON.
type Description struct {
	Operator      Operator           `json:"operator"`
	Strength      float64            `json:"strength"`
	Method        Method             `json:"method"`
	Constraint    Constraint         `json:"constraint,omitempty"`
	ReadOut       string             `json:"read_out,omitempty"`
	NormOf        string             `json:"norm_of,omitempty"`
	Seed          *uint64            `json:"seed,omitempty"` // of the random methods
	Source        string             `json:"source,omitempty"`
	Model         Model              `json:"model"`
	Fit           Fit                `json:"fit"`
	ControlVector string             `json:"control_vector"` // "yes", or why not
	Layers        []LayerDescription `json:"layers"`
}

// LayerDescription is a direction without its vector. What a method does not have is nil.
type LayerDescription struct {
	Layer             int      `json:"layer"`
	Weight            float64  `json:"weight"`
	Norm              float64  `json:"norm"`
	Explained         *float64 `json:"explained_variance,omitempty"`
	AxisCosine        *float64 `json:"cosine_contrast_axis,omitempty"`
	UnprojectedCosine *float64 `json:"cosine_contrast_projected,omitempty"`
}

// Describe describes the file.
func (f *File) Describe() Description {
	d := Description{
		Operator: f.Operator, Strength: f.Strength, Method: f.Method, Constraint: f.Constraint, ReadOut: f.ReadOut,
		NormOf: f.NormOf, Source: f.Source, Model: f.Model, Fit: f.Fit, ControlVector: "yes",
	}
	if f.Method == Random || f.Method == RandomOrthogonal {
		d.Seed = &f.Seed
	}
	if err := f.ControlVector(); err != nil {
		d.ControlVector = "no: " + err.Error()
	}
	for _, l := range f.Layers {
		d.Layers = append(d.Layers, LayerDescription{
			Layer: l.Layer, Weight: l.Weight, Norm: l.Norm,
			Explained: known(l.Explained), AxisCosine: known(l.AxisCosine), UnprojectedCosine: known(l.UnprojectedCosine),
		})
	}
	return d
}

func known(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}

// FileCosines compares the directions of files at each layer that all of them have. In files every method's vectors
// point from S to A, so the cosine of a contrast and GCD has the other sign than in Cosines.
func FileCosines(files []*File) ([]LayerCosines, error) {
	if len(files) == 0 {
		return nil, nil
	}
	var tables []LayerCosines
	for _, first := range files[0].Layers {
		vectors := make([][]float64, 0, len(files))
		for _, f := range files {
			if f.Model.NEmbd != files[0].Model.NEmbd {
				return nil, fmt.Errorf("directions %d and %d wide cannot be compared", files[0].Model.NEmbd, f.Model.NEmbd)
			}
			i := slices.IndexFunc(f.Layers, func(l FileLayer) bool { return l.Layer == first.Layer })
			if i < 0 {
				break
			}
			vectors = append(vectors, unweighted(f, i))
		}
		if len(vectors) == len(files) {
			tables = append(tables, LayerCosines{Layer: first.Layer, Cosines: cosineMatrix(vectors)})
		}
	}
	return tables, nil
}

// unweighted is the direction of a file's layer without its weight, whose sign an additive file's vector carries.
func unweighted(f *File, i int) []float64 {
	l := f.Layers[i]
	out := make([]float64, len(l.Vector))
	for j, x := range l.Vector {
		out[j] = float64(x)
		if f.Operator == Add {
			out[j] /= l.Weight
		}
	}
	return out
}
