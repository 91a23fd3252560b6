package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/bindings"
)

type steerTraceOptions struct {
	modelOptions
	dialectData
	dealOptions
	dialectOutput
	sample int
	seed   uint64
	out    string
	resume bool
}

func (o *steerTraceOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.dialectData.flags()...)
	flags = append(flags, o.dealOptions.flags()...)
	flags = append(flags,
		&cli.IntFlag{Name: "sample", Usage: "trace `N` pairs of the tracing part (0: all)", Destination: &o.sample},
		&cli.Uint64Flag{Name: "seed", Usage: "draw the sample and the noise with seed `S`", Value: 1, Destination: &o.seed},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the trace in `DIR` (default: trace- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the trace in DIR if it was cut", Destination: &o.resume})
	return append(flags, o.dialectOutput.flags()...)
}

func steerTraceCommand() *cli.Command {
	var options steerTraceOptions
	return &cli.Command{
		Name:  "trace",
		Usage: "find the layers that carry a dialect preference, by causal tracing",
		Description: `Takes the tracing part of the pairs (see plumb audit dialect --help for --data), whose AAE contexts hold a marker of
the lexicon. For each it adds Gaussian noise to the embeddings of the marker's tokens, of 3 times their standard
deviation, and then restores the clean state of one layer at one of these tokens, all of them in turn. R is what that
takes from b_AAE, the preference of the AAE continuation; the four layers with the most negative mean R are those to
steer, in proportion to it. plumb steer fit --method dialect --trace DIR makes the steering file; plumb report DIR prints
the trace again. A pair whose context and two continuations are more than 512 tokens, or whose continuations are more
than 255, is left out and counted as failed.

EXIT STATUS
   0  the trace is complete
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runSteerTrace(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func runSteerTrace(ctx context.Context, options *steerTraceOptions, out, notes io.Writer) error {
	if options.sample < 0 {
		return usageError("--sample %d: a number of pairs is not negative", options.sample)
	}
	if err := options.dialectOutput.check(); err != nil {
		return err
	}
	deal, err := options.deal()
	if err != nil {
		return err
	}
	task, err := options.dialectData.read(notes)
	if err != nil {
		return err
	}
	m, err := options.openScoring(false)
	if err != nil {
		return err
	}
	defer m.close()
	if !m.model.selfTest.HooksFire {
		return fmt.Errorf("%s cannot be traced: %s", m.model.path, m.model.selfTest.Reason)
	}
	if task.cutter, err = options.segmenter(m, options.threads); err != nil {
		return err
	}
	defer task.cutter.close()
	if err := task.take(ctx, dialect.SplitTracing, deal); err != nil {
		return err
	}
	task.draw(options.sample, options.seed)

	run := task.describe()
	m.model.describe(&run, m.session)
	run.Benchmark, run.Items, run.Seed = dialect.TraceBenchmark, len(task.pairs), options.seed
	run.Prompt = record.Prompt{}
	run.Dialect.Noise = dialect.NoiseFactor
	dir := options.out
	if dir == "" {
		dir = "trace-" + strings.TrimSuffix(filepath.Base(options.model), ".gguf")
	}
	open := record.Create
	if options.resume {
		open = record.Resume
	}
	writer, err := open(dir, run)
	if err != nil {
		return err
	}
	t := tracer{m, task.lexicon, options.seed}
	err = t.trace(ctx, task.pairs, writer, newProgress(notes, run.Items, writer.Done()))
	err = cmp.Or(err, writer.Close())
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("interrupted after %s of %s; the same command with --resume goes on", report.Thousands(writer.Done()), report.Count(run.Items, "pair"))
	}
	if err != nil {
		return err
	}
	return reportTrace(dir, options.dialectOutput, out)
}

// tracer traces pairs through a model.
type tracer struct {
	*scoringModel
	lexicon *dialect.Lexicon
	seed    uint64
}

// trace appends the records of the pairs that the run lacks.
func (t *tracer) trace(ctx context.Context, pairs []dialect.Pair, run *record.Writer, progress progress) error {
	sessions, err := t.workers()
	if err != nil {
		return err
	}
	return sideBySide(ctx, len(sessions), run.Done(), len(pairs), progress,
		func(ctx context.Context, worker, i int) (record.Record, error) {
			r, err := t.pair(ctx, sessions[worker], &pairs[i])
			r.Index = i
			return r, err
		},
		func(_ int, r record.Record) error { return run.Append([]record.Record{r}) })
}

// pair traces one pair. What cannot be traced becomes a record with an error; the error returned is of the model.
func (t *tracer) pair(ctx context.Context, session *bindings.Session, p *dialect.Pair) (record.Record, error) {
	context, continuation := p.Segments.AAE.Context, [2]string{p.Segments.AAE.Continuation, p.Segments.SAE.Continuation}
	r := record.Record{ID: p.ID + "/" + dialect.TaskTrace, Template: p.ID, Condition: dialect.AAE, Task: dialect.TaskTrace, Text: context, Features: t.lexicon.Features(context)}
	r.Options = []record.Option{{Text: continuation[0], Role: dialect.AAE}, {Text: continuation[1], Role: dialect.SAE}}
	score, trace, err := t.sites(ctx, session, context, continuation)
	if err != nil {
		uncut, fatal := perText(err)
		if fatal != nil {
			return r, fatal
		}
		return scored(r, bindings.Score{Err: uncut}), nil
	}
	r.Trace = trace
	return scored(r, score), nil
}

// sites corrupts the marker's tokens of the context and restores the state of every layer at each of them in turn. The
// score is the corrupted run's.
func (t *tracer) sites(ctx context.Context, session *bindings.Session, context string, continuation [2]string) (bindings.Score, *record.Trace, error) {
	request, err := t.tokens.request(&question{prompt: context, options: []string{" " + continuation[0], " " + continuation[1]}})
	if err != nil {
		return bindings.Score{}, nil, &textError{err}
	}
	positions, err := t.markerTokens(context, request.Prompt)
	if err != nil {
		return bindings.Score{}, nil, &textError{err}
	}
	layers := []int{bindings.EmbeddingLayer}
	for l := range t.model.Info().Layers {
		layers = append(layers, l)
	}
	clean, errs, err := session.Residuals(ctx, []bindings.Sequence{{Tokens: request.Prompt, Positions: positions}}, nil, layers)
	if err != nil {
		return bindings.Score{}, nil, err
	}
	if errs[0] != nil {
		return bindings.Score{}, nil, errs[0]
	}
	var embeddings []float32
	for i := range positions {
		embeddings = append(embeddings, clean.At(i, 0)...)
	}
	sigma := dialect.NoiseFactor * deviation(embeddings)
	noise := bindings.Noise{Positions: positions, Strength: float32(sigma), Seed: t.noiseSeed(context)}
	patches := []bindings.Patch{{Position: -1}}
	// equal continuations have b = 0 and R = 0 whatever is restored; computed, a quantised model's rounding would show
	equal := slices.Equal(request.Continuations[0], request.Continuations[1])
	for l := range t.model.Info().Layers {
		for i, p := range positions {
			if equal {
				break
			}
			patches = append(patches, bindings.Patch{Layer: l, Position: p, Vector: clean.At(i, l+1)})
		}
	}
	runs, err := session.Patched(ctx, request, noise, patches)
	if err != nil {
		return bindings.Score{}, nil, err
	}
	trace := &record.Trace{Sigma: sigma, Positions: positions, Corrupted: preferenceOf(runs[0])}
	if equal {
		trace.Corrupted = 0
	}
	for l := range t.model.Info().Layers {
		effects := make([]float64, len(positions))
		for i := range effects {
			if !equal {
				effects[i] = trace.Corrupted - preferenceOf(runs[1+l*len(positions)+i])
			}
		}
		trace.Effects = append(trace.Effects, effects)
	}
	return bindings.Score{LogProbs: runs[0]}, trace, nil
}

// markerTokens are the places of the markers' tokens among those of the context.
func (t *tracer) markerTokens(context string, prompt []bindings.Token) ([]int, error) {
	places, err := tokenPlaces(t.model.Model, context)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(places.tokens, prompt) {
		return nil, errors.New("the context's tokens are not those that its markers were found in")
	}
	var positions []int
	for _, m := range t.lexicon.Find(context) {
		positions = append(positions, places.overlapping(m.Start, m.End)...)
	}
	if len(positions) == 0 {
		return nil, errors.New("the context holds no marker")
	}
	slices.Sort(positions)
	return slices.Compact(positions), nil
}

// noiseSeed is an example's own, whatever else is traced.
func (t *tracer) noiseSeed(context string) uint64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d/%s", t.seed, context) // never fails
	return hash.Sum64()
}

// preferenceOf is b_AAE: the first continuation's log-probability less the second's.
func preferenceOf(logProbs [][]float32) float64 {
	b := 0.0
	for i, sign := range []float64{1, -1} {
		for _, p := range logProbs[i] {
			b += sign * float64(p)
		}
	}
	return b
}

// deviation is the standard deviation of the values, around their mean, with the divisor n.
func deviation(values []float32) float64 {
	mean := 0.0
	for _, x := range values {
		mean += float64(x)
	}
	mean /= float64(len(values))
	sum := 0.0
	for _, x := range values {
		sum += (float64(x) - mean) * (float64(x) - mean)
	}
	return math.Sqrt(sum / float64(len(values)))
}
