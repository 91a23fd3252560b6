package steer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Convention says which block a control vector's direction.L belongs to, in the program that made the file.
type Convention string

const (
	Repeng           Convention = "repeng"            // direction.L is block L's output; so does llama.cpp apply it
	CvectorGenerator Convention = "cvector-generator" // llama.cpp's tool: direction.L+1 is block L's output
)

// ParseConvention reads the name of a convention.
func ParseConvention(name string) (Convention, error) {
	if c := Convention(name); c == Repeng || c == CvectorGenerator {
		return c, nil
	}
	return "", fmt.Errorf("there is no layer convention %q; choose %q or %q", name, Repeng, CvectorGenerator)
}

// Import reads another program's control vector as an additive steering file of strength 1. The file itself does not
// say which convention it follows. Directions keep their sign, so a positive strength means what it meant there.
func Import(path string, convention Convention) (*File, error) {
	var f *File
	err := withGGUF(path, func(g *ggufFile) (err error) {
		f, err = importVectors(g, convention)
		return err
	})
	return f, err
}

func importVectors(g *ggufFile, convention Convention) (*File, error) {
	if _, own := g.pairs["plumb.version"]; own {
		return nil, errors.New("this is a steering file of Plumb's already")
	}
	vectors, err := layerVectors(g)
	if err != nil {
		return nil, err
	}
	if len(vectors) == 0 {
		return nil, errors.New("the file holds no direction")
	}
	f := &File{Operator: Add, Strength: 1, Method: Imported, Source: string(convention)}
	k := keys{pairs: g.pairs}
	if hint := k.text(modelHintKey); convention == CvectorGenerator {
		f.Model.Architecture = hint // the model file's general.architecture
	} else {
		f.Model.Name = hint // transformers' model type, which need not be llama.cpp's architecture
	}
	if k.err != nil {
		return nil, k.err
	}
	for _, layer := range slices.Sorted(maps.Keys(vectors)) {
		vector := vectors[layer]
		if convention == CvectorGenerator {
			if layer == 0 {
				return nil, errors.New("the file has a direction.0, which cvector-generator does not write; it counts from 1")
			}
			layer--
		}
		f.Layers = append(f.Layers, FileLayer{
			Layer: layer, Weight: 1, Norm: norm32(vector), Vector: vector,
			Explained: math.NaN(), AxisCosine: math.NaN(), UnprojectedCosine: math.NaN(),
		})
		f.Model.NEmbd = len(vector)
	}
	return f, f.check()
}

func norm32(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// Export writes a control vector for llama.cpp with the strength inside, so that loaded at scale 1 it adds what the file adds
// at that strength. It refuses files of which that is not true.
func (f *File) Export(w io.Writer, strength float64) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.ControlVector(); err != nil {
		return fmt.Errorf("this direction cannot be a control vector: %w", err)
	}
	if strength == 0 || math.IsNaN(strength) || math.IsInf(strength, 0) {
		return fmt.Errorf("a strength of %v makes no control vector", strength)
	}
	var g ggufWriter
	f.controlVectorHead(&g)
	for _, l := range f.Layers {
		scaled := make([]float32, len(l.Vector))
		for i, x := range l.Vector {
			scaled[i] = float32(strength) * x
			if math.IsInf(float64(scaled[i]), 0) {
				return fmt.Errorf("at strength %v the direction of layer %d overflows", strength, l.Layer)
			}
		}
		g.vector(controlVectorPrefix+strconv.Itoa(l.Layer), scaled)
	}
	_, err := w.Write(g.bytes())
	return err
}

// ExportFile exports to a path, in full or not at all.
func (f *File) ExportFile(path string, strength float64) error {
	var b bytes.Buffer
	if err := f.Export(&b, strength); err != nil {
		return err
	}
	return writeWhole(path, b.Bytes())
}
