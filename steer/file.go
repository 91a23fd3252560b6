package steer

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Operator is how a direction acts on the residual stream h of a layer, at every position.
type Operator string

const (
	Add     Operator = "add"     // h + s·v
	Project Operator = "project" // h − s·⟨h, u⟩u, where u = v/‖v‖
)

// ParseOperator reads the name of an operator.
func ParseOperator(name string) (Operator, error) {
	if o := Operator(name); o == Add || o == Project {
		return o, nil
	}
	return "", fmt.Errorf("there is no operator %q; choose %q or %q", name, Project, Add)
}

// File is what a steering file holds: the directions and how they came about.
//
// Its vectors point from S to A whatever the method, so that a positive strength of addition moves towards the anti
// option; projection does not depend on the sign.
type File struct {
	Operator   Operator
	Strength   float64 // default of --alpha
	Layers     []FileLayer
	Method     Method
	Constraint Constraint // of GCD
	ReadOut    string     // what the fit read: "last option token", "gradient of logits at the last prompt token", …
	NormOf     string     // the method whose norms the vectors were given; empty: their own
	Seed       uint64     // of the random methods
	Source     string     // of imported files: the program whose layer convention was read
	Model      Model
	Fit        Fit
}

// FileLayer is the direction at one layer.
type FileLayer struct {
	Layer int
	// Weight multiplies the strength at this layer. It is inside Vector already if the operator is Add, as a reader
	// that knows only control vectors would leave it out.
	Weight float64
	Norm   float64   // of the direction as fitted, without the weight
	Vector []float32 // Add: what strength 1 adds. Project: the unit vector

	// Diagnostics of the fit; NaN where the method has none.
	Explained         float64 // pca
	AxisCosine        float64 // projected
	UnprojectedCosine float64 // projected
}

// Model is what a steering file knows of the model it was fitted on. Empty and zero stand for unknown.
type Model struct {
	Name         string `json:"name"`
	SHA256       string `json:"sha256"`       // of the model's file, hexadecimal
	Architecture string `json:"architecture"` // llama.cpp's name of it
	NEmbd        int    `json:"n_embd"`       // width of the residual stream
	NLayer       int    `json:"n_layer"`      // number of blocks
}

// Fit is what a direction was fitted on.
type Fit struct {
	Data       []string       `json:"data"`        // names of the data files
	DataSHA256 []string       `json:"data_sha256"` // theirs, in the same order
	Categories []string       `json:"categories"`
	Seed       uint64         `json:"seed"`                  // of the split by template
	SplitSizes string         `json:"split_sizes,omitempty"` // of a dialect's parts, tracing/direction/evaluation, if they were asked for
	PartSHA256 string         `json:"part_sha256,omitempty"` // of the sentences in a dialect's direction part; empty: not known
	Templates  []string       `json:"templates"`             // the fit half; an audit leaves them out by default
	Items      int            `json:"items"`
	LeftOut    map[string]int `json:"left_out"` // items of the fit half that were not used, by reason
}

// NewFile makes a steering file of directions. weights has a weight a layer, finite and not zero; nil means 1 for all.
// The caller fills in the fields that describe the fit and the model.
func NewFile(d *Directions, operator Operator, strength float64, weights []float64) (*File, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if weights != nil && len(weights) != len(d.Layers) {
		return nil, fmt.Errorf("%d weights for %d layers", len(weights), len(d.Layers))
	}
	f := &File{Operator: operator, Strength: strength, Method: d.Method, Constraint: d.Constraint, Seed: d.Seed}
	for i, norm := range d.Norms() {
		layer := FileLayer{
			Layer: d.Layers[i], Weight: 1, Norm: norm, Vector: make([]float32, len(d.Vectors[i])),
			Explained: at(d.Explained, i), AxisCosine: at(d.AxisCosine, i), UnprojectedCosine: at(d.UnprojectedCosine, i),
		}
		if weights != nil {
			layer.Weight = weights[i]
		}
		scale := d.Method.towardsAnti() / norm
		if operator == Add {
			scale = d.Method.towardsAnti() * layer.Weight
		}
		for j, x := range d.Vectors[i] {
			layer.Vector[j] = float32(scale * x)
		}
		f.Layers = append(f.Layers, layer)
	}
	if len(d.Vectors) > 0 {
		f.Model.NEmbd = len(d.Vectors[0])
	}
	return f, f.check()
}

// at is element i, or NaN if there is none.
func at(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return math.NaN()
}

// check refuses a file that cannot be applied to any model.
func (f *File) check() error {
	if _, err := ParseOperator(string(f.Operator)); err != nil {
		return err
	}
	if math.IsNaN(f.Strength) || math.IsInf(f.Strength, 0) {
		return errors.New("the strength is not finite")
	}
	if len(f.Layers) == 0 {
		return errors.New("there is no direction")
	}
	for i, l := range f.Layers {
		switch {
		case l.Layer < 0:
			return fmt.Errorf("layer %d is out of range; layers count from 0", l.Layer)
		case i > 0 && l.Layer <= f.Layers[i-1].Layer:
			return fmt.Errorf("layers %d and %d are not ascending", f.Layers[i-1].Layer, l.Layer)
		case len(l.Vector) == 0 || len(l.Vector) != f.Model.NEmbd:
			return fmt.Errorf("the direction of layer %d is %d wide, not %d", l.Layer, len(l.Vector), f.Model.NEmbd)
		case l.Weight == 0 || math.IsNaN(l.Weight) || math.IsInf(l.Weight, 0):
			return fmt.Errorf("the weight %v of layer %d is not a finite number other than 0", l.Weight, l.Layer)
		case !(l.Norm > 0) || math.IsInf(l.Norm, 0):
			return fmt.Errorf("the norm %v of layer %d's direction is not a positive number", l.Norm, l.Layer)
		}
		zero := true
		for _, x := range l.Vector {
			if x64 := float64(x); math.IsNaN(x64) || math.IsInf(x64, 0) {
				return fmt.Errorf("the direction of layer %d has a value that is not finite", l.Layer)
			}
			zero = zero && x == 0
		}
		if zero {
			return fmt.Errorf("the direction of layer %d is zero", l.Layer)
		}
	}
	return nil
}

// Check refuses a model that the file does not fit: another width or architecture, or too few layers. It warns of
// what is possible but unlikely to be meant: a direction that was fitted on other weights, or on nobody knows what.
func (f *File) Check(model Model) (warnings []string, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.Model.NEmbd != model.NEmbd {
		return nil, fmt.Errorf("the direction is %d wide, the model's residual stream %d", f.Model.NEmbd, model.NEmbd)
	}
	if last := f.Layers[len(f.Layers)-1].Layer; last >= model.NLayer {
		return nil, fmt.Errorf("the direction is for layer %d; the model has layers 0 to %d", last, model.NLayer-1)
	}
	switch {
	case f.Model.Architecture == "":
		warnings = append(warnings, "the file does not say which architecture the direction was fitted on")
	case f.Model.Architecture != model.Architecture:
		return nil, fmt.Errorf("the direction was fitted on the architecture %s; the model is %s", f.Model.Architecture, model.Architecture)
	}
	if f.Model.NLayer != 0 && f.Model.NLayer != model.NLayer {
		return nil, fmt.Errorf("the direction was fitted on a model of %d layers; this one has %d", f.Model.NLayer, model.NLayer)
	}
	switch {
	case f.Model.SHA256 == "":
		warnings = append(warnings, "the file does not say which weights the direction was fitted on")
	case f.Model.SHA256 != model.SHA256:
		warnings = append(warnings, fmt.Sprintf("the direction was fitted on other weights (%s, SHA-256 %.12s…)", f.Model.Name, f.Model.SHA256))
	}
	return warnings, nil
}

// Action is one layer's intervention, ready for a hook.
type Action struct {
	Layer    int
	Operator Operator
	Strength float64
	Vector   []float32
}

// Actions are what the file does at a strength, by its own operator or another's: `add` uses the direction's fitted norm
// even if the file holds unit vectors, `project` its axis alone. Empty operator: the file's. Only the given layers, or
// all if there are none.
func (f *File) Actions(operator Operator, strength float64, layers []int) ([]Action, error) {
	if operator == "" {
		operator = f.Operator
	}
	if _, err := ParseOperator(string(operator)); err != nil {
		return nil, err
	}
	if math.IsNaN(strength) || math.IsInf(strength, 0) {
		return nil, errors.New("the strength is not finite")
	}
	for _, layer := range layers {
		if !slices.ContainsFunc(f.Layers, func(l FileLayer) bool { return l.Layer == layer }) {
			return nil, fmt.Errorf("the file has no direction for layer %d", layer)
		}
	}
	var actions []Action
	for _, l := range f.Layers {
		if len(layers) > 0 && !slices.Contains(layers, l.Layer) {
			continue
		}
		a := Action{Layer: l.Layer, Operator: operator, Strength: strength, Vector: l.Vector}
		switch {
		case operator == Project:
			a.Strength *= l.Weight
		case f.Operator == Project:
			a.Strength *= l.Weight * l.Norm
		}
		actions = append(actions, a)
	}
	return actions, nil
}
