package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumb/steer"
)

// steeringFile writes a steering file with directions for the layers.
func steeringFile(t *testing.T, operator steer.Operator, layers ...int) string {
	t.Helper()
	d := &steer.Directions{Method: steer.GCD, Constraint: steer.ConstrainUnknown, Layers: layers}
	for range layers {
		d.Vectors = append(d.Vectors, []float64{0, 3, 4})
	}
	f, err := steer.NewFile(d, operator, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Model = steer.Model{Name: "tiny.gguf", Architecture: "llama", NEmbd: 3, NLayer: 12, SHA256: strings.Repeat("ab", 32)}
	f.Fit = steer.Fit{Items: 1234, Categories: []string{"Age"}, Templates: []string{"Age/1"}, Seed: 1, LeftOut: map[string]int{"too long": 2}}
	path := filepath.Join(t.TempDir(), string(operator)+".gguf")
	if err := f.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSteerInspect(t *testing.T) {
	add, project := steeringFile(t, steer.Add, 3, 5), steeringFile(t, steer.Project, 5, 8)
	out, _, err := runCommand(steerInspectCommand(), add, project)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gcd, constraint: unknown", "project, h − s·⟨h, u⟩u, strength 2", "1,234 items of Age, from 1 template (the fit half, split by seed 1)",
		"too long: 2", "tiny.gguf, llama, 12 layers, width 3", "control vector yes", "control vector no: it holds projection axes",
		"Layer Norm Weight 3 5 1 5 5 1", "5 1 add.gguf 1.000 1.000 5 2 project.gguf 1.000 1.000",
	} {
		if !strings.Contains(tableWords(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out, _, err = runCommand(steerInspectCommand(), add, project, "--json")
	var parsed struct {
		Files []struct {
			File   string
			Method string
			Layers []struct{ Norm float64 }
		}
		Cosines []steer.LayerCosines
	}
	if err := cmpError(err, json.Unmarshal([]byte(out), &parsed)); err != nil || len(parsed.Files) != 2 || parsed.Files[1].Layers[0].Norm != 5 || len(parsed.Cosines) != 1 {
		t.Errorf("%v, %+v", err, parsed)
	}
}

func TestSteerImportAndExport(t *testing.T) {
	dir := t.TempDir()
	exported, imported := filepath.Join(dir, "vector.gguf"), filepath.Join(dir, "steering.gguf")
	_, notes, err := runCommand(steerExportCommand(), steeringFile(t, steer.Add, 3, 5), "--alpha", "-0.5", "--out", exported)
	if err != nil || !strings.Contains(notes, "--control-vector "+exported) || !strings.Contains(notes, "strength -0.5") {
		t.Fatalf("%v, %s", err, notes)
	}
	if _, notes, err = runCommand(steerImportCommand(), "--layers", "repeng", exported, "-o", imported); err != nil || !strings.Contains(notes, "layers 3 to 5, 3 wide") {
		t.Fatalf("%v, %s", err, notes)
	}
	f, err := steer.ReadFile(imported)
	if err != nil || f.Strength != 1 || f.Layers[0].Vector[1] != -1.5 || f.Layers[0].Vector[2] != -2 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, _, err = runCommand(steerImportCommand(), "--layers", "cvector-generator", exported, "-o", imported); err != nil {
		t.Fatal(err)
	}
	if f, err = steer.ReadFile(imported); err != nil || f.Layers[0].Layer != 2 || f.Layers[1].Layer != 4 {
		t.Errorf("%+v, %v", f, err)
	}
	// Without --alpha the file's own strength is taken.
	if _, _, err = runCommand(steerExportCommand(), steeringFile(t, steer.Add, 3), "--out", exported); err != nil {
		t.Fatal(err)
	}
	if f, err = steer.Import(exported, steer.Repeng); err != nil || f.Layers[0].Vector[1] != 6 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestSteerFilesRefuse(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.gguf")
	if err := os.WriteFile(text, []byte("no GGUF in here, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.gguf")
	for _, test := range []struct {
		run    func() error
		want   string
		status int
	}{
		{func() error { _, _, err := runCommand(steerInspectCommand()); return err }, "at least one", exitUsage},
		{func() error { _, _, err := runCommand(steerInspectCommand(), text); return err }, "text.gguf: this is not a GGUF file", exitFailed},
		{func() error { _, _, err := runCommand(steerImportCommand(), text, "-o", out); return err }, "--layers is needed", exitUsage},
		{func() error {
			_, _, err := runCommand(steerImportCommand(), text, "-o", out, "--layers", "mine")
			return err
		}, "--layers", exitUsage},
		{func() error {
			_, _, err := runCommand(steerImportCommand(), text, "-o", out, "--layers", "repeng")
			return err
		}, "not a GGUF file", exitFailed},
		{func() error { _, _, err := runCommand(steerExportCommand(), text); return err }, "--out", exitUsage},
		{func() error {
			_, _, err := runCommand(steerExportCommand(), steeringFile(t, steer.Project, 3), "-o", out)
			return err
		}, "project.gguf: this direction cannot be a control vector: it holds projection axes", exitFailed},
		{func() error {
			_, _, err := runCommand(steerExportCommand(), steeringFile(t, steer.Add, 0, 3), "-o", out)
			return err
		}, "layer 0", exitFailed},
	} {
		if err := test.run(); err == nil || !strings.Contains(err.Error(), test.want) || ExitStatus(err) != test.status {
			t.Errorf("the error is %v (status %d); it should say %q", err, ExitStatus(err), test.want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused file was written all the same")
	}
}
