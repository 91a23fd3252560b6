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

	"plumb/audit/capability"
	"plumb/audit/record"
	"plumb/bindings"
)

// capabilityData say which capability is measured.
type capabilityData struct {
	mmlu     string
	first    int
	wikitext string
	segments int
	windows  int
}

func (o *capabilityData) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "mmlu", Usage: "ask the questions of MMLU in `PATH`, a file SUBJECT_test.csv or their folder", Destination: &o.mmlu},
		&cli.IntFlag{Name: "first", Usage: "ask the first `N` of them, in the published order (0: all)", Value: 400, Destination: &o.first},
		&cli.StringFlag{Name: "wikitext", Usage: "compute the perplexity of the text `FILE`, such as WikiText-2's wiki.test.raw", Destination: &o.wikitext},
		&cli.IntFlag{Name: "segments", Usage: "of its first `N` lines that are not empty", Value: 40, Destination: &o.segments},
		&cli.IntFlag{Name: "windows", Usage: "and, as llama.cpp's perplexity program does, of its first `N` windows of 512 tokens", Destination: &o.windows},
	}
}

func (o *capabilityData) check() error {
	switch {
	case o.first < 0:
		return usageError("--first %d: a number of questions is not negative", o.first)
	case o.segments < 0:
		return usageError("--segments %d: a number of lines is not negative", o.segments)
	case o.windows < 0:
		return usageError("--windows %d: a number of windows is not negative", o.windows)
	}
	return nil
}

type auditCapabilityOptions struct {
	modelOptions
	capabilityData
	steerOptions
	outputOptions
	out    string
	resume bool
}

func (o *auditCapabilityOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.capabilityData.flags()...)
	flags = append(flags, o.actionFlags()...)
	flags = append(flags,
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the run in `DIR` (default: capability- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the run in DIR if it was cut", Destination: &o.resume})
	for _, flag := range o.outputOptions.flags() {
		if flag.Names()[0] != "read-out" {
			flags = append(flags, flag)
		}
	}
	return flags
}

func auditCapabilityCommand() *cli.Command {
	var options auditCapabilityOptions
	return &cli.Command{
		Name:  "capability",
		Usage: "MMLU and WikiText-2: what an intervention costs",
		Description: `MMLU is asked zero-shot: the question, a line "Answer:", and the four options' texts as continuations, of which the
one with the highest mean token log-probability is the answer. The published order is that of the subjects' names and
of the rows in their files.

The perplexity is exp of the mean negative log-probability of all scored tokens, by two definitions. Segments: each of
the first lines that are not empty is scored by itself, from its second token on, the first being the BOS if the model
asks for one (Answerability Confounds (GCD), appendix H). Windows: the text is cut into windows of 512 tokens, each
begins with the BOS if the model asks for one, and the second half of each is scored; this is what llama.cpp's
perplexity program prints.` + auditStatuses,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runAuditCapability(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func runAuditCapability(ctx context.Context, o *auditCapabilityOptions, out, notes io.Writer) error {
	o.half = heldOut // without a meaning here
	if err := cmp.Or(o.capabilityData.check(), o.steerOptions.check(), o.outputOptions.check()); err != nil {
		return err
	}
	if o.mmlu == "" && o.wikitext == "" {
		return usageError("which data? --mmlu PATH, --wikitext FILE, or both")
	}
	data, err := o.capabilityData.read()
	if err != nil {
		return err
	}
	m, err := o.openScoring(false)
	if err != nil {
		return err
	}
	defer m.close()
	steering, err := o.steerOptions.load(m.model, notes)
	if err != nil {
		return err
	}
	if steering != nil {
		steering.recorded.Half = allOf // nothing here was fitted on
	}
	task, err := data.task(&m.tokens)
	if err != nil {
		return err
	}
	dir := o.out
	if dir == "" {
		dir = "capability-" + strings.TrimSuffix(filepath.Base(o.model), ".gguf")
	}
	if err := task.score(ctx, m, steering, dir, o.resume, notes); err != nil {
		return err
	}
	return reportRun(dir, o.outputOptions, out)
}

// capabilityTask is the data that was read.
type capabilityTask struct {
	options   *capabilityData
	files     []record.DataFile
	questions []capability.Question
	text      string
	kept      int
}

func (o *capabilityData) read() (*capabilityTask, error) {
	t := &capabilityTask{options: o}
	if o.mmlu != "" {
		var err error
		if t.questions, t.files, err = capability.ReadMMLU(o.mmlu); err != nil {
			return nil, err
		}
		t.kept = len(t.questions)
		if o.first > 0 {
			t.questions = t.questions[:min(o.first, len(t.questions))]
		}
	}
	if o.wikitext != "" {
		text, file, err := capability.ReadText(o.wikitext)
		if err != nil {
			return nil, err
		}
		t.text, t.files = text, append(t.files, file)
	}
	return t, nil
}

// mmluPrompt is the prompt of a question; an option follows after a space.
func mmluPrompt(q *capability.Question) string { return q.Text + "\nAnswer:" }

// task makes the questions, with the texts in tokens.
func (t *capabilityTask) task(tokens *tokenizer) (*auditTask, error) {
	var list []question
	for i := range t.questions {
		item := &t.questions[i]
		q := question{prompt: mmluPrompt(item), record: record.Record{
			ID: item.ID, Category: item.Subject, Template: item.ID, Condition: capability.MMLU, Label: item.Label, Text: item.Text,
		}}
		for _, option := range item.Options {
			q.record.Options = append(q.record.Options, record.Option{Text: option})
			q.options = append(q.options, " "+option)
		}
		list = append(list, q)
	}
	if t.text != "" {
		segments, err := t.segments(tokens)
		if err != nil {
			return nil, err
		}
		windows, err := t.windows(tokens)
		if err != nil {
			return nil, err
		}
		t.kept += len(segments) + len(windows)
		list = append(append(list, segments...), windows...)
	}
	if len(list) == 0 {
		return nil, usageError("nothing to measure: neither questions, nor --segments, nor --windows")
	}
	return &auditTask{
		run: record.Run{
			Benchmark: capability.Benchmark, Sample: t.options.first, Items: len(list), Prompt: noPrompt(),
			Data: record.Data{Files: t.files, Kept: t.kept, LeftOut: []record.LeftOut{}},
		},
		question: func(i int) (question, error) {
			q := list[i]
			q.record.Index = i
			return q, nil
		},
	}, nil
}

// textQuestion is a part of the text, of which the tokens from the given one on are scored.
func (t *capabilityTask) textQuestion(condition string, i int, text string, tokens []bindings.Token, from int) question {
	name := t.files[len(t.files)-1].Name
	return question{
		record: record.Record{
			ID: fmt.Sprintf("%s/%d", condition, i), Category: name, Template: fmt.Sprintf("%s/%d", condition, i), Condition: condition,
			Label: record.NoLabel, Options: []record.Option{{Text: text}},
		},
		request: &bindings.Request{Prompt: tokens[:from], Continuations: [][]bindings.Token{tokens[from:]}},
	}
}

// segments are the first lines of the text that have something to score.
func (t *capabilityTask) segments(tokens *tokenizer) ([]question, error) {
	var list []question
	for _, line := range capability.Lines(t.text) {
		if len(list) == t.options.segments {
			break
		}
		of, err := tokens.tokens(line)
		if err != nil {
			return nil, err
		}
		if len(of) > 1 {
			list = append(list, t.textQuestion(capability.Segments, len(list), line, of, 1))
		}
	}
	return list, nil
}

// windows are cut as llama.cpp's perplexity program cuts them: the text is tokenized once; a rest that fills no window does
// not count; the first token of each gives way to the BOS where the model asks for one; the tokens after the middle one
// are scored.
func (t *capabilityTask) windows(tokens *tokenizer) ([]question, error) {
	if t.options.windows == 0 {
		return nil, nil
	}
	const size = capability.WindowTokens
	all, err := tokens.model.Tokenize(t.text, true, false)
	if err != nil {
		return nil, err
	}
	if len(all) < size {
		return nil, fmt.Errorf("%s has %d tokens; a window has %d", t.options.wikitext, len(all), size)
	}
	if tokens.context < size {
		return nil, fmt.Errorf("%s: the context holds %d tokens; a window has %d", tokens.model.path, tokens.context, size)
	}
	var list []question
	for i := 0; i < t.options.windows && (i+1)*size <= len(all); i++ {
		window := slices.Clone(all[i*size : (i+1)*size])
		if tokens.bos {
			if window[0], err = tokens.start(); err != nil {
				return nil, err
			}
		}
		list = append(list, t.textQuestion(capability.Windows, i, "", window, size/2+1))
	}
	return list, nil
}
