package compare

import (
	"fmt"

	"plumb/audit/metric"
	"plumb/audit/report"
)

// fact is a line of what was compared.
type fact struct{ Name, Value string }

// headline says what the report is about.
func (r *Report) headline() string {
	if len(r.Comparisons) == 1 {
		return r.Comparisons[0].headline()
	}
	return fmt.Sprintf("%d interventions against their base runs", len(r.Comparisons))
}

func (c *Comparison) headline() string { return c.Steered.Name + " against " + c.Base.Name }

// facts are what a comparison is of.
func (c *Comparison) facts() []fact {
	items := fmt.Sprintf("%d in both runs", c.Items)
	if c.Unpaired > 0 {
		items += fmt.Sprintf("; %d more of the base run, which the steered one does not have", c.Unpaired)
	}
	if c.Unscored > 0 {
		items += fmt.Sprintf("; %d without a score in one of them", c.Unscored)
	}
	list := []fact{
		{"Model", fmt.Sprintf("%s (%s), SHA-256 %s", c.Base.Model.Name, c.Base.Model.Description, c.Base.Model.SHA256)},
		{"Base run", c.Base.Name + ", " + Describe(c.Base.Steering)},
		{"Steered run", c.Steered.Name + ", " + Describe(c.Steered.Steering)},
		{"Difference", c.Difference},
		{"Items", items},
		{"Read-out", string(c.ReadOut)},
		{"Intervals", fmt.Sprintf("95 %% percentile bootstrap over items, the same resamples on both sides, %d draws (the first is the sample itself), seed %d", c.Draws, c.Seed)},
	}
	for _, note := range c.Notes {
		list = append(list, fact{"Note", note})
	}
	return list
}

// notes are what a reader must know before the numbers are quoted.
func (r *Report) notes() []string {
	first := r.Comparisons[0]
	notes := []string{fmt.Sprintf("Read-out %s; [95 %% paired bootstrap intervals, %d draws].", first.ReadOut, first.Draws)}
	for _, c := range r.Comparisons {
		who := ""
		if len(r.Comparisons) > 1 {
			who = c.Steered.Name + ": "
		}
		notes = append(notes, who+"Difference: "+c.Difference+".")
		text := fmt.Sprintf("%s%s in both runs.", who, report.Count(c.Items, "item"))
		if c.Unpaired > 0 {
			text += fmt.Sprintf(" The base run has %d more.", c.Unpaired)
		}
		if c.Unscored > 0 {
			text += fmt.Sprintf(" %d without a score in one of them.", c.Unscored)
		}
		notes = append(notes, text)
		for _, note := range c.Notes {
			notes = append(notes, who+note)
		}
	}
	if r.hasUndefinedDraws() {
		notes = append(notes, undefinedMark+" In some bootstrap draws the value is undefined (nothing was answered, or nothing changed); they are left out of this interval.")
	}
	return notes
}

func (r *Report) hasUndefinedDraws() bool {
	for _, c := range r.Comparisons {
		for i := range c.Groups {
			g := &c.Groups[i]
			for _, change := range g.Changes {
				if change.Delta.UndefinedDraws > 0 {
					return true
				}
			}
			for _, v := range []metric.Value{g.Channels.Composition.Change, g.Channels.CompositionShare, g.Selection.Explained, g.Flips.FlippedS, g.Flips.Difference} {
				if v.UndefinedDraws > 0 {
					return true
				}
			}
		}
	}
	return false
}
