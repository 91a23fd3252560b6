package bindings

/*
#include "plumb.h"
*/
import "C"

import (
	"context"
	"unsafe"
)

// Noise is Gaussian noise on the embeddings of some of a prompt's tokens: the i-th of them gets Strength times the i-th
// vector of the seed.
type Noise struct {
	Positions []int // in the prompt, ascending
	Strength  float32
	Seed      uint64
}

// Patch puts a residual stream in the place of what is computed for one prompt token after one layer.
type Patch struct {
	Layer    int
	Position int // in the prompt; negative: nothing is put anywhere
	Vector   []float32
}

// Patched scores a request under the noise, once for each patch, and returns the log-probabilities by patch, continuation
// and token. An error with StatusTooLong says that prompt and continuations do not fit one graph of the session.
func (s *Session) Patched(ctx context.Context, request Request, noise Noise, patches []Patch) ([][][]float32, error) {
	if len(patches) == 0 {
		return nil, nil
	}
	f, err := flatten([]Request{request})
	if err != nil {
		return nil, err
	}
	defer f.release()
	width := s.model.Info().Width
	c := make([]C.plumb_patch, len(patches))
	for i, p := range patches {
		c[i] = C.plumb_patch{layer: C.int32_t(p.Layer), position: C.int32_t(p.Position)}
		if p.Position >= 0 {
			if len(p.Vector) != width {
				return nil, &Error{StatusInvalid, "a patch is not as wide as the residual stream"}
			}
			f.pinner.Pin(&p.Vector[0])
			c[i].vector = (*C.float)(unsafe.Pointer(&p.Vector[0]))
		}
	}
	n := C.plumb_noise{n_positions: C.int32_t(len(noise.Positions)), strength: C.float(noise.Strength), seed: C.uint64_t(noise.Seed)}
	if len(noise.Positions) > 0 {
		positions := make([]int32, len(noise.Positions))
		for i, p := range noise.Positions {
			positions[i] = int32(p)
		}
		f.pinner.Pin(&positions[0])
		n.positions = (*C.int32_t)(&positions[0])
	}
	flatProbs := make([]float32, len(patches)*f.nContTokens)
	err = cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var e C.plumb_error
		if C.plumb_session_patch(s.c, &f.c, &n, &c[0], C.int32_t(len(c)), cancel, (*C.float)(&flatProbs[0]), &e) != C.PLUMB_OK {
			return errorOf(&e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([][][]float32, len(patches))
	at := 0
	for i := range out {
		for _, continuation := range request.Continuations {
			out[i] = append(out[i], flatProbs[at:at+len(continuation):at+len(continuation)])
			at += len(continuation)
		}
	}
	return out, nil
}
