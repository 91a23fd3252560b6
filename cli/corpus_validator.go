package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"plumb/audit/corpus"
	"plumb/bindings"
)

// validator scores triplets.
type validator struct {
	embedder  *embedder
	sentiment sentimentOf // nil: it is not asked for
	idf       *corpus.IDF // nil: every token weighs 1
	model     *openedModel
	session   *bindings.Session // of model
}

// open opens the models that the flags name.
func (o *corpusValidateOptions) open() (*validator, error) {
	v := &validator{}
	err := o.openInto(v)
	if err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func (o *corpusValidateOptions) openInto(v *validator) error {
	var err error
	switch {
	case o.sentiment && o.classifier != "":
		return usageError("the sentiment is --model's (--sentiment) or a classifier's (--classifier), not both")
	case o.model != "" && o.embedModel != "" && !o.sentiment:
		return usageError("--embed-model embeds, so that --model has nothing to do; leave one of them out, or add --sentiment")
	case o.model == "" && o.embedModel == "":
		return usageError("which model embeds? --embed-model FILE.gguf, an encoder, or --model FILE.gguf")
	}
	if o.embedModel == "" || o.sentiment {
		if v.model, err = o.modelOptions.open(bindings.ModelOptions{}); err != nil {
			return err
		}
		if v.session, err = v.model.scoringSession(); err != nil {
			return err
		}
	}
	if o.embedModel == "" {
		v.embedder = middleLayer(v.model, v.session)
	} else if v.embedder, err = openEmbedder(o.embedModel, o.threads); err != nil {
		return err
	}
	if o.layer >= 0 {
		if v.embedder.encoder != nil {
			return usageError("--layer is of causal models; an encoder is read at its output")
		}
		if layers := v.embedder.model.Info().Layers; o.layer >= layers {
			return usageError("--layer %d: the model has the blocks 0 to %d", o.layer, layers-1)
		}
		v.embedder.layer = o.layer
	}
	switch {
	case o.sentiment:
		tokens, err := v.model.tokenizer(v.session.Layout().Context, false)
		if err != nil {
			return err
		}
		v.sentiment = &askedSentiment{v.session, tokens}
	case o.classifier != "":
		classifier, err := openClassifier(o.classifier, o.threads)
		if err != nil {
			return err
		}
		v.sentiment = classifier
	}
	return nil
}

func (v *validator) close() {
	if v.sentiment != nil {
		v.sentiment.close()
	}
	if v.embedder != nil {
		v.embedder.close()
	}
	if v.session != nil {
		v.session.Close()
	}
	if v.model != nil {
		v.model.Close()
	}
}

// models tells the models' contents, so that scores of others are not gone on with.
func (v *validator) models() string {
	hashes := v.embedder.model.sha256
	if v.sentiment != nil {
		hashes += ", " + v.sentiment.sha256()
	}
	return hashes
}

// validateAll scores the triplets that are not among the partial ones, and keeps them there.
func (v *validator) validateAll(ctx context.Context, triplets []corpus.Triplet, partial *corpus.Partial[corpus.Validation], bar progress) ([]corpus.Validation, error) {
	list := make([]corpus.Validation, len(triplets))
	err := eachUntilInterrupted(ctx, 0, len(triplets), bar, func(ctx context.Context, i int) error {
		var done bool
		if list[i], done = partial.Find(triplets[i].ID); done {
			return nil
		}
		var err error
		if list[i], err = v.validate(ctx, &triplets[i]); err != nil {
			return err
		}
		return partial.Append(triplets[i].ID, list[i])
	})
	return list, err
}

// check returns what says why a validation that was kept cannot be that of a triplet.
func (v *validator) check(triplets []corpus.Triplet) func(id string, result *corpus.Validation) error {
	known := map[string]bool{}
	for _, t := range triplets {
		known[t.ID] = true
	}
	return func(id string, result *corpus.Validation) error {
		switch {
		case !known[id]:
			return fmt.Errorf("there is no triplet %.80q", id)
		case result.ID != id:
			return fmt.Errorf("the result is of %.80q", result.ID)
		case result.Error != "":
			return nil
		case result.BERTScore == nil:
			return errors.New("a triplet has a BERTScore, or an error that says why not")
		case v.sentiment != nil && !(slices.Contains(corpus.Sentiments, result.SentimentAAE) && slices.Contains(corpus.Sentiments, result.SentimentSAE)):
			return errors.New("a sentiment is missing, or none of those that were asked for")
		}
		return nil
	}
}

// validate scores one triplet. What is wrong with the triplet alone is in its Error.
func (v *validator) validate(ctx context.Context, t *corpus.Triplet) (corpus.Validation, error) {
	result := corpus.Validation{ID: t.ID}
	texts, err := v.embedder.embed(ctx, t.AAEBack, t.AAE)
	if err == nil {
		score, ok := corpus.NewBERTScore(v.weighed(texts[0]), v.weighed(texts[1]))
		if ok {
			result.BERTScore = &score
		} else {
			result.Error = "BERTScore is undefined, as a text has no tokens"
		}
	}
	if err == nil && v.sentiment != nil {
		if result.SentimentAAE, err = v.sentiment.classify(ctx, t.AAE); err == nil {
			result.SentimentSAE, err = v.sentiment.classify(ctx, t.SAE)
		}
	}
	if err != nil {
		var ofText error
		if ofText, err = perText(err); ofText != nil {
			result.Error = ofText.Error()
		}
	}
	return result, err
}

// weighed is a text with its tokens' weights. Special tokens weigh nothing.
func (v *validator) weighed(x *embedded) corpus.Embedded {
	weights := make([]float64, len(x.tokens))
	for i := x.first; i < x.end; i++ {
		weights[i] = 1
		if v.idf != nil {
			weights[i] = v.idf.Of(x.tokens[i])
		}
	}
	return corpus.Embedded{Vectors: x.vectors, Weights: weights}
}

// frequencies counts in how many AAE texts, the references, each token is. A text that cannot be tokenized is reported when
// it is scored.
func (v *validator) frequencies(triplets []corpus.Triplet) *corpus.IDF {
	var texts [][]int32
	for i := range triplets {
		if x, err := v.embedder.tokenize(triplets[i].AAE); err == nil {
			texts = append(texts, x.tokens)
		}
	}
	return corpus.NewIDF(texts)
}
