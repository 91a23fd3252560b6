package capability

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/stats"
)

// answer is an MMLU item.
type answer struct {
	id, subject string
	right       bool // the option with the highest mean token log-probability is the right one
}

// text is a scored text.
type text struct {
	id     string
	tokens int
	sum    float64 // of the tokens' log-probabilities
}

// Outcome is what a run's records come to.
type Outcome struct {
	answers  []answer
	texts    map[string][]text // by condition
	Failures []metric.Failure
}

// Read reads the records of a run.
func Read(records iter.Seq2[record.Record, error]) (*Outcome, error) {
	o := &Outcome{texts: map[string][]text{}, Failures: []metric.Failure{}}
	for r, err := range records {
		switch {
		case err != nil:
			return nil, err
		case r.Error != "":
			o.Failures = append(o.Failures, metric.Failure{ID: r.ID, Reason: r.Error})
		case r.Condition == MMLU:
			best := 0
			for i := range r.Options {
				if mean(&r.Options[i]) > mean(&r.Options[best]) {
					best = i
				}
			}
			o.answers = append(o.answers, answer{r.ID, r.Category, best == r.Label})
		case (r.Condition == Segments || r.Condition == Windows) && len(r.Options) == 1:
			o.texts[r.Condition] = append(o.texts[r.Condition], text{r.ID, r.Options[0].Tokens, r.Options[0].Sum})
		default:
			return nil, fmt.Errorf("item %s is neither a question nor a text", r.ID)
		}
	}
	return o, nil
}

func mean(o *record.Option) float64 { return o.Sum / float64(o.Tokens) }

// Accuracy is the share of right answers of a subject, or of metric.All.
type Accuracy struct {
	Subject string       `json:"subject"`
	Value   metric.Value `json:"accuracy"`
}

// Perplexity is exp(−Σ log p / tokens) over the texts of a definition.
type Perplexity struct {
	Definition string       `json:"definition"` // Segments or Windows
	Texts      int          `json:"texts"`
	Tokens     int          `json:"tokens"`
	Value      metric.Value `json:"perplexity"` // its N is the number of texts
}

// Summary is a run's capability, with 95 % bootstrap intervals over questions and over texts.
type Summary struct {
	Draws      int              `json:"bootstrap_draws"`
	Seed       uint64           `json:"bootstrap_seed"`
	Accuracies []Accuracy       `json:"mmlu"` // by subject in the run's order, then all of them
	Perplexity []Perplexity     `json:"perplexity"`
	Failures   []metric.Failure `json:"failures"`
}

// Summarize computes accuracies and perplexities from so many bootstrap draws (at least 1).
func (o *Outcome) Summarize(draws int, seed uint64) *Summary {
	s := &Summary{Draws: draws, Seed: seed, Accuracies: []Accuracy{}, Perplexity: []Perplexity{}, Failures: o.Failures}
	var subjects []string
	for _, a := range o.answers {
		if !slices.Contains(subjects, a.subject) {
			subjects = append(subjects, a.subject)
		}
	}
	if len(subjects) > 0 {
		subjects = append(subjects, metric.All)
	}
	for _, subject := range subjects {
		var of []float64
		for _, a := range o.answers {
			if subject == metric.All || subject == a.subject {
				of = append(of, asNumber(a.right))
			}
		}
		s.Accuracies = append(s.Accuracies, Accuracy{subject, meanOf(of, draws, seed, metric.Stream(subjects[:len(subjects)-1], nil, subject, MMLU))})
	}
	for _, definition := range []string{Segments, Windows} {
		texts := o.texts[definition]
		if len(texts) == 0 {
			continue
		}
		p := Perplexity{Definition: definition, Texts: len(texts)}
		for _, t := range texts {
			p.Tokens += t.tokens
		}
		var values []float64
		for _, counts := range stats.Bootstrap(len(texts), draws, seed, definition) {
			values = append(values, perplexity(texts, counts))
		}
		p.Value = valueOf(values, len(texts))
		s.Perplexity = append(s.Perplexity, p)
	}
	return s
}

func asNumber(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// meanOf is the mean of values with its interval.
func meanOf(values []float64, draws int, seed uint64, stream string) metric.Value {
	var means []float64
	for _, counts := range stats.Bootstrap(len(values), draws, seed, stream) {
		sum := 0.0
		for i, count := range counts {
			sum += float64(count) * values[i]
		}
		means = append(means, sum/float64(len(values)))
	}
	return metric.NewValue(means, len(values), 0)
}

// perplexity is that of texts, each as often as counts says.
func perplexity(texts []text, counts []int32) float64 {
	sum, tokens := 0.0, 0
	for i, t := range texts {
		sum += float64(counts[i]) * t.sum
		tokens += int(counts[i]) * t.tokens
	}
	return math.Exp(-sum / float64(tokens))
}

// valueOf is a value of draws, of which those that are infinite (a broken model's perplexity) do not count.
func valueOf(draws []float64, n int) metric.Value {
	finite := slices.DeleteFunc(slices.Clone(draws), func(x float64) bool { return math.IsInf(x, 0) || math.IsNaN(x) })
	if len(draws) == 0 || math.IsInf(draws[0], 0) || math.IsNaN(draws[0]) {
		return metric.Value{}
	}
	return metric.NewValue(finite, n, len(draws)-len(finite))
}

// Accuracy finds that of all questions; undefined if there are none.
func (s *Summary) Accuracy() metric.Value {
	if n := len(s.Accuracies); n > 0 {
		return s.Accuracies[n-1].Value
	}
	return metric.Value{}
}

// Change is what an intervention cost, question by question and text by text.
type Change struct {
	Accuracy metric.Value `json:"mmlu_change"`      // after less before; undefined without questions
	Ratio    metric.Value `json:"perplexity_ratio"` // after over before, of the segments, or of the windows where there are no segments
}

// Compare pairs the items of two runs; the same ones are drawn on both sides. Items that one side could not score are left
// out, and a text that only the steered model cannot score makes the ratio undefined.
func Compare(before, after *Outcome, draws int, seed uint64) Change {
	var c Change
	right := map[string]bool{}
	for _, a := range after.answers {
		right[a.id] = a.right
	}
	var changes []float64
	for _, b := range before.answers {
		if now, ok := right[b.id]; ok {
			changes = append(changes, asNumber(now)-asNumber(b.right))
		}
	}
	if len(changes) > 0 {
		c.Accuracy = meanOf(changes, draws, seed, metric.All)
	}
	definition := Segments
	if len(before.texts[Segments]) == 0 {
		definition = Windows
	}
	byID := map[string]text{}
	for _, t := range after.texts[definition] {
		byID[t.id] = t
	}
	var one, other []text
	for _, t := range before.texts[definition] {
		now, ok := byID[t.id]
		if !ok {
			return c
		}
		one, other = append(one, t), append(other, now)
	}
	if len(one) == 0 {
		return c
	}
	var ratios []float64
	for _, counts := range stats.Bootstrap(len(one), draws, seed, definition) {
		ratios = append(ratios, perplexity(other, counts)/perplexity(one, counts))
	}
	c.Ratio = valueOf(ratios, len(one))
	return c
}
