package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/crowspairs"
	"plumb/audit/record"
	"plumb/audit/stereoset"
)

// sentencesOptions are those of the audits that compare sentences.
type sentencesOptions struct {
	modelOptions
	steerOptions
	outputOptions
	data   string
	sample int
	seed   uint64
	out    string
	resume bool
}

func (o *sentencesOptions) flags(benchmark string) []cli.Flag {
	flags := append(o.modelOptions.flags(),
		&cli.StringFlag{Name: "data", Aliases: []string{"d"}, Usage: "read the data set from `FILE`", Destination: &o.data},
		&cli.IntFlag{Name: "sample", Usage: "take `N` items, drawn at random (0: all)", Destination: &o.sample},
		&cli.Uint64Flag{Name: "seed", Usage: "draw the sample with seed `S`", Destination: &o.seed})
	flags = append(flags, o.actionFlags()...)
	flags = append(flags,
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the run in `DIR` (default: " + benchmark + "- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the run in DIR if it was cut", Destination: &o.resume})
	return append(flags, o.outputOptions.flags()...)
}

const auditStatuses = `

EXIT STATUS
   0  the audit is complete
   1  it failed, or was interrupted
   2  the command line is wrong`

func auditStereoSetCommand() *cli.Command {
	var options sentencesOptions
	return &cli.Command{
		Name:  "stereoset",
		Usage: "StereoSet: stereotype score, language modelling score, and an answer rate that nobody invited",
		Description: `Scores a stereotype, an anti-stereotype and an unrelated sentence for each item, by mean token log-probability. An
intersentence item's sentences are continuations of its context, after a space; an intrasentence item's are scored
whole, after the model's start token (its BOS, else its EOS).

SS and LMS compare two sentences at a time, as published; ICAT is made of both. LMS_argmax, 1 − Pr(U), is the share of
items whose best sentence is not the unrelated one, and dpref the share of stereotypes among these: they take the place of
BBQ's answer rate and preference, and plumb compare takes a change of Pr(S) apart into them. The unrelated sentence is
no invited answer, so this is a negative control for BBQ (Answerability Confounds (GCD), section 6.3).

--data is the published JSON file (dev.json), or JSON lines with id, type, target, bias_type, context, stereotype,
anti-stereotype and unrelated.` + auditStatuses,
		Flags: options.flags("stereoset"),
		Action: func(c *cli.Context) error {
			return options.run(c, "stereoset", func() (*sentencesTask, error) {
				data, err := stereoset.Read(options.data)
				if err != nil {
					return nil, err
				}
				return newSentencesTask(data.Items, data.File, stereoSetQuestion), nil
			})
		},
	}
}

func auditCrowSPairsCommand() *cli.Command {
	var options sentencesOptions
	return &cli.Command{
		Name:  "crows-pairs",
		Usage: "CrowS-Pairs: which of two sentences the model finds likelier",
		Description: `Scores the two sentences of each pair and counts how often the more stereotyping one wins.

What is scored is the summed log-probability of the whole sentence, every token given those before it, after the model's
start token (its BOS, else its EOS). The published metric is a masked model's pseudo-log-likelihood of the words that the
two sentences share, which a causal model does not have: numbers of the two kinds are not comparable. The sum includes
the words that differ, so it also says which group is named more often; --read-out mean takes the mean over tokens.

There is no third option, so a change of Pr(S) is all preference.

--data is the published CSV file (crows_pairs_anonymized.csv).` + auditStatuses,
		Flags: options.flags("crows-pairs"),
		Action: func(c *cli.Context) error {
			return options.run(c, "crows-pairs", func() (*sentencesTask, error) {
				data, err := crowspairs.Read(options.data)
				if err != nil {
					return nil, err
				}
				return newSentencesTask(data.Items, data.File, crowSPairsQuestion), nil
			})
		},
	}
}

// sentencesTask is a data set's questions before sampling.
type sentencesTask struct {
	file      record.DataFile
	questions []question
}

func newSentencesTask[T any](items []T, file record.DataFile, ask func(*T) question) *sentencesTask {
	t := &sentencesTask{file: file}
	for i := range items {
		t.questions = append(t.questions, ask(&items[i]))
	}
	return t
}

func stereoSetQuestion(item *stereoset.Item) question {
	q := question{record: record.Record{
		ID: item.Condition + "/" + item.ID, Category: item.BiasType, Template: item.BiasType + "/" + item.Target,
		Condition: item.Condition, Label: record.NoLabel, Text: item.Context,
	}}
	before := ""
	if item.Condition == record.Intersentence {
		q.prompt, before = item.Context, " "
	}
	for _, o := range []record.Option{
		{Text: item.Stereotype, Role: record.Biased}, {Text: item.AntiStereotype, Role: record.Anti}, {Text: item.Unrelated, Role: record.Unrelated},
	} {
		q.record.Options = append(q.record.Options, o)
		q.options = append(q.options, before+o.Text)
	}
	return q
}

func crowSPairsQuestion(item *crowspairs.Item) question {
	return question{
		record: record.Record{
			ID: item.ID, Category: item.BiasType, Template: item.ID, Condition: item.Condition, Label: record.NoLabel,
			Options: []record.Option{{Text: item.More, Role: record.Biased}, {Text: item.Less, Role: record.Anti}},
		},
		options: []string{item.More, item.Less},
	}
}

// drawn returns n of the items, in their order, drawn with the seed; all of them for n = 0 or more than there are.
func drawn[T any](items []T, n int, seed uint64) []T {
	if n == 0 || n >= len(items) {
		return items
	}
	chosen := rand.New(rand.NewPCG(seed, 0x5e27e2ce)).Perm(len(items))[:n]
	slices.Sort(chosen)
	sample := make([]T, n)
	for i, at := range chosen {
		sample[i] = items[at]
	}
	return sample
}

func (o *sentencesOptions) run(c *cli.Context, benchmark string, read func() (*sentencesTask, error)) error {
	o.half = heldOut // without a meaning here
	if err := cmp.Or(noArguments(c), o.steerOptions.check(), o.outputOptions.check()); err != nil {
		return err
	}
	if o.data == "" {
		return usageError("which data? %s needs --data FILE; see %s --help", c.Command.HelpName, c.Command.HelpName)
	}
	if o.sample < 0 {
		return usageError("--sample %d: a number of items is not negative", o.sample)
	}
	data, err := read()
	if err != nil {
		return err
	}
	return o.audit(c.Context, benchmark, data, c.App.Writer, c.App.ErrWriter)
}

func (o *sentencesOptions) audit(ctx context.Context, benchmark string, data *sentencesTask, out, notes io.Writer) error {
	m, err := o.openScoring(false)
	if err != nil {
		return err
	}
	defer m.close()
	if _, err := m.tokens.start(); err != nil {
		return err
	}
	steering, err := o.steerOptions.load(m.model, notes)
	if err != nil {
		return err
	}
	if steering != nil {
		steering.recorded.Half = allOf // nothing here was fitted on
	}
	questions := drawn(data.questions, o.sample, o.seed)
	task := auditTask{
		run: record.Run{
			Benchmark: benchmark, Sample: o.sample, Items: len(questions), Prompt: noPrompt(),
			Data: record.Data{Files: []record.DataFile{data.file}, Kept: len(data.questions), LeftOut: []record.LeftOut{}},
		},
		question: func(i int) (question, error) {
			q := questions[i]
			q.record.Index = i
			return q, nil
		},
	}
	if o.sample > 0 {
		task.run.Seed = o.seed
	}
	dir := o.out
	if dir == "" {
		dir = benchmark + "-" + strings.TrimSuffix(filepath.Base(o.model), ".gguf")
	}
	if err := task.score(ctx, m, steering, dir, o.resume, notes); err != nil {
		return err
	}
	return reportRun(dir, o.outputOptions, out)
}

// noPrompt describes that texts are put to the model as they stand.
func noPrompt() record.Prompt {
	hash := sha256.Sum256(nil)
	return record.Prompt{SHA256: hex.EncodeToString(hash[:])}
}
