package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/steer"
)

type auditDialectOptions struct {
	modelOptions
	dialectData
	dealOptions
	steerOptions
	dialectOutput
	split       string
	sample      int
	seed        uint64
	wordings    cli.StringSlice
	instruction bool
	chat        string
	out         string
	resume      bool
}

func (o *auditDialectOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.dialectData.flags()...)
	flags = append(flags, o.dealOptions.flags()...)
	flags = append(flags,
		&cli.StringFlag{Name: "split", Usage: "audit the `PART` tracing, direction or evaluation, or all (default: all; evaluation under a dialect steering file)", Destination: &o.split},
		&cli.IntFlag{Name: "sample", Usage: "take `N` pairs (0: all)", Destination: &o.sample},
		&cli.Uint64Flag{Name: "seed", Usage: "draw the sample and the options' order with seed `S`", Destination: &o.seed},
		&cli.StringSliceFlag{Name: "wording", Usage: "ask the choice by `WORDING`: best, likely or stylistic; repeatable (default: all)", Destination: &o.wordings},
		&cli.BoolFlag{Name: "instruct", Usage: "put the paper's instruction before every prompt: its prompting baseline", Destination: &o.instruction},
		&cli.StringFlag{Name: "chat", Usage: "`on` wraps the questions, but not the texts to be continued, in the model's chat template", Value: "off", Destination: &o.chat})
	flags = append(flags, o.actionFlags()...)
	flags = append(flags,
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the run in `DIR` (default: dialect- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the run in DIR if it was cut", Destination: &o.resume})
	return append(flags, o.dialectOutput.flags()...)
}

func auditDialectCommand() *cli.Command {
	var options auditDialectOptions
	return &cli.Command{
		Name:  "dialect",
		Usage: "African American English: does the model correct it, and what sets that off",
		Description: `Cuts pairs of sentences in African American English (AAE) and Standard American English (SAE) into contexts and
continuations, and scores both continuations after either context. LP is the log-probability by which the model
prefers SAE whatever the context is; 0 is even-handed. It also asks which continuation fits, in three wordings and in
random order, and for the sentiment of the sentences: DGI is how often that is the same in both dialects, cDGI the same
where a natural back-translation keeps it. LP is broken down by the markers in the AAE sentence.

--data reads JSON lines, CSV or TSV with the fields aae and sae and, optionally, id, aae_back, natural (true,
false), aae_context, aae_continuation, sae_context and sae_continuation; or TSV without a header, of AAE and SAE, or of
a task's name, SAE and AAE. A pair without segments is cut by the model's middle layer: where the meaning shifts in the
SAE sentence, and in the AAE sentence where the fewest alignment links cross. plumb corpus segment writes the segments,
to be read, corrected and given as --data.

The questions are:

` + indent(dialect.PromptTexts()) + `

plumb report prints a run again; plumb compare puts the runs of several models side by side.

EXIT STATUS
   0  the audit is complete
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runAuditDialect(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func (o *auditDialectOptions) check() error {
	o.half = heldOut // BBQ's; pairs have parts
	switch {
	case o.sample < 0:
		return usageError("--sample %d: a number of pairs is not negative", o.sample)
	case o.chat != "on" && o.chat != "off":
		return usageError("--chat is on or off, not %q", o.chat)
	case o.split != "" && !slices.Contains([]string{dialect.SplitAll, dialect.SplitTracing, dialect.SplitDirection, dialect.SplitEvaluation}, o.split):
		return usageError("--split is tracing, direction, evaluation or all, not %q", o.split)
	}
	return cmp.Or(o.steerOptions.check(), o.dialectOutput.check())
}

// asking is what is asked about pairs.
func (o *auditDialectOptions) asking(lexicon *dialect.Lexicon) (dialect.Asking, error) {
	a := dialect.Asking{Wordings: dialect.Wordings, Seed: o.seed, Lexicon: lexicon}
	if names := o.wordings.Value(); len(names) > 0 {
		a.Wordings = nil
		for _, name := range names {
			wording, err := dialect.ParseWording(name)
			if err != nil {
				return a, usageError("--wording: %s", err)
			}
			if !slices.Contains(a.Wordings, wording) {
				a.Wordings = append(a.Wordings, wording)
			}
		}
	}
	if o.instruction {
		a.Instruction = dialect.PromptingInstruction
	}
	return a, nil
}

func runAuditDialect(ctx context.Context, options *auditDialectOptions, out, notes io.Writer) error {
	if err := options.check(); err != nil {
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
	if task.asking, err = options.asking(task.lexicon); err != nil {
		return err
	}
	task.chat = options.chat == "on"
	m, err := options.openScoring(task.chat)
	if err != nil {
		return err
	}
	defer m.close()
	steering, err := options.steerOptions.load(m.model, notes)
	if err != nil {
		return err
	}
	if task.cutter, err = options.segmenter(m, options.threads); err != nil {
		return err
	}
	defer task.cutter.close()
	part := cmp.Or(options.split, dialect.SplitAll)
	parted := steering != nil && steering.file.Method == steer.Dialect && options.split != dialect.SplitAll
	if parted {
		if deal, err = options.dealUnder(options.file, steering.file); err != nil {
			return err
		}
		if options.split == "" {
			part = dialect.SplitEvaluation
			fmt.Fprintln(notes, "plumb: the evaluation part of the pairs is audited, as the steering file deals them out (--split all for all)")
		}
	}
	if err := task.take(ctx, part, deal); err != nil {
		return err
	}
	if parted {
		fitted, err := task.checkParts(options.file, steering.file, notes)
		if err != nil {
			return err
		}
		if part == dialect.SplitEvaluation {
			steering.recorded.Fitted = fitted
		}
	}
	task.draw(options.sample, options.seed)
	dir := options.out
	if dir == "" {
		dir = "dialect-" + strings.TrimSuffix(filepath.Base(options.model), ".gguf")
	}
	if steering != nil {
		steering.recorded.Half = part
	}
	if err := auditPairs(ctx, dir, options.resume, task, m, steering, notes); err != nil {
		return err
	}
	return reportDialect(dir, options.dialectOutput, out)
}

// auditPairs scores a task into a run directory.
func auditPairs(ctx context.Context, dir string, resume bool, task *dialectTask, m *scoringModel,
	steering *intervention, notes io.Writer) error {
	asked := auditTask{run: task.describe(), question: func(i int) (question, error) { return task.question(ctx, i) }}
	return asked.score(ctx, m, steering, dir, resume, notes)
}
