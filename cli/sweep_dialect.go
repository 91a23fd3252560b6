package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/steer"
)

// paperBetas are the paper's strengths.
const paperBetas = "0,0.1,0.2,0.4,0.6,0.8,1"

type dialectSweepOptions struct {
	modelOptions
	dialectData
	dialectOutput
	steer  string
	betas  string
	sample int
	seed   uint64
	out    string
	resume bool
}

func (o *dialectSweepOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.dialectData.flags()...)
	flags = append(flags,
		&cli.StringFlag{Name: "steer", Usage: "steer by the dialect steering `FILE`", Destination: &o.steer},
		&cli.StringFlag{Name: "beta", Usage: "the strengths, `NUMBERS` with commas; 0 must be among them", Value: paperBetas, Destination: &o.betas},
		&cli.IntFlag{Name: "sample", Usage: "take `N` pairs of the evaluation part (0: all)", Destination: &o.sample},
		&cli.Uint64Flag{Name: "seed", Usage: "draw the sample and the options' order with seed `S`", Destination: &o.seed},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the runs in `DIR` (default: sweep- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the sweep in DIR if it was cut", Destination: &o.resume})
	return append(flags, o.dialectOutput.flags()...)
}

func sweepDialectCommand() *cli.Command {
	var options dialectSweepOptions
	return &cli.Command{
		Name:  "dialect",
		Usage: "audit dialect under steering of several strengths, and choose one",
		Description: `Audits the evaluation part of the pairs (see plumb audit dialect --help for --data) at every strength β: with all
layers of the file by their weights, and with its heaviest layer alone, of weight 1. It also audits the prompting
baseline. Every audit is a run in DIR, which plumb report and plumb compare read; plumb report DIR prints the sweep
again, of the strengths that it was last asked for. The unsteered one is DIR/base: plumb audit dialect --split evaluation --wording best --out DIR/base makes it
beforehand, and --resume goes on from it.

The strength is chosen on a quarter of the pairs and everything is reported on the others:

   ` + dialect.ChoiceRule + `

EXIT STATUS
   0  the sweep is complete
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runDialectSweep(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// strengths reads --beta: ascending numbers, 0 among them.
func (o *dialectSweepOptions) strengths() ([]float64, error) {
	var betas []float64
	for _, part := range strings.Split(o.betas, ",") {
		b, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || b < 0 || math.IsInf(float64(float32(b)), 0) || math.IsNaN(b) {
			return nil, usageError("--beta %q: strengths are numbers from 0 on, with commas between them", o.betas)
		}
		betas = append(betas, b)
	}
	slices.Sort(betas)
	for i, b := range betas[1:] {
		if b == betas[i] {
			return nil, usageError("--beta %q: %g stands there twice; name every strength once", o.betas, b)
		}
	}
	if betas[0] != 0 {
		return nil, usageError("--beta %q: 0 must be among the strengths, as what the others are compared with", o.betas)
	}
	return betas, nil
}

func runDialectSweep(ctx context.Context, options *dialectSweepOptions, out, notes io.Writer) error {
	betas, err := options.strengths()
	if err != nil {
		return err
	}
	if options.steer == "" {
		return usageError("which steering? --steer FILE, of plumb steer fit --method dialect")
	}
	if options.sample < 0 {
		return usageError("--sample %d: a number of pairs is not negative", options.sample)
	}
	if err := options.dialectOutput.check(); err != nil {
		return err
	}
	file, err := steer.ReadFile(options.steer)
	if err != nil {
		return err
	}
	if file.Method != steer.Dialect {
		return fmt.Errorf("%s was fitted by %s; a sweep takes a file of plumb steer fit --method dialect", options.steer, file.Method)
	}
	deal, err := dealOf(file)
	if err != nil {
		return fmt.Errorf("%s: %w", options.steer, err)
	}
	dir := options.out
	if dir == "" {
		dir = "sweep-" + strings.TrimSuffix(filepath.Base(options.model), ".gguf")
	}
	sweep := dialect.NewSweepRuns(dir, betas[1:])
	if err := checkDialectSweepDir(dir, sweep, options.resume); err != nil {
		return err
	}
	heaviest := slices.MaxFunc(file.Layers, func(a, b steer.FileLayer) int { return cmp.Compare(a.Weight, b.Weight) })
	base := auditDialectOptions{modelOptions: options.modelOptions, dialectData: options.dialectData, dialectOutput: options.dialectOutput,
		split: dialect.SplitEvaluation, sample: options.sample, seed: options.seed, chat: "off", resume: options.resume}
	base.wordings = *cli.NewStringSlice(string(dialect.Best))
	s, err := openSweep(ctx, &base, deal, notes)
	if err != nil {
		return err
	}
	defer s.close()
	fitted, err := s.task.checkParts(options.steer, file, notes)
	if err != nil {
		return err
	}
	if err := dialect.CheckSweepable(s.task.pairs); err != nil {
		return err
	}
	runs := []sweepRun{{dir: sweep.Base}}
	for _, strategy := range []struct {
		layers string
		dirs   []string
		weight float64 // that the file gives: a layer alone is to have 1
	}{{"", sweep.Multi, 1}, {strconv.Itoa(heaviest.Layer), sweep.Single, heaviest.Weight}} {
		for i, beta := range betas[1:] {
			steering := &steerOptions{file: options.steer, alpha: strconv.FormatFloat(beta/strategy.weight, 'g', -1, 64), layers: strategy.layers, half: heldOut}
			loaded, err := steering.load(s.model, io.Discard)
			if err != nil {
				return err
			}
			loaded.recorded.Half, loaded.recorded.Fitted = base.split, fitted
			runs = append(runs, sweepRun{dir: strategy.dirs[i], steering: loaded})
		}
	}
	if err := dialect.WriteSweep(dir, sweep.Betas); err != nil {
		return err
	}
	if err := s.audit(ctx, append(runs, sweepRun{dir: sweep.Prompt, instruction: dialect.PromptingInstruction})); err != nil {
		return err
	}
	return reportDialectSweep(dir, options.dialectOutput, out)
}

// checkDialectSweepDir refuses a directory with a sweep, or with any of its runs, unless it is to be resumed.
func checkDialectSweepDir(dir string, sweep dialect.SweepRuns, resume bool) error {
	if resume {
		return nil
	}
	if dialect.IsSweep(dir) {
		return fmt.Errorf("%s already holds a sweep; go on with it by --resume, with other strengths if need be, or choose another directory", dir)
	}
	for _, run := range sweep.All() {
		if _, err := os.Stat(filepath.Join(run, record.RunFile)); err == nil {
			return fmt.Errorf("%s already holds a run; go on from it by --resume, or choose another directory", run)
		}
	}
	return nil
}
