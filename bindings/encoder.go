package bindings

/*
#include "plumb.h"
*/
import "C"

import "context"

// Encoder embeds or classifies token sequences with an encoder model (BERT and its kin). It holds native memory, must be
// closed before its model, and may be used by one goroutine at a time.
type Encoder struct {
	c        *C.plumb_encoder
	classify bool
	width    int
}

// NewEncoder makes an encoder that embeds tokens or, with classify, gives the logits of the classifier in the file. It is an
// *Error with StatusUnsupported where the model is no encoder, or names no labels to classify by.
func (m *Model) NewEncoder(classify bool) (*Encoder, error) {
	var e C.plumb_error
	c := C.plumb_encoder_new(m.c, C.bool(classify), &e)
	if c == nil {
		return nil, errorOf(&e)
	}
	return &Encoder{c, classify, int(C.plumb_encoder_width(c))}, nil
}

// Close frees the encoder.
func (e *Encoder) Close() {
	C.plumb_encoder_free(e.c)
	e.c = nil
}

// Context is how many tokens a sequence may have.
func (e *Encoder) Context() int { return int(C.plumb_encoder_n_ctx(e.c)) }

// Labels are the names of what the model's classifier tells apart; nil if it has none.
func (m *Model) Labels() []string {
	var labels []string
	for i := range C.plumb_model_n_labels(m.c) {
		labels = append(labels, C.GoString(C.plumb_model_label(m.c, i)))
	}
	return labels
}

// Run returns the output of the last block at every token of a sequence, special tokens included; of a classifier it is one
// vector, a logit a label. A sequence that is too long is an *Error with StatusTooLong.
func (e *Encoder) Run(ctx context.Context, tokens []Token) ([][]float32, error) {
	if len(tokens) == 0 {
		return nil, &Error{StatusInvalid, "no tokens"}
	}
	rows := len(tokens)
	if e.classify {
		rows = 1
	}
	out := make([]float32, rows*e.width)
	err := cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var native C.plumb_error
		if C.plumb_encoder_run(e.c, (*C.int32_t)(&tokens[0]), C.int32_t(len(tokens)), cancel, (*C.float)(&out[0]), &native) != C.PLUMB_OK {
			return errorOf(&native)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, rows)
	for i := range vectors {
		vectors[i] = out[i*e.width : (i+1)*e.width : (i+1)*e.width]
	}
	return vectors, nil
}
