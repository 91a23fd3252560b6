package compare

import (
	"plumb/audit/metric"
	"plumb/audit/record"
)

// Row is a steered run in a table of several: what it changed over all categories, or one, against its base (the layout of
// Table 2, and of Table 3 where the rows are of several models).
type Row struct {
	Name     string           `json:"name"` // of the run's directory
	Model    record.Model     `json:"model"`
	Steering *record.Steering `json:"steering"`
	Items    int              `json:"items"`

	// Changes over all items, or all of the category.
	PrS              metric.Value `json:"delta_pr_s"`
	DPref            metric.Value `json:"delta_dpref"` // the change of the biased option's rate among answered items
	PrU              metric.Value `json:"delta_pr_u"`
	Composition      Channel      `json:"composition"`
	Preference       Channel      `json:"preference"`
	CompositionShare metric.Value `json:"composition_share"`

	// Changes over the items of one condition; undefined if there are none.
	SAmb             metric.Value `json:"delta_s_amb"`
	SDis             metric.Value `json:"delta_s_dis"`
	AccuracyAmbig    metric.Value `json:"delta_accuracy_ambig"`
	AccuracyDisambig metric.Value `json:"delta_accuracy_disambig"`
	FlippedAmbig     metric.Value `json:"flipped_ambig"`
	FlippedDisambig  metric.Value `json:"flipped_disambig"` // an error, as the context has the answer

	SAmbDown Decreases `json:"s_amb_decreases"`
	SDisDown Decreases `json:"s_dis_decreases"`
}

// Decreases counts the categories in which a signed score decreased, of those in which its change is defined.
type Decreases struct {
	Decreased int `json:"decreased"`
	Of        int `json:"of"`
}

// Summarize makes a row of every comparison.
func Summarize(comparisons []*Comparison) []Row {
	var rows []Row
	for _, c := range comparisons {
		row, _ := c.Row(metric.All)
		row.SAmbDown, row.SDisDown = c.decreases("s_amb", record.Ambiguous), c.decreases("s_dis", record.Disambiguated)
		rows = append(rows, row)
	}
	return rows
}

// Row is the comparison's row of one category, or of metric.All; ok is false if it has no item of it. The counts of
// categories are left at zero.
func (c *Comparison) Row(category string) (row Row, ok bool) {
	all := c.Group(category, metric.All)
	if all == nil {
		return Row{}, false
	}
	row = Row{
		Name: c.Steered.Name, Model: c.Steered.Model, Steering: c.Steered.Steering, Items: all.Items,
		PrS: all.Changes["pr_s"].Delta, DPref: all.Changes["dpref"].Delta, PrU: all.Channels.AnswerRate.Change,
		Composition: all.Channels.Composition, Preference: all.Channels.Preference,
		CompositionShare: all.Channels.CompositionShare,
	}
	if g := c.Group(category, record.Ambiguous); g != nil {
		row.SAmb, row.AccuracyAmbig, row.FlippedAmbig = g.Changes["s_amb"].Delta, g.Changes["accuracy"].Delta, g.Flips.Rate
	}
	if g := c.Group(category, record.Disambiguated); g != nil {
		row.SDis, row.AccuracyDisambig, row.FlippedDisambig = g.Changes["s_dis"].Delta, g.Changes["accuracy"].Delta, g.Flips.Rate
	}
	return row, true
}

func (c *Comparison) decreases(name, condition string) Decreases {
	var d Decreases
	for _, g := range c.Groups {
		if g.Category == metric.All || g.Condition != condition {
			continue
		}
		if delta := g.Changes[name].Delta; delta.OK {
			d.Of++
			if sign(delta.V) < 0 {
				d.Decreased++
			}
		}
	}
	return d
}
