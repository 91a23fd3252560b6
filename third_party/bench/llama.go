package main

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../../csrc -I${SRCDIR}/../../build/llama/include
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

// llama is a context as llama.cpp makes one, whose evaluation callback is Plumb's hooks.
type llama struct {
	c *C.llama_side
}

func openLlama(path string) (*llama, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	c := C.llama_side_open(name, C.int32_t(runtime.NumCPU()))
	if c == nil {
		return nil, errors.New("llama.cpp does not open the model")
	}
	return &llama{c}, nil
}

func (l *llama) close() { C.llama_side_free(l.c) }

// prompt returns how long llama.cpp takes for a prompt of n tokens in one batch; hook, if not nil, is a layer where a
// direction is projected out.
func (l *llama) prompt(n int, hook *int) (seconds float64, err error) {
	return l.decode(n, n, hook)
}

// generate returns how long llama.cpp takes for n tokens, one after the other.
func (l *llama) generate(n int, hook *int) (seconds float64, err error) {
	return l.decode(n, 1, hook)
}

func (l *llama) decode(n, batch int, hook *int) (float64, error) {
	layer := C.int32_t(C.LLAMA_SIDE_NO_HOOK)
	if hook != nil {
		layer = C.int32_t(*hook)
	}
	seconds := float64(C.llama_side_decode(l.c, C.int32_t(n), C.int32_t(batch), layer))
	if seconds < 0 {
		return 0, fmt.Errorf("llama.cpp did not decode %d tokens in batches of %d", n, batch)
	}
	return seconds, nil
}
