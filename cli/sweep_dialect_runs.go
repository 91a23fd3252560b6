package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/bindings"
)

// sweeper audits the same pairs again and again.
type sweeper struct {
	options *auditDialectOptions
	task    *dialectTask
	*scoringModel
	notes io.Writer
}

func openSweep(ctx context.Context, options *auditDialectOptions, deal dialect.Deal, notes io.Writer) (*sweeper, error) {
	s := &sweeper{options: options, notes: notes}
	var err error
	if s.task, err = options.dialectData.read(notes); err != nil {
		return nil, err
	}
	if s.task.asking, err = options.asking(s.task.lexicon); err != nil {
		return nil, err
	}
	if s.scoringModel, err = options.openScoring(false); err != nil {
		return nil, err
	}
	if s.task.cutter, err = options.segmenter(s.scoringModel, options.threads); err == nil {
		err = s.task.take(ctx, options.split, deal)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.task.draw(options.sample, options.seed)
	return s, nil
}

func (s *sweeper) close() {
	if s.task.cutter != nil {
		s.task.cutter.close()
	}
	s.scoringModel.close()
}

// sweepRun is one audit of a sweep.
type sweepRun struct {
	dir         string
	steering    *intervention // nil: the model as it is
	instruction string        // with one, of the reported pairs alone: nothing is chosen by it
	writer      *record.Writer
	items       int
}

// ask has the task ask what a run asks, of the pairs that it is of. all are the sweep's.
func (t *dialectTask) ask(r *sweepRun, all []dialect.Pair) {
	t.asking.Instruction, t.pairs, t.at = r.instruction, all, -1
	if r.instruction != "" {
		t.pairs = dialect.Reported(all)
	}
}

// audit makes the runs, or goes on with them.
func (s *sweeper) audit(ctx context.Context, runs []sweepRun) (err error) {
	open := record.Create
	if s.options.resume {
		open = record.Resume
	}
	defer func() {
		for _, r := range runs {
			if r.writer != nil {
				err = cmp.Or(err, r.writer.Close())
			}
		}
	}()
	all, n := s.task.pairs, 0
	for i := range runs {
		s.task.ask(&runs[i], all)
		run := s.task.describe()
		run.Dialect.ReportedOnly = runs[i].instruction != ""
		runs[i].items = run.Items
		n += run.Items
		s.model.describe(&run, s.session)
		if runs[i].steering != nil {
			run.Steering = runs[i].steering.recorded
		}
		if runs[i].writer, err = open(runs[i].dir, run); err != nil {
			return err
		}
	}
	if done := doneOf(runs); done > 0 && done < n {
		fmt.Fprintf(s.notes, "plumb: %s: going on after %s of %s\n", filepath.Base(filepath.Dir(runs[0].dir)), report.Thousands(done), report.Count(n, "item"))
	}
	progress := newProgress(s.notes, n, doneOf(runs))
	tell := func() { progress.at(doneOf(runs)) }
	// those that ask the same are scored together, a batch under all steerings
	for rest := runs; len(rest) > 0 && err == nil; {
		same := 1
		for same < len(rest) && rest[same].instruction == rest[0].instruction {
			same++
		}
		s.task.ask(&rest[0], all)
		err = s.score(ctx, rest[:same], tell)
		rest = rest[same:]
	}
	progress.end()
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("interrupted after %s of %s; the same command with --resume goes on", report.Thousands(doneOf(runs)), report.Count(n, "item"))
	}
	return err
}

func doneOf(runs []sweepRun) int {
	done := 0
	for _, r := range runs {
		done += r.writer.Done()
	}
	return done
}

// score scores what any of the runs lacks. A batch that was cut between two runs is scored for all that are not complete again,
// so that the sweep ends in the bytes of one that was not cut. All of the runs ask the same; tell is called after each batch.
func (s *sweeper) score(ctx context.Context, runs []sweepRun, tell func()) error {
	n := runs[0].items
	at := n
	var unfinished []sweepRun
	var sets [][]bindings.Steering
	for _, r := range runs {
		if r.writer.Done() == n {
			continue
		}
		at = min(at, r.writer.Done())
		unfinished = append(unfinished, r)
		var actions []bindings.Steering
		if r.steering != nil {
			actions = r.steering.actions
		}
		sets = append(sets, actions)
	}
	question := func(i int) (question, error) { return s.task.question(ctx, i) }
	return s.scoreQuestions(ctx, at, n, question, sets, func(group []waiting, all [][]bindings.Score) error {
		for i, r := range unfinished {
			if r.writer.Done() > at {
				continue
			}
			if err := r.writer.Append(recordsOf(group, all[i], at, 0)); err != nil {
				return err
			}
		}
		at += len(group)
		tell()
		return nil
	})
}
