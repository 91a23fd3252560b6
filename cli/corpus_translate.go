package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/report"
	"plumb/bindings"
)

type corpusTranslateOptions struct {
	modelOptions
	endpointOptions
	toSAE, toAAE string
	maxTokens    int
	out          string
	resume       bool
	json         bool
}

func (o *corpusTranslateOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.endpointOptions.flags()...)
	return append(flags,
		&cli.StringFlag{Name: "to-sae", Usage: "take the prompt for AAE to SAE from `FILE`, a Go text/template over {{.Text}} (default: ours)", Destination: &o.toSAE},
		&cli.StringFlag{Name: "to-aae", Usage: "take the prompt for SAE to AAE from `FILE` (default: ours)", Destination: &o.toAAE},
		&cli.IntFlag{Name: "max-tokens", Usage: "end an answer after `N` tokens", Value: 256, Destination: &o.maxTokens},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep answers and triplets in `DIR`", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on after the answers in DIR", Destination: &o.resume},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json})
}

func corpusTranslateCommand() *cli.Command {
	var options corpusTranslateOptions
	return &cli.Command{
		Name:      "translate",
		Usage:     "have cleaned texts translated to SAE and back to AAE",
		ArgsUsage: "TEXTS",
		Description: `Translates every text from AAE to SAE, and the SAE text back to AAE, at temperature 0, by an instruction model in a GGUF
file (--model) or an OpenAI-compatible endpoint (--endpoint). DIR then holds

  answers.jsonl    every answer with its model, prompt hash and time, written as it comes
  triplets.jsonl   id, aae, sae, aae_back, in the texts' order
  failures.jsonl   the texts without a triplet, with the reason

A command that was killed goes on with --resume: what was answered is not asked again, unless the text, the prompt or
the model is another one. Where the endpoint fails, limits, breaks off or takes too long, it is asked again, ever later.
A text that it refuses is left out. Ctrl-C lets the requests under way end.

The default prompts:

` + indent(strings.TrimSpace(corpus.DefaultToSAE)) + `

` + indent(strings.TrimSpace(corpus.DefaultToAAE)) + `

EXIT STATUS
   0  every text is translated, or refused by the translator
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the cleaned texts")
			if err != nil {
				return err
			}
			return runCorpusTranslate(c.Context, &options, path, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func (o *corpusTranslateOptions) check() error {
	switch {
	case (o.modelOptions.model == "") == (o.url == ""):
		return usageError("who translates? either --model FILE.gguf or --endpoint URL")
	case o.maxTokens < 1:
		return usageError("--max-tokens %d: at least 1", o.maxTokens)
	case o.out == "":
		return usageError("where to? --out DIR")
	case o.url != "":
		return o.endpointOptions.check()
	}
	return nil
}

// Files of a translation's folder.
const (
	answersFile  = "answers.jsonl"
	tripletsFile = "triplets.jsonl"
	failuresFile = "failures.jsonl"
)

func runCorpusTranslate(ctx context.Context, options *corpusTranslateOptions, path string, out, notes io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	texts, err := corpus.ReadSentences(path)
	if err != nil {
		return err
	}
	toSAE, err := corpus.ReadPrompt(options.toSAE, corpus.DefaultToSAE)
	if err != nil {
		return err
	}
	toAAE, err := corpus.ReadPrompt(options.toAAE, corpus.DefaultToAAE)
	if err != nil {
		return err
	}
	t := &corpus.Translation{ToSAE: toSAE, ToAAE: toAAE}
	var remote *endpoint
	if options.url != "" {
		remote = options.endpointOptions.open(options.maxTokens)
		t.Translator = remote
		t.Model, t.Concurrency = options.endpointOptions.model+" at "+options.url, options.concurrency
	} else {
		local, err := options.openTranslator()
		if err != nil {
			return err
		}
		defer local.close()
		t.Translator, t.Concurrency = local, 1
		t.Model = filepath.Base(local.model.path) + " (SHA-256 " + local.model.sha256 + ")"
	}
	if err := makeFolder(options.out); err != nil {
		return err
	}
	if t.Journal, err = corpus.OpenJournal(filepath.Join(options.out, answersFile), options.resume); err != nil {
		return err
	}
	defer t.Journal.Close() // every answer is on the disk already
	if n := t.Journal.Answers(); n > 0 {
		fmt.Fprintf(notes, "plumb: going on after %s\n", report.Count(n, "answer"))
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := watchInterrupts(stop)
	defer interrupt.stop()
	if remote != nil {
		remote.stopped = interrupt.first
	}
	bar := newProgress(notes, len(texts), 0)
	t.Stopped, t.Progress = interrupt.seen, bar.at
	translated, err := t.Run(ctx, texts)
	bar.end()
	return finishTranslation(options, translated, err, interrupt.seen(), out)
}

// finishTranslation writes what was translated, and says what was not.
func finishTranslation(options *corpusTranslateOptions, translated *corpus.Translated, ended error, interrupted bool, out io.Writer) error {
	triplets := filepath.Join(options.out, tripletsFile)
	err := corpus.WriteJSONLines(filepath.Join(options.out, failuresFile), translated.Failures)
	if len(translated.Triplets) > 0 { // else those of an earlier command stay
		err = cmp.Or(err, corpus.WriteJSONLines(triplets, translated.Triplets))
	}
	goesOn := fmt.Sprintf("%s of %s translated; the same command with --resume goes on",
		report.Thousands(len(translated.Triplets)), report.Count(translated.Texts, "text"))
	switch {
	case ended != nil: // before err: what keeps answers from the disk keeps the triplets from it
		return fmt.Errorf("%w; %s", ended, goesOn)
	case err != nil:
		return fmt.Errorf("%w; %s", err, goesOn)
	case interrupted && translated.Left > 0:
		return errors.New("interrupted; " + goesOn)
	}
	if len(translated.Triplets) > 0 {
		if err := reportStage(translated.Summary(), triplets, options.json, out); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(translated.Failures, func(f corpus.Failure) bool { return !f.Refused }); i >= 0 {
		first := translated.Failures[i]
		return fmt.Errorf("%s failed, see %s (the first, %s: %s); %s", report.Count(translated.Failed(), "text"), filepath.Join(options.out, failuresFile), first.ID, first.Error, goesOn)
	}
	if len(translated.Triplets) == 0 {
		return fmt.Errorf("the translator refused every text, see %s", filepath.Join(options.out, failuresFile))
	}
	return nil
}

// localTranslator translates by a model in a GGUF file, one text at a time.
type localTranslator struct {
	*scoringModel
	maxTokens int
}

func (o *corpusTranslateOptions) openTranslator() (*localTranslator, error) {
	m, err := o.openScoring(false)
	if err != nil {
		return nil, err
	}
	if err := m.chatIfTrained(); err != nil {
		m.close()
		return nil, err
	}
	return &localTranslator{m, o.maxTokens}, nil
}

// Translate puts the prompt into the model's chat template, if it has one, and takes the likeliest tokens. A prompt that the
// model's context does not hold is refused.
func (l *localTranslator) Translate(ctx context.Context, prompt string) (corpus.Reply, error) {
	if l.tokens.chat {
		var err error
		if prompt, err = l.model.ChatPrompt(prompt); err != nil {
			return corpus.Reply{}, &corpus.Unusable{Err: err}
		}
	}
	tokens, err := l.tokens.tokens(prompt)
	if err != nil {
		return corpus.Reply{}, &corpus.Refused{Err: err}
	}
	text, err := l.session.Generate(ctx, tokens, nil, bindings.Sampling{TopP: 1}, l.maxTokens)
	var native *bindings.Error
	if errors.As(err, &native) && native.Status == bindings.StatusTooLong {
		return corpus.Reply{}, &corpus.Refused{Err: err}
	}
	if err != nil {
		return corpus.Reply{}, &corpus.Unusable{Err: err}
	}
	return corpus.Reply{Text: text, Finish: l.finish(text), Attempts: 1}, nil
}

// finish is why an answer ended: its tokens fill the limit, or the model ended it.
func (l *localTranslator) finish(text string) string {
	tokens, err := l.model.Tokenize(text, false, false)
	if err == nil && len(tokens) >= l.maxTokens {
		return "length"
	}
	return "stop"
}
