package steer

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// contrast is a direction whose vectors have round numbers: norms 5 and 1.
func contrast() *Directions {
	return &Directions{Method: Contrast, Layers: []int{1, 4}, Vectors: [][]float64{{3, 0, 4}, {0, 1, 0}}}
}

func steeringFile(t *testing.T, d *Directions, operator Operator) *File {
	t.Helper()
	f, err := NewFile(d, operator, 2, []float64{1, 0.5}[:len(d.Layers)])
	if err != nil {
		t.Fatal(err)
	}
	f.ReadOut = "last option token"
	f.Model = Model{Name: "tiny.gguf", SHA256: strings.Repeat("ab", 32), Architecture: "llama", NEmbd: 3, NLayer: 6}
	f.Fit = Fit{
		Data: []string{"Age.jsonl"}, DataSHA256: []string{strings.Repeat("01", 32)}, Categories: []string{"Age"},
		Seed: 1, Templates: []string{"Age/1", "Age/7"}, Items: 40, LeftOut: map[string]int{"too long": 3, "no roles": 1},
	}
	return f
}

func encode(t *testing.T, f *File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(data []byte) (*File, error) {
	g, err := readGGUF(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	return decodeFile(g)
}

// TestGolden compares files with those that testdata/control_vectors.py has read with llama.cpp's Python package.
func TestGolden(t *testing.T) {
	additive := steeringFile(t, contrast(), Add)
	var exported bytes.Buffer
	if err := additive.Export(&exported, additive.Strength); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"additive.gguf":   encode(t, additive),
		"projection.gguf": encode(t, steeringFile(t, contrast(), Project)),
		"exported.gguf":   exported.Bytes(),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s has changed", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	gcd := contrast()
	gcd.Method, gcd.Constraint = GCD, ConstrainAnti
	random, err := NewRandom(1<<40, []int{0, 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	projected := contrast()
	projected.Method, projected.AxisCosine, projected.UnprojectedCosine = Projected, []float64{0.5, -0.25}, []float64{0.75, 1}
	for _, d := range []*Directions{contrast(), gcd, random, projected} {
		for _, operator := range []Operator{Add, Project} {
			want := steeringFile(t, d, operator)
			path := filepath.Join(t.TempDir(), "steering.gguf")
			if err := want.WriteFile(path); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !equal(got, want) {
				t.Errorf("%s, %s:\n%+v\nis not\n%+v", d.Method, operator, got, want)
			}
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("%d files were left beside it", len(entries)-1)
			}
		}
	}
}

// equal compares files, for which NaN equals NaN.
func equal(a, b *File) bool {
	plain := func(f *File) File {
		out := *f
		out.Layers = slices.Clone(f.Layers)
		for i := range out.Layers {
			l := &out.Layers[i]
			for _, x := range []*float64{&l.Explained, &l.AxisCosine, &l.UnprojectedCosine} {
				if math.IsNaN(*x) {
					*x = -99
				}
			}
		}
		return out
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

func TestVectorsPointTowardsAnti(t *testing.T) {
	// The contrast points from A to S, so the file turns it round; GCD points from S to A already.
	gcd := contrast()
	gcd.Method = GCD
	for d, sign := range map[*Directions]float32{contrast(): -1, gcd: 1} {
		additive, projection := steeringFile(t, d, Add), steeringFile(t, d, Project)
		if want := []float32{sign * 3, 0, sign * 4}; !slices.Equal(additive.Layers[0].Vector, want) {
			t.Errorf("%s adds %v, want %v", d.Method, additive.Layers[0].Vector, want)
		}
		if want := []float32{sign * 0.6, 0, sign * 0.8}; !slices.Equal(projection.Layers[0].Vector, want) {
			t.Errorf("%s removes %v, want %v", d.Method, projection.Layers[0].Vector, want)
		}
	}
}

func TestActions(t *testing.T) {
	// Layer 1 has norm 5 and weight 1, layer 4 has norm 1 and weight 0.5.
	additive, projection := steeringFile(t, contrast(), Add), steeringFile(t, contrast(), Project)
	for _, test := range []struct {
		file      *File
		operator  Operator
		strengths []float64
	}{
		{additive, "", []float64{8, 8}}, // the weight is in the vector
		{additive, Project, []float64{8, 4}},
		{projection, "", []float64{8, 4}},
		{projection, Add, []float64{40, 4}},
	} {
		actions, err := test.file.Actions(test.operator, 8, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range actions {
			if a.Strength != test.strengths[i] || a.Layer != test.file.Layers[i].Layer {
				t.Errorf("%s as %q: layer %d has strength %v, want %v", test.file.Operator, test.operator, a.Layer, a.Strength, test.strengths[i])
			}
		}
	}
	// Both operators of both files do the same to the residual stream.
	added := func(f *File) float32 {
		actions, _ := f.Actions(Add, 8, []int{4})
		return float32(actions[0].Strength) * actions[0].Vector[1]
	}
	if added(additive) != added(projection) || added(additive) != -4 {
		t.Errorf("the two files add %v and %v", added(additive), added(projection))
	}
	if _, err := additive.Actions("", 1, []int{2}); err == nil {
		t.Error("a layer without a direction was taken")
	}
	if _, err := additive.Actions("", math.NaN(), nil); err == nil {
		t.Error("a strength that is no number was taken")
	}
	if _, err := additive.Actions("rotate", 1, nil); err == nil {
		t.Error("an unknown operator was taken")
	}
	if actions, err := additive.Actions("", 0, nil); err != nil || len(actions) != 2 {
		t.Errorf("strength 0 was left out: %v, %v", actions, err)
	}
}

func TestCheck(t *testing.T) {
	model := Model{Name: "tiny.gguf", SHA256: strings.Repeat("ab", 32), Architecture: "llama", NEmbd: 3, NLayer: 6}
	change := func(change func(*Model)) Model {
		m := model
		change(&m)
		return m
	}
	for name, test := range map[string]struct {
		model Model
		want  string
	}{
		"width":        {change(func(m *Model) { m.NEmbd = 4 }), "3 wide"},
		"layer":        {change(func(m *Model) { m.NLayer = 4 }), "for layer 4; the model has layers 0 to 3"},
		"depth":        {change(func(m *Model) { m.NLayer = 7 }), "6 layers"},
		"architecture": {change(func(m *Model) { m.Architecture = "gemma3" }), "architecture llama"},
	} {
		if _, err := steeringFile(t, contrast(), Add).Check(test.model); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v; it should say %q", name, err, test.want)
		}
	}
	f := steeringFile(t, contrast(), Add)
	if warnings, err := f.Check(model); err != nil || len(warnings) != 0 {
		t.Errorf("the model it was fitted on: %v, %v", warnings, err)
	}
	warnings, err := f.Check(change(func(m *Model) { m.SHA256 = strings.Repeat("cd", 32) }))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "other weights") {
		t.Errorf("other weights: %v, %v", warnings, err)
	}
	f.Layers[1].Vector[2] = float32(math.NaN())
	if _, err := f.Check(model); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("NaN in a direction: %v", err)
	}
	imported := &File{Operator: Add, Strength: 1, Model: Model{NEmbd: 3}, Layers: []FileLayer{{Layer: 1, Weight: 1, Norm: 1, Vector: []float32{0, 1, 0}}}}
	if warnings, err := imported.Check(model); err != nil || len(warnings) != 2 {
		t.Errorf("a file of unknown origin: %v, %v", warnings, err)
	}
}

func TestDirectionsThatMakeNoFile(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*Directions)
		weights []float64
	}{
		"NaN":             {func(d *Directions) { d.Vectors[1][0] = math.NaN() }, nil},
		"zero":            {func(d *Directions) { d.Vectors[1][1] = 0 }, nil},
		"float32 is zero": {func(d *Directions) { d.Vectors[1][1] = 1e-60 }, nil},
		"float32 is inf":  {func(d *Directions) { d.Vectors[1][1] = 1e60 }, nil},
		"no layer":        {func(d *Directions) { d.Layers, d.Vectors = nil, nil }, nil},
		"widths differ":   {func(d *Directions) { d.Vectors[1] = []float64{1} }, nil},
		"weight missing":  {func(*Directions) {}, []float64{1}},
		"weight zero":     {func(*Directions) {}, []float64{1, 0}},
		"weight NaN":      {func(*Directions) {}, []float64{1, math.NaN()}},
	} {
		d := contrast()
		test.change(d)
		if _, err := NewFile(d, Add, 1, test.weights); err == nil {
			t.Errorf("%s: a file was made", name)
		}
	}
	if _, err := NewFile(contrast(), Add, math.Inf(1), nil); err == nil {
		t.Error("an infinite strength was taken")
	}
	// A gradient may be too small for float32; its axis is not.
	small := &Directions{Method: GCD, Layers: []int{1}, Vectors: [][]float64{{3e-60, 4e-60}}}
	if f, err := NewFile(small, Project, 1, nil); err != nil || !slices.Equal(f.Layers[0].Vector, []float32{0.6, 0.8}) {
		t.Errorf("a small gradient makes %v, %v", f, err)
	}
}

func TestReadFileErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := encode(t, steeringFile(t, contrast(), Project))
	edited := func(from, to string) []byte {
		if len(from) != len(to) || !bytes.Contains(good, []byte(from)) {
			t.Fatalf("%q cannot become %q", from, to)
		}
		return bytes.ReplaceAll(slices.Clone(good), []byte(from), []byte(to))
	}
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "missing.gguf"), "no such file"},
		{dir, "is a directory"},
		{write("empty.gguf", nil), "not a GGUF file"},
		{write("text.gguf", []byte("not a GGUF file at all, but long enough")), "not a GGUF file"},
		{write("version.gguf", append([]byte("GGUF\x01\x00\x00\x00"), good[8:]...)), "version 1"},
		{write("endian.gguf", append([]byte("GGUF\x00\x00\x00\x03"), good[8:]...)), "big endian"},
		{write("tensor.gguf", edited("plumb.direction.4", "plumb.direction.x")), "not named like a direction"},
		{write("number.gguf", edited("plumb.direction.4", "plumb.direction.5")), "holds no direction"},
		{write("twice.gguf", edited("plumb.direction.4", "plumb.direction.1")), "twice"},
		{write("operator.gguf", edited("project", "protect")), `no operator "protect"`},
		{write("norms.gguf", edited("plumb.norms", "plumb.nouns")), "norm NaN"},
		{"testdata/repeng.gguf", "steer import"},
	} {
		if _, err := ReadFile(test.path); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v; it should say %q", filepath.Base(test.path), err, test.want)
		}
	}
	for n := range good {
		if _, err := decode(good[:n]); err == nil && n < len(good)-padding(4*3) {
			t.Errorf("a file cut to %d of %d bytes was read", n, len(good))
		}
	}
}

func TestImport(t *testing.T) {
	for _, test := range []struct {
		path       string
		convention Convention
		layers     []int
		blocks     []float32 // the first component tells the block that the vector was made for
		model      Model
		exportable bool
	}{
		{"testdata/repeng.gguf", Repeng, []int{1, 2}, []float32{1.5, 2.5}, Model{Name: "mistral", NEmbd: 4}, true},
		{"testdata/cvector-generator.gguf", CvectorGenerator, []int{0, 1, 2}, []float32{0.5, 1.5, 2.5}, Model{Architecture: "llama", NEmbd: 4}, false},
	} {
		f, err := Import(test.path, test.convention)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range f.Layers {
			if l.Layer != test.layers[i] || l.Vector[0] != test.blocks[i] || l.Weight != 1 {
				t.Errorf("%s: direction %d is %+v", test.path, i, l)
			}
		}
		if len(f.Layers) != len(test.layers) || f.Model != test.model || f.Strength != 1 || f.Source != string(test.convention) {
			t.Errorf("%s: %+v", test.path, f)
		}
		if err := f.ControlVector(); (err == nil) != test.exportable {
			t.Errorf("%s: as a control vector: %v", test.path, err)
		}
		again, err := decode(encode(t, f))
		if err != nil || !equal(again, f) {
			t.Errorf("%s: after a round trip %+v, %v", test.path, again, err)
		}
	}
	if _, err := Import("testdata/additive.gguf", Repeng); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("Plumb's own file was imported: %v", err)
	}
	if _, err := ParseConvention("llama"); err == nil {
		t.Error("an unknown convention was taken")
	}
}

func TestExportRefuses(t *testing.T) {
	atZero := contrast()
	atZero.Layers = []int{0, 4}
	ignored := steeringFile(t, contrast(), Add)
	ignored.Model.Architecture = "plamo2"
	for name, test := range map[string]struct {
		file     *File
		strength float64
		want     string
	}{
		"projection":   {steeringFile(t, contrast(), Project), 1, "would add"},
		"layer 0":      {steeringFile(t, atZero, Add), 1, "layer 0"},
		"architecture": {ignored, 1, "plamo2"},
		"strength 0":   {steeringFile(t, contrast(), Add), 0, "strength of 0"},
		"overflow":     {steeringFile(t, contrast(), Add), 1e38, "overflows"},
	} {
		var out bytes.Buffer
		if err := test.file.Export(&out, test.strength); err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
			t.Errorf("%s: the error is %v; it should say %q", name, err, test.want)
		}
		if strings.HasPrefix(name, "strength") || name == "overflow" {
			continue
		}
		if bytes.Contains(encode(t, test.file), []byte("\x00direction.")) {
			t.Errorf("%s: llama.cpp would read the steering file as a control vector", name)
		}
	}
}

func FuzzReadGGUF(f *testing.F) {
	for _, name := range []string{"additive", "projection", "exported", "repeng", "cvector-generator"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".gguf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := readGGUF(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for _, tensor := range g.tensors {
			_, _ = g.vector(tensor)
		}
		file, err := decodeFile(g)
		if err != nil {
			_, _ = importVectors(g, CvectorGenerator)
			return
		}
		// What is read can be written, and reads the same again.
		again, err := decode(encode(t, file))
		if err != nil || !equal(file, again) {
			t.Errorf("%+v\nbecomes\n%+v, %v", file, again, err)
		}
	})
}

func TestInspect(t *testing.T) {
	d := steeringFile(t, contrast(), Project).Describe()
	if d.Layers[0].Norm != 5 || d.Layers[1].Weight != 0.5 || d.Layers[0].Explained != nil || d.Seed != nil {
		t.Errorf("%+v", d)
	}
	if !strings.HasPrefix(d.ControlVector, "no: ") {
		t.Errorf("a projection is a control vector: %s", d.ControlVector)
	}
	gcd := contrast()
	gcd.Method, gcd.Layers = GCD, []int{4, 9}
	files := []*File{steeringFile(t, contrast(), Add), steeringFile(t, gcd, Project)}
	files[0].Layers[1].Weight, files[0].Layers[1].Vector = -0.5, []float32{0, 0.5, 0} // a negative weight turns the vector round
	tables, err := FileCosines(files)
	if err != nil || len(tables) != 1 || tables[0].Layer != 4 {
		t.Fatalf("%+v, %v", tables, err)
	}
	// Layer 4: the contrast file's direction is (0, -1, 0), GCD's (3, 0, 4).
	if c := tables[0].Cosines; c[0][0] != 1 || c[0][1] != 0 || c[1][0] != 0 {
		t.Errorf("cosines %v", c)
	}
}
