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

type corpusValidateOptions struct {
	modelOptions
	layer     int
	idf       bool
	sentiment bool
	out       string
	json      bool
}

func (o *corpusValidateOptions) flags() []cli.Flag {
	return append(o.modelOptions.flags(),
		&cli.IntFlag{Name: "layer", Usage: "embed tokens by the residual stream after block `L`, from 0 (default: the middle one)", Value: -1, Destination: &o.layer},
		&cli.BoolFlag{Name: "idf", Usage: "weigh tokens by their inverse document frequency in the AAE texts", Destination: &o.idf},
		&cli.BoolFlag{Name: "sentiment", Usage: "also classify the sentiment of AAE and SAE by the model", Destination: &o.sentiment},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep every triplet's scores in `FILE`, JSON lines, and a page with the figures beside it", Destination: &o.out},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json})
}

func corpusValidateCommand() *cli.Command {
	var options corpusValidateOptions
	return &cli.Command{
		Name:      "validate",
		Usage:     "score how much of the AAE text its back-translation keeps, and whether sentiment is kept",
		ArgsUsage: "TRIPLETS",
		Description: `Computes BERTScore (precision, recall, F1) of AAE_back against AAE: every token, as the residual stream of the model after
one block, is matched with the most similar one of the other text. Values of two models or layers cannot be compared,
nor with those of the paper, which has an encoder of its own.

A command that was killed goes on where it was. With --sentiment the model is asked for the sentiment of every AAE and SAE text; the label with the highest mean token
log-probability is taken, and the confusion matrix AAE × SAE printed.

EXIT STATUS
   0  the triplets are scored
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the triplets")
			if err != nil {
				return err
			}
			return runCorpusValidate(c.Context, &options, path, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// validationPage is the page beside a file of scores.
func validationPage(out string) string {
	return out[:len(out)-len(filepath.Ext(out))] + ".html"
}

func runCorpusValidate(ctx context.Context, options *corpusValidateOptions, path string, out, notes io.Writer) error {
	if err := checkOutput(options.out, path); err != nil {
		return err
	}
	triplets, err := corpus.ReadTriplets(path)
	if err != nil {
		return err
	}
	model, err := options.open(bindings.ModelOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	layers := model.Info().Layers
	layer := options.layer
	if layer < 0 {
		layer = layers / 2
	}
	if layer >= layers {
		return usageError("--layer %d: the model has the blocks 0 to %d", layer, layers-1)
	}
	session, err := model.scoringSession()
	if err != nil {
		return err
	}
	defer session.Close()
	tokens, err := model.tokenizer(session.Layout().Context, false)
	if err != nil {
		return err
	}
	v := &validator{session: session, tokens: tokens, layer: layer, sentiment: options.sentiment}
	if options.idf {
		v.idf = v.frequencies(triplets)
	}
	result := &corpus.Validated{Embedder: fmt.Sprintf("the residual stream after block %d of %s", layer, filepath.Base(model.path))}
	if options.idf {
		result.Embedder += ", tokens weighed by idf"
	}
	if options.sentiment {
		result.Classifier = filepath.Base(model.path)
	}
	hash, err := textHash(path)
	if err != nil {
		return err
	}
	partial, err := corpus.OpenPartialValidation(options.out+".partial", strings.Join([]string{result.Embedder, result.Classifier, model.sha256, hash}, "; "))
	if err != nil {
		return err
	}
	if partial.Done() > 0 {
		fmt.Fprintf(notes, "plumb: going on after %s of %s triplets\n", report.Thousands(partial.Done()), report.Thousands(len(triplets)))
	}
	bar := newProgress(notes, len(triplets), partial.Done())
	result.Validations, err = v.validateAll(ctx, triplets, partial, bar)
	bar.end()
	if err != nil {
		return cmp.Or(err, partial.Close())
	}
	if err := finishValidation(options, result, out); err != nil {
		return err
	}
	return partial.Remove()
}

func finishValidation(options *corpusValidateOptions, result *corpus.Validated, out io.Writer) error {
	if err := corpus.WriteJSONLines(options.out, result.Validations); err != nil {
		return err
	}
	page := validationPage(options.out)
	if err := corpus.WriteFile(page, result.WriteHTML); err != nil {
		return err
	}
	if err := reportStage(result.Summary(), options.out, options.json, out); err != nil || options.json {
		return err
	}
	_, err := fmt.Fprintf(out, "Report: %s\n", page)
	return err
}

// validator scores triplets by one model.
type validator struct {
	session   *bindings.Session
	tokens    tokenizer
	layer     int
	idf       *corpus.IDF // nil: every token weighs 1
	sentiment bool
}

// validateAll scores the triplets that are not among the partial ones, and keeps them there.
func (v *validator) validateAll(ctx context.Context, triplets []corpus.Triplet, partial *corpus.PartialValidation, bar progress) ([]corpus.Validation, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := watchInterrupts(stop)
	defer interrupt.stop()
	var list []corpus.Validation
	for i := range triplets {
		validation, done := partial.Find(triplets[i].ID)
		if !done {
			if interrupt.seen() {
				return nil, fmt.Errorf("interrupted after %s of %s triplets; the same command goes on", report.Thousands(partial.Done()), report.Thousands(len(triplets)))
			}
			var err error
			if validation, err = v.validate(ctx, &triplets[i]); err == nil {
				err = partial.Append(validation)
			}
			if err != nil {
				return nil, err
			}
		}
		list = append(list, validation)
		bar.at(i + 1)
	}
	return list, nil
}

// validate scores one triplet. What is wrong with the triplet alone is in its Error.
func (v *validator) validate(ctx context.Context, t *corpus.Triplet) (corpus.Validation, error) {
	result := corpus.Validation{ID: t.ID}
	embedded, err := v.embed(ctx, t.AAEBack, t.AAE)
	if err == nil {
		score, ok := corpus.NewBERTScore(embedded[0], embedded[1])
		if ok {
			result.BERTScore = &score
		} else {
			result.Error = "BERTScore is undefined, as a text has no tokens"
		}
	}
	if err == nil && v.sentiment {
		var labels []string
		if labels, err = v.classify(ctx, t.AAE, t.SAE); err == nil {
			result.SentimentAAE, result.SentimentSAE = labels[0], labels[1]
		}
	}
	var own *ownError
	if errors.As(err, &own) {
		result.Error, err = own.Error(), nil
	}
	return result, err
}

// ownError is an error of one text, not of the model.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// embed returns the texts' tokens as the residual stream after the layer. A BOS weighs nothing.
func (v *validator) embed(ctx context.Context, texts ...string) ([]corpus.Embedded, error) {
	var requests []bindings.Request
	embedded := make([]corpus.Embedded, len(texts))
	for i, text := range texts {
		tokens, err := v.tokens.tokens(text)
		if err != nil {
			return nil, &ownError{err}
		}
		for k, token := range tokens {
			weight := 1.0
			if v.tokens.bos && k == 0 {
				weight = 0
			} else if v.idf != nil {
				weight = v.idf.Of(token)
			}
			embedded[i].Weights = append(embedded[i].Weights, weight)
			// a sequence that ends here; in a trie it is one row more. What would follow is of no interest.
			requests = append(requests, bindings.Request{Prompt: tokens[:k+1], Continuations: [][]bindings.Token{tokens[:1]}})
		}
	}
	if len(requests) == 0 {
		return embedded, nil
	}
	scores, residuals, err := v.session.Residuals(ctx, requests, nil, []int{v.layer}, false)
	if err != nil {
		return nil, err
	}
	at := 0
	for i := range embedded {
		for range embedded[i].Weights {
			if scores[at].Err != nil {
				return nil, &ownError{scores[at].Err}
			}
			embedded[i].Vectors = append(embedded[i].Vectors, residuals.At(at, 0))
			at++
		}
	}
	return embedded, nil
}

// frequencies counts in how many AAE texts, the references, each token is. A text that cannot be tokenized is reported when
// it is scored.
func (v *validator) frequencies(triplets []corpus.Triplet) *corpus.IDF {
	var texts [][]int32
	for i := range triplets {
		tokens, err := v.tokens.tokens(triplets[i].AAE)
		if err == nil {
			texts = append(texts, tokens)
		}
	}
	return corpus.NewIDF(texts)
}

// classify returns the texts' sentiments: the label with the highest mean token log-probability after the prompt.
func (v *validator) classify(ctx context.Context, texts ...string) ([]string, error) {
	var requests []bindings.Request
	for _, text := range texts {
		q := question{prompt: fmt.Sprintf(corpus.SentimentPrompt, text)}
		for _, label := range corpus.Sentiments {
			q.options = append(q.options, " "+label)
		}
		request, err := v.tokens.request(&q)
		if err != nil {
			return nil, &ownError{err}
		}
		requests = append(requests, request)
	}
	scores, _, err := v.session.Score(ctx, requests, nil)
	if err != nil {
		return nil, err
	}
	var labels []string
	for _, score := range scores {
		if score.Err != nil {
			return nil, &ownError{score.Err}
		}
		means := make([]float64, len(score.LogProbs))
		for i, logProbs := range score.LogProbs {
			for _, x := range logProbs {
				means[i] += float64(x) / float64(len(logProbs))
			}
		}
		labels = append(labels, corpus.Sentiments[slices.Index(means, slices.Max(means))])
	}
	return labels, nil
}
