package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/floats"

	"plumb/audit/dialect"
	"plumb/audit/record"
)

// segmenter cuts pairs by the embeddings of their tokens.
type segmenter struct{ *embedder }

// segmenter makes the segmenter: of --embed-model, or else of the middle layer of the model that is audited.
func (o *dialectData) segmenter(audited *scoringModel, threads int) (*segmenter, error) {
	if o.embedModel == "" {
		return &segmenter{middleLayer(audited.model, audited.session)}, nil
	}
	e, err := openEmbedder(o.embedModel, threads)
	if err != nil {
		return nil, err
	}
	return &segmenter{e}, nil
}

// describe returns what a run records of the segmenter.
func (s *segmenter) describe() record.Segmentation {
	return record.Segmentation{
		Model: filepath.Base(s.model.path), SHA256: s.model.sha256, Layer: s.layer,
		Rho: dialect.Rho, Gamma: dialect.Gamma, Margin: dialect.Margin,
		Sure: dialect.Sure, MostOpen: dialect.MostOpen, MostCrossing: dialect.MostCrossing,
	}
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
		if uncut, err = perText(err); uncut != nil {
			uncut = fmt.Errorf("%w; take a shorter text, or cut it by a model with a longer context (--embed-model)", uncut)
		}
		return uncut, err
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
	projected, uncut := dialect.Project(dialect.Align(sae, aae), cut, len(dialect.Words(p.AAE)))
	if uncut != nil {
		return uncut, nil
	}
	return p.Cut(cut, projected), nil
}

// shifts are d_j at the boundaries between the words of a text, φ of a segment being the mean of its tokens' vectors, of length
// 1 (their sum will do: only its direction counts). An encoder embeds each segment alone; a causal model, whose first token is
// like no other, the whole text, once.
func (s *segmenter) shifts(ctx context.Context, text string, tokens dialect.Tokens) ([]float64, error) {
	ends := wordEnds(text)
	shifts := make([]float64, len(ends)-1)
	if s.encoder != nil {
		for i := range shifts {
			sides, err := s.embed(ctx, text[:ends[i]], strings.TrimSpace(text[ends[i]:]))
			if err != nil {
				return nil, err
			}
			shifts[i] = dialect.Shift(sum(s.states(sides[0])), sum(s.states(sides[1])))
		}
		return shifts, nil
	}
	right := sum(tokens.States)
	left := make([]float64, len(right))
	at := 0
	for i := range shifts {
		for ; at < len(tokens.Word) && tokens.Word[at] <= i; at++ {
			floats.Add(left, tokens.States[at])
			floats.Sub(right, tokens.States[at])
		}
		shifts[i] = dialect.Shift(left, right)
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

func sum(states [][]float64) []float64 {
	if len(states) == 0 {
		return nil
	}
	total := make([]float64, len(states[0]))
	for _, state := range states {
		floats.Add(total, state)
	}
	return total
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
