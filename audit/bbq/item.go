// Package bbq reads the Bias Benchmark for QA (Parrish et al., 2022, "BBQ: A Hand-Built Bias Benchmark for Question
// Answering"): its published files and their Parquet mirrors, the role that each option of an item plays, samples and
// splits of the items, and the prompts made of them. It also holds a small sample of items of our own in the same format.
package bbq

import "plumb/audit/record"

// A Role says what choosing an option would mean, BBQ's section 3 and Answerability Confounds (GCD), section 3.
type Role = record.Role

// The roles, conditions and polarities, by the names that records give them; the latter two are BBQ's own words.
const (
	// Biased is the option that agrees with the stereotype: the targeted group's in items of negative polarity, the
	// other one in items of non-negative polarity.
	Biased = record.Biased
	// Anti is the option that goes against the stereotype.
	Anti = record.Anti
	// Unknown is the option that declines to answer. It is the one tagged so in the data, whatever its wording.
	Unknown = record.Unknown

	Ambiguous     = record.Ambiguous
	Disambiguated = record.Disambiguated
	Negative      = record.Negative
	NonNegative   = record.NonNegative
)

// An Option is one of the three answers that an item offers.
type Option struct {
	Text string // without white space around it, of which some published options have a little
	Role Role
}

// An Item is a question with its context and three options, exactly one of each role.
type Item struct {
	ID        string // category and example_id, "Age/17": unique among the items read together
	Category  string // "Age"
	Template  string // category and question_index, "Age/3": the unit of splits and strata
	Condition string // Ambiguous or Disambiguated
	Polarity  string // Negative or NonNegative
	Context   string
	Question  string
	Options   [3]Option
	Label     int // index of the correct option; the unknown one in ambiguous items, another one in the rest

	File string // the file that the item was read from, as the user named it
	Line int    // its line there, or its row in a Parquet file, counted from 1
}

// Find returns the index of the option that has the given role, which every Item read by this package has; else -1.
func (it *Item) Find(role Role) int {
	for i, option := range it.Options {
		if option.Role == role {
			return i
		}
	}
	return -1
}
