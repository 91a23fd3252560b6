package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"plumb/audit/record"
	"plumb/audit/report"
	"plumb/bindings"
)

// auditTask is a benchmark's items on their way to a model.
type auditTask struct {
	run      record.Run                    // described as far as it does not depend on the model; Items counts the questions
	question func(i int) (question, error) // the i-th, ready to be scored
	shard    shardOptions                  // the part that is done
}

// score puts the questions to the model and keeps their scores in the run directory.
func (t *auditTask) score(ctx context.Context, m *scoringModel, steering *intervention, dir string, resume bool, notes io.Writer) error {
	run := t.run
	m.model.describe(&run, m.session)
	s := scorer{scoringModel: m, steerings: make([][]bindings.Steering, 1)}
	if steering != nil {
		run.Steering, s.steerings[0] = steering.recorded, steering.actions
	}
	end, err := t.shard.divide(&run, &questions{tokens: &m.tokens, session: m.session, next: t.question, n: run.Items})
	if err != nil {
		return err
	}
	open := record.Create
	if resume {
		open = record.Resume
	}
	if s.run, err = open(dir, run); err != nil {
		return err
	}
	done := s.run.Done()
	if done > 0 && done < run.Items {
		fmt.Fprintf(notes, "plumb: going on after %s of %s\n", report.Thousands(done), report.Count(run.Items, "item"))
	}
	s.progress = newProgress(notes, run.Items, done)
	err = s.score(ctx, end, t.question)
	s.progress.end()
	err = cmp.Or(err, s.run.Close())
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("interrupted after %s of %s; the same command with --resume goes on", report.Thousands(s.run.Done()), report.Count(run.Items, "item"))
	}
	return err
}

// scoringOptions are those of sessions that score as the self-test found to be right.
func (m *openedModel) scoringOptions() bindings.SessionOptions {
	return bindings.SessionOptions{NoTrie: !m.selfTest.TrieMatches}
}

// scoringSession makes such a session, with all threads.
func (m *openedModel) scoringSession() (*bindings.Session, error) {
	session, err := m.NewSession(m.scoringOptions())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.path, err)
	}
	return session, nil
}

// scoringModel is a model that was opened to score texts.
type scoringModel struct {
	model   *openedModel
	session *bindings.Session // with all threads
	side    []*bindings.Session
	tokens  tokenizer
}

// workers are the sessions that do most side by side, made when they are first asked for.
func (m *scoringModel) workers() ([]*bindings.Session, error) {
	if m.model.Workers() == 1 {
		return []*bindings.Session{m.session}, nil
	}
	if m.side == nil {
		var err error
		if m.side, err = m.model.NewWorkers(m.model.scoringOptions()); err != nil {
			return nil, fmt.Errorf("%s: %w", m.model.path, err)
		}
	}
	return m.side, nil
}

// openScoring opens the model that the flags name. With chat, prompts are wrapped in its chat template.
func (o *modelOptions) openScoring(chat bool) (*scoringModel, error) {
	model, err := o.open(bindings.ModelOptions{})
	if err != nil {
		return nil, err
	}
	s := &scoringModel{model: model}
	if s.session, err = model.scoringSession(); err == nil {
		s.tokens, err = model.tokenizer(s.session.Layout().Context, chat)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// chatIfTrained wraps prompts in the model's chat template if it has one.
func (s *scoringModel) chatIfTrained() error {
	if s.model.ChatTemplate() == "" {
		return nil
	}
	return s.tokens.wrap()
}

func (s *scoringModel) close() {
	for _, session := range s.side {
		session.Close()
	}
	if s.session != nil {
		s.session.Close()
	}
	s.model.Close()
}

// describe fills in what a run records of the model and of how it is asked.
func (m *openedModel) describe(run *record.Run, session *bindings.Session) {
	info, layout := m.Info(), session.Layout()
	run.Plumb, run.LlamaCpp, run.Device = bindings.Version(), bindings.LlamaVersion(), info.Devices
	run.Model = record.Model{
		SHA256: m.sha256, Name: filepath.Base(m.path), Architecture: info.Architecture,
		Description: info.Description, NLayer: info.Layers, NEmbd: info.Width,
	}
	run.Scoring = record.Scoring{ContextTokens: layout.Context, BatchRows: layout.BatchRows, Trie: layout.Trie}
}
