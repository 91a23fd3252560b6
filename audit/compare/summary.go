package compare

import (
	"plumb/audit/metric"
	"plumb/audit/record"
)

// Row is a steered run in a table of several: what it changed over all categories, against its base (the layout of Table 2,
// and of Table 3 where the rows are of several models).
type Row struct {
	Name     string           `json:"name"` // of the run's directory
	Model    record.Model     `json:"model"`
	Steering *record.Steering `json:"steering"`
	Items    int              `json:"items"`

	// Changes over all items.
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
		all := c.Group(metric.All, metric.All)
		row := Row{
			Name: c.Steered.Name, Model: c.Steered.Model, Steering: c.Steered.Steering, Items: c.Items,
			PrS: all.Changes["pr_s"].Delta, DPref: all.Changes["dpref"].Delta, PrU: all.Channels.AnswerRate.Change,
			Composition: all.Channels.Composition, Preference: all.Channels.Preference,
			CompositionShare: all.Channels.CompositionShare,
			SAmbDown:         c.decreases("s_amb", record.Ambiguous),
			SDisDown:         c.decreases("s_dis", record.Disambiguated),
		}
		if g := c.Group(metric.All, record.Ambiguous); g != nil {
			row.SAmb, row.AccuracyAmbig, row.FlippedAmbig = g.Changes["s_amb"].Delta, g.Changes["accuracy"].Delta, g.Flips.Rate
		}
		if g := c.Group(metric.All, record.Disambiguated); g != nil {
			row.SDis, row.AccuracyDisambig, row.FlippedDisambig = g.Changes["s_dis"].Delta, g.Changes["accuracy"].Delta, g.Flips.Rate
		}
		rows = append(rows, row)
	}
	return rows
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
