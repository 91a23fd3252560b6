package protocol

import (
	"path/filepath"
	"strings"

	"plumb/audit/compare"
	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

// FittedOn is the name of a direction that was fitted on one category alone: its folder's name and the file's, as
// plumb steer fit writes them.
func FittedOn(category, file string) string { return category + "/" + file }

// fittedOn is the category; ok is false for a direction without one, such as the selected one.
func fittedOn(s record.Steering) (category string, ok bool) {
	category, _, ok = strings.Cut(s.Name, "/")
	return category, ok
}

// Transfer is the selected construction as fitted on one category, on the held-out items of one: the out-of-domain control
// (GCD, appendix F). Where the two are the same it is what the other cells are to be read against.
type Transfer struct {
	Fitted    string      `json:"fitted_on"`
	Evaluated string      `json:"evaluated_on"`
	Row       compare.Row `json:"changes"`
}

// Transfers are the whole matrix, by category fitted on and then evaluated on; none without the control.
func (s *Sweep) Transfers() []Transfer {
	var categories []string
	var of []*compare.Comparison
	for _, c := range s.Held.Comparisons {
		category, ok := fittedOn(*c.Steered.Steering)
		if ok && c.Steered.Steering.Name == FittedOn(category, s.Steering().Name) && s.inPlace(c.Steered.Steering) {
			categories, of = append(categories, category), append(of, c)
		}
	}
	list := []Transfer{}
	for i, c := range of {
		for _, category := range categories {
			if row, ok := c.Row(category); ok {
				list = append(list, Transfer{categories[i], category, row})
			}
		}
	}
	return list
}

// Wording is a text that takes the place of the unknown option's; "" is the data's own.
type Wording struct {
	Name string `json:"name"`
	Text string `json:"unknown_option"`
}

// Stage is the part of a sweep's directory that holds the held-out half under this wording.
func (w Wording) Stage() string {
	if w.Text == "" {
		return HeldStage
	}
	return "wording-" + w.Name
}

// WordingRow is the selected intervention on the held-out half, with and without it under the same wording of the unknown
// option (GCD, table 7).
type WordingRow struct {
	Wording
	PrU metric.Value `json:"pr_u_before"` // of the unsteered model
	Row compare.Row  `json:"changes"`
}

// wordings reads the stages of the option-wording control, the data's own wording first; none without the control, or where
// it was made with another intervention than that which this read-out selects.
func (s *Sweep) wordings() ([]WordingRow, error) {
	list := []WordingRow{}
	if len(s.Spec.Wordings) == 0 {
		return list, nil
	}
	for _, w := range append([]Wording{{Name: "original"}}, s.Spec.Wordings...) {
		half := s.Held
		if w.Text != "" {
			var err error
			if half, err = LoadHalf(filepath.Join(s.Dir, w.Stage()), s.Options); err != nil {
				return nil, unfinished(s.Dir, err)
			}
		}
		at := half.find(s.Steering())
		if at < 0 {
			return []WordingRow{}, nil
		}
		list = append(list, WordingRow{w, half.Comparisons[at].Group(metric.All, metric.All).Changes["pr_u"].Before, half.Rows[at]})
	}
	return list, nil
}

func transferTable(list []Transfer) report.Table {
	t := report.Table{Title: "The selected construction fitted on one category, held-out half", Header: changesHeader("Fitted on", "Evaluated on"), Left: 2}
	for _, c := range list {
		t.Rows = append(t.Rows, append([]string{c.Fitted, c.Evaluated}, changes(&c.Row)...))
	}
	return t
}

func wordingTable(list []WordingRow) report.Table {
	t := report.Table{
		Title: "The selected intervention under other wordings of the unknown option, held-out half", Left: 2,
		Header: changesHeader("Wording", "Unknown option", "Pr(U) before"),
	}
	for _, w := range list {
		text := "the data's"
		if w.Text != "" {
			text = w.Text
		}
		t.Rows = append(t.Rows, append([]string{w.Name, text, w.PrU.String()}, changes(&w.Row)...))
	}
	return t
}
