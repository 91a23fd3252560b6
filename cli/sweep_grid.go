package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/protocol"
	"plumb/audit/record"
	"plumb/bindings"
	"plumb/internal/jsonfile"
	"plumb/steer"
)

// gridOptions declare a grid of interventions in flags.
type gridOptions struct {
	file      string
	steer     cli.StringSlice
	layers    string
	strengths string
	operators string
	signs     string
}

func (o *gridOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "steer", Usage: "try the directions of the steering `FILE`; repeatable", Destination: &o.steer},
		&cli.StringFlag{Name: "layer", Usage: "at layer `L`, or at each of several with commas (default: each of the files')", Destination: &o.layers},
		&cli.StringFlag{Name: "alpha", Usage: "with strength `A`, or with each of several with commas", Value: "1,2,4,8", Destination: &o.strengths},
		&cli.StringFlag{Name: "operator", Usage: "by `OP`, project or add, or by both with a comma", Value: string(steer.Project), Destination: &o.operators},
		&cli.StringFlag{Name: "sign", Usage: "add with `SIGN` + or −, or with both with a comma; projection knows no sign", Value: "+", Destination: &o.signs},
		&cli.StringFlag{Name: "grid", Usage: `take all of this from the JSON ` + "`FILE`" + ` instead: {"steer": ["a.gguf"], "layers": [18], "strengths": [4, 8], "operators": ["project"], "signs": ["+"]}`, Destination: &o.file},
	}
}

// grid is what was declared.
type grid struct {
	Steer     []string         `json:"steer"` // in a grid file, relative to its folder
	Layers    []int            `json:"layers"`
	Strengths []float64        `json:"strengths"`
	Operators []steer.Operator `json:"operators"`
	Signs     []string         `json:"signs"`
}

// read reads the declaration and checks what can be checked without a model.
func (o *gridOptions) read(c *cli.Context) (*grid, error) {
	if o.file != "" {
		for _, name := range []string{"steer", "layer", "alpha", "operator", "sign"} {
			if c.IsSet(name) {
				return nil, usageError("--grid and --%s exclude each other", name)
			}
		}
		return readGrid(o.file)
	}
	g := &grid{Steer: o.steer.Value()}
	var err error
	if g.Layers, err = parseLayers(o.layers); err != nil {
		return nil, err
	}
	for _, text := range split(o.strengths) {
		strength, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, usageError("--alpha %q: a strength is a number", text)
		}
		g.Strengths = append(g.Strengths, strength)
	}
	for _, text := range split(o.operators) {
		g.Operators = append(g.Operators, steer.Operator(text))
	}
	g.Signs = split(o.signs)
	return g, g.check(usageError)
}

func split(text string) []string {
	var parts []string
	for _, part := range strings.Split(text, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

// readGrid reads a grid file and checks what can be checked without a model.
func readGrid(path string) (*grid, error) {
	g := &grid{}
	if err := g.readFile(path); err != nil {
		return nil, err
	}
	return g, g.check(func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	})
}

func (g *grid) readFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := jsonfile.Decode(content, g); err != nil {
		return fmt.Errorf("%s: not a grid: %w; plumb steer sweep --help shows one", path, err)
	}
	var nulls struct { // which are read as 0
		Strengths []*float64
		Layers    []*int
	}
	if err := json.Unmarshal(content, &nulls); err == nil && (slices.Contains(nulls.Strengths, nil) || slices.Contains(nulls.Layers, nil)) {
		return fmt.Errorf("%s: not a grid: a strength or a layer is null", path)
	}
	for i, name := range g.Steer {
		if !filepath.IsAbs(name) {
			g.Steer[i] = filepath.Join(filepath.Dir(path), name)
		}
	}
	if len(g.Strengths) == 0 {
		return fmt.Errorf("%s: strengths is missing", path)
	}
	if len(g.Operators) == 0 {
		g.Operators = []steer.Operator{steer.Project}
	}
	if len(g.Signs) == 0 {
		g.Signs = []string{"+"}
	}
	slices.Sort(g.Layers)
	g.Layers = slices.Compact(g.Layers)
	return nil
}

func (g *grid) check(fail func(string, ...any) error) error {
	if len(g.Steer) == 0 {
		return fail("which directions? name a steering file of plumb steer fit (--steer)")
	}
	for i, strength := range g.Strengths {
		g.Strengths[i] = strength + 0 // −0 is 0
		if math.IsNaN(strength) || math.IsInf(float64(float32(strength)), 0) {
			return fail("the strength %v is not a finite number", strength)
		}
		if strength < 0 {
			return fail("the strength %v is negative; a grid turns an addition round by sign −", strength)
		}
	}
	slices.Sort(g.Strengths)
	g.Strengths = slices.Compact(g.Strengths)
	for _, operator := range g.Operators {
		if _, err := steer.ParseOperator(string(operator)); err != nil {
			return fail("%s", err)
		}
	}
	for i, sign := range g.Signs {
		switch sign {
		case "+":
		case "-", "−":
			g.Signs[i] = "-"
		default:
			return fail("the sign %q is neither + nor −", sign)
		}
	}
	return nil
}

// configuration is one intervention of a grid.
type configuration struct {
	recorded record.Steering
	actions  []bindings.Steering
	file     *fittedFile
}

// configurations are the grid's, ordered by layer, then by file, operator, strength and sign. Every file must have every
// layer.
func (g *grid) configurations(model *openedModel, half string, notes io.Writer) ([]configuration, error) {
	var files []*fittedFile
	layers := g.Layers
	for _, path := range g.Steer {
		file, err := readSteering(path, model, notes)
		if err != nil {
			return nil, err
		}
		for _, other := range files {
			if filepath.Base(other.path) == filepath.Base(path) {
				return nil, fmt.Errorf("%s and %s have the same name; a grid tells its files apart by their names", other.path, path)
			}
		}
		files = append(files, file)
		if len(g.Layers) == 0 {
			for _, l := range file.Layers {
				layers = append(layers, l.Layer)
			}
		}
	}
	slices.Sort(layers)
	layers = slices.Compact(layers)
	if n := model.Info().Layers; layers[len(layers)-1] >= n {
		return nil, fmt.Errorf("there is no layer %d: the model has layers 0 to %d", layers[len(layers)-1], n-1)
	}
	var list []configuration
	for _, layer := range layers {
		for _, file := range files {
			for _, operator := range g.Operators {
				signs := g.Signs
				if operator == steer.Project {
					signs = []string{"+"}
				}
				for _, strength := range g.Strengths {
					for _, sign := range signs {
						signed := strength
						if sign == "-" {
							signed = -strength
						}
						at, err := file.at(operator, signed, []int{layer}, half)
						if err != nil {
							return nil, err
						}
						list = append(list, configuration{*at.recorded, at.actions, file})
					}
				}
			}
		}
	}
	return list, nil
}

// appendNew appends those configurations that the list does not have.
func appendNew(list []configuration, more ...configuration) []configuration {
	for _, c := range more {
		same := func(other configuration) bool { return protocol.SameSteering(other.recorded, c.recorded) }
		if !slices.ContainsFunc(list, same) {
			list = append(list, c)
		}
	}
	return list
}

// nearest is the place of the configuration that is most like the paper's own: the contrast (or else the first file)
// projected out at round(0.64 · layers) with strength 8 (GCD, section 6.1 and appendix H).
func nearest(list []configuration, layers int) int {
	distance := func(c *configuration) [4]float64 {
		d := [4]float64{}
		if c.file.Method != steer.Contrast {
			d[0] = 1
		}
		if c.recorded.Operator != string(steer.Project) {
			d[1] = 1
		}
		d[2] = math.Abs(float64(c.recorded.Layers[0] - min(paperLayer(layers), layers-1)))
		d[3] = math.Abs(c.recorded.Strength - 8)
		return d
	}
	best := 0
	for i := range list {
		if a, b := distance(&list[i]), distance(&list[best]); slices.Compare(a[:], b[:]) < 0 {
			best = i
		}
	}
	return best
}

// fitTemplates are the templates that all of the files were fitted on; nil if none of them says.
func fitTemplates(list []configuration) ([]string, error) {
	var templates []string
	var of *fittedFile
	for _, c := range list {
		if len(c.file.Fit.Templates) == 0 || c.file == of {
			continue
		}
		if of != nil && !slices.Equal(templates, c.file.Fit.Templates) {
			return nil, fmt.Errorf("%s and %s were fitted on different templates, so there is no half that is held out from both; fit them together", of.path, c.file.path)
		}
		templates, of = c.file.Fit.Templates, cmp.Or(of, c.file)
	}
	return templates, nil
}
