//go:build bench

// This file and llama_side.c need llama.cpp's headers, which `run` passes; hence the tag.

package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../csrc
#include <stdlib.h>
#include "llama_side.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

func init() {
	tasks["prompt"] = func(b *bench, r request) (answer, error) { return b.decode(r, r.Tokens) } // llama.cpp's prompt processing
	tasks["generate"] = func(b *bench, r request) (answer, error) { return b.decode(r, 1) }      // llama.cpp's generation
}

// llama is a context as llama.cpp makes one, whose evaluation callback is Plumb's hooks; opened when it is first asked for.
var llama *C.llama_side

// decode times llama.cpp on r.Tokens tokens in batches; at the layer r.Hook, if there is one, a direction is projected out.
func (b *bench) decode(r request, batch int) (answer, error) {
	if llama == nil {
		path := C.CString(b.path)
		defer C.free(unsafe.Pointer(path))
		if llama = C.llama_side_open(path, C.int32_t(runtime.NumCPU())); llama == nil {
			return answer{}, errors.New("llama.cpp does not open the model")
		}
	}
	layer := C.int32_t(C.LLAMA_SIDE_NO_HOOK)
	if r.Hook != nil {
		layer = C.int32_t(*r.Hook)
	}
	seconds := float64(C.llama_side_decode(llama, C.int32_t(r.Tokens), C.int32_t(batch), layer))
	if seconds < 0 {
		return answer{}, fmt.Errorf("llama.cpp did not decode %d tokens in batches of %d", r.Tokens, batch)
	}
	return answer{Seconds: seconds, Tokens: r.Tokens}, nil
}
