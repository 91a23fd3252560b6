package report

import (
	"fmt"
	"strings"

	"plumb/audit/metric"
)

// fact is a line of what was asked and of what came of it.
type fact struct{ Name, Value string }

// headline says in one line what was audited.
func (r *Report) headline() string {
	line := fmt.Sprintf("%s: %s", r.Summary.Benchmark.Title, r.Run.Model.Name)
	if s := r.Run.Steering; s != nil {
		line += fmt.Sprintf(", steered by %s (%s, %s, layer %s, strength %g)", s.Name, s.Method, s.Operator, joinInts(s.Layers), s.Strength)
	}
	return line
}

// facts are the run's settings, for a person.
func (r *Report) facts() []fact {
	run, s := r.Run, r.Summary
	list := []fact{
		{"Model", fmt.Sprintf("%s (%s, %s, width %d)", run.Model.Name, run.Model.Description, Count(run.Model.NLayer, "block"), run.Model.NEmbd)},
		{"Model SHA-256", run.Model.SHA256},
		{"Device", run.Device},
		{"Items", r.itemsFact()},
	}
	for _, f := range run.Data.Files {
		list = append(list, fact{"Data", fmt.Sprintf("%s, %s, SHA-256 %s", f.Name, Count(f.Items, "item"), f.SHA256)})
	}
	prompt := "the default template"
	switch {
	case run.Prompt.Own:
		prompt = "a template of the user's own"
	case run.Prompt.Template == "":
		prompt = "none, the texts as they stand"
	}
	if run.Prompt.Chat {
		prompt += ", in the model's chat template"
	} else {
		prompt += ", no chat template"
	}
	scoring := fmt.Sprintf("%s rows a batch, context of %s tokens, ", Thousands(run.Scoring.BatchRows), Thousands(run.Scoring.ContextTokens))
	if run.Scoring.Trie {
		scoring += "shared beginnings computed once"
	} else {
		scoring += "one sequence at a time"
	}
	list = append(list,
		fact{"Prompt", prompt + ", SHA-256 " + run.Prompt.SHA256},
		fact{"Scoring", scoring},
		fact{"Steering", r.steeringFact()},
		fact{"Read-out", readOutNames[s.ReadOut]},
		fact{"Intervals", fmt.Sprintf("95 %% percentile bootstrap over items, %s draws (the first is the sample itself), seed %d", Thousands(s.Draws), s.Seed)},
		fact{"Ties", fmt.Sprintf("%s of %s, decided by the order of the options", Thousands(s.Ties), Count(s.Items, "item"))},
		fact{"Narrow choices", fmt.Sprintf("%s, by less than %g in log-probability (ties included)", Count(s.Narrow, "item"), metric.NarrowMargin)},
		fact{"Versions", fmt.Sprintf("Plumb %s, llama.cpp %s", run.Plumb, run.LlamaCpp)},
	)
	return list
}

var readOutNames = map[metric.ReadOut]string{
	metric.Mean:   "mean token log-probability of an option",
	metric.Sum:    "summed token log-probability of an option",
	metric.First:  "log-probability of an option's first token",
	metric.Forced: "mean token log-probability, the unknown option excluded",
}

func (r *Report) itemsFact() string {
	run := r.Run
	text := Thousands(run.Items)
	if run.Sample > 0 {
		text += fmt.Sprintf(", a stratified sample of %s (seed %d)", Thousands(run.Data.Kept), run.Seed)
	}
	if left := leftOutCount(r); left > 0 {
		text += fmt.Sprintf("; %s more left out of the data", Thousands(left))
	}
	if s := run.Shard; s != nil {
		text += fmt.Sprintf("; shard %d of %d, from item %s on, of %s", s.Number, s.Of, Thousands(s.First), Thousands(s.Total))
	}
	if failed := len(r.Summary.Failures); failed > 0 {
		text += fmt.Sprintf("; %s could not be scored", Thousands(failed))
	}
	return text
}

func leftOutCount(r *Report) int {
	n := 0
	for _, l := range r.Run.Data.LeftOut {
		n += l.Count
	}
	return n
}

func (r *Report) steeringFact() string {
	s := r.Run.Steering
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%s (%s), %s, layer %s, strength %g, SHA-256 %s", s.Name, s.Method, s.Operator, joinInts(s.Layers), s.Strength, s.SHA256)
}

// notes are what a reader of the tables must know before the numbers are quoted.
func (r *Report) notes(tables string) []string {
	s := r.Summary
	notes := []string{fmt.Sprintf("%s, read-out %s; [95 %% bootstrap intervals, %s].", Count(s.Items, "item"), s.ReadOut, Count(s.Draws, "draw"))}
	if !r.Finished() {
		notes = append([]string{r.unfinished()}, notes...)
	}
	if n := len(s.Failures); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be scored; the first, %s: %s.", Count(n, "item"), s.Failures[0].ID, s.Failures[0].Reason))
	}
	if s.Ties > 0 {
		notes = append(notes, Count(s.Ties, "item")+" tied, decided by the order of the options.")
	}
	if n := leftOutCount(r); n > 0 {
		notes = append(notes, fmt.Sprintf("%s of the data left out, listed by reason in %s.", Count(n, "item"), File))
	}
	if strings.Contains(tables, undefinedMark) { // the terminal's tables do not show every value
		notes = append(notes, undefinedNote)
	}
	return notes
}

const undefinedNote = undefinedMark + " In some bootstrap draws nothing was answered; they are left out of this interval."

func (r *Report) unfinished() string {
	return fmt.Sprintf("This run is not finished: %s of %s. These are the numbers so far.", Thousands(r.Done), Count(r.Run.Items, "item"))
}

func (r *Report) hasUndefinedDraws() bool {
	for _, g := range r.Summary.Groups {
		for _, v := range g.Values {
			if v.UndefinedDraws > 0 {
				return true
			}
		}
	}
	return false
}

func joinInts(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}

// Count writes how many there are of what is called thing and, where they are not one, things: 1 pair, 1,216 pairs.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Thousands(n) + " " + thing + "s"
}

// Thousands writes a count with its thousands apart, as in 50,380.
func Thousands(n int) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
