package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/steer"
)

// dialectData say which pairs are read and which part of them is used.
type dialectData struct {
	data       cli.StringSlice
	lexicon    string
	embedModel string
	strict     bool
}

// dealOptions say how the pairs are dealt out into parts.
type dealOptions struct {
	splitSeed  uint64
	splitSizes string
}

func (o *dialectData) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "data", Aliases: []string{"d"}, Usage: "read pairs from `FILE`; repeatable (default: the built-in sample)", Destination: &o.data},
		&cli.StringFlag{Name: "lexicon", Usage: "find the markers of `FILE`, TSV of class and marker, instead of the paper's", Destination: &o.lexicon},
		&cli.StringFlag{Name: "embed-model", Usage: "cut pairs by the token embeddings of the encoder in the GGUF `FILE`, or of a causal model's middle layer (default: the model's own)", Destination: &o.embedModel},
		&cli.BoolFlag{Name: "strict", Usage: "stop if the data has a bad row", Destination: &o.strict},
	}
}

const defaultSplitSeed = 1

func (o *dealOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.Uint64Flag{Name: "split-seed", Usage: "deal the pairs out into parts with seed `S`", Value: defaultSplitSeed, Destination: &o.splitSeed},
		splitSizesFlag(&o.splitSizes),
	}
}

func splitSizesFlag(sizes *string) cli.Flag {
	return &cli.StringFlag{Name: "split-sizes", Usage: "make the tracing, direction and evaluation parts of `T/D/E` pairs, such as 16/64/64 (default: 1200/7000/3000, or in proportion)", Destination: sizes}
}

func (o *dealOptions) deal() (dialect.Deal, error) {
	sizes, err := dialect.ParseSizes(o.splitSizes)
	if err != nil {
		return dialect.Deal{}, usageError("--split-sizes: %s", err)
	}
	return dialect.Deal{Seed: o.splitSeed, Sizes: sizes}, nil
}

// dealOf is how the pairs were dealt out that a dialect's directions were fitted on.
func dealOf(file *steer.File) (dialect.Deal, error) {
	sizes, err := dialect.ParseSizes(file.Fit.SplitSizes)
	return dialect.Deal{Seed: file.Fit.Seed, Sizes: sizes}, err
}

// dealUnder is the deal of a dialect steering file: any other would mix the pairs that it was fitted on with the rest. One that
// was asked for must be the same.
func (o *dealOptions) dealUnder(path string, file *steer.File) (dialect.Deal, error) {
	deal, err := dealOf(file)
	if err != nil {
		return deal, fmt.Errorf("%s: %w", path, err)
	}
	asked, err := o.deal()
	if err == nil && asked != deal && asked != (dialect.Deal{Seed: defaultSplitSeed}) {
		err = usageError("%s was fitted on pairs that were dealt out otherwise; leave out --split-seed and --split-sizes", path)
	}
	return deal, err
}

// dialectTask is pairs with the segmenter that cuts them when they are needed.
type dialectTask struct {
	data    *dialect.Data
	pairs   []dialect.Pair // those that are used
	lexicon *dialect.Lexicon
	cutter  *segmenter
	given   int // pairs of data whose segments the data brings

	split string
	deal  dialect.Deal
	// the SHA-256 of the sentences in the direction part, if the pairs were dealt out
	direction string

	sample  int
	seed    uint64
	asking  dialect.Asking
	chat    bool
	options []dialect.Question // of the pair at
	at      int
}

// read reads pairs and lexicon. Bad rows are told to notes.
func (o *dialectData) read(notes io.Writer) (*dialectTask, error) {
	t := &dialectTask{split: dialect.SplitAll, at: -1}
	var err error
	if o.lexicon == "" {
		t.lexicon, err = dialect.PaperLexicon()
	} else {
		t.lexicon, err = dialect.ReadLexicon(o.lexicon)
	}
	if err != nil {
		return nil, err
	}
	if paths := o.data.Value(); len(paths) > 0 {
		t.data, err = dialect.Read(paths)
	} else {
		t.data, err = dialect.Builtin()
	}
	if err != nil {
		return nil, err
	}
	if bad := t.data.Bad; len(bad) > 0 {
		switch {
		case o.strict:
			return nil, fmt.Errorf("%w (--strict; bad rows: %s)", bad[0], report.Thousands(len(bad)))
		case len(t.data.Pairs) == 0:
			return nil, fmt.Errorf("no pair of the data can be used; bad rows: %s, the first: %w", report.Thousands(len(bad)), bad[0])
		}
		fmt.Fprintf(notes, "plumb: bad rows left out: %s; the first: %v\n", report.Thousands(len(bad)), bad[0])
	}
	t.pairs = slices.Clone(t.data.Pairs)
	for _, p := range t.pairs {
		if p.Segments != nil {
			t.given++
		}
	}
	return t, nil
}

// take leaves of the pairs the part asked for, which costs the segments of some of them.
func (t *dialectTask) take(ctx context.Context, part string, deal dialect.Deal) error {
	if part == dialect.SplitAll {
		return nil
	}
	splits, err := t.splits(ctx, deal)
	if err != nil {
		return err
	}
	chosen, err := splits.Part(part)
	if err != nil {
		return usageError("--split: %s", err)
	}
	switch {
	case len(chosen) == 0 && part == dialect.SplitTracing:
		return fmt.Errorf("of %s none is left for the part tracing, which takes only pairs whose AAE context holds a marker; give more data, or --split-sizes", report.Count(len(t.pairs), "pair"))
	case len(chosen) == 0:
		return fmt.Errorf("of %s none is left for the part %s; give more data", report.Count(len(t.pairs), "pair"), part)
	}
	hash := sha256.New()
	for _, i := range splits.Direction {
		fmt.Fprintf(hash, "%q %q\n", t.pairs[i].AAE, t.pairs[i].SAE) // never fails
	}
	t.direction = hex.EncodeToString(hash.Sum(nil))
	var pairs []dialect.Pair
	for _, i := range chosen {
		pairs = append(pairs, t.pairs[i])
	}
	t.pairs, t.split, t.deal = pairs, part, deal
	return nil
}

// checkParts says what is known of the pairs that a dialect steering file was fitted on, where the evaluation part is audited
// under it. It refuses pairs that were dealt out otherwise than for the file, so that some of those would be audited, and warns
// if nobody can say.
func (t *dialectTask) checkParts(path string, file *steer.File, notes io.Writer) (record.Fitted, error) {
	same := slices.EqualFunc(file.Fit.DataSHA256, t.data.Files, func(sha256 string, f record.DataFile) bool { return sha256 == f.SHA256 })
	switch {
	case len(file.Fit.DataSHA256) == 0:
		fmt.Fprintf(notes, "plumb: warning: %s does not say what it was fitted on; some of it may be among the pairs audited\n", path)
		return record.FittedUnknown, nil
	case !same:
		fmt.Fprintf(notes, "plumb: warning: %s was fitted on other data (%s); of the pairs that are in both, some may be among those audited\n", path, strings.Join(file.Fit.Data, ", "))
		return record.FittedElsewhere, nil
	case file.Fit.PartSHA256 == "":
		fmt.Fprintf(notes, "plumb: warning: %s does not say which of these pairs it was fitted on; some may be among those audited\n", path)
		return record.FittedUnknown, nil
	case file.Fit.PartSHA256 != t.direction:
		return "", fmt.Errorf("%s was fitted on another part of these pairs, which would be among those audited; give the --lexicon and the --embed-model that it was traced and fitted with", path)
	}
	return record.FittedApart, nil
}

// splits deals the pairs out. The tracing part gets pairs whose AAE context holds a marker.
func (t *dialectTask) splits(ctx context.Context, deal dialect.Deal) (*dialect.Splits, error) {
	return dialect.Split(t.pairs, deal, func(i int) (bool, error) {
		p := &t.pairs[i]
		if len(t.lexicon.Find(p.AAE)) == 0 {
			return false, nil
		}
		uncut, err := t.cutter.segment(ctx, p)
		if uncut != nil || err != nil {
			return false, err
		}
		return len(t.lexicon.Find(p.Segments.AAE.Context)) > 0, nil
	})
}

// draw leaves n of the pairs, drawn with the seed, in their order.
func (t *dialectTask) draw(n int, seed uint64) {
	t.sample, t.seed = n, seed
	if n == 0 || n >= len(t.pairs) {
		return
	}
	random := rand.New(rand.NewPCG(seed, 0x5a3b1e))
	chosen := random.Perm(len(t.pairs))[:n]
	slices.Sort(chosen)
	var pairs []dialect.Pair
	for _, i := range chosen {
		pairs = append(pairs, t.pairs[i])
	}
	t.pairs = pairs
}

// items is how many records a run of the task has.
func (t *dialectTask) items() int { return len(t.pairs) * t.asking.PerPair() }

// question returns the i-th item, ready to be scored. Pairs are cut as they come.
func (t *dialectTask) question(ctx context.Context, i int) (question, error) {
	if at := i / t.asking.PerPair(); at != t.at {
		uncut, err := t.cutter.segment(ctx, &t.pairs[at])
		if err != nil {
			return question{}, err
		}
		t.at, t.options = at, t.asking.Questions(&t.pairs[at], uncut)
	}
	q := t.options[i%t.asking.PerPair()]
	q.Record.Index = i
	return question{record: q.Record, prompt: q.Prompt, options: q.Options, plain: q.Plain}, nil
}

// describe returns what a run records of the task.
func (t *dialectTask) describe() record.Run {
	prompts := dialect.PromptTexts()
	hash := sha256.Sum256([]byte(prompts))
	run := record.Run{
		Benchmark: dialect.Benchmark,
		Data:      record.Data{Kept: len(t.data.Pairs), Files: t.data.Files, LeftOut: []record.LeftOut{}},
		Sample:    t.sample,
		Seed:      t.seed,
		Prompt:    record.Prompt{Template: prompts, SHA256: hex.EncodeToString(hash[:]), Chat: t.chat},
		Items:     t.items(),
		Dialect:   t.describeDialect(),
	}
	if bad := t.data.Bad; len(bad) > 0 {
		left := record.LeftOut{Reason: "the row is no pair", Count: len(bad), IDs: []string{}}
		for _, b := range bad {
			left.IDs = append(left.IDs, fmt.Sprintf("%s:%d", b.File[strings.LastIndex(b.File, "/")+1:], b.Line))
		}
		run.Data.LeftOut = append(run.Data.LeftOut, left)
	}
	return run
}

func (t *dialectTask) describeDialect() *record.Dialect {
	d := &record.Dialect{
		Lexicon: t.lexicon.File, Masked: t.lexicon.Slurs, Segmentation: t.cutter.describe(),
		Split: t.split, SplitSeed: t.deal.Seed, SplitSizes: t.deal.Sizes.String(), Instruction: t.asking.Instruction, Wordings: []string{},
	}
	if d.Masked == nil {
		d.Masked = []string{}
	}
	if t.given == len(t.data.Pairs) {
		d.Segmentation = record.Segmentation{}
	}
	d.Segmentation.Given = t.given
	for _, wording := range t.asking.Wordings {
		d.Wordings = append(d.Wordings, string(wording))
	}
	return d
}
