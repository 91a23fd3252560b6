package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
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
			for _, name := range dialectFlags {
				if c.IsSet(name) {
					return usageError("--%s is of the method dialect; leave it out", name)
				}
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

// fitter fits directions with one model.
type fitter struct {
	options   *steerFitOptions
	model     *openedModel
	task      *bbqTask
	chosen    map[string]bool
	layers    []int
	interrupt *interruption

	session   *bindings.Session
	gradients *bindings.Gradients
	progress  progress
	steps     int
}

func (f *fitter) wants(methods ...string) bool {
	return slices.ContainsFunc(methods, func(m string) bool { return f.chosen[m] })
}

func (f *fitter) wantsActivations() bool {
	return f.wants("contrast", "stratified", "projected", "pca")
}

func (f *fitter) wantsGradients() bool {
	return f.wants("gcd", "gcd-stereotype", "gcd-anti", "gcd-nothing", "random-orthogonal")
}

// passes is how often an item goes through the model.
func (f *fitter) passes() int {
	n := 0
	for _, wanted := range []bool{f.wants("stratified"), f.wantsActivations(), f.wantsGradients()} {
		if wanted {
			n++
		}
	}
	return n
}

func (f *fitter) open() error {
	var err error
	if f.wantsActivations() {
		if f.session, err = f.model.scoringSession(); err != nil {
			return err
		}
	}
	if f.wantsGradients() {
		if f.gradients, err = f.model.NewGradients(bindings.GradientOptions{}); err != nil {
			return fmt.Errorf("%s: %w", f.model.path, err)
		}
	}
	return nil
}

func (f *fitter) close() {
	if f.session != nil {
		f.session.Close()
	}
	if f.gradients != nil {
		f.gradients.Close()
	}
}

// fitItem is an item that can be fitted on.
type fitItem struct {
	request               bindings.Request
	biased, anti, unknown int // the options' places
}

// sample picks the options' rows by role; at returns the rows of an option of the item.
func (i *fitItem) sample(at func(option int) []float32) steer.Sample {
	return steer.Sample{Biased: at(i.biased), Anti: at(i.anti), Unknown: at(i.unknown)}
}

// items tokenizes the items; those that cannot be are counted by reason.
func (f *fitter) items(items []bbq.Item) ([]fitItem, map[string]int, error) {
	tokens, err := f.model.tokenizer(min(f.model.Info().Context, 4096), f.task.chat)
	if err != nil {
		return nil, nil, err
	}
	var usable []fitItem
	leftOut := map[string]int{}
	for i := range items {
		q, err := f.task.questionOf(0, &items[i])
		if err != nil {
			return nil, nil, err
		}
		request, err := tokens.request(&q)
		if err != nil {
			leftOut[err.Error()]++
			continue
		}
		usable = append(usable, fitItem{request, items[i].Find(bbq.Biased), items[i].Find(bbq.Anti), items[i].Find(bbq.Unknown)})
	}
	return usable, leftOut, nil
}

// inChunks calls do with a few items at a time, so that memory does not grow with them.
func (f *fitter) inChunks(items []fitItem, do func(chunk []fitItem, requests []bindings.Request) error) error {
	for chunk := range slices.Chunk(items, 32) {
		if f.interrupt.seen() {
			return errInterrupted
		}
		requests := make([]bindings.Request, len(chunk))
		for i, item := range chunk {
			requests[i] = item.request
		}
		if err := do(chunk, requests); err != nil {
			return err
		}
		f.steps += len(chunk)
		f.progress.at(f.steps)
	}
	return nil
}

// fit fits the chosen methods on the items, writes their files into the folder and returns their paths.
func (f *fitter) fit(ctx context.Context, items []bbq.Item, folder string) ([]string, error) {
	usable, leftOut, err := f.items(items)
	if err != nil {
		return nil, err
	}
	// An item that both passes leave out is one item in either's files.
	ofActivations, ofGradients := maps.Clone(leftOut), maps.Clone(leftOut)
	var activations *steer.Activations
	if f.wantsActivations() {
		if activations, err = f.fitActivations(ctx, usable, ofActivations); err != nil {
			return nil, err
		}
	}
	var gradients *steer.Gradients
	if f.wantsGradients() {
		if gradients, err = f.fitGradients(ctx, usable, ofGradients); err != nil {
			return nil, err
		}
	}
	norms := map[steer.Method][]float64{}
	var paths []string
	for _, m := range fitMethods {
		if !f.chosen[m.name] {
			continue
		}
		directions, err := f.directions(m.method, m.constraint, activations, gradients)
		if err != nil {
			return nil, err
		}
		normOf := map[steer.Method]steer.Method{steer.Random: steer.Contrast, steer.RandomOrthogonal: steer.GCD}[m.method]
		if norms[normOf] != nil {
			if directions, err = directions.WithNorms(norms[normOf]); err != nil {
				return nil, err
			}
		} else {
			normOf = ""
		}
		if m.constraint == "" || m.constraint == steer.ConstrainUnknown {
			norms[m.method] = directions.Norms()
		}
		file, err := steer.NewFile(directions, steer.Operator(f.options.operator), f.options.strength, nil)
		if err != nil {
			return nil, err
		}
		file.NormOf = string(normOf)
		file.ReadOut = f.readOut(m.method)
		file.Model = f.model.facts()
		switch m.method {
		case steer.Contrast, steer.Stratified, steer.Projected, steer.PCA:
			file.Fit = f.account(items, activations.Items(), ofActivations)
		case steer.GCD, steer.RandomOrthogonal:
			file.Fit = f.account(items, gradients.Items(), ofGradients)
		default:
			file.Fit = f.account(items, 0, leftOut)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		path := filepath.Join(folder, m.name+".gguf")
		if err := file.WriteFile(path); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (f *fitter) directions(method steer.Method, constraint steer.Constraint, a *steer.Activations, g *steer.Gradients) (*steer.Directions, error) {
	switch method {
	case steer.Contrast:
		return a.Contrast()
	case steer.Stratified:
		return a.Stratified()
	case steer.Projected:
		return a.Projected()
	case steer.PCA:
		return a.PCA()
	case steer.GCD:
		return g.GCD(constraint)
	case steer.RandomOrthogonal:
		return g.RandomOrthogonal(f.options.fitSeed)
	}
	return steer.NewRandom(f.options.fitSeed, f.layers, f.model.Info().Width)
}

func (f *fitter) readOut(method steer.Method) string {
	switch method {
	case steer.Contrast, steer.Stratified, steer.Projected, steer.PCA:
		return "residual stream at the last option token"
	case steer.GCD, steer.RandomOrthogonal:
		score := map[string]string{"logit": "mean raw logit", "logprob": "mean log-probability"}[f.options.grad]
		where := map[string]string{"answer": "at the last prompt token", "all": "summed over positions"}[f.options.at]
		return "gradient of an option's " + score + " " + where
	}
	return "nothing"
}

// account is what a file says of its fit: how many of the items were used, and why others were not.
func (f *fitter) account(items []bbq.Item, used int, leftOut map[string]int) steer.Fit {
	fit := steer.Fit{Seed: f.options.splitSeed, Items: used, LeftOut: leftOut}
	for _, file := range f.task.data.Files {
		fit.Data = append(fit.Data, file.Name)
		fit.DataSHA256 = append(fit.DataSHA256, file.SHA256)
	}
	for _, item := range items {
		fit.Categories = append(fit.Categories, item.Category)
		fit.Templates = append(fit.Templates, item.Template)
	}
	slices.Sort(fit.Categories)
	slices.Sort(fit.Templates)
	fit.Categories, fit.Templates = slices.Compact(fit.Categories), slices.Compact(fit.Templates)
	return fit
}

func (f *fitter) fitActivations(ctx context.Context, items []fitItem, leftOut map[string]int) (*steer.Activations, error) {
	options := steer.ActivationOptions{PCA: f.wants("pca")}
	strata := make([]int, len(items))
	if f.wants("stratified") {
		var err error
		if strata, err = f.strata(ctx, items); err != nil {
			return nil, err
		}
		options.Strata = f.options.strata
	}
	width := f.model.Info().Width
	activations, err := steer.NewActivations(f.layers, width, options)
	if err != nil {
		return nil, err
	}
	done := 0
	err = f.inChunks(items, func(chunk []fitItem, requests []bindings.Request) error {
		var ends []bindings.Sequence
		for _, r := range requests {
			ends = append(ends, r.Ends()...)
		}
		residuals, errs, err := f.session.Residuals(ctx, ends, nil, f.layers)
		if err != nil {
			return err
		}
		for i, item := range chunk {
			stratum := strata[done]
			done++
			if err := cmp.Or(errs[3*i : 3*i+3]...); err != nil {
				leftOut[err.Error()]++
				continue
			}
			if err := activations.Add(item.sample(func(option int) []float32 { return residuals.Layers(3*i + option) }), stratum); err != nil {
				return err
			}
		}
		return nil
	})
	return activations, err
}

// strata puts the items into quantiles of the unsteered model's margin between its best and its second-best option.
func (f *fitter) strata(ctx context.Context, items []fitItem) ([]int, error) {
	margins := make([]float64, 0, len(items))
	err := f.inChunks(items, func(_ []fitItem, requests []bindings.Request) error {
		scores, _, err := f.session.Score(ctx, requests, nil)
		if err != nil {
			return err
		}
		for _, s := range scores {
			margin := 0.0 // of an item that has no scores, and will be left out
			if s.Err == nil {
				var means []float64
				for _, p := range s.LogProbs {
					sum := 0.0
					for _, x := range p {
						sum += float64(x)
					}
					means = append(means, sum/float64(len(p)))
				}
				margin = steer.TopTwoMargin(means)
			}
			margins = append(margins, margin)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return steer.MarginStrata(margins, f.options.strata)
}

func (f *fitter) fitGradients(ctx context.Context, items []fitItem, leftOut map[string]int) (*steer.Gradients, error) {
	gradients, err := steer.NewGradients(f.layers, f.model.Info().Width)
	if err != nil {
		return nil, err
	}
	job := bindings.GradientJob{Layers: f.layers, LogProbability: f.options.grad == "logprob", AllPositions: f.options.at == "all"}
	err = f.inChunks(items, func(chunk []fitItem, requests []bindings.Request) error {
		rows, errs, err := f.gradients.Run(ctx, requests, job)
		if err != nil {
			return err
		}
		for i, item := range chunk {
			if errs[i] != nil {
				leftOut[errs[i].Error()]++
				continue
			}
			if err := gradients.Add(item.sample(func(option int) []float32 { return rows.Layers(3*i + option) })); err != nil {
				return err
			}
		}
		return nil
	})
	return gradients, err
}
