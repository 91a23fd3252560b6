package bindings

/*
#include "plumb.h"
*/
import "C"

import (
	"context"
	"fmt"
)

// GradientOptions lay out a Gradients. The zero value takes plumb.h's defaults.
type GradientOptions struct {
	Context int // tokens that a batch may hold; 0: the model's, at most 4096
	Rows    int // rows that are differentiated together, at most; 0: 128
}

// Gradients differentiates continuations' scores with respect to the residual stream. It has a context of its own; its model
// must have been opened with PlainWeights.
type Gradients struct {
	c     *C.plumb_gradients
	model *Model
}

// NewGradients makes a Gradients. The error's status is StatusUnsupported where the architecture cannot be differentiated.
func (m *Model) NewGradients(opts GradientOptions) (*Gradients, error) {
	params := C.plumb_gradients_params{n_ctx: C.int32_t(opts.Context), n_rows: C.int32_t(opts.Rows)}
	var e C.plumb_error
	c := C.plumb_gradients_new(m.c, &params, &e)
	if c == nil {
		return nil, errorOf(&e)
	}
	return &Gradients{c: c, model: m}, nil
}

// Close frees the Gradients.
func (g *Gradients) Close() {
	C.plumb_gradients_free(g.c)
	g.c = nil
}

// GradientJob says which gradients are taken.
type GradientJob struct {
	Layers         []int // block indices, ascending
	LogProbability bool  // a continuation's score is its mean token log-probability; else the mean raw logit of its tokens
	AllPositions   bool  // the sum over all positions; else the gradient at the last prompt token
}

// Run returns, for every continuation in order over all requests, the gradient of its score with respect to the residual
// stream after each layer of the job. errs has an entry a request: nil, or *Error with StatusTooLong or StatusNotFinite, whose
// continuations' gradients mean nothing.
func (g *Gradients) Run(ctx context.Context, requests []Request, job GradientJob) (gradients *Residuals, errs []error, err error) {
	if len(job.Layers) == 0 {
		return nil, nil, &Error{StatusInvalid, "no layer to take a gradient at"}
	}
	if len(requests) == 0 {
		return &Residuals{}, nil, nil
	}
	f, err := flatten(requests)
	if err != nil {
		return nil, nil, err
	}
	defer f.release()
	layers := make([]C.int32_t, len(job.Layers))
	for i, l := range job.Layers {
		layers[i] = C.int32_t(l)
	}
	f.pinner.Pin(&layers[0])
	gradients = &Residuals{layers: len(layers), width: g.model.Info().Width}
	gradients.data = make([]float32, f.continuations*gradients.layers*gradients.width)
	statuses := make([]int32, len(requests))
	c := C.plumb_gradients_job{layers: &layers[0], n_layers: C.int32_t(len(layers)),
		log_probability: C.bool(job.LogProbability), all_positions: C.bool(job.AllPositions)}
	err = cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var e C.plumb_error
		if C.plumb_gradients_run(g.c, &f.c, &c, cancel, (*C.float)(&gradients.data[0]), (*C.int32_t)(&statuses[0]), &e) != C.PLUMB_OK {
			return errorOf(&e)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	errs = make([]error, len(requests))
	for i, status := range statuses {
		switch Status(status) {
		case StatusTooLong:
			errs[i] = &Error{StatusTooLong, fmt.Sprintf("a prompt of %d tokens is too long to differentiate in one graph", len(requests[i].Prompt))}
		case StatusNotFinite:
			errs[i] = &Error{StatusNotFinite, "a gradient is not a number"}
		}
	}
	return gradients, errs, nil
}
