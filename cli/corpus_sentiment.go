package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"plumb/audit/corpus"
	"plumb/bindings"
)

// sentimentOf tells the sentiment of texts.
type sentimentOf interface {
	classify(ctx context.Context, text string) (label string, err error) // one of corpus.Sentiments; perText tells its errors
	describe() string
	sha256() string // of the model
	close()
}

// askedSentiment asks a causal model: the label with the highest mean token log-probability after the prompt.
type askedSentiment struct {
	session *bindings.Session // the validator's
	tokens  tokenizer
}

func (a *askedSentiment) describe() string { return filepath.Base(a.tokens.model.path) }
func (a *askedSentiment) sha256() string   { return a.tokens.model.sha256 }
func (a *askedSentiment) close()           {}

func (a *askedSentiment) classify(ctx context.Context, text string) (string, error) {
	q := question{prompt: fmt.Sprintf(corpus.SentimentPrompt, text)}
	for _, label := range corpus.Sentiments {
		q.options = append(q.options, " "+label)
	}
	request, err := a.tokens.request(&q)
	if err != nil {
		return "", &textError{err}
	}
	scores, _, err := a.session.Score(ctx, []bindings.Request{request}, nil)
	if err != nil {
		return "", err
	}
	if scores[0].Err != nil {
		return "", scores[0].Err
	}
	means := make([]float64, len(corpus.Sentiments))
	for i, logProbs := range scores[0].LogProbs {
		for _, x := range logProbs {
			means[i] += float64(x) / float64(len(logProbs))
		}
	}
	return corpus.Sentiments[slices.Index(means, slices.Max(means))], nil
}

// classifier is an encoder with a classifier of sentiments: the label with the highest logit.
type classifier struct {
	model   *openedModel
	encoder *bindings.Encoder
	labels  []string // of corpus.Sentiments, in the classifier's order

	maxBytes int // a longer text has more tokens than a sequence may
}

// openClassifier opens the model of --classifier.
func openClassifier(name string, threads int) (*classifier, error) {
	c := &classifier{}
	err := func() error {
		options := modelOptions{model: name, threads: threads}
		var err error
		if c.model, err = options.load(bindings.ModelOptions{}); err != nil {
			return err
		}
		if c.encoder, err = c.model.encoder(true); err != nil {
			return err
		}
		c.maxBytes = c.encoder.Context() * c.model.longestToken()
		c.labels, err = sentimentLabels(c.model.Labels())
		if err != nil {
			err = fmt.Errorf("%s: %w", c.model.path, err)
		}
		return err
	}()
	if err != nil {
		c.close()
		return nil, fmt.Errorf("--classifier: %w", err)
	}
	return c, nil
}

// sentimentLabels are a classifier's labels as corpus.Sentiments. They must be these three, in any order and case.
func sentimentLabels(labels []string) ([]string, error) {
	var list []string
	for _, label := range labels {
		list = append(list, strings.ToLower(label))
	}
	if sorted := slices.Sorted(slices.Values(list)); !slices.Equal(sorted, corpus.Sentiments) {
		return nil, fmt.Errorf("its labels are %s, not negative, neutral and positive; take a classifier of sentiment whose configuration names them so (id2label)", strings.Join(labels, ", "))
	}
	return list, nil
}

func (c *classifier) describe() string { return "the classifier " + filepath.Base(c.model.path) }
func (c *classifier) sha256() string   { return c.model.sha256 }

func (c *classifier) close() {
	if c.encoder != nil {
		c.encoder.Close()
	}
	if c.model != nil {
		c.model.Close()
	}
}

func (c *classifier) classify(ctx context.Context, text string) (string, error) {
	if err := checkBytes(text, c.maxBytes); err != nil {
		return "", err
	}
	tokens, err := c.model.Tokenize(text, true, false)
	if err != nil {
		return "", &textError{err}
	}
	logits, err := c.encoder.Run(ctx, tokens)
	if err != nil {
		return "", err
	}
	return c.labels[slices.Index(logits[0], slices.Max(logits[0]))], nil
}
