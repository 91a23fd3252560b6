package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/dialect"
	"plumb/audit/report"
	"plumb/bindings"
)

type corpusSegmentOptions struct {
	modelOptions
	dialectData
	out string
}

func (o *corpusSegmentOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.dialectData.flags()...)
	return append(flags, &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the pairs with their segments to `FILE` (default: stdout)", Destination: &o.out})
}

func corpusSegmentCommand() *cli.Command {
	var options corpusSegmentOptions
	return &cli.Command{
		Name:  "segment",
		Usage: "cut pairs into contexts and continuations",
		Description: `Reads pairs as plumb audit dialect does and writes them as JSON lines with their segments: aae_context,
aae_continuation, sae_context, sae_continuation. Read them, move the cuts that you would make elsewhere, and give the
file as --data: segments that are there are kept. A pair that cannot be cut is written without.

The SAE sentence is cut in its middle half, where 1 − cos(φ(L), φ(R)) − 0.3·|j/n − 0.5| is highest, φ being the mean token
embedding of a side; the AAE sentence where the fewest links between corresponding words cross. Token embeddings are the output of an
encoder (BERT and its kin; --embed-model), which embeds each side alone, or the middle layer of a causal model (--model
or --embed-model), which embeds the sentence.

EXIT STATUS
   0  the pairs are written
   1  it failed
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runCorpusSegment(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// cutter makes the segmenter of --embed-model, or of --model.
func (o *corpusSegmentOptions) cutter() (*segmenter, error) {
	if o.embedModel != "" {
		if o.model != "" {
			return nil, usageError("pairs are cut by one model: --embed-model, or the middle layer of --model")
		}
		return o.segmenter(nil, o.threads)
	}
	model, err := o.load(bindings.ModelOptions{})
	if err != nil {
		return nil, err
	}
	e, err := model.embedder()
	if err != nil {
		model.Close()
		return nil, err
	}
	return &segmenter{e}, nil
}

func runCorpusSegment(ctx context.Context, options *corpusSegmentOptions, out, notes io.Writer) error {
	if err := checkSideOutput("out", options.out, append(options.data.Value(), options.lexicon)...); err != nil {
		return err
	}
	task, err := options.dialectData.read(notes)
	if err != nil {
		return err
	}
	cutter, err := options.cutter()
	if err != nil {
		return err
	}
	defer cutter.close()
	interrupt := watchInterrupts(func() {})
	defer interrupt.stop()
	progress := newProgress(notes, len(task.pairs), 0)
	var uncuttable int
	var first error
	for i := range task.pairs {
		if interrupt.seen() {
			progress.end()
			return errInterrupted
		}
		uncut, err := cutter.segment(ctx, &task.pairs[i])
		if err != nil {
			progress.end()
			return err
		}
		if uncut != nil {
			if uncuttable++; first == nil {
				first = fmt.Errorf("%s: %w", task.pairs[i].ID, uncut)
			}
		}
		progress.at(i + 1)
	}
	progress.end()
	if uncuttable > 0 {
		fmt.Fprintf(notes, "plumb: %s of %s not cut; the first, %v\n", report.Thousands(uncuttable), report.Count(len(task.pairs), "pair"), first)
	}
	if options.out == "" {
		return dialect.WriteJSONLines(out, task.pairs)
	}
	return corpus.WriteFile(options.out, func(w io.Writer) error { return dialect.WriteJSONLines(w, task.pairs) })
}
