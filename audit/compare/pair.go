package compare

import (
	"fmt"
	"slices"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

// pair is an item in both runs.
type pair struct {
	before, after             *metric.Item
	forcedBefore, forcedAfter record.Role
}

// pairing is what two runs have in common.
type pairing struct {
	pairs      []pair // in the base run's order
	unpaired   int    // items of the base run that the steered run does not have
	unscored   int    // items of both that one of them has no score for
	difference string // what the steered run was asked otherwise
	notes      []string
}

// match pairs the items of two runs by id. It refuses runs that do not belong together: of another benchmark, model or
// data, or with items that differ. The steered run may have fewer items (a held-out half), not others.
func match(base, steered *Run) (*pairing, error) {
	p := &pairing{notes: []string{}}
	if err := p.checkRuns(base, steered); err != nil {
		return nil, err
	}
	after := make(map[string]int, len(steered.Items))
	for i := range steered.Items {
		after[steered.Items[i].ID] = i
	}
	failedAfter := failures(steered)
	matched := 0
	for i := range base.Items {
		before := &base.Items[i]
		if failedAfter[before.ID] {
			matched++
			p.unscored++
			continue
		}
		j, ok := after[before.ID]
		if !ok {
			p.unpaired++
			continue
		}
		matched++
		if err := sameItem(before, &steered.Items[j]); err != nil {
			return nil, fmt.Errorf("%s and %s do not belong together: item %s: %w", base.Name, steered.Name, before.ID, err)
		}
		p.pairs = append(p.pairs, pair{before, &steered.Items[j], base.forced[i], steered.forced[j]})
	}
	for id := range failures(base) {
		_, ok := after[id]
		if ok || failedAfter[id] {
			matched++
			p.unscored++
		} else {
			p.unpaired++
		}
	}
	if strangers := len(steered.Items) + len(steered.Failures) - matched; strangers > 0 {
		return nil, fmt.Errorf("%s has %s that %s does not have; audit the same items in both", steered.Name, report.Count(strangers, "item"), base.Name)
	}
	if len(p.pairs) == 0 {
		return nil, fmt.Errorf("%s and %s have no scored item in common", base.Name, steered.Name)
	}
	return p, nil
}

func failures(r *Run) map[string]bool {
	ids := make(map[string]bool, len(r.Failures))
	for _, f := range r.Failures {
		ids[f.ID] = true
	}
	return ids
}

// checkRuns compares what was asked of the runs.
func (p *pairing) checkRuns(base, steered *Run) error {
	b, s := base.Info, steered.Info
	refuse := func(what, before, after string) error {
		return fmt.Errorf("%s and %s do not belong together: %s is %s in the first, %s in the second", base.Name, steered.Name, what, before, after)
	}
	switch {
	case b.Benchmark != s.Benchmark:
		return refuse("the benchmark", b.Benchmark, s.Benchmark)
	case b.Model.SHA256 != s.Model.SHA256:
		return refuse("the model", fileName(b.Model.Name, b.Model.SHA256), fileName(s.Model.Name, s.Model.SHA256))
	}
	for _, file := range s.Data.Files {
		if !slices.ContainsFunc(b.Data.Files, func(o record.DataFile) bool { return o.SHA256 == file.SHA256 }) {
			return fmt.Errorf("%s and %s do not belong together: only the second has read %s", base.Name, steered.Name, fileName(file.Name, file.SHA256))
		}
	}
	prompts := b.Prompt.SHA256 != s.Prompt.SHA256 || b.Prompt.Chat != s.Prompt.Chat
	steering := Describe(b.Steering) != Describe(s.Steering)
	switch {
	case prompts && steering:
		return fmt.Errorf("%s and %s differ in the prompt and in the steering, so that no change could be put down to either", base.Name, steered.Name)
	case prompts:
		p.difference = "another prompt"
	case steering:
		p.difference = "steering: " + Describe(s.Steering)
		if b.Steering != nil {
			p.difference += ", after " + Describe(b.Steering)
		}
	default:
		p.difference = "none; both runs were asked the same"
	}
	for _, detail := range []struct{ what, before, after string }{
		{"Plumb's version", b.Plumb, s.Plumb},
		{"llama.cpp's version", b.LlamaCpp, s.LlamaCpp},
		{"the device", b.Device, s.Device},
		{"the scoring", fmt.Sprintf("%+v", b.Scoring), fmt.Sprintf("%+v", s.Scoring)},
	} {
		if detail.before != detail.after {
			p.notes = append(p.notes, fmt.Sprintf("Something else differs that can move scores a little: %s is %s in the first run, %s in the second.", detail.what, detail.before, detail.after))
		}
	}
	return nil
}

// fileName is a file's name with as much of its hash as tells files apart.
func fileName(name, sha string) string {
	return fmt.Sprintf("%s (SHA-256 %.12s…)", name, sha)
}

// Describe is a run's steering in a line; "unsteered" for nil.
func Describe(s *record.Steering) string {
	if s == nil {
		return "unsteered"
	}
	return fmt.Sprintf("%s (%s), %s, layer %s, strength %g", s.Method, s.Name, s.Operator, joinInts(s.Layers), s.Strength)
}

// sameItem refuses records of one id that are not of one item.
func sameItem(before, after *metric.Item) error {
	for _, field := range []struct{ what, before, after string }{
		{"category", before.Category, after.Category},
		{"template", before.Template, after.Template},
		{"condition", before.Condition, after.Condition},
		{"polarity", before.Polarity, after.Polarity},
		{"correct option", string(before.Correct), string(after.Correct)},
	} {
		if field.before != field.after {
			return fmt.Errorf("its %s is %q in the first and %q in the second", field.what, field.before, field.after)
		}
	}
	return nil
}
