package cli

import (
	"context"
	"errors"
	"fmt"

	"plumb/audit/record"
	"plumb/bindings"
)

// question is an item on its way to a record: the record without scores, and what is scored for it.
type question struct {
	record  record.Record
	prompt  string
	options []string // the continuations, one a record option
	plain   bool     // the prompt is a text to be continued, and never goes into a chat template
}

// tokenizer turns questions into requests.
type tokenizer struct {
	model    *bindings.Model
	chat     bool // wrap prompts in the model's chat template
	bos      bool // the model asks for a BOS
	context  int  // tokens that a session holds
	maxBytes int  // a longer text has more tokens than that
}

// tokenizer makes the tokenizer for sessions of so many tokens.
func (m *openedModel) tokenizer(context int, chat bool) (tokenizer, error) {
	info := m.Info()
	if !info.HasVocabulary {
		return tokenizer{}, fmt.Errorf("%s: the model has no vocabulary, so it cannot read text; take one that has", m.path)
	}
	if chat {
		if _, err := m.ChatPrompt(""); err != nil {
			return tokenizer{}, fmt.Errorf("%s: %w; leave out --chat on", m.path, err)
		}
	}
	longest := len("\U0010ffff") // an unknown token stands for one character
	for token := range info.Vocabulary {
		longest = max(longest, len(m.TokenText(bindings.Token(token))))
	}
	return tokenizer{m.Model, chat, info.AddsBOS, context, context * longest}, nil
}

// request tokenizes a question. Prompt and option are tokenized together and split where the prompt ends, so that the
// tokens are those of the text; an option that changes the prompt's own tokens cannot be told from it, and is an error.
func (t *tokenizer) request(q *question) (bindings.Request, error) {
	if q.plain && t.chat {
		plain := *t
		plain.chat = false
		t = &plain
	}
	text := q.prompt
	if t.chat {
		var err error
		if text, err = t.model.ChatPrompt(q.prompt); err != nil {
			return bindings.Request{}, err
		}
	}
	prompt, err := t.tokens(text)
	if err != nil {
		return bindings.Request{}, err
	}
	if len(prompt) == 0 {
		return bindings.Request{}, errors.New("the prompt has no tokens")
	}
	r := bindings.Request{Prompt: prompt}
	for _, option := range q.options {
		whole, err := t.tokens(text + option)
		if err != nil {
			return bindings.Request{}, err
		}
		if len(whole) <= len(prompt) {
			return bindings.Request{}, fmt.Errorf("the option %q has no tokens of its own", option)
		}
		for i, token := range prompt {
			if whole[i] != token {
				return bindings.Request{}, fmt.Errorf("the option %q changes how the end of the prompt is tokenized", option)
			}
		}
		r.Continuations = append(r.Continuations, whole[len(prompt):])
	}
	return r, nil
}

// tokens of a text that begins a sequence. A chat template may spell the BOS that the tokenizer adds: it counts once.
// A text that cannot fit is not tokenized: some of llama.cpp's tokenizers take hours for a megabyte.
func (t *tokenizer) tokens(text string) ([]bindings.Token, error) {
	if len(text) > t.maxBytes {
		return nil, fmt.Errorf("prompt and continuation are %d bytes; the context holds %d tokens", len(text), t.context)
	}
	tokens, err := t.model.Tokenize(text, true, t.chat)
	if t.chat && t.bos && len(tokens) > 1 && tokens[0] == tokens[1] {
		tokens = tokens[1:]
	}
	return tokens, err
}

// scorer scores questions and appends their records to a run.
type scorer struct {
	session  *bindings.Session
	tokens   tokenizer
	steering []bindings.Steering
	run      *record.Writer
	progress progress
}

// waiting is a question with its request, or the reason why it has none.
type waiting struct {
	question question
	request  bindings.Request
	err      error
}

// score takes n questions, from the first that the run lacks on; next returns the i-th. Which questions share a batch is
// decided by them alone, never by time or by where a run was cut. An interrupt lets the batch end; a second one does not.
func (s *scorer) score(ctx context.Context, n int, next func(i int) (question, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := watchInterrupts(stop)
	defer interrupt.stop()

	var queue []waiting
	for at := s.run.Done(); at < n || len(queue) > 0; {
		// more than can share a batch: then what is behind them does not matter
		for ; at < n && len(queue) <= bindings.MaxSequences; at++ {
			q, err := next(at)
			if err != nil {
				return err
			}
			w := waiting{question: q}
			if q.record.Error != "" {
				w.err = errors.New(q.record.Error) // known before it was asked
			} else {
				w.request, w.err = s.tokens.request(&q)
			}
			queue = append(queue, w)
		}
		if interrupt.seen() {
			return errInterrupted
		}
		group, err := s.batch(ctx, queue)
		if err != nil {
			if interrupt.seen() && errors.Is(err, context.Canceled) {
				return errInterrupted
			}
			return err
		}
		if err := s.run.Append(group); err != nil {
			return err
		}
		queue = append(queue[:0], queue[len(group):]...)
		s.progress.at(s.run.Done())
	}
	return nil
}

// batch scores the questions at the head of the queue that share a batch. A question without a request goes with the
// batch before which it stands.
func (s *scorer) batch(ctx context.Context, queue []waiting) ([]record.Record, error) {
	var requests []bindings.Request
	for _, w := range queue {
		if w.err == nil {
			requests = append(requests, w.request)
		}
	}
	size, err := s.session.BatchSize(requests)
	if err != nil {
		return nil, err
	}
	scores, _, err := s.session.Score(ctx, requests[:size], s.steering)
	if err != nil {
		return nil, err
	}
	var group []record.Record
	for _, w := range queue {
		score := bindings.Score{Err: w.err}
		if w.err == nil {
			if len(scores) == 0 {
				break
			}
			score, scores = scores[0], scores[1:]
		}
		group = append(group, scored(w.question.record, score))
	}
	return group, nil
}

// scored returns the record with its options' log-probabilities, or with the reason why there are none.
func scored(r record.Record, score bindings.Score) record.Record {
	logProbs := score.LogProbs
	if score.Err != nil {
		r.Error = score.Err.Error()
		logProbs = make([][]float32, len(r.Options))
	}
	for i, option := range r.Options {
		r.Options[i] = record.NewOption(option.Text, option.Role, logProbs[i])
	}
	return r
}
