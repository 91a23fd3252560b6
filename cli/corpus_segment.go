package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/dialect"
	"plumb/audit/record"
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
file as --data: segments that are there are kept. A pair that cannot be cut is written without. A FILE that is there is not
written over. What was cut in the middle of --out FILE, the same command takes up from FILE.partial.

The SAE sentence is cut in its middle half, where 1 − cos(φ(L), φ(R)) − 0.3·|j/n − 0.5| is highest, φ being the mean token
embedding of a side; the AAE sentence in its own middle half, where the fewest sure links between corresponding words cross. A
link is sure if each word is the other's likeliest, with probabilities above 0.3. Where more than a quarter of the
sure links cross the best cut, or they leave it open over more than a fifth of the words, as in a text that repeats itself,
the pair is not cut. Token embeddings are the output of an encoder (BERT and its kin; --embed-model), which embeds each side
alone, or the middle layer of a causal model (--model or --embed-model), which embeds the sentence.

EXIT STATUS
   0  the pairs are written
   1  it failed, was interrupted, or FILE is there already
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
	if options.keeps() {
		if err := checkNew(options.out); err != nil {
			return err
		}
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
	partial, err := options.partial(task, cutter)
	if err != nil {
		return err
	}
	done := partial.Done()
	if done > 0 {
		fmt.Fprintf(notes, "plumb: going on after %s of %s\n", report.Thousands(done), report.Count(len(task.pairs), "pair"))
	}
	uncut, err := cutter.segmentAll(ctx, task.pairs, partial, newProgress(notes, len(task.pairs), done))
	if errors.Is(err, errInterrupted) && options.keeps() {
		err = fmt.Errorf("interrupted after %s of %s; the same command goes on", report.Thousands(partial.Done()), report.Count(len(task.pairs), "pair"))
	}
	if err != nil {
		return cmp.Or(err, partial.Close())
	}
	if len(uncut) > 0 {
		fmt.Fprintf(notes, "plumb: %s of %s not cut; the first, %s\n", report.Thousands(len(uncut)), report.Count(len(task.pairs), "pair"), uncut[0])
	}
	if options.out == "" {
		return dialect.WriteJSONLines(out, task.pairs)
	}
	if err := corpus.WriteFile(options.out, func(w io.Writer) error { return dialect.WriteJSONLines(w, task.pairs) }); err != nil {
		return err
	}
	fmt.Fprintf(notes, "plumb: %s: %s of %s with contexts and continuations\n", options.out, report.Thousands(len(task.pairs)-len(uncut)), report.Count(len(task.pairs), "pair"))
	return partial.Remove()
}

// cutPair is what was made of a pair: its segments, or why it has none.
type cutPair struct {
	Segments *dialect.Segments `json:"segments,omitempty"`
	Uncut    string            `json:"uncut,omitempty"`
}

// askedOfSegment is all that the cuts of pairs depend on.
type askedOfSegment struct {
	Plumb        string              `json:"plumb"`
	LlamaCpp     string              `json:"llama_cpp"`
	Segmentation record.Segmentation `json:"segmentation"`
	Files        []record.DataFile   `json:"files"`
}

// partial opens what a cut run left beside the output. Nothing is kept beside a device or a pipe.
func (o *corpusSegmentOptions) partial(task *dialectTask, cutter *segmenter) (*corpus.Partial[cutPair], error) {
	if !o.keeps() {
		return &corpus.Partial[cutPair]{}, nil
	}
	pairs := map[string]*dialect.Pair{}
	for i := range task.pairs {
		pairs[task.pairs[i].ID] = &task.pairs[i]
	}
	asked := askedOfSegment{bindings.Version(), bindings.LlamaVersion(), cutter.describe(), task.data.Files}
	return corpus.OpenPartial(o.out+".partial", asked, func(id string, result *cutPair) error {
		switch p := pairs[id]; {
		case p == nil:
			return fmt.Errorf("there is no pair %.80q", id)
		case (result.Segments == nil) == (result.Uncut == ""):
			return errors.New("a pair has segments, or a reason why it has none")
		case result.Segments != nil:
			return result.Segments.Check(p)
		}
		return nil
	})
}

// keeps is whether the output is a file that is to be new, and not a device or a pipe, such as /dev/stdout.
func (o *corpusSegmentOptions) keeps() bool {
	info, err := os.Lstat(o.out)
	stream := strings.HasPrefix(o.out, "/dev/") || err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeDevice|os.ModeSocket) != 0
	return o.out != "" && !stream
}

// segmentAll cuts the pairs that are not among the partial ones, and keeps them there. uncut says of each pair that cannot be cut
// why.
func (s *segmenter) segmentAll(ctx context.Context, pairs []dialect.Pair, partial *corpus.Partial[cutPair], bar progress) (uncut []string, err error) {
	err = eachUntilInterrupted(ctx, 0, len(pairs), bar, func(ctx context.Context, i int) error {
		p := &pairs[i]
		result, done := partial.Find(p.ID)
		if done {
			p.Segments = result.Segments
		} else {
			why, err := s.segment(ctx, p)
			if err != nil {
				return err
			}
			result.Segments = p.Segments
			if why != nil {
				result.Uncut = why.Error()
			}
			if err := partial.Append(p.ID, result); err != nil {
				return err
			}
		}
		if result.Uncut != "" {
			uncut = append(uncut, fmt.Sprintf("%s: %s", p.ID, result.Uncut))
		}
		return nil
	})
	return uncut, err
}
