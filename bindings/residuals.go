package bindings

/*
#include "plumb.h"
*/
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// Sequence is tokens, and the positions among them that it is read at, ascending. Neither may be empty.
type Sequence struct {
	Tokens    []Token
	Positions []int
}

// EndOf is a sequence that is read at its last token.
func EndOf(tokens []Token) Sequence { return Sequence{tokens, []int{len(tokens) - 1}} }

// Ends are the request's prompt with each of its continuations, read at the last token.
func (r Request) Ends() []Sequence {
	ends := make([]Sequence, len(r.Continuations))
	for i, c := range r.Continuations {
		ends[i] = EndOf(slices.Concat(r.Prompt, c))
	}
	return ends
}

// Residuals are vectors of the residual stream's width, after several layers at several places: positions of sequences, or,
// where they are gradients, continuations of requests.
type Residuals struct {
	data   []float32
	layers int
	width  int
}

// At returns the vector of place i, counted over all sequences or requests, after the l-th layer asked for. It is a part of r.
func (r *Residuals) At(i, l int) []float32 {
	start := (i*r.layers + l) * r.width
	return r.data[start : start+r.width]
}

// Layers returns the vectors of place i after all layers asked for, one after the other. It is a part of r.
func (r *Residuals) Layers(i int) []float32 {
	size := r.layers * r.width
	return r.data[i*size : (i+1)*size]
}

// Residuals reads the residual stream under the steering, after each of the layers, at the sequences' positions. What
// sequences share is computed once, and blocks above the highest of the layers are not. errs has an entry a sequence: nil, or
// *Error with StatusTooLong or StatusNotFinite, and what was read of it then means nothing.
func (s *Session) Residuals(ctx context.Context, sequences []Sequence, steering []Steering, layers []int) (residuals *Residuals, errs []error, err error) {
	if len(layers) == 0 {
		return nil, nil, &Error{StatusInvalid, "no layer to read"}
	}
	if len(sequences) == 0 {
		return &Residuals{}, nil, nil
	}
	var nTokens, tokens, nPositions, positions []int32
	for i, sequence := range sequences {
		if len(sequence.Tokens) == 0 || len(sequence.Positions) == 0 {
			return nil, nil, fmt.Errorf("sequence %d has no token or is read nowhere", i)
		}
		nTokens = append(nTokens, int32(len(sequence.Tokens)))
		tokens = append(tokens, sequence.Tokens...)
		nPositions = append(nPositions, int32(len(sequence.Positions)))
		for _, p := range sequence.Positions {
			positions = append(positions, int32(p))
		}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	c := C.plumb_sequences{n_sequences: C.int32_t(len(sequences)), n_tokens: pinned(&pinner, nTokens), tokens: pinned(&pinner, tokens),
		n_positions: pinned(&pinner, nPositions), positions: pinned(&pinner, positions)}
	steer, nSteer, err := s.pinSteering(steering, &pinner)
	if err != nil {
		return nil, nil, err
	}
	residuals = &Residuals{layers: len(layers), width: s.model.Info().Width}
	residuals.data = make([]float32, len(positions)*len(layers)*residuals.width)
	statuses := make([]int32, len(sequences))
	numbers := make([]C.int32_t, len(layers))
	for i, l := range layers {
		numbers[i] = C.int32_t(l)
	}
	err = cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var e C.plumb_error
		if C.plumb_session_residuals(s.c, &c, steer, nSteer, &numbers[0], C.int32_t(len(layers)), cancel, (*C.int32_t)(&statuses[0]),
			(*C.float)(&residuals.data[0]), &e) != C.PLUMB_OK {
			return errorOf(&e)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	errs = make([]error, len(sequences))
	for i, status := range statuses {
		errs[i] = s.statusError(status, "the sequence is", len(sequences[i].Tokens))
	}
	return residuals, errs, nil
}
