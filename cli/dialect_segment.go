package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/bindings"
)

// segmenter cuts pairs by the embeddings of their tokens.
type segmenter struct{ *embedder }

// segmenter makes the segmenter: of --embed-model, or else of the middle layer of the model that is audited.
func (o *dialectData) segmenter(audited *openedModel, session *bindings.Session, threads int) (*segmenter, error) {
	if o.embedModel == "" {
		return &segmenter{middleLayer(audited, session)}, nil
	}
	e, err := openEmbedder(o.embedModel, threads)
	if err != nil {
		return nil, err
	}
	return &segmenter{e}, nil
}

// describe returns what a run records of the segmenter.
func (s *segmenter) describe() record.Segmentation {
	return record.Segmentation{Model: filepath.Base(s.model.path), SHA256: s.model.sha256, Layer: s.layer, Rho: dialect.Rho, Gamma: dialect.Gamma}
}

// segment cuts a pair that has no segments (the paper's appendix B.1). uncut is why this pair cannot be cut.
func (s *segmenter) segment(ctx context.Context, p *dialect.Pair) (uncut, err error) {
	if p.Segments != nil {
		return nil, nil
	}
	if uncut := p.Cuttable(); uncut != nil {
		return uncut, nil
	}
	texts, err := s.embed(ctx, p.SAE, p.AAE)
	if err != nil {
		return perText(err)
	}
	var sides [2]dialect.Tokens
	for i, x := range texts {
		if sides[i], err = s.tokens(x); err != nil {
			return perText(err)
		}
	}
	sae, aae := sides[0], sides[1]
	shifts, err := s.shifts(ctx, p.SAE, sae)
	if err != nil {
		return perText(err)
	}
	cut := dialect.Boundary(shifts)
	links := dialect.Align(sae, aae)
	if len(links) == 0 {
		return errors.New("no word of the AAE sentence corresponds to one of the SAE sentence"), nil
	}
	return p.Cut(cut, dialect.Project(links, cut, len(dialect.Words(p.AAE)))), nil
}

// shifts are d_j at the boundaries between the words of a text, φ of a segment being the mean of its tokens' vectors, of length
// 1. An encoder embeds each segment alone; a causal model, whose first token is like no other, the whole text, once.
func (s *segmenter) shifts(ctx context.Context, text string, tokens dialect.Tokens) ([]float64, error) {
	ends := wordEnds(text)
	shifts := make([]float64, len(ends)-1)
	for i := range shifts {
		at, _ := slices.BinarySearch(tokens.Word, i+1)
		left, right := tokens.States[:at], tokens.States[at:]
		if s.encoder != nil {
			sides, err := s.embed(ctx, text[:ends[i]], strings.TrimSpace(text[ends[i]:]))
			if err != nil {
				return nil, err
			}
			left, right = s.states(sides[0]), s.states(sides[1])
		}
		shifts[i] = dialect.Shift(meanState(left), meanState(right))
	}
	return shifts, nil
}

// states are the vectors, of length 1, of the text's own tokens.
func (s *segmenter) states(x *embedded) [][]float64 {
	var states [][]float64
	for _, vector := range x.vectors[x.first:x.end] {
		states = append(states, unit(vector))
	}
	return states
}

// tokens are the vectors, of length 1, of the tokens that stand in words.
func (s *segmenter) tokens(x *embedded) (dialect.Tokens, error) {
	var out dialect.Tokens
	words, err := s.words(x)
	states := s.states(x)
	for i, word := range words {
		if word >= 0 {
			out.States = append(out.States, states[i])
			out.Word = append(out.Word, word)
		}
	}
	return out, err
}

func meanState(states [][]float64) []float64 {
	if len(states) == 0 {
		return nil
	}
	mean := make([]float64, len(states[0]))
	for _, state := range states {
		floats.Add(mean, state)
	}
	floats.Scale(1/float64(len(states)), mean)
	return mean
}

// unit is a state as a vector of length 1.
func unit(state []float32) []float64 {
	out := make([]float64, len(state))
	for i, x := range state {
		out[i] = float64(x)
	}
	if norm := floats.Norm(out, 2); norm > 0 {
		floats.Scale(1/norm, out)
	}
	return out
}
<<<<<<< HEAD

// states returns the hidden states of the sequences' tokens after the segmenter's layer, of length 1.
func (s *segmenter) states(ctx context.Context, sequences [][]bindings.Token) ([][][]float64, error) {
	var requests []bindings.Request
	for _, sequence := range sequences {
		// in more than one graph, every token's state would cost the whole sentence before it
		if most := s.session.Layout().BatchRows; len(sequence) > most {
			return nil, &bindings.Error{Status: bindings.StatusTooLong, Message: fmt.Sprintf("the sentence is %s tokens; one of up to %s can be cut", report.Thousands(len(sequence)), report.Thousands(most))}
		}
		requests = append(requests, prefixes(sequence)...)
	}
	scores, residuals, err := s.session.Residuals(ctx, requests, nil, []int{s.layer}, false)
	if err != nil {
		return nil, err
	}
	out := make([][][]float64, len(sequences))
	at := 0
	for i, sequence := range sequences {
		for range sequence {
			if scores[at].Err != nil {
				return nil, scores[at].Err
			}
			out[i] = append(out[i], unit(residuals.At(at, 0)))
			at++
		}
	}
	return out, nil
}

// prefixes are requests that end at every token of a sequence; in a trie each token is one row. What would follow is of no
// interest.
func prefixes(sequence []bindings.Token) []bindings.Request {
	requests := make([]bindings.Request, len(sequence))
	for i := range sequence {
		requests[i] = bindings.Request{Prompt: sequence[:i+1], Continuations: [][]bindings.Token{sequence[:1]}}
	}
	return requests
}

// tokenized is a text's tokens with their places in it.
type tokenized struct {
	tokens  []bindings.Token
	special int   // tokens before the text's own (BOS)
	start   []int // of every token of the text, in bytes; the last element is the text's length
	text    string
}

// tokenize tokenizes a text and finds each token's place, by spelling the tokens out: whatever the tokenizer, the places
// are exact or it is an error.
//
// Where no BOS stands first, a line break does: causal models give the first token of a sequence a state like no other's,
// a hundred times as long, which must not be a word's.
func (s *segmenter) tokenize(text string) (tokenized, error) {
	t, err := tokenPlaces(s.model.Model, text)
	if err != nil || t.special > 0 {
		return t, err
	}
	lineBreak, err := s.model.Tokenize("\n", false, false)
	t.tokens, t.special = append(lineBreak, t.tokens...), len(lineBreak)
	return t, err
}

// tokenPlaces tokenizes a text as the start of a sequence.

func tokenPlaces(model *bindings.Model, text string) (tokenized, error) {
	t := tokenized{text: text}
	var err error
	if t.tokens, err = model.Tokenize(text, true, false); err != nil {
		return t, err
	}
	own, err := model.Tokenize(text, false, false)
	if err != nil {
		return t, err
	}
	for t.special = 0; t.special+len(own) <= len(t.tokens); t.special++ {
		if slices.Equal(t.tokens[t.special:t.special+len(own)], own) {
			break
		}
	}
	if t.special+len(own) > len(t.tokens) {
		return t, fmt.Errorf("the tokenizer gives %.40q other tokens at the start of a sequence", text)
	}
	t.tokens = t.tokens[:t.special+len(own)] // an EOS would end the text
	var spelt strings.Builder
	var ends []int
	for _, token := range own {
		spelt.WriteString(model.TokenText(token))
		ends = append(ends, spelt.Len())
	}
	shift := 0
	switch spelt.String() {
	case text:
	case " " + text: // SentencePiece's space before the first word
		shift = 1
	default:
		return t, fmt.Errorf("the model's tokens of %.40q do not spell it, so that words have no certain tokens", text)
	}
	t.start = append(t.start, 0)
	for _, end := range ends {
		t.start = append(t.start, max(0, end-shift))
	}
	return t, nil
}

// ofWords gives the states, of all tokens, to the words that the tokens stand in. A token of white space alone is of no
// word; one that reaches over several words is of the first.
func (t tokenized) ofWords(states [][]float64) dialect.Tokens {
	var out dialect.Tokens
	word := wordAt(t.text)
	for i := range len(t.start) - 1 {
		for at := t.start[i]; at < t.start[i+1]; at++ {
			if word[at] >= 0 {
				out.States = append(out.States, states[t.special+i])
				out.Word = append(out.Word, word[at])
				break
			}
		}
	}
	return out
}

// wordAt is the word that each byte of a text belongs to, −1 for white space.
func wordAt(text string) []int {
	words := make([]int, 0, len(text))
	current, inWord := -1, false
	for _, r := range text {
		space := unicode.IsSpace(r)
		if !space && !inWord {
			current++
		}
		inWord = !space
		for range utf8.RuneLen(r) {
			if space {
				words = append(words, -1)
			} else {
				words = append(words, current)
			}
		}
	}
	return words
}

// overlapping are the tokens, of all, that share a byte with text[start:end].
func (t tokenized) overlapping(start, end int) []int {
	var list []int
	for i := range len(t.start) - 1 {
		if t.start[i] < end && t.start[i+1] > start {
			list = append(list, t.special+i)
		}
	}
	return list
}
=======
>>>>>>> b9a00b09238f350f963eef2d121b2693dbda471d
