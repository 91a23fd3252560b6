package bindings

/*
#include "plumb.h"
*/
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"
)

// SessionOptions lay out a session. The zero value takes plumb.h's defaults.
type SessionOptions struct {
	Context   int  // tokens that a batch may hold; 0: the model's, at most 4096
	BatchRows int  // rows that one graph computes; 0: 512
	Threads   int  // CPU threads; 0: the model's
	NoTrie    bool // score one sequence at a time
}

// Session scores token sequences with a model. It does one thing at a time; several of a model's may be at work at once.
type Session struct {
	c     *C.plumb_session
	model *Model
}

// NewSession makes a session.
func (m *Model) NewSession(opts SessionOptions) (*Session, error) {
	params := C.plumb_session_params_default()
	params.n_ctx = C.int32_t(opts.Context)
	params.n_batch_rows = C.int32_t(opts.BatchRows)
	params.n_threads = C.int32_t(opts.Threads)
	params.use_trie = C.bool(!opts.NoTrie)
	var e C.plumb_error
	c := C.plumb_session_new(m.c, &params, &e)
	if c == nil {
		return nil, errorOf(&e)
	}
	return &Session{c: c, model: m}, nil
}

// Workers returns how many sessions, that share the model's threads, do most side by side. Threads that compute one graph wait
// for each other after every node, which for a small model is a good part of the time; a larger one's contexts would take too
// much memory, and a GPU computes one graph at a time.
func (m *Model) Workers() int {
	info := m.Info()
	if !info.AsFloats || info.Devices != "CPU" {
		return 1
	}
	return min(info.Threads, 4)
}

// NewWorkers makes as many sessions as Workers says, each with its part of the threads, in place of opts'.
func (m *Model) NewWorkers(opts SessionOptions) ([]*Session, error) {
	var sessions []*Session
	for i, n := 0, m.Workers(); i < n; i++ {
		opts.Threads = (m.Info().Threads + i) / n // they add up to all
		session, err := m.NewSession(opts)
		if err != nil {
			for _, s := range sessions {
				s.Close()
			}
			return nil, err
		}
		sessions = append(sessions, session)
	}
	return sessions, nil
}

// Close frees the session.
func (s *Session) Close() {
	C.plumb_session_free(s.c)
	s.c = nil
}

// Layout is what a session was made with.
type Layout struct {
	Context   int  // tokens that a batch may hold
	BatchRows int  // rows that one graph computes
	Trie      bool // what sequences share is computed once
}

// Layout returns what the session was made with, after defaults and the list of architectures.
func (s *Session) Layout() Layout {
	var p C.plumb_session_params
	C.plumb_session_get_params(s.c, &p)
	return Layout{Context: int(p.n_ctx), BatchRows: int(p.n_batch_rows), Trie: bool(p.use_trie)}
}

// Request is a prompt and what may follow it. Neither the prompt nor a continuation may be empty.
type Request struct {
	Prompt        []Token
	Continuations [][]Token
}

// Operator is what a Steering does to the residual stream.
type Operator int

// The operators of a Steering.
const (
	Add        Operator = C.PLUMB_HOOK_ADD         // h + s·v
	ProjectOut Operator = C.PLUMB_HOOK_PROJECT_OUT // h − s·⟨h, v/|v|⟩·v/|v|
)

// Steering is an intervention on every row after one layer.
type Steering struct {
	Layer    int // 0-based block; EmbeddingLayer: the token embeddings
	Operator Operator
	Strength float32
	Vector   []float32 // of the model's width
}

// Score is the result of one request.
type Score struct {
	LogProbs [][]float32 // a continuation's tokens each: the natural log-probability after what stands before
	Err      error       // *Error with StatusTooLong or StatusNotFinite; LogProbs is then nil
}

// flat is requests as plumb.h wants them; its slices are pinned until release.
type flat struct {
	c             C.plumb_requests
	nPrompt       []int32
	nCont         []int32
	nTokens       []int32
	tokens        []int32
	nContTokens   int // of all continuations
	continuations int
	pinner        runtime.Pinner
}

func flatten(requests []Request) (*flat, error) {
	f := &flat{}
	for i, r := range requests {
		if len(r.Prompt) == 0 || len(r.Continuations) == 0 {
			return nil, fmt.Errorf("request %d has no prompt or no continuation", i)
		}
		f.nPrompt = append(f.nPrompt, int32(len(r.Prompt)))
		f.nCont = append(f.nCont, int32(len(r.Continuations)))
		f.tokens = append(f.tokens, r.Prompt...)
		for _, c := range r.Continuations {
			if len(c) == 0 {
				return nil, fmt.Errorf("request %d has an empty continuation", i)
			}
			f.nTokens = append(f.nTokens, int32(len(c)))
			f.tokens = append(f.tokens, c...)
			f.nContTokens += len(c)
		}
	}
	f.continuations = len(f.nTokens)
	f.c.n_requests = C.int32_t(len(requests))
	if len(requests) > 0 {
		f.c.n_prompt, f.c.n_continuations = pinned(&f.pinner, f.nPrompt), pinned(&f.pinner, f.nCont)
		f.c.n_tokens, f.c.tokens = pinned(&f.pinner, f.nTokens), pinned(&f.pinner, f.tokens)
	}
	return f, nil
}

// pinned is a list that is not empty as C reads it, pinned by p.
func pinned(p *runtime.Pinner, list []int32) *C.int32_t {
	p.Pin(&list[0])
	return (*C.int32_t)(&list[0])
}

func (f *flat) release() { f.pinner.Unpin() }

// pinSteering returns steering as plumb.h wants it. The vectors are pinned by p.
func (s *Session) pinSteering(steering []Steering, p *runtime.Pinner) (*C.plumb_steering, C.size_t, error) {
	if len(steering) == 0 {
		return nil, 0, nil
	}
	width := s.model.Info().Width
	c := make([]C.plumb_steering, len(steering))
	for i, st := range steering {
		if len(st.Vector) != width {
			return nil, 0, &Error{StatusInvalid, fmt.Sprintf("a direction at layer %d has %d components; the model's residual stream has %d",
				st.Layer, len(st.Vector), width)}
		}
		p.Pin(&st.Vector[0])
		c[i] = C.plumb_steering{layer: C.int32_t(st.Layer), op: C.plumb_hook_op(st.Operator), strength: C.float(st.Strength),
			vector: (*C.float)(unsafe.Pointer(&st.Vector[0]))}
	}
	p.Pin(&c[0])
	return &c[0], C.size_t(len(c)), nil
}

// BatchSize returns how many of the requests, from the first on, share a batch. It is a function of their tokens and of the
// session's layout alone if all that are left are handed in, or more than MaxSequences.
func (s *Session) BatchSize(requests []Request) (int, error) {
	f, err := flatten(requests)
	if err != nil {
		return 0, err
	}
	defer f.release()
	var n C.int32_t
	var e C.plumb_error
	if C.plumb_session_batch(s.c, &f.c, &n, &e) != C.PLUMB_OK {
		return 0, errorOf(&e)
	}
	return int(n), nil
}

// cancellable runs f with a cancellation that ctx sets off.
func cancellable(ctx context.Context, f func(*C.plumb_cancel) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cancel := C.plumb_cancel_new()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		C.plumb_cancel_now(cancel)
		close(done)
	})
	err := f(cancel)
	if !stop() {
		<-done // the cancellation must not be freed under the function that sets it
	}
	C.plumb_cancel_free(cancel)
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

// Score returns the log-probabilities of the requests' continuations under the steering, and how many token rows were
// computed for them. Cancelling ctx ends it within one batch, with ctx's error.
func (s *Session) Score(ctx context.Context, requests []Request, steering []Steering) ([]Score, int, error) {
	if len(requests) == 0 {
		return nil, 0, nil
	}
	f, err := flatten(requests)
	if err != nil {
		return nil, 0, err
	}
	defer f.release()
	steer, nSteer, err := s.pinSteering(steering, &f.pinner)
	if err != nil {
		return nil, 0, err
	}
	logprobs := make([]float32, f.nContTokens)
	statuses := make([]int32, len(requests))
	var computed C.int64_t
	err = cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var e C.plumb_error
		if C.plumb_session_score(s.c, &f.c, steer, nSteer, cancel, (*C.float)(&logprobs[0]), (*C.int32_t)(&statuses[0]),
			&computed, &e) != C.PLUMB_OK {
			return errorOf(&e)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return s.scores(requests, logprobs, statuses), int(computed), nil
}

// ScoreSets is Score under each of several steerings: its i-th result is that under sets[i], nil meaning none. It takes less
// time than one Score each, since blocks up to the lowest layer that a set steers are computed once a batch.
func (s *Session) ScoreSets(ctx context.Context, requests []Request, sets [][]Steering) ([][]Score, error) {
	if len(requests) == 0 || len(sets) == 0 {
		return make([][]Score, len(sets)), nil
	}
	f, err := flatten(requests)
	if err != nil {
		return nil, err
	}
	defer f.release()
	c := make([]C.plumb_steering_set, len(sets))
	for i, set := range sets {
		if c[i].steering, c[i].n_steering, err = s.pinSteering(set, &f.pinner); err != nil {
			return nil, err
		}
	}
	logprobs := make([]float32, len(sets)*f.nContTokens)
	statuses := make([]int32, len(sets)*len(requests))
	err = cancellable(ctx, func(cancel *C.plumb_cancel) error {
		var e C.plumb_error
		if C.plumb_session_score_sets(s.c, &f.c, &c[0], C.size_t(len(c)), cancel, (*C.float)(&logprobs[0]),
			(*C.int32_t)(&statuses[0]), nil, &e) != C.PLUMB_OK {
			return errorOf(&e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	scores := make([][]Score, len(sets))
	for i := range sets {
		scores[i] = s.scores(requests, logprobs[i*f.nContTokens:(i+1)*f.nContTokens], statuses[i*len(requests):(i+1)*len(requests)])
	}
	return scores, nil
}

func (s *Session) scores(requests []Request, logprobs []float32, statuses []int32) []Score {
	scores := make([]Score, len(requests))
	at := 0
	for i, r := range requests {
		for _, c := range r.Continuations {
			scores[i].LogProbs = append(scores[i].LogProbs, logprobs[at:at+len(c):at+len(c)])
			at += len(c)
		}
		longest := 0
		for _, c := range r.Continuations {
			longest = max(longest, len(c))
		}
		if err := s.statusError(statuses[i], "prompt and continuation are", len(r.Prompt)+longest); err != nil {
			scores[i] = Score{Err: err}
		}
	}
	return scores
}

// statusError is what a request's or a sequence's status says; nil for one that is well.
func (s *Session) statusError(status int32, what string, tokens int) error {
	switch Status(status) {
	case StatusTooLong:
		return &Error{StatusTooLong, fmt.Sprintf("%s %d tokens; the context holds %d", what, tokens, s.Layout().Context)}
	case StatusNotFinite:
		return &Error{StatusNotFinite, "the model's output is not a number (a strength beyond what it bears?)"}
	}
	return nil
}
