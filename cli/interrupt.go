package cli

import (
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

func (i *interruption) stop() {
	signal.Stop(i.signals)
	close(i.signals)
}
