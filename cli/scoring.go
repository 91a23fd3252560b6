package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"plumb/audit/record"
	"plumb/bindings"
	"plumb/internal/ordered"
)

// question is an item on its way to a record: the record without scores, and what is scored for it.
type question struct {
	record  record.Record
	prompt  string            // "" for whole sentences: what stands before them is the model's start token
	options []string          // the continuations, one a record option
	request *bindings.Request // what is scored where it is not a text, in place of prompt and options
	plain   bool              // the prompt is a text to be continued, and never goes into a chat template
}

// tokenizer turns questions into requests.
type tokenizer struct {
	model    *openedModel
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
	t := tokenizer{m, false, info.AddsBOS, context, context * m.longestToken()}
	if chat {
		return t, t.wrap()
	}
	return t, nil
}

// wrap puts prompts into the model's chat template from now on.
func (t *tokenizer) wrap() error {
	if _, err := t.model.ChatPrompt(""); err != nil {
		return fmt.Errorf("%s: %w; leave out --chat on", t.model.path, err)
	}
	t.chat = true
	return nil
}

// longestToken is how many bytes of text a token can stand for. (An unknown word can be longer to some encoders.)
func (m *openedModel) longestToken() int {
	longest := len("\U0010ffff") // an unknown token stands for one character
	for token := range m.Info().Vocabulary {
		longest = max(longest, len(m.TokenText(bindings.Token(token))))
	}
	return longest
}

// request tokenizes a question. Prompt and option are tokenized together and split where the prompt ends, so that the
// tokens are those of the text; an option that changes the prompt's own tokens cannot be told from it, and is an error.
func (t *tokenizer) request(q *question) (bindings.Request, error) {
	if q.request != nil {
		return *q.request, nil
	}
	if q.prompt == "" {
		return t.sentences(q.options)
	}
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

// sentences is a request for the log-probability of whole texts, from their first token on.
func (t *tokenizer) sentences(texts []string) (bindings.Request, error) {
	start, err := t.start()
	if err != nil {
		return bindings.Request{}, err
	}
	r := bindings.Request{Prompt: []bindings.Token{start}}
	for _, text := range texts {
		tokens, err := t.tokens(text)
		if err != nil {
			return bindings.Request{}, err
		}
		if t.bos {
			tokens = tokens[1:]
		}
		if len(tokens) == 0 {
			return bindings.Request{}, fmt.Errorf("the sentence %q has no tokens", text)
		}
		r.Continuations = append(r.Continuations, tokens)
	}
	return r, nil
}

// start is the token that stands before a text whose first token is scored: the model's BOS, whether or not it asks for
// one, or else its EOS.
func (t *tokenizer) start() (bindings.Token, error) {
	if t.bos {
		tokens, err := t.tokens("")
		if err != nil {
			return 0, err
		}
		return tokens[0], nil
	}
	for _, key := range []string{"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"} {
		if value, ok := t.model.Metadata(key); ok {
			token, err := strconv.Atoi(value)
			if err != nil || token < 0 || token >= t.model.Info().Vocabulary {
				return 0, fmt.Errorf("%s: %s is %q, not a token", t.model.path, key, value)
			}
			return bindings.Token(token), nil
		}
	}
	return 0, fmt.Errorf("%s: the file names neither a BOS nor an EOS, so the first token of a sentence has nothing to stand after", t.model.path)
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
	*scoringModel
	run      *record.Writer
	progress progress

	// Every batch is scored under each of these in turn; one without actions is the model as it is. Their records carry
	// the numbers from first on.
	steerings [][]bindings.Steering
	first     int
	before    int // records of the run that were there before these
}

// scoreUnder scores the requests of one batch under each of the steerings; it is all that a grid asks of the engine. One
// steering is scored as it always was, so that an audit's bytes do not depend on how grids are computed.
func scoreUnder(ctx context.Context, session *bindings.Session, requests []bindings.Request, steerings [][]bindings.Steering) ([][]bindings.Score, error) {
	if len(steerings) > 1 {
		return session.ScoreSets(ctx, requests, steerings)
	}
	scores, _, err := session.Score(ctx, requests, steerings[0])
	return [][]bindings.Score{scores}, err
}

// scoreQuestions scores questions from the i-th up to the n-th; next returns one, and put takes a batch's with their scores
// under each of the steerings. Which questions share a batch is decided by them alone, never by time or by where a run was
// cut. An interrupt lets the batches end that are being computed; a second one does not.
func (m *scoringModel) scoreQuestions(ctx context.Context, i, n int, next func(i int) (question, error), steerings [][]bindings.Steering, put func([]waiting, [][]bindings.Score) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := watchInterrupts(stop)
	defer interrupt.stop()
	sessions, err := m.workers()
	if err != nil {
		return err
	}
	queue := questions{tokens: &m.tokens, session: m.session, at: i, n: n, next: func(i int) (question, error) {
		if interrupt.seen() {
			return question{}, errInterrupted
		}
		return next(i)
	}}
	err = ordered.Do(len(sessions),
		func() ([]waiting, error) {
			group, err := queue.group()
			if err == nil && len(group) == 0 {
				err = io.EOF
			}
			return slices.Clone(group), err
		},
		func(worker int, group []waiting) ([][]bindings.Score, error) {
			if interrupt.seen() {
				return nil, errInterrupted
			}
			scores, err := scoreUnder(ctx, sessions[worker], requestsOf(group), steerings)
			if interrupt.seen() && errors.Is(err, context.Canceled) {
				return nil, errInterrupted
			}
			return scores, err
		},
		put)
	if err == nil && interrupt.seen() {
		return errInterrupted // in the last batch: what would come next does not begin
	}
	return err
}

// score takes questions up to the n-th, from the first that the run lacks on.
func (s *scorer) score(ctx context.Context, n int, next func(i int) (question, error)) error {
	from := s.run.First() + (s.run.Done()-s.before)/len(s.steerings)
	return s.scoreQuestions(ctx, from, n, next, s.steerings, func(group []waiting, all [][]bindings.Score) error {
		var records []record.Record
		for i, scores := range all {
			records = append(records, recordsOf(group, scores, s.run.Next()+len(records), s.first+i)...)
		}
		if err := s.run.Append(records); err != nil {
			return err
		}
		s.progress.at(s.run.Done())
		return nil
	})
}

// recordsOf are the records of questions with the scores of their requests, numbered from index on.
func recordsOf(waiting []waiting, scores []bindings.Score, index, steering int) []record.Record {
	var list []record.Record
	for i, w := range waiting {
		score := bindings.Score{Err: w.err}
		if w.err == nil {
			score, scores = scores[0], scores[1:]
		}
		r := scored(w.question.record, score)
		r.Index, r.Steering = index+i, steering
		list = append(list, r)
	}
	return list
}

// scored returns the record with its options' log-probabilities, or with the reason why there are none.
func scored(r record.Record, score bindings.Score) record.Record {
	logProbs := score.LogProbs
	if score.Err != nil {
		r.Error = score.Err.Error()
		logProbs = make([][]float32, len(r.Options))
	}
	options := make([]record.Option, len(r.Options)) // the question's own may be scored again
	for i, option := range r.Options {
		options[i] = record.NewOption(option.Text, option.Role, logProbs[i])
	}
	r.Options = options
	return r
}
