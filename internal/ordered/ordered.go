// Package ordered has work done side by side and takes its results in order.
package ordered

import (
	"errors"
	"io"
	"sync"
)

// Do has each worker, numbered from 0, do one job at a time, and takes the results in the jobs' order. Next returns the jobs
// and then io.EOF; it and take are called from one goroutine, never at the same time, and at most one job is taken from next
// that no worker has begun. An error of next ends Do once the jobs before it are taken. One of work or take ends it at once,
// but for jobs that were begun: those end, and are not taken. The error returned is the first in the jobs' order.
//
// With one worker nothing runs beside anything else, so that next and take may use what work uses.
func Do[Job, Result any](workers int, next func() (Job, error), work func(worker int, job Job) (Result, error), take func(Job, Result) error) error {
	if workers == 1 {
		return oneByOne(next, func(job Job) (Result, error) { return work(0, job) }, take)
	}
	type task struct {
		job    Job
		result Result
		err    error
		done   chan struct{}
	}
	todo := make(chan *task)
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for t := range todo {
				t.result, t.err = work(w, t.job)
				close(t.done)
			}
		})
	}
	defer running.Wait()
	defer close(todo)

	var begun []*task // not taken yet
	var end error
	for {
		for end == nil && len(begun) <= workers {
			var job Job
			if job, end = next(); end == nil {
				t := &task{job: job, done: make(chan struct{})}
				todo <- t
				begun = append(begun, t)
			}
		}
		if len(begun) == 0 {
			if errors.Is(end, io.EOF) {
				return nil
			}
			return end
		}
		first := begun[0]
		begun = begun[1:]
		<-first.done
		if first.err != nil {
			return first.err
		}
		if err := take(first.job, first.result); err != nil {
			return err
		}
	}
}

func oneByOne[Job, Result any](next func() (Job, error), work func(Job) (Result, error), take func(Job, Result) error) error {
	for {
		job, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		result, err := work(job)
		if err != nil {
			return err
		}
		if err := take(job, result); err != nil {
			return err
		}
	}
}
