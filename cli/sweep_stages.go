package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"plumb/audit/protocol"
	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/bindings"
	"plumb/steer"
)

// checkSweepDir refuses a directory that holds something else than a sweep to be resumed.
func checkSweepDir(dir string, resume bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return err
	case !protocol.IsSweep(dir):
		return fmt.Errorf("%s is not the directory of a sweep and not empty; choose another one", dir)
	case !resume:
		return fmt.Errorf("%s already holds a sweep; go on with it by --resume, or choose another directory", dir)
	}
	return nil
}

// scoreUnder puts the questions to the model as it is and under each configuration, and keeps the scores in the run
// directory.
func (t *auditTask) scoreUnder(ctx context.Context, m *scoringModel, list []configuration, dir string, resume bool, notes io.Writer) error {
	run, n := t.run, t.run.Items
	m.model.describe(&run, m.session)
	for _, c := range list {
		run.Steerings = append(run.Steerings, c.recorded)
	}
	run.Items = n * (1 + len(list))
	open := record.Create
	if resume {
		open = record.Resume
	}
	writer, err := open(dir, run)
	if err != nil {
		return err
	}
	done := writer.Done()
	if done > 0 && done < run.Items {
		fmt.Fprintf(notes, "plumb: %s: going on after %s of %s\n", filepath.Base(dir), report.Thousands(done), report.Count(run.Items, "record"))
	}
	progress := newProgress(notes, run.Items, done)
	err = t.passes(ctx, scorer{scoringModel: m, run: writer, progress: progress}, list, n)
	progress.end()
	err = cmp.Or(err, writer.Close())
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("interrupted after %s of %s of the stage %s; the same command with --resume goes on", report.Thousands(writer.Done()), report.Count(run.Items, "record"), filepath.Base(dir))
	}
	return err
}

// setsAPass is how many configurations are scored together: of all of them, a batch's residual stream is in memory at a time.
const setsAPass = 64

// passes scores the n questions under no steering and the first configurations, batch by batch together, then under the next.
func (t *auditTask) passes(ctx context.Context, s scorer, list []configuration, n int) error {
	s.steerings = make([][]bindings.Steering, 1)
	for {
		some := list[:min(setsAPass, len(list))]
		for _, c := range some {
			s.steerings = append(s.steerings, c.actions)
		}
		if s.run.Done() < s.before+n*len(s.steerings) {
			if err := s.score(ctx, n, t.question); err != nil {
				return err
			}
		}
		if list = list[len(some):]; len(list) == 0 {
			return nil
		}
		s.before += n * len(s.steerings)
		s.first, s.steerings = s.first+len(s.steerings), nil
	}
}

// heldOut are the configurations of the held-out half: the selected one, the default if it is another, the rest of the grid
// for the oracle, and the controls.
func (s *sweep) heldOut(selected, standard configuration) ([]configuration, error) {
	list := appendNew([]configuration{selected}, standard)
	if s.options.oracle {
		list = appendNew(list, s.configurations...)
	}
	controls, err := s.controls(selected)
	if err != nil {
		return nil, err
	}
	list = appendNew(list, controls...)
	for i := range list {
		list[i].recorded.Half = heldOut
	}
	return list, nil
}

// curve is the selected construction at every strength of the grid.
func (s *sweep) curve(selected configuration) ([]configuration, error) {
	var list []configuration
	for _, strength := range s.grid.Strengths {
		if strength == 0 {
			continue
		}
		if selected.recorded.Strength < 0 {
			strength = -strength
		}
		at, err := selected.file.at(steer.Operator(selected.recorded.Operator), strength, selected.recorded.Layers, allOf)
		if err != nil {
			return nil, err
		}
		list = append(list, configuration{*at.recorded, at.actions, selected.file})
	}
	return list, nil
}
