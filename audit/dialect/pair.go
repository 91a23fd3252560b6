// Package dialect audits how a model treats African American English (AAE) beside Standard American English (SAE), after
// "LLMs Silently Correct African American English" (Wu et al., 2026; "the paper" in this package).
//
// It reads pairs and triplets of sentences, finds the dialect's markers in them, cuts them into contexts and
// continuations, renders what a model is asked about them, and turns the records of a run into the paper's metrics. Like
// all of audit it works on records and never touches a model: hidden states and scores are handed in.
package dialect

import (
	"plumb/audit/record"
)

// Benchmark is the name that runs of a dialect audit have.
const Benchmark = "dialect"

// Pair is a sentence in AAE and its translation into SAE. White space stands between words only, never around a text.
type Pair struct {
	ID       string
	AAE, SAE string
	Back     string    // the SAE sentence translated back into AAE; empty: there is none
	Natural  *bool     // whether Back was judged natural; nil: not judged
	Segments *Segments // nil: not cut yet

	File string // where the pair was read from, as the user named it
	Line int    // its line there, counted from 1; of a CSV file, the line where the row begins
}

// Segments are both sentences of a pair, cut at boundaries that correspond (the paper's appendix B.1).
type Segments struct{ AAE, SAE Segment }

// Segment is a sentence cut in two. A space stands between the parts.
type Segment struct{ Context, Continuation string }

// The roles of a continuation, which are also the conditions of a record: the dialect of its context.
const (
	AAE  = "aae"
	SAE  = "sae"
	Back = "back" // of the sentiment task alone
)

// The roles of the options of the sentiment task.
const (
	Positive = record.Role("positive")
	Negative = record.Role("negative")
	Neutral  = record.Role("neutral")
)

// The roles of a choice's letters.
const (
	LetterAAE = record.Role("aae-letter")
	LetterSAE = record.Role("sae-letter")
)

// The tasks of a record.
const (
	TaskContinuation = "continuation" // both continuations after one context
	TaskChoice       = "choice"       // which of the two continues the context, asked in words
	TaskSentiment    = "sentiment"    // the sentiment of a sentence
)
