package corpus

import (
	"fmt"
	"plumb/audit/report"
	"slices"
)

// ReviewRule is the rule that people's verdicts count as.
const ReviewRule = "review"

// Finding is a rule that matched a triplet.
type Finding struct {
	Rule   string `json:"rule"`
	Field  string `json:"field,omitempty"` // the text that it matched in; none for a review
	Action string `json:"action"`
}

// Verdict is what the rules found in a triplet, and what became of it.
type Verdict struct {
	ID       string    `json:"id"`
	Dropped  bool      `json:"dropped"`
	Findings []Finding `json:"findings"`
}

// Filtered is what Filter kept, with a verdict a triplet in their order.
type Filtered struct {
	Rules    []Rule
	Kept     []Triplet
	Verdicts []Verdict
	Reviewed map[string]Review // by id
}

// Filter looks at every triplet with every rule. A triplet is dropped if a rule that drops matched, unless people reviewed
// it: their verdict counts. A rule that flags leaves the triplet where it is. drop names flagging rules that shall drop.
//
// Copied input, and a back-translation that equals the SAE text, are flagged by default: the less dialect a text has, the
// more often they happen, so dropping them selects texts by the strength of their dialect.
func Filter(triplets []Triplet, rules []Rule, drop []string, reviewed map[string]Review) (*Filtered, error) {
	rules = slices.Clone(rules)
	for _, name := range drop {
		at := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no rule %q to drop by", name)
		}
		rules[at].Action = Drop
	}
	f := &Filtered{Rules: rules, Reviewed: reviewed}
	known := map[string]bool{}
	for i := range triplets {
		t := &triplets[i]
		known[t.ID] = true
		v := Verdict{ID: t.ID, Findings: []Finding{}}
		for k := range rules {
			for _, field := range rules[k].Fields {
				if rules[k].match(t, field) {
					v.Findings = append(v.Findings, Finding{rules[k].Name, field, rules[k].Action})
					v.Dropped = v.Dropped || rules[k].Action == Drop
				}
			}
		}
		switch review := reviewed[t.ID]; {
		case review.Verdict == Drop:
			v.Findings = append(v.Findings, Finding{Rule: ReviewRule, Action: Drop})
			v.Dropped = true
		case review.Verdict == Keep:
			v.Dropped = false
		}
		f.Verdicts = append(f.Verdicts, v)
		if !v.Dropped {
			f.Kept = append(f.Kept, *t)
		}
	}
	for id, review := range reviewed {
		if !known[id] {
			return nil, fmt.Errorf("%s: %q is not among the triplets; give the review of these", review.at, id)
		}
	}
	return f, nil
}

// RuleCount says how often a rule matched, and what people thought of it.
type RuleCount struct {
	Rule      string `json:"rule"`
	Action    string `json:"action"`
	Matched   int    `json:"matched"`    // triplets
	Alone     int    `json:"alone"`      // of those, the ones that no other rule matched
	Reviewed  int    `json:"reviewed"`   // of those matched, the ones that people reviewed
	PeopleToo int    `json:"people_too"` // of those reviewed, the ones that people would drop
}

// Counts are the counts of every rule, in the order of the rules, those without a match too.
func (f *Filtered) Counts() []RuleCount {
	var counts []RuleCount
	index := map[string]int{}
	for _, rule := range f.Rules {
		index[rule.Name] = len(counts)
		counts = append(counts, RuleCount{Rule: rule.Name, Action: rule.Action})
	}
	if len(f.Reviewed) > 0 {
		index[ReviewRule] = len(counts)
		counts = append(counts, RuleCount{Rule: ReviewRule, Action: Drop})
	}
	for _, v := range f.Verdicts {
		matched := v.rules()
		for _, name := range matched {
			c := &counts[index[name]]
			c.Matched++
			if len(matched) == 1 {
				c.Alone++
			}
			if review, ok := f.Reviewed[v.ID]; ok && name != ReviewRule {
				c.Reviewed++
				if review.Verdict == Drop {
					c.PeopleToo++
				}
			}
		}
	}
	return counts
}

// rules are the names of the rules that matched, once each.
func (v *Verdict) rules() []string {
	var names []string
	for _, finding := range v.Findings {
		if !slices.Contains(names, finding.Rule) {
			names = append(names, finding.Rule)
		}
	}
	return names
}

// Summary is what was kept, dropped and flagged, by rule.
func (f *Filtered) Summary() Summary {
	s := Summary{Stage: "filter"}
	flagged := 0
	for _, v := range f.Verdicts {
		if !v.Dropped && len(v.Findings) > 0 {
			flagged++
		}
	}
	total, kept := len(f.Verdicts), len(f.Kept)
	s.Facts = []Fact{
		{"Triplets read", report.Thousands(total)},
		{"Kept", report.Thousands(kept)},
		{"Dropped", report.Thousands(total - kept)},
		{"Kept with a flag", report.Thousands(flagged)},
	}
	counts := f.Counts()
	for _, c := range counts {
		if c.Matched == 0 {
			continue
		}
		value := fmt.Sprintf("%s (alone %s)", report.Thousands(c.Matched), report.Thousands(c.Alone))
		if c.Reviewed > 0 {
			value += fmt.Sprintf("; people would drop %s of %s reviewed", report.Thousands(c.PeopleToo), report.Thousands(c.Reviewed))
		}
		s.Facts = append(s.Facts, Fact{fmt.Sprintf("Rule %q (%s)", c.Rule, c.Action), value})
	}
	missed, unmatched := 0, 0
	for _, v := range f.Verdicts {
		if review, ok := f.Reviewed[v.ID]; ok && !slices.ContainsFunc(v.Findings, func(x Finding) bool { return x.Rule != ReviewRule }) {
			unmatched++
			if review.Verdict == Drop {
				missed++
			}
		}
	}
	if len(f.Reviewed) > 0 {
		s.Facts = append(s.Facts, Fact{"Missed by every rule", fmt.Sprintf("people would drop %s of %s reviewed", report.Thousands(missed), report.Thousands(unmatched))})
	}
	s.Details = struct {
		Triplets int         `json:"triplets"`
		Kept     int         `json:"kept"`
		Dropped  int         `json:"dropped"`
		Flagged  int         `json:"flagged"`
		Rules    []RuleCount `json:"rules"`
	}{total, kept, total - kept, flagged, counts}
	return s
}
