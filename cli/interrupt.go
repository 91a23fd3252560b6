package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"plumb/internal/ordered"
)

// errInterrupted ends work that a person stopped.
var errInterrupted = errors.New("interrupted")

// interruption is whether a person asked the program to end.
type interruption struct {
	asked   atomic.Bool
	first   chan struct{} // closed when it is seen
	signals chan os.Signal
}

// watchInterrupts watches for SIGINT and SIGTERM until stop. The first one is seen; the second one calls now.
func watchInterrupts(now func()) *interruption {
	i := &interruption{first: make(chan struct{}), signals: make(chan os.Signal, 2)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range i.signals {
			if i.asked.Swap(true) {
				now()
			} else {
				close(i.first)
			}
		}
	}()
	return i
}

func (i *interruption) seen() bool { return i.asked.Load() }

// stop ends the watch. After an interrupt it does not: the program is about to end with its own line, and a further signal
// would end it without.
func (i *interruption) stop() {
	if !i.seen() {
		signal.Stop(i.signals)
		close(i.signals)
	}
}

// eachUntilInterrupted calls do with first … n−1 in turn and tells progress, until one fails or a person interrupts; what do
// computes then stops at once.
func eachUntilInterrupted(ctx context.Context, first, n int, progress progress, do func(ctx context.Context, i int) error) error {
	return sideBySide(ctx, 1, first, n, progress,
		func(ctx context.Context, _, i int) (struct{}, error) { return struct{}{}, do(ctx, i) },
		func(int, struct{}) error { return nil })
}

// sideBySide has each of the workers do one of first … n−1 at a time, and keeps the results in order. It ends as
// eachUntilInterrupted does.
func sideBySide[Result any](ctx context.Context, workers, first, n int, progress progress, do func(ctx context.Context, worker, i int) (Result, error), keep func(i int, result Result) error) error {
	defer progress.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	interrupt := watchInterrupts(func() {})
	defer interrupt.stop()
	go func() {
		select {
		case <-interrupt.first:
			cancel()
		case <-ctx.Done():
		}
	}()
	next := first
	return ordered.Do(workers,
		func() (int, error) {
			if next == n {
				return 0, io.EOF
			}
			next++
			return next - 1, nil
		},
		func(worker, i int) (result Result, err error) {
			if interrupt.seen() {
				return result, errInterrupted
			}
			result, err = do(ctx, worker, i)
			if interrupt.seen() && errors.Is(err, context.Canceled) {
				err = errInterrupted
			}
			return result, err
		},
		func(i int, result Result) error {
			if err := keep(i, result); err != nil {
				return err
			}
			progress.at(i + 1)
			return nil
		})
}
