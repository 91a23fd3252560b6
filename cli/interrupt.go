package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
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
	for i := first; i < n; i++ {
		if interrupt.seen() {
			return errInterrupted
		}
		if err := do(ctx, i); err != nil {
			if interrupt.seen() && errors.Is(err, context.Canceled) {
				return errInterrupted
			}
			return err
		}
		progress.at(i + 1)
	}
	return nil
}
