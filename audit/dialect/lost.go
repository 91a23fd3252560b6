package dialect

import (
	"fmt"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/report"
)

// What a pair loses by a failure, the most first.
const (
	costsLP = iota
	costsChoice
	costsSentiment
	costsBack // the back-translation's sentiment, of pairs that need not have one
)

// lossWords say of each of them what the pair is without.
var lossWords = []string{
	costsLP: "LP and perplexities", costsChoice: "a forced choice", costsSentiment: "a sentiment",
	costsBack: "a back-translation, and so without two-way DGI and cDGI",
}

// shownReasons is how many reasons for one loss are told.
const shownReasons = 3

// lost says, for each loss, how many pairs have it and why; empty without failures. What could not be cut has no choices
// either, which is not told again.
func (s *Summary) lost() []string {
	var notes []string
	var lackLP map[string]bool
	for cost, what := range lossWords {
		pairs := map[string]bool{}
		reasons := map[string]int{} // pairs
		var firsts []metric.Failure // one a reason
		for _, f := range s.Failures {
			pair := pairOf(f)
			if costOf(f) != cost || pairs[pair] || cost == costsChoice && lackLP[pair] {
				continue
			}
			pairs[pair] = true
			if reasons[f.Reason]++; reasons[f.Reason] == 1 {
				firsts = append(firsts, f)
			}
		}
		if cost == costsLP {
			lackLP = pairs
		}
		if len(pairs) == 0 {
			continue
		}
		note := fmt.Sprintf("%d of %s without %s", len(pairs), report.Count(s.Pairs, "pair"), what)
		if cost != costsBack { // whose reason is said
			note += whyLost(firsts, reasons)
		}
		notes = append(notes, note+".")
	}
	return notes
}

func whyLost(firsts []metric.Failure, reasons map[string]int) string {
	if len(firsts) == 1 {
		return fmt.Sprintf("; the first, %s: %s", firsts[0].ID, firsts[0].Reason)
	}
	words := ""
	for _, f := range firsts[:min(shownReasons, len(firsts))] {
		words += fmt.Sprintf("; %d as %s: %s", reasons[f.Reason], f.ID, f.Reason)
	}
	if more := len(firsts) - shownReasons; more > 0 {
		words += fmt.Sprintf("; other reasons: %d", more)
	}
	return words
}

// tied says how many pairs have no preference; empty without any.
func (s *Summary) tied() []string {
	if s.Ties == 0 {
		return nil
	}
	return []string{fmt.Sprintf("In %d of %s LP is exactly 0: the two continuations are the same, or equally likely. That is no preference: "+
		"such pairs are in LP and b, as 0, and in no Match, First shown or vote.", s.Ties, report.Count(s.Pairs, "pair"))}
}

// pairOf is the id of a failure's pair.
func pairOf(f metric.Failure) string {
	for _, task := range []string{TaskContinuation, TaskChoice, TaskSentiment} {
		if at := strings.LastIndex(f.ID, "/"+task+"/"); at >= 0 {
			return f.ID[:at]
		}
	}
	return f.ID
}

// costOf is what a failure costs its pair.
func costOf(f metric.Failure) int {
	task, _, _ := strings.Cut(strings.TrimPrefix(f.ID, pairOf(f)+"/"), "/")
	switch {
	case f.Reason == noBack:
		return costsBack
	case task == TaskContinuation:
		return costsLP
	case task == TaskChoice:
		return costsChoice
	}
	return costsSentiment
}
