package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
	"plumb/bindings"
	"plumb/steer"
)

func steerCommand() *cli.Command {
	return &cli.Command{
		Name:  "steer",
		Usage: "find directions, look at them, exchange them",
		Subcommands: []*cli.Command{
			steerTraceCommand(), steerFitCommand(), steerSweepCommand(), steerInspectCommand(), steerExportCommand(), steerImportCommand(),
		},
	}
}

type steerFitOptions struct {
	modelOptions
	bbqOptions
	methods    cli.StringSlice
	layers     string
	operator   string
	strength   float64
	splitSeed  uint64
	splitSizes string
	fitSeed    uint64
	strata     int
	grad       string
	at         string
	pooled     bool
	trace      string
	lexicon    string
	embed      string
	residual   bool
	out        string
}

func (o *steerFitOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.bbqOptions.flags()...)
	return append(flags,
		&cli.StringSliceFlag{Name: "method", Usage: "fit by `METHOD`; several with commas, or all", Value: cli.NewStringSlice("gcd"), Destination: &o.methods},
		&cli.StringFlag{Name: "layer", Usage: "fit at layer `L`, at several with commas, or at all (default: round(0.64 · layers))", Destination: &o.layers},
		&cli.StringFlag{Name: "operator", Usage: "the files' `OP`: project, or add", Value: string(steer.Project), Destination: &o.operator},
		&cli.Float64Flag{Name: "strength", Usage: "the files' default strength `A`", Value: 1, Destination: &o.strength},
		&cli.Uint64Flag{Name: "split-seed", Usage: "split the templates into halves (dialect: deal the pairs out) with seed `S`", Value: 1, Destination: &o.splitSeed},
		splitSizesFlag(&o.splitSizes),
		&cli.Uint64Flag{Name: "random-seed", Usage: "draw random directions with seed `S`", Value: 1, Destination: &o.fitSeed},
		&cli.IntFlag{Name: "strata", Usage: "stratified: `K` quantiles of the baseline's margin", Value: 4, Destination: &o.strata},
		&cli.StringFlag{Name: "grad", Usage: "differentiate an option's `SCORE`: logit, the mean raw logit of its tokens, or logprob", Value: "logit", Destination: &o.grad},
		&cli.StringFlag{Name: "at", Usage: "take gradients at `WHERE`: answer, the last prompt token, or all, their sum over positions", Value: "answer", Destination: &o.at},
		&cli.BoolFlag{Name: "pooled", Usage: "one direction for all categories, instead of one for each", Destination: &o.pooled},
		&cli.StringFlag{Name: "trace", Usage: "dialect: steer the layers that the trace in `DIR` chose, by its weights", Destination: &o.trace},
		&cli.StringFlag{Name: "lexicon", Usage: "dialect: find the markers of `FILE`, as plumb steer trace did", Destination: &o.lexicon},
		&cli.BoolFlag{Name: "residual-norms", Usage: "dialect: give each layer's direction the mean norm of its residual stream instead of 1, so that strengths are in units of that", Destination: &o.residual},
		&cli.StringFlag{Name: "embed-model", Usage: "dialect: cut pairs by the token embeddings of `FILE`, as plumb steer trace did", Destination: &o.embed},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write METHOD.gguf into `DIR`, in a folder a category if there are several (default: steer- and the model's name)", Destination: &o.out})
}

// The methods by the names that the program gives them, in the order in which they are fitted and shown.
var fitMethods = []struct {
	name       string
	method     steer.Method
	constraint steer.Constraint
	help       string
}{
	{"contrast", steer.Contrast, "", "mean of h_S − h_A at the last option token (GCD appendix H; the paper's naive operator)"},
	{"stratified", steer.Stratified, "", "the contrast within quantiles of the baseline's margin, averaged (GCD section 5)"},
	{"projected", steer.Projected, "", "the contrast without its part along the non-committal axis (GCD section 4)"},
	{"pca", steer.PCA, "", "first principal component of h_S − h_A, signed to agree with the contrast"},
	{"gcd", steer.GCD, steer.ConstrainUnknown, "(I − ĝ_U ĝ_Uᵀ)(ḡ_A − ḡ_S), of option gradients (GCD eqs. 7 to 9)"},
	{"gcd-stereotype", steer.GCD, steer.ConstrainStereotype, "ablation: ḡ_S constrained instead (GCD appendix G)"},
	{"gcd-anti", steer.GCD, steer.ConstrainAnti, "ablation: ḡ_A constrained instead"},
	{"gcd-nothing", steer.GCD, steer.ConstrainNothing, "ablation: no constraint"},
	{"random", steer.Random, "", "placebo: a seeded Gaussian direction"},
	{"random-orthogonal", steer.RandomOrthogonal, "", "placebo: the same in the orthogonal complement of ḡ_U (GCD appendix G)"},
}

func steerFitCommand() *cli.Command {
	var options steerFitOptions
	var methods strings.Builder
	for _, m := range fitMethods {
		fmt.Fprintf(&methods, "   %-18s %s\n", m.name, m.help)
	}
	return &cli.Command{
		Name:  "fit",
		Usage: "find directions on one half of BBQ's question templates",
		Description: `Splits the items by question template into a fit half and a held-out half, fits directions on the first, and writes a
steering file for each method. plumb audit bbq --steer FILE audits the other half. S, A and U are an item's biased,
anti and unknown option; both conditions are used.

` + methods.String() + `
A direction is a vector a layer. project removes the residual stream's part along it, at every position, and knows
neither sign nor norm; add adds it, and a positive strength moves from S towards A. Random directions get the norms of
the contrast or, if they are orthogonal ones, of gcd, where these are fitted with them.

The method dialect is fitted by itself, on pairs of sentences (see plumb audit dialect --help for --data): the mean of
h(AAE) − h(SAE) at the last token of a context, at the layers of --trace or --layer, of norm 1, to be added. A residual
stream can be hundreds long, and a strength of 1 then does little: --residual-norms makes strengths multiples of its norm.

EXIT STATUS
   0  the files are written
   1  a fit failed
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if slices.Equal(options.methods.Value(), []string{dialectMethod}) {
				if err := checkDialectFlags(c, &options); err != nil {
					return err
				}
				return runSteerDialect(c.Context, &options, c.App.Writer, c.App.ErrWriter)
			}
			if err := refuseFlags(c, dialectFlags, "the method dialect"); err != nil {
				return err
			}
			return runSteerFit(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// chosen are the methods asked for, in their own order.
func (o *steerFitOptions) chosen() (map[string]bool, error) {
	chosen := map[string]bool{}
	for _, name := range strings.Split(strings.Join(o.methods.Value(), ","), ",") {
		known := false
		for _, m := range fitMethods {
			if name == "all" || name == m.name {
				chosen[m.name] = true
				known = true
			}
		}
		if !known && name == dialectMethod {
			return nil, usageError("--method %s is fitted by itself, on pairs of sentences; leave out the other methods", name)
		}
		if !known {
			return nil, usageError("--method %q: see plumb steer fit --help for the methods", name)
		}
	}
	return chosen, nil
}

func (o *steerFitOptions) check() error {
	if err := o.bbqOptions.check(); err != nil {
		return err
	}
	switch {
	case o.grad != "logit" && o.grad != "logprob":
		return usageError("--grad is logit or logprob, not %q", o.grad)
	case o.at != "answer" && o.at != "all":
		return usageError("--at is answer or all, not %q", o.at)
	case o.strata < 1:
		return usageError("--strata %d: at least 1", o.strata)
	case math.IsNaN(o.strength) || math.IsInf(o.strength, 0):
		return usageError("--strength: a strength is a number")
	}
	if _, err := steer.ParseOperator(o.operator); err != nil {
		return usageError("--operator: %s", err)
	}
	return nil
}

// layersOf reads --layer for a model.
func (o *steerFitOptions) layersOf(n int) ([]int, error) {
	if o.layers == "" {
		return []int{paperLayer(n)}, nil
	}
	if o.layers == "all" {
		layers := make([]int, n)
		for i := range layers {
			layers[i] = i
		}
		return layers, nil
	}
	layers, err := parseLayers(o.layers)
	if err != nil {
		return nil, err
	}
	if last := layers[len(layers)-1]; last >= n {
		return nil, usageError("there is no layer %d: the model has layers 0 to %d", last, n-1)
	}
	return layers, nil
}

func runSteerFit(ctx context.Context, options *steerFitOptions, out, notes io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	chosen, err := options.chosen()
	if err != nil {
		return err
	}
	task, err := options.bbqOptions.read(notes)
	if err != nil {
		return err
	}
	model, err := options.open(bindings.ModelOptions{PlainWeights: true})
	if err != nil {
		return err
	}
	defer model.Close()
	if !model.selfTest.HooksFire {
		return fmt.Errorf("%s cannot be steered: %s", model.path, model.selfTest.Reason)
	}
	layers, err := options.layersOf(model.Info().Layers)
	if err != nil {
		return err
	}
	fit, _ := bbq.SplitTemplates(task.items, options.splitSeed)
	groups := map[string][]bbq.Item{}
	for _, item := range fit {
		if options.pooled {
			groups[""] = append(groups[""], item)
		} else {
			groups[item.Category] = append(groups[item.Category], item)
		}
	}
	dir := options.out
	if dir == "" {
		dir = "steer-" + strings.TrimSuffix(filepath.Base(options.model), ".gguf")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := watchInterrupts(func() {})
	defer interrupt.stop()

	f := fitter{options: options, model: model, task: task, chosen: chosen, layers: layers, interrupt: interrupt}
	if err := f.open(); err != nil {
		return err
	}
	defer f.close()
	f.progress = newProgress(notes, len(fit)*f.passes(), 0)
	var files []string
	for _, category := range slices.Sorted(maps.Keys(groups)) {
		folder := dir
		if len(groups) > 1 {
			folder = filepath.Join(dir, category)
		}
		written, err := f.fit(ctx, groups[category], folder)
		if err != nil {
			f.progress.end()
			return cmp.Or(wrapCategory(category, err), err)
		}
		files = append(files, written...)
	}
	f.progress.end()
	return printFitted(files, out)
}

func wrapCategory(category string, err error) error {
	if category == "" || errors.Is(err, errInterrupted) {
		return err
	}
	return fmt.Errorf("%s: %w", category, err)
}
