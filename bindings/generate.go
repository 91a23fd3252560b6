package bindings

/*
#include "plumb.h"
*/
import "C"

import (
	"context"
	"runtime"
	"strings"
)

// Sampling is how the next token is chosen.
type Sampling struct {
	Seed        uint32
	Temperature float32 // 0: always the likeliest token
	TopP        float32 // sample from the likeliest tokens that hold this probability together; 1: from all
}

// Generate continues a prompt under the steering with at most limit tokens and returns their text.
func (s *Session) Generate(ctx context.Context, prompt []Token, steering []Steering, sampling Sampling, limit int) (string, error) {
	if len(prompt) == 0 || limit < 1 {
		return "", &Error{StatusInvalid, "a prompt and what is generated have at least one token each"}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	steer, nSteer, err := s.pinSteering(steering, &pinner)
	if err != nil {
		return "", err
	}
	tokens := make([]Token, limit)
	var n C.int32_t
	c := C.plumb_sampling{seed: C.uint32_t(sampling.Seed), temperature: C.float(sampling.Temperature), top_p: C.float(sampling.TopP)}
	err = cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var e C.plumb_error
		if C.plumb_session_generate(s.c, (*C.int32_t)(&prompt[0]), C.int32_t(len(prompt)), steer, nSteer, &c, C.int32_t(limit),
			cancel, (*C.int32_t)(&tokens[0]), &n, &e) != C.PLUMB_OK {
			return errorOf(&e)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, token := range tokens[:n] {
		text.WriteString(s.model.TokenText(token))
	}
	return text.String(), nil
}
