package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"plumb/audit/report"
	"plumb/bindings"
)

// embedder gives every token of a text a vector in its context: the output of an encoder, or a causal model's residual
// stream after one block.
type embedder struct {
	model   *openedModel
	encoder *bindings.Encoder // nil of a causal model
	session *bindings.Session // of a causal model
	layer   int               // of a causal model; −1: an encoder's output
	own     bool              // model and session are the embedder's, and close with it

	maxBytes int // a longer text has more tokens than a sequence may
}

// middleLayer embeds by the middle layer of a causal model whose session somebody else closes.
func middleLayer(model *openedModel, session *bindings.Session) *embedder {
	return &embedder{model: model, session: session, layer: model.Info().Layers / 2, maxBytes: session.Layout().Context * model.longestToken()}
}

// openEmbedder opens the model of --embed-model: an encoder, or a causal model, of which it takes the middle layer.
func openEmbedder(name string, threads int) (*embedder, error) {
	options := modelOptions{model: name, threads: threads}
	model, err := options.load(bindings.ModelOptions{})
	if err != nil {
		return nil, fmt.Errorf("--embed-model: %w", err)
	}
	e, err := model.embedder()
	if err != nil {
		model.Close()
		return nil, fmt.Errorf("--embed-model: %w", err)
	}
	return e, nil
}

// embedder makes the embedder that closes the model.
func (m *openedModel) embedder() (*embedder, error) {
	if m.Info().IsEncoder {
		encoder, err := m.encoder(false)
		if err != nil {
			return nil, err
		}
		return &embedder{model: m, encoder: encoder, layer: -1, own: true, maxBytes: encoder.Context() * m.longestToken()}, nil
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	session, err := m.scoringSession()
	if err != nil {
		return nil, err
	}
	e := middleLayer(m, session)
	e.own = true
	return e, nil
}

// encoder makes an encoder of a model that reads text.
func (m *openedModel) encoder(classify bool) (*bindings.Encoder, error) {
	if !m.Info().HasVocabulary {
		return nil, fmt.Errorf("%s: the model has no vocabulary, so it cannot read text; take one that has", m.path)
	}
	encoder, err := m.NewEncoder(classify)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.path, err)
	}
	return encoder, nil
}

func (e *embedder) close() {
	if !e.own {
		return
	}
	if e.encoder != nil {
		e.encoder.Close()
	}
	if e.session != nil {
		e.session.Close()
	}
	e.model.Close()
}

// describe says what the vectors are.
func (e *embedder) describe() string {
	if e.encoder != nil {
		return "the output of the encoder " + filepath.Base(e.model.path)
	}
	return fmt.Sprintf("the residual stream after block %d of %s", e.layer, filepath.Base(e.model.path))
}

// embedded is a text's tokens and their vectors.
type embedded struct {
	text       string
	tokens     []bindings.Token
	first, end int         // the text's own tokens are tokens[first:end]; the others are special
	vectors    [][]float32 // one a token
}

// tokenize returns the text's tokens, without vectors.
//
// Where no BOS stands first, a line break does in a causal model: it gives the first token of a sequence a state like no
// other's, a hundred times as long, which must not be a word's.
func (e *embedder) tokenize(text string) (*embedded, error) {
	if err := checkBytes(text, e.maxBytes); err != nil {
		return nil, err
	}
	tokens, first, end, err := ownTokens(e.model.Model, text)
	if err != nil {
		return nil, &textError{err}
	}
	if e.encoder == nil {
		tokens = tokens[:end]
		if first == 0 {
			lineBreak, err := e.model.Tokenize("\n", false, false)
			if err != nil {
				return nil, err
			}
			tokens, first, end = append(lineBreak, tokens...), len(lineBreak), len(lineBreak)+end
		}
	}
	return &embedded{text: text, tokens: tokens, first: first, end: end}, nil
}

// checkBytes refuses a text that cannot fit before it is tokenized: some of llama.cpp's tokenizers take hours for a megabyte.
func checkBytes(text string, most int) error {
	if len(text) > most {
		return &textError{fmt.Errorf("the text is %s bytes, too long for the model's context", report.Thousands(len(text)))}
	}
	return nil
}

// embed returns the texts' tokens with their vectors. perText tells an error of one text.
func (e *embedder) embed(ctx context.Context, texts ...string) ([]*embedded, error) {
	list := make([]*embedded, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = e.tokenize(text); err != nil {
			return nil, err
		}
	}
	if e.encoder == nil {
		return list, e.readLayer(ctx, list)
	}
	for _, x := range list {
		var err error
		if x.vectors, err = e.encoder.Run(ctx, x.tokens); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readLayer fills in the vectors of a causal model.
func (e *embedder) readLayer(ctx context.Context, list []*embedded) error {
	var sequences []bindings.Sequence
	for _, x := range list {
		if len(x.tokens) > 0 {
			sequences = append(sequences, everywhere(x.tokens))
		}
	}
	states, errs, err := e.session.Residuals(ctx, sequences, nil, []int{e.layer})
	if err != nil {
		return err
	}
	if err := cmp.Or(errs...); err != nil {
		return &textError{err}
	}
	at := 0
	for _, x := range list {
		for range x.tokens {
			x.vectors = append(x.vectors, states.At(at, 0))
			at++
		}
	}
	return nil
}

// everywhere is a sequence that is read at each of its tokens.
func everywhere(tokens []bindings.Token) bindings.Sequence {
	all := bindings.Sequence{Tokens: tokens}
	for i := range tokens {
		all.Positions = append(all.Positions, i)
	}
	return all
}

// words are the words that the text's own tokens stand in, counted from 0; −1 for a token of white space. A token that
// reaches over several words is of the first.
func (e *embedder) words(x *embedded) ([]int, error) {
	if e.encoder != nil {
		return e.wordsByPrefix(x)
	}
	places, err := tokenPlaces(e.model.Model, x.text)
	if err != nil {
		return nil, &textError{err}
	}
	return places.words(), nil
}

// wordsByPrefix finds the words of tokens that do not spell the text (encoders lower it, strip its accents, or do not know a
// word): a word's tokens are those that the text up to its end has more than the text up to the word before.
func (e *embedder) wordsByPrefix(x *embedded) ([]int, error) {
	own := x.tokens[x.first:x.end]
	words := make([]int, 0, len(own))
	for word, end := range wordEnds(x.text) {
		prefix, err := e.model.Tokenize(x.text[:end], false, false)
		if err != nil {
			return nil, &textError{err}
		}
		if len(prefix) > len(own) || !slices.Equal(prefix, own[:len(prefix)]) {
			return nil, &textError{fmt.Errorf("the encoder's tokens of %.40q run over the ends of words, so that words have no certain tokens", x.text)}
		}
		for i := len(words); i < len(prefix); i++ {
			if isSpace(e.model.TokenText(own[i])) {
				words = append(words, -1)
			} else {
				words = append(words, word)
			}
		}
	}
	for len(words) < len(own) { // white space at the end
		words = append(words, -1)
	}
	return words, nil
}
