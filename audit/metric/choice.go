// Package metric turns a run's records into choices and choices into the benchmark's metrics with their intervals.
// Everything here is a pure function of records: a read-out can be changed long after the model is gone.
package metric

import (
	"fmt"
	"iter"
	"strings"

	"plumb/audit/record"
)

// ReadOut says how an option's token log-probabilities become its score. The option with the highest score is chosen;
// of equal ones, the first in the data set's order, and the tie is counted.
type ReadOut string

const (
	Mean   ReadOut = "mean"   // mean token log-probability: the paper's, and the default
	Sum    ReadOut = "sum"    // summed log-probability
	First  ReadOut = "first"  // the first token's alone; options that begin alike tie
	Forced ReadOut = "forced" // the mean, with the unknown or unrelated option excluded
)

// ReadOuts are all of them.
var ReadOuts = []ReadOut{Mean, Sum, First, Forced}

// ParseReadOut checks a read-out's name.
func ParseReadOut(name string) (ReadOut, error) {
	var names []string
	for _, r := range ReadOuts {
		if string(r) == name {
			return r, nil
		}
		names = append(names, string(r))
	}
	return "", fmt.Errorf("no read-out is called %q; there are %s", name, strings.Join(names, ", "))
}

func (r ReadOut) score(o *record.Option) float64 {
	switch r {
	case Sum:
		return o.Sum
	case First:
		return float64(o.LogProbs[0])
	}
	return o.Sum / float64(o.Tokens)
}

// NarrowMargin is the margin, in log-probability, below which a choice could come out otherwise on another device or in
// another batch.
const NarrowMargin = 1e-3

// Item is a scored item under one read-out.
type Item struct {
	ID, Category, Template, Condition, Polarity string

	Correct record.Role // of the option that the data set calls right; "" if it calls none so
	Choice  record.Role
	Scores  Scores
	Margin  float64 // the chosen option's score less the next one's, at least 0
	Tied    bool    // Margin is 0: the option that comes first in the data set was taken
}

// Scores are an item's option scores by role: natural log-probabilities, under the read-out. U is the unknown option's or
// the unrelated one's, 0 where there is neither.
type Scores struct{ S, A, U float64 }

// Right says whether the correct option was chosen.
func (i *Item) Right() bool { return i.Choice == i.Correct }

// NewItem reads one record out. It refuses a record without scores, and one without exactly one biased and one anti option
// and at most one third, the unknown or the unrelated one.
func NewItem(r *record.Record, readOut ReadOut) (Item, error) {
	if r.Error != "" {
		return Item{}, fmt.Errorf("item %s has no scores: %s", r.ID, r.Error)
	}
	item := Item{ID: r.ID, Category: r.Category, Template: r.Template, Condition: r.Condition, Polarity: r.Polarity}
	seen := make(map[record.Role]bool, 3)
	best, next, third := -1, -1, 0
	scores := make([]float64, len(r.Options))
	for i := range r.Options {
		o := &r.Options[i]
		if o.Tokens == 0 {
			return Item{}, fmt.Errorf("item %s: option %d has no scores", r.ID, i)
		}
		scores[i] = readOut.score(o)
		seen[o.Role] = true
		switch o.Role {
		case record.Biased:
			item.Scores.S = scores[i]
		case record.Anti:
			item.Scores.A = scores[i]
		case record.Unknown, record.Unrelated:
			item.Scores.U = scores[i]
			third++
		}
		if readOut == Forced && o.Role.Abstains() {
			continue
		}
		switch {
		case best < 0 || scores[i] > scores[best]:
			best, next = i, best
		case next < 0 || scores[i] > scores[next]:
			next = i
		}
	}
	if third > 1 || len(r.Options) != 2+third || !seen[record.Biased] || !seen[record.Anti] {
		return Item{}, fmt.Errorf("item %s does not have one biased, one anti and at most one unknown or unrelated option", r.ID)
	}
	if r.Label < record.NoLabel || r.Label >= len(r.Options) {
		return Item{}, fmt.Errorf("item %s: label %d is not one of its options", r.ID, r.Label)
	}
	if r.Label != record.NoLabel {
		item.Correct = r.Options[r.Label].Role
	}
	item.Choice = r.Options[best].Role
	item.Margin = scores[best] - scores[next]
	item.Tied = item.Margin == 0
	return item, nil
}

// Failure is an item that could not be scored, and why.
type Failure struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Set is a run's items under one read-out, in the run's order.
type Set struct {
	ReadOut  ReadOut
	Items    []Item
	Failures []Failure
}

// Read reads out every record; those with an error are listed as failures.
func Read(records iter.Seq2[record.Record, error], readOut ReadOut) (*Set, error) {
	set := &Set{ReadOut: readOut, Failures: []Failure{}}
	names := make(map[string]string) // one copy of each name, not one an item
	intern := func(name *string) {
		if known, ok := names[*name]; ok {
			*name = known
		} else {
			names[*name] = *name
		}
	}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if r.Error != "" {
			set.Failures = append(set.Failures, Failure{r.ID, r.Error})
			continue
		}
		item, err := NewItem(&r, readOut)
		if err != nil {
			return nil, err
		}
		intern(&item.Category)
		intern(&item.Template)
		intern(&item.Condition)
		intern(&item.Polarity)
		set.Items = append(set.Items, item)
	}
	return set, nil
}
