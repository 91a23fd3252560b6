package steer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A steering file is a GGUF file. If a control vector can do what it does, its tensors are named direction.L and
// llama.cpp reads it as one. Otherwise they are named plumb.direction.L, which llama.cpp refuses: it would add a
// projection's axis without a word.
const (
	controlVectorPrefix = "direction."
	ownPrefix           = "plumb.direction."

	fileVersion = 1

	architectureKey = "general.architecture"
	modelHintKey    = "controlvector.model_hint"
	layerCountKey   = "controlvector.layer_count"
)

// ControlVector says why the file cannot be a control vector of llama.cpp's, or nil if it is one as it stands.
func (f *File) ControlVector() error {
	switch {
	case f.Operator == Project:
		return errors.New("it holds projection axes, which llama.cpp would add instead")
	case len(f.Layers) > 0 && f.Layers[0].Layer == 0:
		return errors.New("it has a direction at layer 0, where llama.cpp applies no control vector; steer by the file itself, or fit other layers")
	case slices.Contains(withoutControlVectors, f.Model.Architecture):
		return fmt.Errorf("llama.cpp ignores control vectors on the architecture %s", f.Model.Architecture)
	}
	return nil
}

// withoutControlVectors are the architectures for which llama.cpp takes a control vector and does nothing with it.
var withoutControlVectors = []string{"hy_v4", "plamo2", "qwen4exp"}

// Write writes the steering file.
func (f *File) Write(w io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	var g ggufWriter
	prefix := ownPrefix
	if f.ControlVector() == nil {
		prefix = controlVectorPrefix
		f.controlVectorHead(&g)
	} else {
		g.setString(architectureKey, "plumb")
	}
	setNumber(&g, "plumb.version", uint32(fileVersion))
	g.setString("plumb.operator", string(f.Operator))
	setNumber(&g, "plumb.strength", f.Strength)
	layers := make([]int32, len(f.Layers))
	for i, l := range f.Layers {
		layers[i] = int32(l.Layer)
		g.vector(prefix+strconv.Itoa(l.Layer), l.Vector)
	}
	setNumbers(&g, "plumb.layers", layers)
	setLayerNumbers(&g, "plumb.weights", f.Layers, func(l FileLayer) float64 { return l.Weight })
	setLayerNumbers(&g, "plumb.norms", f.Layers, func(l FileLayer) float64 { return l.Norm })
	setLayerNumbers(&g, "plumb.explained_variance", f.Layers, func(l FileLayer) float64 { return l.Explained })
	setLayerNumbers(&g, "plumb.cosine.axis", f.Layers, func(l FileLayer) float64 { return l.AxisCosine })
	setLayerNumbers(&g, "plumb.cosine.unprojected", f.Layers, func(l FileLayer) float64 { return l.UnprojectedCosine })
	for _, text := range []struct{ key, value string }{
		{"plumb.method", string(f.Method)},
		{"plumb.constraint", string(f.Constraint)},
		{"plumb.read_out", f.ReadOut},
		{"plumb.norm_of", f.NormOf},
		{"plumb.source", f.Source},
		{"plumb.model.name", f.Model.Name},
		{"plumb.model.sha256", f.Model.SHA256},
		{"plumb.model.architecture", f.Model.Architecture},
	} {
		if text.value != "" {
			g.setString(text.key, text.value)
		}
	}
	if f.Method == Random || f.Method == RandomOrthogonal {
		setNumber(&g, "plumb.seed", f.Seed)
	}
	setNumber(&g, "plumb.model.embedding_length", uint32(f.Model.NEmbd))
	if f.Model.NLayer != 0 {
		setNumber(&g, "plumb.model.block_count", uint32(f.Model.NLayer))
	}
	f.Fit.write(&g)
	_, err := w.Write(g.bytes())
	return err
}

// controlVectorHead sets the keys that other programs put into a control vector.
func (f *File) controlVectorHead(g *ggufWriter) {
	g.setString(architectureKey, "controlvector")
	g.setString(modelHintKey, f.Model.Architecture)
	setNumber(g, layerCountKey, int32(len(f.Layers)))
}

func (fit *Fit) write(g *ggufWriter) {
	reasons := slices.Sorted(maps.Keys(fit.LeftOut))
	for _, list := range []struct {
		key    string
		values []string
	}{
		{"plumb.fit.data", fit.Data},
		{"plumb.fit.data_sha256", fit.DataSHA256},
		{"plumb.fit.categories", fit.Categories},
		{"plumb.fit.templates", fit.Templates},
		{"plumb.fit.left_out.reasons", reasons},
	} {
		if len(list.values) > 0 {
			g.setStrings(list.key, list.values)
		}
	}
	if len(fit.Templates) > 0 || fit.Seed != 0 {
		setNumber(g, "plumb.fit.seed", fit.Seed)
	}
	if fit.SplitSizes != "" {
		g.setString("plumb.fit.split_sizes", fit.SplitSizes)
	}
	if fit.PartSHA256 != "" {
		g.setString("plumb.fit.part_sha256", fit.PartSHA256)
	}
	if fit.Items > 0 {
		setNumber(g, "plumb.fit.items", uint32(fit.Items))
	}
	if len(reasons) > 0 {
		counts := make([]uint32, len(reasons))
		for i, reason := range reasons {
			counts[i] = uint32(fit.LeftOut[reason])
		}
		setNumbers(g, "plumb.fit.left_out.counts", counts)
	}
}

// setLayerNumbers sets a key with a number a layer, unless none of them is a number.
func setLayerNumbers(g *ggufWriter, key string, layers []FileLayer, number func(FileLayer) float64) {
	values := make([]float64, len(layers))
	known := false
	for i, l := range layers {
		values[i] = number(l)
		known = known || !math.IsNaN(values[i])
	}
	if known {
		setNumbers(g, key, values)
	}
}

// WriteFile writes the steering file to a path, in full or not at all.
func (f *File) WriteFile(path string) error {
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		return err
	}
	return writeWhole(path, b.Bytes())
}

// writeWhole fills a file beside path and then moves it there. An error names path.
func writeWhole(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".plumb-*.gguf")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(data)
	err = cmp.Or(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	// these name the temporary file
	if inner := (*os.PathError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	if inner := (*os.LinkError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// ReadFile reads a steering file of Plumb's.
func ReadFile(path string) (*File, error) {
	var f *File
	err := withGGUF(path, func(g *ggufFile) (err error) {
		f, err = decodeFile(g)
		return err
	})
	return f, err
}

// withGGUF opens a GGUF file and puts its path before any error.
func withGGUF(path string, use func(*ggufFile) error) error {
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s: this is a directory, not a GGUF file", path)
	}
	g, err := readGGUF(source, info.Size())
	if err == nil {
		err = use(g)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func decodeFile(g *ggufFile) (*File, error) {
	k := keys{pairs: g.pairs}
	if _, ok := g.pairs["plumb.version"]; !ok {
		return nil, errors.New("this is not a steering file of Plumb's (`plumb steer import` takes in control vectors of other programs)")
	}
	if version := number[uint32](&k, "plumb.version"); k.err == nil && version != fileVersion {
		return nil, fmt.Errorf("this steering file has version %d; this program reads version %d", version, fileVersion)
	}
	f := &File{
		Operator:   Operator(k.text("plumb.operator")),
		Strength:   number[float64](&k, "plumb.strength"),
		Method:     Method(k.text("plumb.method")),
		Constraint: Constraint(k.text("plumb.constraint")),
		ReadOut:    k.text("plumb.read_out"),
		NormOf:     k.text("plumb.norm_of"),
		Source:     k.text("plumb.source"),
		Seed:       number[uint64](&k, "plumb.seed"),
		Model: Model{
			Name: k.text("plumb.model.name"), SHA256: k.text("plumb.model.sha256"),
			Architecture: k.text("plumb.model.architecture"),
			NEmbd:        int(number[uint32](&k, "plumb.model.embedding_length")),
			NLayer:       int(number[uint32](&k, "plumb.model.block_count")),
		},
		Fit: Fit{
			Data: list[string](&k, "plumb.fit.data"), DataSHA256: list[string](&k, "plumb.fit.data_sha256"),
			Categories: list[string](&k, "plumb.fit.categories"),
			Seed:       number[uint64](&k, "plumb.fit.seed"), Templates: list[string](&k, "plumb.fit.templates"),
			Items: int(number[uint32](&k, "plumb.fit.items")), SplitSizes: k.text("plumb.fit.split_sizes"),
			PartSHA256: k.text("plumb.fit.part_sha256"),
		},
	}
	reasons, counts := list[string](&k, "plumb.fit.left_out.reasons"), list[uint32](&k, "plumb.fit.left_out.counts")
	if len(reasons) != len(counts) {
		return nil, errors.New("the reasons of the items left out do not match their counts")
	}
	for i, reason := range reasons {
		if f.Fit.LeftOut == nil {
			f.Fit.LeftOut = map[string]int{}
		}
		f.Fit.LeftOut[reason] = int(counts[i])
	}
	if k.err != nil {
		return nil, k.err
	}
	if err := f.decodeLayers(g, &k); err != nil {
		return nil, err
	}
	return f, f.check()
}

func (f *File) decodeLayers(g *ggufFile, k *keys) error {
	layers := list[int32](k, "plumb.layers")
	perLayer := func(key string) []float64 {
		values := list[float64](k, key)
		if values != nil && len(values) != len(layers) {
			k.fail(fmt.Errorf("key %s has %d values for %d layers", key, len(values), len(layers)))
		}
		return values
	}
	weights, norms := perLayer("plumb.weights"), perLayer("plumb.norms")
	explained, axis, unprojected := perLayer("plumb.explained_variance"), perLayer("plumb.cosine.axis"), perLayer("plumb.cosine.unprojected")
	if k.err != nil {
		return k.err
	}
	vectors, err := layerVectors(g)
	if err != nil {
		return err
	}
	if len(vectors) != len(layers) {
		return fmt.Errorf("the file lists %d layers and holds %d directions", len(layers), len(vectors))
	}
	for i, layer := range layers {
		vector, ok := vectors[int(layer)]
		if !ok {
			return fmt.Errorf("the file lists layer %d and holds no direction for it", layer)
		}
		f.Layers = append(f.Layers, FileLayer{
			Layer: int(layer), Weight: at(weights, i), Norm: at(norms, i), Vector: vector,
			Explained: at(explained, i), AxisCosine: at(axis, i), UnprojectedCosine: at(unprojected, i),
		})
	}
	return nil
}

// layerVectors reads every tensor of the file as the direction of the layer in its name.
func layerVectors(g *ggufFile) (map[int][]float32, error) {
	vectors := map[int][]float32{}
	for _, t := range g.tensors {
		digits, ok := strings.CutPrefix(t.name, ownPrefix)
		if !ok {
			digits, ok = strings.CutPrefix(t.name, controlVectorPrefix)
		}
		layer, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil || digits != strconv.FormatUint(layer, 10) {
			return nil, fmt.Errorf("tensor %q is not named like a direction", t.name)
		}
		if _, twice := vectors[int(layer)]; twice {
			return nil, fmt.Errorf("the file has two directions for layer %d", layer)
		}
		if vectors[int(layer)], err = g.vector(t); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

// keys reads typed values. A missing key is a zero value; one of another type is an error, kept in err.
type keys struct {
	pairs map[string]any
	err   error
}

func (k *keys) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

func value[T any](k *keys, key string) T {
	v, ok := k.pairs[key]
	typed, right := v.(T)
	if ok && !right {
		k.fail(fmt.Errorf("key %s has the type %T, not %T", key, v, typed))
	}
	return typed
}

func (k *keys) text(key string) string                    { return value[string](k, key) }
func number[T ggufNumber](k *keys, key string) T          { return value[T](k, key) }
func list[T string | ggufNumber](k *keys, key string) []T { return value[[]T](k, key) }
