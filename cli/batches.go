package cli

import (
	"errors"

	"plumb/bindings"
)

// waiting is a question with its request, or the reason why it has none.
type waiting struct {
	question question
	request  bindings.Request
	err      error
}

// questions hands out a run's questions, a batch group at a time.
type questions struct {
	tokens  *tokenizer
	session *bindings.Session
	next    func(i int) (question, error) // the i-th question
	at, n   int                           // it is asked for those from at up to n
	queue   []waiting                     // those before at that were not handed out
	size    int                           // of the group at the queue's head that was handed out last
}

// group returns the next questions that share a batch, none at the end. A question without a request goes with the batch
// before it. The result is valid until the next call.
func (q *questions) group() ([]waiting, error) {
	q.queue = append(q.queue[:0], q.queue[q.size:]...)
	// more than can share a batch: then what is behind them does not matter
	for ; q.at < q.n && len(q.queue) <= bindings.MaxSequences; q.at++ {
		next, err := q.next(q.at)
		if err != nil {
			return nil, err
		}
		w := waiting{question: next}
		if next.record.Error != "" {
			w.err = errors.New(next.record.Error) // known before it was asked
		} else {
			w.request, w.err = q.tokens.request(&next)
		}
		q.queue = append(q.queue, w)
	}
	left, err := q.session.BatchSize(requestsOf(q.queue))
	if err != nil {
		return nil, err
	}
	for q.size = 0; q.size < len(q.queue); q.size++ {
		if q.queue[q.size].err == nil {
			if left == 0 {
				break
			}
			left--
		}
	}
	return q.queue[:q.size], nil
}

func requestsOf(list []waiting) []bindings.Request {
	var requests []bindings.Request
	for _, w := range list {
		if w.err == nil {
			requests = append(requests, w.request)
		}
	}
	return requests
}
