package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/bindings"
	"plumb/steer"
)

// dialectMethod is the method that is fitted on pairs of sentences, not on BBQ.
const dialectMethod = string(steer.Dialect)

// Flags that one method has no use for, or the others.
var (
	dialectFlags    = []string{"trace", "lexicon", "embed-model", "residual-norms", "split-sizes"}
	notDialectFlags = []string{"strata", "grad", "at", "pooled", "random-seed", "metadata", "prompt", "chat"}
)

// refuseFlags refuses those of the flags that are set; whose says which methods they are of.
func refuseFlags(c *cli.Context, names []string, whose string) error {
	for _, name := range names {
		if c.IsSet(name) {
			return usageError("--%s is of %s; leave it out", name, whose)
		}
	}
	return nil
}

// checkDialectFlags refuses flags of the other methods, which would change nothing.
func checkDialectFlags(c *cli.Context, options *steerFitOptions) error {
	if err := refuseFlags(c, notDialectFlags, "other methods than dialect"); err != nil {
		return err
	}
	if c.IsSet("operator") && options.operator != string(steer.Add) {
		return usageError("--operator %s: dialect directions are added; leave it out", options.operator)
	}
	return nil
}

// runSteerDialect fits dialect directions on the direction part of the pairs and writes the steering file of the layers that
// a trace chose, or of those given.
func runSteerDialect(ctx context.Context, options *steerFitOptions, out, notes io.Writer) error {
	if options.trace == "" && options.layers == "" {
		return usageError("--method dialect needs --trace DIR, of plumb steer trace, or --layer")
	}
	if options.trace != "" && options.layers != "" {
		return usageError("--trace chooses the layers and their weights; leave out --layer")
	}
	if options.sample < 0 {
		return usageError("--sample %d: a number of pairs is not negative", options.sample)
	}
	data := dialectData{data: options.data, lexicon: options.lexicon, embedModel: options.embed, strict: options.strict}
	deal, err := (&dealOptions{options.splitSeed, options.splitSizes}).deal()
	if err != nil {
		return err
	}
	task, err := data.read(notes)
	if err != nil {
		return err
	}
	m, err := options.openScoring(false)
	if err != nil {
		return err
	}
	defer m.close()
	model := m.model
	if !model.selfTest.HooksFire {
		return fmt.Errorf("%s cannot be steered: %s", model.path, model.selfTest.Reason)
	}
	if task.cutter, err = data.segmenter(m, options.threads); err != nil {
		return err
	}
	defer task.cutter.close()
	var layers []int
	var weights []float64
	if options.trace == "" {
		if layers, err = options.layersOf(model.Info().Layers); err != nil {
			return err
		}
		for range layers {
			weights = append(weights, 1/float64(len(layers)))
		}
	} else if layers, weights, err = tracedLayers(options.trace, model, task, deal); err != nil {
		return err
	}
	if err := task.take(ctx, dialect.SplitDirection, deal); err != nil {
		return err
	}
	task.draw(options.sample, options.seed)
	fit, leftOut, err := fitDialect(ctx, m, task, layers, notes)
	if err != nil {
		return err
	}
	directions, err := fit.Directions()
	if err != nil {
		return err
	}
	if options.residual {
		if directions, err = directions.WithNorms(fit.ResidualNorms()); err != nil {
			return err
		}
	}
	file, err := steer.NewFile(directions, steer.Add, options.strength, weights)
	if err != nil {
		return err
	}
	if options.residual {
		file.NormOf = record.NormsOfResiduals
	}
	file.ReadOut = "residual stream at the last context token"
	file.Model = model.facts()
	file.Fit = steer.Fit{Seed: deal.Seed, SplitSizes: deal.Sizes.String(), PartSHA256: task.direction, Items: fit.Pairs(), LeftOut: leftOut, Categories: []string{"dialect: " + dialect.SplitDirection}, Templates: []string{}}
	for _, f := range task.data.Files {
		file.Fit.Data = append(file.Fit.Data, f.Name)
		file.Fit.DataSHA256 = append(file.Fit.DataSHA256, f.SHA256)
	}
	dir := options.out
	if dir == "" {
		dir = "steer-" + strings.TrimSuffix(filepath.Base(options.model), ".gguf")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, dialectMethod+".gguf")
	if err := file.WriteFile(path); err != nil {
		return err
	}
	return runSteerInspect([]string{path}, false, out)
}

// tracedLayers are the layers that a trace chose and their weights. It must be of this model, data and split:
// else the pairs that it saw are not kept apart from the others.
func tracedLayers(dir string, model *openedModel, task *dialectTask, deal dialect.Deal) ([]int, []float64, error) {
	trace, err := dialect.NewTrace(dir, 2, true)
	if err != nil {
		return nil, nil, err
	}
	same := slices.EqualFunc(trace.Run.Data.Files, task.data.Files, func(a, b record.DataFile) bool { return a.SHA256 == b.SHA256 })
	layers, weights := trace.Chosen()
	switch {
	case trace.Done < trace.Run.Items:
		return nil, nil, fmt.Errorf("%s holds %d of its %d pairs; finish it with plumb steer trace --resume", dir, trace.Done, trace.Run.Items)
	case trace.Run.Model.SHA256 != model.sha256:
		return nil, nil, fmt.Errorf("%s is a trace of another model, %s; trace this one", dir, trace.Run.Model.Name)
	case !same:
		return nil, nil, fmt.Errorf("%s is a trace of other data; give the same --data", dir)
	case trace.Run.Dialect.SplitSeed != deal.Seed || trace.Run.Dialect.SplitSizes != deal.Sizes.String():
		return nil, nil, fmt.Errorf("%s has the split seed %d and sizes %q, not %d and %q; give the same --split-seed and --split-sizes", dir,
			trace.Run.Dialect.SplitSeed, trace.Run.Dialect.SplitSizes, deal.Seed, deal.Sizes)
	case trace.Run.Dialect.Segmentation != task.describeDialect().Segmentation || trace.Run.Dialect.Lexicon != task.lexicon.File:
		return nil, nil, fmt.Errorf("%s has other segments or another lexicon; give the same --embed-model and --lexicon", dir)
	case len(layers) == 0:
		return nil, nil, fmt.Errorf("%s: restoring moves no layer towards AAE (no R is negative), so there is none to steer; trace more pairs (more data, or a larger tracing part by --split-sizes), or name layers by --layer", dir)
	}
	return layers, weights, nil
}

// fitDialect feeds a fit with the states at the last tokens of the pairs' contexts. leftOut counts the pairs that cannot be
// used, by reason.
func fitDialect(ctx context.Context, m *scoringModel, task *dialectTask, layers []int, notes io.Writer) (*steer.DialectFit, map[string]int, error) {
	fit, err := steer.NewDialectFit(layers, m.model.Info().Width)
	if err != nil {
		return nil, nil, err
	}
	leftOut := map[string]int{}
	err = eachUntilInterrupted(ctx, 0, len(task.pairs), newProgress(notes, len(task.pairs), 0), func(ctx context.Context, i int) error {
		p := &task.pairs[i]
		uncut, err := task.cutter.segment(ctx, p)
		if err == nil && uncut == nil {
			uncut, err = addPair(ctx, fit, m, layers, p)
		}
		if uncut != nil {
			leftOut[uncut.Error()]++
		}
		return err
	})
	return fit, leftOut, err
}

func addPair(ctx context.Context, fit *steer.DialectFit, m *scoringModel, layers []int, p *dialect.Pair) (unusable, err error) {
	var ends []bindings.Sequence
	for _, context := range []string{p.Segments.AAE.Context, p.Segments.SAE.Context} {
		prompt, err := m.tokens.tokens(context)
		if err != nil {
			return err, nil
		}
		if len(prompt) == 0 {
			return errors.New("the context has no tokens"), nil
		}
		ends = append(ends, bindings.EndOf(prompt))
	}
	states, errs, err := m.session.Residuals(ctx, ends, nil, layers)
	if err != nil {
		return nil, err
	}
	if bad := cmp.Or(errs...); bad != nil {
		return bad, nil
	}
	return nil, fit.Add(states.Layers(0), states.Layers(1))
}
