package ordered

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// upTo returns the numbers below n, then the error.
func upTo(n int, end error) func() (int, error) {
	i := -1
	return func() (int, error) {
		if i++; i < n {
			return i, nil
		}
		return 0, end
	}
}

func sleepy(int) { time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond) }

func TestDoTakesResultsInOrder(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		var atOnce, most atomic.Int64
		var taken []int
		err := Do(workers, upTo(100, io.EOF), func(_, job int) (int, error) {
			if now := atOnce.Add(1); now > most.Load() {
				most.Store(now)
			}
			sleepy(job)
			atOnce.Add(-1)
			return job * job, nil
		}, func(job, square int) error {
			if square != job*job {
				t.Errorf("%d has the result %d", job, square)
			}
			taken = append(taken, job)
			return nil
		})
		if err != nil || len(taken) != 100 || !slices.IsSorted(taken) {
			t.Errorf("%d workers: %v, %v", workers, taken, err)
		}
		if most.Load() > int64(workers) || workers > 1 && most.Load() < 2 {
			t.Errorf("%d workers: %d jobs at once", workers, most.Load())
		}
	}
}

func TestDoGivesAWorkerOneJobAtATime(t *testing.T) {
	var busy [3]atomic.Bool
	err := Do(3, upTo(100, io.EOF), func(worker, job int) (int, error) {
		if busy[worker].Swap(true) {
			t.Errorf("worker %d has two jobs", worker)
		}
		sleepy(job)
		busy[worker].Store(false)
		return 0, nil
	}, func(int, int) error { return nil })
	if err != nil {
		t.Error(err)
	}
}

// Not even next runs beside the one worker: what it uses is not locked (the race detector would tell).
func TestDoWithOneWorkerIsOneByOne(t *testing.T) {
	var steps []string
	numbers := upTo(2, io.EOF)
	step := func(name string) { steps = append(steps, name) }
	err := Do(1, func() (int, error) {
		step("next")
		return numbers()
	}, func(int, int) (int, error) {
		step("work")
		return 0, nil
	}, func(int, int) error {
		step("take")
		return nil
	})
	if want := []string{"next", "work", "take", "next", "work", "take", "next"}; err != nil || !slices.Equal(steps, want) {
		t.Errorf("%v, %v", steps, err)
	}
}

func TestDoEndsWithTheFirstError(t *testing.T) {
	stop, broken, full := errors.New("stop"), errors.New("broken"), errors.New("full")
	tests := []struct {
		name             string
		end, work, take  error
		want             error
		wantTaken, among int
	}{
		{"next: all before it are taken", stop, nil, nil, stop, 20, 20},
		{"work: all before it are taken", io.EOF, broken, nil, broken, 7, 20},
		{"take", io.EOF, nil, full, full, 7, 20},
		{"work before next", stop, broken, nil, broken, 7, 9},
	}
	for i := range 2 * len(tests) {
		test, workers := tests[i/2], 1+2*(i%2)
		t.Run(fmt.Sprintf("%s, workers: %d", test.name, workers), func(t *testing.T) {
			taken := 0
			err := Do(workers, upTo(test.among, test.end), func(_, job int) (int, error) {
				sleepy(job)
				if job == 7 {
					return 0, test.work
				}
				return 0, nil
			}, func(job, _ int) error {
				if job == 7 && test.take != nil {
					return test.take
				}
				taken++
				return nil
			})
			if !errors.Is(err, test.want) || taken != test.wantTaken {
				t.Errorf("%v after %d, want %v after %d", err, taken, test.want, test.wantTaken)
			}
		})
	}
}
