package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
	"plumb/audit/record"
	"plumb/bindings"
	"plumb/steer"
)

// steerOptions say which intervention a model is asked under.
type steerOptions struct {
	file     string
	alpha    string
	layers   string
	operator string
	half     string
}

func (o *steerOptions) flags() []cli.Flag {
	return append(o.actionFlags(),
		&cli.StringFlag{Name: "half", Usage: "audit the `HALF` of the templates that is held-out or fit, or all", Value: heldOut, Destination: &o.half})
}

// actionFlags are those that say what is done to the model.
func (o *steerOptions) actionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "steer", Usage: "steer the model by the steering `FILE`", Destination: &o.file},
		&cli.StringFlag{Name: "alpha", Usage: "steer with strength `A` (default: the file's)", Destination: &o.alpha},
		&cli.StringFlag{Name: "layer", Usage: "steer at `L` alone, a layer of the file's or several with commas (default: all of the file's)", Destination: &o.layers},
		&cli.StringFlag{Name: "operator", Usage: "`OP` is project or add (default: the file's)", Destination: &o.operator},
	}
}

// The values of --half.
const (
	heldOut = "held-out"
	fitHalf = "fit"
	allOf   = "all"
)

func (o *steerOptions) check() error {
	if o.file == "" && (o.alpha != "" || o.layers != "" || o.operator != "" || o.half != heldOut) {
		return usageError("--alpha, --layer, --operator and --half go with --steer")
	}
	if err := o.checkHalf(); err != nil {
		return err
	}
	if _, err := o.strength(0); err != nil {
		return err
	}
	if _, err := parseLayers(o.layers); err != nil {
		return err
	}
	if o.operator != "" {
		if _, err := steer.ParseOperator(o.operator); err != nil {
			return usageError("--operator: %s", err)
		}
	}
	return nil
}

func (o *steerOptions) checkHalf() error {
	if !slices.Contains([]string{heldOut, fitHalf, allOf}, o.half) {
		return usageError("--half is held-out, fit or all, not %q", o.half)
	}
	return nil
}

// strength is that of --alpha, or the file's.
func (o *steerOptions) strength(file float64) (float64, error) {
	if o.alpha == "" {
		return file, nil
	}
	a, err := strconv.ParseFloat(o.alpha, 64)
	if err != nil || math.IsNaN(a) || math.IsInf(float64(float32(a)), 0) {
		return 0, usageError("--alpha %q: a strength is a number, of at most %.2g", o.alpha, math.MaxFloat32)
	}
	return a, nil
}

// parseLayers reads layer numbers with commas between them; nil for the empty text. They come out ascending.
func parseLayers(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var layers []int
	for _, part := range strings.Split(text, ",") {
		layer, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || layer < 0 {
			return nil, usageError("--layer %q: layers are numbers from 0 on, with commas between them", text)
		}
		layers = append(layers, layer)
	}
	slices.Sort(layers)
	return slices.Compact(layers), nil
}

// intervention is a steering file at a strength, checked against a model.
type intervention struct {
	file     *steer.File
	actions  []bindings.Steering
	recorded *record.Steering
}

// load reads the steering file and checks it against the model; nil without --steer. Warnings go to notes.
func (o *steerOptions) load(model *openedModel, notes io.Writer) (*intervention, error) {
	if o.file == "" {
		return nil, nil
	}
	file, err := readSteering(o.file, model, notes)
	if err != nil {
		return nil, err
	}
	strength, err := o.strength(file.Strength)
	if err != nil {
		return nil, err
	}
	layers, err := parseLayers(o.layers)
	if err != nil {
		return nil, err
	}
	return file.at(steer.Operator(cmp.Or(o.operator, string(file.Operator))), strength, layers, o.half)
}

// fittedFile is a steering file that fits a model.
type fittedFile struct {
	*steer.File
	path   string
	sha256 string
}

// readSteering reads a steering file and checks it against the model. Warnings go to notes.
func readSteering(path string, model *openedModel, notes io.Writer) (*fittedFile, error) {
	if !model.selfTest.HooksFire {
		return nil, fmt.Errorf("%s cannot be steered: %s", model.path, model.selfTest.Reason)
	}
	file, err := steer.ReadFile(path)
	if err != nil {
		return nil, err
	}
	warnings, err := file.Check(model.facts())
	if err != nil {
		return nil, fmt.Errorf("%s does not fit %s: %w", path, filepath.Base(model.path), err)
	}
	for _, warning := range warnings {
		fmt.Fprintf(notes, "plumb: warning: %s: %s\n", path, warning)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(content)
	return &fittedFile{file, path, hex.EncodeToString(hash[:])}, nil
}

// at is the intervention by the file at these layers, all of the file's if there are none.
func (f *fittedFile) at(operator steer.Operator, strength float64, layers []int, half string) (*intervention, error) {
	actions, err := f.Actions(operator, strength, layers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	i := &intervention{file: f.File, recorded: &record.Steering{
		Name: filepath.Base(f.path), SHA256: f.sha256, Method: methodName(f.Method, f.Constraint),
		Operator: string(operator), Strength: strength, Norms: f.NormOf, Half: half,
	}}
	for _, a := range actions {
		op := bindings.ProjectOut
		if a.Operator == steer.Add {
			op = bindings.Add
		}
		i.actions = append(i.actions, bindings.Steering{Layer: a.Layer, Operator: op, Strength: float32(a.Strength), Vector: a.Vector})
		i.recorded.Layers = append(i.recorded.Layers, a.Layer)
	}
	return i, nil
}

// facts are what a steering file is held against.
func (m *openedModel) facts() steer.Model {
	info := m.Info()
	return steer.Model{Name: filepath.Base(m.path), SHA256: m.sha256, Architecture: info.Architecture, NEmbd: info.Width, NLayer: info.Layers}
}

// choose leaves of the items the half of the templates that is asked for, and says so.
func (i *intervention) choose(items []bbq.Item, half string, notes io.Writer) ([]bbq.Item, error) {
	if half == allOf {
		return items, nil
	}
	if fit := i.file.Fit; i.file.Method == steer.Dialect && len(fit.Data) > 0 {
		fmt.Fprintf(notes, "plumb: the steering file was fitted on pairs of sentences (%s of %s), not on items: all items are audited\n",
			strings.Join(fit.Categories, ", "), strings.Join(fit.Data, ", "))
		return items, nil
	}
	if len(i.file.Fit.Templates) == 0 {
		fmt.Fprintln(notes, "plumb: the steering file does not say what it was fitted on: all items are audited")
		return items, nil
	}
	return itemsOfHalf(items, i.file.Fit.Templates, half, notes)
}

// methodName is a method with the constraint that makes it an ablation: "gcd", "gcd-anti".
func methodName(method steer.Method, constraint steer.Constraint) string {
	if method == steer.GCD && constraint != steer.ConstrainUnknown {
		return string(method) + "-" + string(constraint)
	}
	return string(method)
}
