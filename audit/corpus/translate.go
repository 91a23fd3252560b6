package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"plumb/audit/report"
	"strings"
	"sync"
	"time"
)

// Translator answers prompts. An error is of one text, and of type *Refused if asking again would not help; or of type
// *Unusable, which ends the work.
type Translator interface {
	Translate(ctx context.Context, prompt string) (Reply, error)
}

// Reply is what a translator answered.
type Reply struct {
	Text     string
	Finish   string // why the answer ended, "" if the translator does not say
	Attempts int    // how many requests it took
}

// Refused is a text that a translator will not have, however often it is asked.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// Unusable is a translator that cannot be used at all.
type Unusable struct{ Err error }

func (u *Unusable) Error() string { return u.Err.Error() }
func (u *Unusable) Unwrap() error { return u.Err }

// ErrStopped is of a text that was not asked for again because the work shall end.
var ErrStopped = errors.New("stopped")

// Translation has texts translated from AAE to SAE and from SAE back to AAE by one translator (section 3).
type Translation struct {
	Translator   Translator
	Model        string // as answers are kept under it
	ToSAE, ToAAE *Prompt
	Journal      *Journal
	Concurrency  int             // requests at a time
	Stopped      func() bool     // asked before every request: whether to ask no more
	Progress     func(texts int) // called when a text is done, from several goroutines
}

// Failure is a text without a triplet.
type Failure struct {
	ID      string `json:"id"`
	Step    string `json:"step"`
	Refused bool   `json:"refused"` // the translator will not have it, so that asking again does not help
	Error   string `json:"error"`
}

// Translated is what became of the texts.
type Translated struct {
	Texts    int
	Triplets []Triplet // in the order of the texts
	Failures []Failure // in the order of the texts
	Left     int       // texts that were not asked for, or not to the end
	Asked    int       // answers that came now
	Reused   int       // answers that were in the journal
	Cut      int       // answers that ended at the limit of tokens
	Empty    int       // answers without a word
	Attempts int       // requests that the answers took, earlier ones included
	Model    string
	ToSAE    string // SHA-256 of the prompts
	ToAAE    string
}

// tooManyFailures in a row are no longer the texts' fault.
const tooManyFailures = 12

// work is a Run's state, shared by its goroutines.
type work struct {
	*Translation
	mutex    sync.Mutex
	result   *Translated
	triplets []*Triplet
	failures []*Failure
	inARow   int   // failures since the last answer
	done     int   // texts
	ended    error // why no more is asked
}

// Run translates the texts. An answer that the journal has for the same text, prompt and model is not asked for again. What
// was translated comes with an error too: one of the journal or of the translator as a whole, after which no more is asked;
// the requests under way are waited for and kept.
func (t *Translation) Run(ctx context.Context, texts []Sentence) (*Translated, error) {
	w := &work{
		Translation: t, triplets: make([]*Triplet, len(texts)), failures: make([]*Failure, len(texts)),
		result: &Translated{Texts: len(texts), Model: t.Model, ToSAE: t.ToSAE.SHA256, ToAAE: t.ToAAE.SHA256},
	}
	queue := make(chan int)
	var workers sync.WaitGroup
	for range t.Concurrency {
		workers.Go(func() {
			for i := range queue {
				w.text(ctx, i, &texts[i])
			}
		})
	}
	for i := range texts {
		if w.stopped() {
			break
		}
		queue <- i
	}
	close(queue)
	workers.Wait()
	r := w.result
	for i := range texts {
		switch {
		case w.triplets[i] != nil:
			r.Triplets = append(r.Triplets, *w.triplets[i])
		case w.failures[i] != nil:
			r.Failures = append(r.Failures, *w.failures[i])
		default:
			r.Left++
		}
	}
	return r, w.ended
}

func (w *work) stopped() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.ended != nil || w.Stopped()
}

// text translates one text there and back.
func (w *work) text(ctx context.Context, i int, s *Sentence) {
	triplet := &Triplet{ID: s.ID, AAE: s.AAE}
	steps := []struct {
		step   string
		prompt *Prompt
		from   *string
		to     *string
	}{{FieldSAE, w.ToSAE, &triplet.AAE, &triplet.SAE}, {FieldAAEBack, w.ToAAE, &triplet.SAE, &triplet.AAEBack}}
	for _, step := range steps {
		if *step.from == "" { // nothing to translate: the answer before was empty
			break
		}
		answer, ok, err := w.answer(ctx, s.ID, step.step, *step.from, step.prompt)
		if err != nil {
			w.fail(ctx, i, s.ID, step.step, err)
			return
		}
		if !ok {
			return
		}
		*step.to = answer
	}
	w.mutex.Lock()
	w.triplets[i] = triplet
	w.done++
	done := w.done
	w.mutex.Unlock()
	w.Progress(done)
}

// answer takes an answer from the journal or asks for it and keeps it; ok is false if no more shall be asked.
func (w *work) answer(ctx context.Context, id, step, text string, prompt *Prompt) (answer string, ok bool, err error) {
	hash := sha256.Sum256([]byte(text))
	a := Answer{ID: id, Step: step, Model: w.Model, Prompt: prompt.SHA256, Input: hex.EncodeToString(hash[:])}
	kept, found := w.Journal.find(a.question())
	if !found {
		if w.stopped() {
			return "", false, nil
		}
		rendered, err := prompt.Render(text)
		if err != nil {
			return "", false, &Unusable{err}
		}
		reply, err := w.Translator.Translate(ctx, rendered)
		if err != nil {
			return "", false, err
		}
		kept = a
		kept.Text, kept.Finish, kept.Attempts, kept.Time = reply.Text, reply.Finish, reply.Attempts, time.Now().UTC().Truncate(time.Millisecond)
		if err := w.Journal.append(kept); err != nil {
			return "", false, &Unusable{fmt.Errorf("an answer cannot be kept: %w", err)}
		}
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.inARow = 0
	if found {
		w.result.Reused++
	} else {
		w.result.Asked++
	}
	if kept.Finish == "length" {
		w.result.Cut++
	}
	w.result.Attempts += kept.Attempts
	answer = strings.TrimSpace(kept.Text)
	if answer == "" {
		w.result.Empty++
	}
	return answer, true, nil
}

// fail notes why a text has no triplet, and whether to go on.
func (w *work) fail(ctx context.Context, i int, id, step string, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if ctx.Err() != nil || errors.Is(err, ErrStopped) { // the text was not the reason
		return
	}
	var unusable *Unusable
	if errors.As(err, &unusable) {
		if w.ended == nil {
			w.ended = err
		}
		return
	}
	var refused *Refused
	w.failures[i] = &Failure{id, step, errors.As(err, &refused), err.Error()}
	w.inARow++
	if w.inARow >= max(tooManyFailures, 2*w.Concurrency) && w.ended == nil {
		w.ended = fmt.Errorf("%d texts in a row failed, the last, %s: %w", w.inARow, id, err)
	}
}

// Failed is how many texts failed that may succeed when they are asked for again.
func (t *Translated) Failed() int {
	n := 0
	for _, f := range t.Failures {
		if !f.Refused {
			n++
		}
	}
	return n
}

// Summary is what was translated, by what.
func (t *Translated) Summary() Summary {
	failed := t.Failed()
	refused := len(t.Failures) - failed
	return Summary{
		Stage: "translate",
		Facts: []Fact{
			{"Texts", report.Thousands(t.Texts)},
			{"Translated there and back", report.Thousands(len(t.Triplets))},
			{"Refused by the translator", report.Thousands(refused)},
			{"Failed", report.Thousands(failed)},
			{"Answers cut at the limit of tokens", report.Thousands(t.Cut)},
			{"Empty answers", report.Thousands(t.Empty)},
			{"Translator", t.Model},
			{"Temperature", "0"},
			{"Prompt to SAE, SHA-256", t.ToSAE},
			{"Prompt to AAE, SHA-256", t.ToAAE},
		},
		Details: map[string]any{
			"texts": t.Texts, "translated": len(t.Triplets), "refused": refused, "failed": failed, "cut": t.Cut, "empty": t.Empty,
			"model": t.Model, "prompt_to_sae": t.ToSAE, "prompt_to_aae": t.ToAAE,
		},
	}
}
