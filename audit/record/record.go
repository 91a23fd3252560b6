package record

import (
	"fmt"
	"math"
)

// Role says what choosing an option means.
type Role string

const (
	Biased  Role = "biased"  // S: the answer that agrees with the targeted stereotype, after polarity
	Anti    Role = "anti"    // A: the other group's
	Unknown Role = "unknown" // U: "cannot be determined", "not enough information", …

	Unrelated Role = "unrelated" // StereoSet's third option: a sentence without meaning there, and no invited answer
)

// Abstains says whether choosing an option of this role takes neither group's side.
func (r Role) Abstains() bool { return r == Unknown || r == Unrelated }

// Values of Record.Condition and Record.Polarity.
const (
	Ambiguous     = "ambig"
	Disambiguated = "disambig"
	Negative      = "neg"
	NonNegative   = "nonneg"
)

// Values of Record.Condition of StereoSet and of CrowS-Pairs.
const (
	Intersentence = "intersentence"
	Intrasentence = "intrasentence"
	Stereo        = "stereo"
	Antistereo    = "antistereo"
)

// Record is one item as it was scored: a line of items.jsonl.zst.
type Record struct {
	Index     int      `json:"index"`           // place in the run's item order, from 0 (or Shard.First) without a gap
	ID        string   `json:"id"`              // unique in the run, "Age/17"
	Category  string   `json:"category"`        // "Age"
	Template  string   `json:"template"`        // stratum and cluster, "Age/3"
	Condition string   `json:"condition"`       // Ambiguous, Disambiguated; other benchmarks have their own
	Polarity  string   `json:"polarity"`        // Negative, NonNegative; "" where a benchmark has none
	Label     int      `json:"label"`           // index of the correct option, or NoLabel
	Text      string   `json:"text,omitempty"`  // context and question, as a reader would see them
	Options   []Option `json:"options"`         // in the data set's order
	Error     string   `json:"error,omitempty"` // why the item has no scores; its options then have none

	Steering int       `json:"steering,omitempty"` // of a grid: the number of the one of Run.Steerings, from 1; 0: the model as it is
	Task     string    `json:"task,omitempty"`     // what the item asks for, in benchmarks that ask several things
	Features []Feature `json:"features,omitempty"` // of a dialect audit's pair
	Natural  *bool     `json:"natural,omitempty"`  // whether a dialect audit's back-translation was judged so; nil: not judged
	Trace    *Trace    `json:"trace,omitempty"`    // of a causal trace
}

// NoLabel is the label of an item none of whose options is the right one.
const NoLabel = -1

// Option is one answer and its score.
type Option struct {
	Text     string    `json:"text,omitempty"`
	Role     Role      `json:"role"`     // "" where choosing it means no more than that it is right or wrong
	Tokens   int       `json:"tokens"`   // how many tokens were scored
	Sum      float64   `json:"sum"`      // summed log-probability, natural logarithm
	LogProbs []float32 `json:"logprobs"` // each token's
}

// NewOption returns an option with its tokens' log-probabilities, which it keeps, and their sum. Without any it is an
// option that was not scored.
func NewOption(text string, role Role, logProbs []float32) Option {
	return Option{Text: text, Role: role, Tokens: len(logProbs), Sum: sum(logProbs), LogProbs: logProbs}
}

func sum(logProbs []float32) float64 {
	total := 0.0
	for _, p := range logProbs {
		total += float64(p)
	}
	return total
}

// validate refuses what no reader should have to deal with.
func (r *Record) validate() error {
	if r.ID == "" {
		return fmt.Errorf("item %d has no id", r.Index)
	}
	if r.Error == "" && (r.Label < NoLabel || r.Label >= len(r.Options)) {
		return fmt.Errorf("item %s: label %d is not one of its %d options", r.ID, r.Label, len(r.Options))
	}
	for i, o := range r.Options {
		if err := o.validate(r.Error == ""); err != nil {
			return fmt.Errorf("item %s, option %d: %w", r.ID, i, err)
		}
	}
	return nil
}

func (o *Option) validate(scored bool) error {
	if o.Tokens != len(o.LogProbs) {
		return fmt.Errorf("%d tokens with %d log-probabilities", o.Tokens, len(o.LogProbs))
	}
	if scored != (o.Tokens > 0) {
		return fmt.Errorf("an item has scores or an error, one of the two")
	}
	for _, p := range o.LogProbs {
		if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
			return fmt.Errorf("a token's log-probability is %v", p)
		}
	}
	if difference := math.Abs(o.Sum - sum(o.LogProbs)); !(difference <= 1e-6*(1+math.Abs(o.Sum))) {
		return fmt.Errorf("the sum %v is not that of its tokens' log-probabilities", o.Sum)
	}
	return nil
}
