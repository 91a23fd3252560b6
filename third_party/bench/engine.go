package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"
	"time"

	"plumb/audit/bbq"
	"plumb/bindings"
	"plumb/internal/ordered"
)

// request is one measurement asked for.
type request struct {
	Task   string `json:"task"`
	Layers []int  `json:"layers"` // contrast, gradients; sweep: one

	Strengths []float32 `json:"strengths"` // sweep
	Tokens    int       `json:"tokens"`    // prompt, generate
	Hook      *int      `json:"hook"`      // prompt, generate: the layer that is hooked, null for none
}

// answer is what was measured.
type answer struct {
	Seconds float64 `json:"seconds"`
	Items   int     `json:"items,omitempty"`
	Tokens  int     `json:"tokens,omitempty"` // computed; what items share is computed once
	Peak    int64   `json:"peak,omitempty"`   // the process's largest resident memory so far, in bytes
}

// tasks is what may be asked for; llama.go adds two.
var tasks = map[string]func(*bench, request) (answer, error){
	"score":     (*bench).score,         // every option of every item
	"pairs":     (*bench).pairs,         // both continuations after both contexts of every pair of sentences
	"trace":     (*bench).trace,         // one context: every layer's state at every token of its marker restored in turn
	"sweep":     (*bench).sweep,         // the same under each of the strengths of a projection after a layer
	"contrast":  (*bench).contrast,      // the residual stream after layers at the last token of the biased and anti option
	"gradients": (*bench).takeGradients, // of every option's mean raw logit, after layers, at the last prompt token
}

type bench struct {
	path    string
	model   *bindings.Model
	session *bindings.Session
	workers []*bindings.Session // that share the threads
	samples

	gradients *bindings.Gradients // opened when they are first asked for, since they count as memory
}

func newBench(path string) (*bench, error) {
	model, err := bindings.OpenModel(path, bindings.ModelOptions{PlainWeights: true})
	if err != nil {
		return nil, err
	}
	session, err := model.NewSession(bindings.SessionOptions{})
	if err != nil {
		model.Close()
		return nil, err
	}
	b := &bench{path: path, model: model, session: session}
	if b.workers, err = model.NewWorkers(bindings.SessionOptions{}); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	for _, worker := range b.workers {
		worker.Close()
	}
	if b.gradients != nil {
		b.gradients.Close()
	}
	b.session.Close()
	b.model.Close()
}

func requestsOf(samples []sample) []bindings.Request {
	var requests []bindings.Request
	for _, s := range samples {
		requests = append(requests, bindings.Request{Prompt: s.Prompt, Continuations: s.Options})
	}
	return requests
}

// scoreBatch scores the requests that share the first batch and returns the others.
func (b *bench) scoreBatch(requests []bindings.Request) (rest []bindings.Request, err error) {
	size, err := b.session.BatchSize(requests)
	if err != nil {
		return nil, err
	}
	_, _, err = b.session.Score(context.Background(), requests[:size], nil)
	return requests[size:], err
}

// eachBatch has the workers do every batch of the requests, as an audit does, and returns what they computed.
func (b *bench) eachBatch(requests []bindings.Request, work func(*bindings.Session, []bindings.Request) (rows int, err error)) (rows int, err error) {
	err = ordered.Do(len(b.workers),
		func() ([]bindings.Request, error) {
			if len(requests) == 0 {
				return nil, io.EOF
			}
			size, err := b.session.BatchSize(requests)
			if err != nil {
				return nil, err
			}
			batch := requests[:size]
			requests = requests[size:]
			return batch, nil
		},
		func(worker int, batch []bindings.Request) (int, error) { return work(b.workers[worker], batch) },
		func(_ []bindings.Request, n int) error {
			rows += n
			return nil
		})
	return rows, err
}

func (b *bench) scoreAll(requests []bindings.Request) (rows int, err error) {
	return b.eachBatch(requests, func(session *bindings.Session, batch []bindings.Request) (int, error) {
		_, rows, err := session.Score(context.Background(), batch, nil)
		return rows, err
	})
}

func (b *bench) score(request) (answer, error) {
	requests := requestsOf(b.Items)
	start := time.Now()
	rows, err := b.scoreAll(requests)
	if err != nil {
		return answer{}, err
	}
	seconds := time.Since(start).Seconds()
	peak, err := peakMemory()
	return answer{Seconds: seconds, Items: len(requests), Tokens: rows, Peak: peak}, err
}

// pairs scores the contexts of two a pair.
func (b *bench) pairs(request) (answer, error) {
	requests := requestsOf(b.Pairs)
	start := time.Now()
	rows, err := b.scoreAll(requests)
	return answer{Seconds: time.Since(start).Seconds(), Items: len(requests) / 2, Tokens: rows}, err
}

// trace takes the clean states, too, as the other side does.
func (b *bench) trace(request) (answer, error) {
	var layers []int
	for l := range b.model.Info().Layers {
		layers = append(layers, l)
	}
	start := time.Now()
	clean, _, err := b.session.Residuals(context.Background(), []bindings.Sequence{{Tokens: b.Traced.Prompt, Positions: b.Markers}}, nil, layers)
	if err != nil {
		return answer{}, err
	}
	patches := []bindings.Patch{{Position: -1}}
	for _, l := range layers {
		for i, p := range b.Markers {
			patches = append(patches, bindings.Patch{Layer: l, Position: p, Vector: clean.At(i, l)})
		}
	}
	noise := bindings.Noise{Positions: b.Markers, Strength: 0.3, Seed: 1}
	_, err = b.session.Patched(context.Background(), requestsOf([]sample{b.Traced})[0], noise, patches)
	return answer{Seconds: time.Since(start).Seconds(), Items: len(patches) - 1}, err
}

func (b *bench) sweep(r request) (answer, error) {
	direction := make([]float32, b.model.Info().Width)
	for i := range direction {
		direction[i] = float32(1 - 2*(i%2))
	}
	var sets [][]bindings.Steering
	for _, strength := range r.Strengths {
		sets = append(sets, []bindings.Steering{{Layer: r.Layers[0], Operator: bindings.ProjectOut, Strength: strength, Vector: direction}})
	}
	requests := requestsOf(b.Items)
	start := time.Now()
	_, err := b.eachBatch(requests, func(session *bindings.Session, batch []bindings.Request) (int, error) {
		_, err := session.ScoreSets(context.Background(), batch, sets)
		return 0, err
	})
	return answer{Seconds: time.Since(start).Seconds(), Items: len(requests)}, err
}

// contrast takes the mean difference between the biased and the anti option.
func (b *bench) contrast(r request) (answer, error) {
	var ends []bindings.Sequence
	for _, s := range b.Items {
		for _, role := range []bbq.Role{bbq.Biased, bbq.Anti} {
			ends = append(ends, bindings.EndOf(slices.Concat(s.Prompt, s.Options[slices.Index(s.Roles, role)])))
		}
	}
	width := b.model.Info().Width
	mean := make([]float64, len(r.Layers)*width)
	start := time.Now()
	residuals, errs, err := b.session.Residuals(context.Background(), ends, nil, r.Layers)
	if err := errors.Join(append(errs, err)...); err != nil {
		return answer{}, err
	}
	for i := range b.Items {
		for l := range r.Layers {
			biased, anti := residuals.At(2*i, l), residuals.At(2*i+1, l)
			for j := range width {
				mean[l*width+j] += float64(biased[j]-anti[j]) / float64(len(b.Items))
			}
		}
	}
	return answer{Seconds: time.Since(start).Seconds(), Items: len(b.Items)}, nil
}

func (b *bench) takeGradients(r request) (answer, error) {
	if b.gradients == nil {
		var err error
		if b.gradients, err = b.model.NewGradients(bindings.GradientOptions{}); err != nil {
			return answer{}, err
		}
	}
	requests := requestsOf(b.Items)
	start := time.Now()
	_, errs, err := b.gradients.Run(context.Background(), requests, bindings.GradientJob{Layers: r.Layers})
	if err := errors.Join(append(errs, err)...); err != nil {
		return answer{}, err
	}
	return answer{Seconds: time.Since(start).Seconds(), Items: len(requests)}, nil
}

// peakMemory returns the largest resident memory of this process so far, in bytes.
func peakMemory() (int64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return int64(usage.Maxrss) << 10, nil // in KiB on Linux
}
