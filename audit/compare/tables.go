package compare

import (
	"fmt"
	"strconv"
	"strings"

	"plumb/audit/metric"
	"plumb/audit/report"
)

// table is laid out for any format: its cells hold a value and, on further lines, its interval and the like.
type table struct {
	Title  string
	Note   string // how to read it, in a sentence or two
	Header []string
	Rows   [][]string
}

// rows are the groups of a table, each with its name in the first column.
type rows struct {
	benchmark *metric.Benchmark
	head      string
	names     []string
	groups    []*Group
}

// byCategory are a condition's groups.
func (c *Comparison) byCategory(condition string) rows {
	r := rows{benchmark: c.benchmark, head: "Category"}
	for i := range c.Groups {
		if g := &c.Groups[i]; g.Condition == condition {
			r.names, r.groups = append(r.names, report.CategoryName(g.Category)), append(r.groups, g)
		}
	}
	return r
}

// byCondition are the groups of all categories.
func (c *Comparison) byCondition() rows {
	r := rows{benchmark: c.benchmark, head: "Items"}
	for _, condition := range c.benchmark.Conditions {
		if g := c.Group(metric.All, condition.Name); g != nil {
			r.names, r.groups = append(r.names, condition.Title), append(r.groups, g)
		}
	}
	return r
}

func (r rows) table(title, note string, header []string, cells func(*Group) []string) table {
	t := table{Title: title, Note: note, Header: append([]string{r.head}, header...)}
	for i, g := range r.groups {
		t.Rows = append(t.Rows, append([]string{r.names[i]}, cells(g)...))
	}
	return t
}

func (r rows) metrics(of string, names []string) table {
	header := []string{"n"}
	for _, name := range names {
		m, _ := r.benchmark.Metric(name)
		header = append(header, "Δ"+m.Symbol)
	}
	return r.table("Changes, "+of, "Each change with the value after it in parentheses and its 95 % interval.", header, func(g *Group) []string {
		cells := []string{strconv.Itoa(g.Items)}
		for _, name := range names {
			change := g.Changes[name]
			cell := signed(change.Delta)
			if !change.Delta.OK && change.Before.OK {
				cell = metric.Undefined + "\nwas " + change.Before.String()
			} else if change.Delta.OK {
				cell = fmt.Sprintf("%s%s (%s)\n%s", metric.FormatSigned(change.Delta.V), mark(change.Delta), change.After, signedInterval(change.Delta))
			}
			cells = append(cells, cell)
		}
		return cells
	})
}

func (r rows) channels(of string) table {
	return r.table("What the change of Pr(S) is made of, "+of,
		"Composition, −ΔPr(U) · dpref before, comes from answering more or less often; preference, (1 − Pr(U) after) · Δdpref, from answering otherwise. They add up to ΔPr(S). Kept: the bootstrap draws with the same sign, and the range over all draws.",
		[]string{"ΔPr(S)", "Composition", "kept, range", "Preference", "kept, range", "Comp. share"}, func(g *Group) []string {
			return []string{
				signed(g.Changes["pr_s"].Delta),
				signed(g.Channels.Composition.Change), kept(g.Channels.Composition),
				signed(g.Channels.Preference.Change), kept(g.Channels.Preference),
				plain(g.Channels.CompositionShare),
			}
		})
}

func (r rows) selection(of string) table {
	return r.table("Bias score with and without the change of the answered set, "+of,
		"The score is 2 n_bias / n_¬U − 1. Corrected weighs the question templates as they were answered before; lost is the weight of templates without an answer left.",
		[]string{"Before", "After", "After, corrected", "Explained", "Lost"}, func(g *Group) []string {
			s := g.Selection
			return []string{plain(s.Before), plain(s.Naive), plain(s.Corrected), plain(s.Explained), s.LostWeight.String()}
		})
}

func (r rows) flips(of string) table {
	return r.table("Items that went to the unknown option, "+of,
		"Flipped: answered before, unknown after, as a share of all items. Biased before: the share whose answer had been the biased option, of the flipped and of those that stayed answered.",
		[]string{"Flipped", "Back", "Rate", "Biased before, flipped", "Biased before, stayed", "Difference"}, func(g *Group) []string {
			f := g.Flips
			return []string{strconv.Itoa(f.Flipped), strconv.Itoa(f.Returned), plain(f.Rate), plain(f.FlippedS), plain(f.StayedS), signed(f.Difference)}
		})
}

func (r rows) shifts(of string) table {
	return r.table("Mean change of the options' log-probability, "+of,
		"Under the read-out, in nats. Margin: the unknown option's less the better of the other two.",
		[]string{"Biased", "Anti", "Unknown", "Margin"}, func(g *Group) []string {
			return []string{signed(g.Shifts.S), signed(g.Shifts.A), signed(g.Shifts.U), signed(g.Shifts.Margin)}
		})
}

func (r rows) tests(of string) table {
	return r.table("Is the biased option chosen as often? McNemar's test, "+of,
		"Free: among all three options; forced: without the unknown one. Lost and gained: items on which only the base run, or only the steered one, chose it. p is exact, Holm's is adjusted for the number of categories.",
		[]string{"Free: lost", "gained", "p", "Holm", "Forced: lost", "gained", "p", "Holm"}, func(g *Group) []string {
			var cells []string
			for _, test := range []McNemar{g.Free, g.Forced} {
				holm := "–"
				if test.Holm != nil {
					holm = metric.FormatP(*test.Holm)
				}
				cells = append(cells, strconv.Itoa(test.BeforeOnly), strconv.Itoa(test.AfterOnly), metric.FormatP(test.Exact), holm)
			}
			return cells
		})
}

// tables are all of the comparison's.
func (c *Comparison) tables() []table {
	var list []table
	for _, condition := range c.benchmark.Conditions {
		list = append(list, c.conditionTables(condition.Name, condition.Title)...)
	}
	return list
}

// conditionTables are those of one condition, by category; none if it has no items.
func (c *Comparison) conditionTables(condition, title string) []table {
	r := c.byCategory(condition)
	if len(r.groups) == 0 {
		return nil
	}
	var names []string
	for _, m := range c.benchmark.Metrics {
		if m.Applies(condition) {
			names = append(names, m.Name)
		}
	}
	return []table{r.metrics(title, names), r.channels(title), r.selection(title), r.flips(title), r.shifts(title), r.tests(title)}
}

// briefTables are those for a terminal: by category where it matters most, by condition otherwise.
func (c *Comparison) briefTables() []table {
	var list []table
	for _, condition := range c.benchmark.Conditions {
		if r := c.byCategory(condition.Name); len(r.groups) > 0 && condition.Name != metric.All {
			list = append(list, r.metrics(condition.Title, condition.Brief), r.channels(condition.Title))
		}
	}
	all := c.byCondition()
	const of = "all categories"
	return append(list, all.selection(of), all.flips(of), all.shifts(of), c.byCategory(metric.All).tests("all items"))
}

// summaryTable has a row a steered run.
func summaryTable(rows []Row, brief bool) table {
	t := table{
		Title: "Interventions",
		Note: "Changes against the base run, over all categories. Comp. and Pref. are the two channels of ΔPr(S), Share that of composition; Δdpref is the change of the biased option's rate among answered items. " +
			"Accuracy and flips to the unknown option, an error there, are of disambiguated items (dis).",
		Header: []string{"Run", "ΔPr(S)", "ΔPr(U)", "Δdpref", "Comp.", "Pref.", "Share", "Δs_Amb", "Δs_Dis", "Δacc, dis", "Flipped, dis"},
	}
	if !brief {
		t.Header = append(t.Header, "Δacc, amb", "Flipped, amb", "s_Amb falls", "s_Dis falls")
	}
	for _, r := range rows {
		cells := []string{
			r.label(), signed(r.PrS), signed(r.PrU), signed(r.DPref), signed(r.Composition.Change), signed(r.Preference.Change),
			r.CompositionShare.String(), signed(r.SAmb), signed(r.SDis), signed(r.AccuracyDisambig), plain(r.FlippedDisambig),
		}
		if brief {
			for i := range cells[1:] {
				cells[1+i], _, _ = strings.Cut(cells[1+i], "\n")
			}
		} else {
			cells = append(cells, signed(r.AccuracyAmbig), plain(r.FlippedAmbig), r.SAmbDown.String(), r.SDisDown.String())
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// label is the run's name, and its intervention where the name, as a grid gives it, does not say it already.
func (r Row) label() string {
	if r.Steering != nil && strings.HasPrefix(r.Name, r.Steering.Method+", ") {
		return r.Name
	}
	return r.Name + "\n" + r.method()
}

// method is the row's intervention in a few words.
func (r Row) method() string {
	if r.Steering == nil {
		return "unsteered"
	}
	return fmt.Sprintf("%s, %s %g, layer %s", r.Steering.Method, r.Steering.Operator, r.Steering.Strength, joinInts(r.Steering.Layers))
}

func (d Decreases) String() string { return fmt.Sprintf("%d of %d categories", d.Decreased, d.Of) }

func signedInterval(v metric.Value) string {
	return "[" + metric.FormatSigned(v.Lo) + ", " + metric.FormatSigned(v.Hi) + "]"
}

// signed is a change and its interval.
func signed(v metric.Value) string {
	if !v.OK {
		return metric.Undefined
	}
	return metric.FormatSigned(v.V) + mark(v) + "\n" + signedInterval(v)
}

// plain is a value and its interval.
func plain(v metric.Value) string {
	if !v.OK {
		return metric.Undefined
	}
	return v.String() + mark(v) + "\n" + v.Interval()
}

// undefinedMark stands at a value whose interval leaves draws out.
const undefinedMark = "†"

func mark(v metric.Value) string {
	if v.UndefinedDraws > 0 {
		return undefinedMark
	}
	return ""
}

func kept(c Channel) string {
	if !c.Change.OK {
		return "–"
	}
	return fmt.Sprintf("%d/%d\n%s … %s", c.Kept, c.Draws, metric.FormatSigned(c.Range.Min), metric.FormatSigned(c.Range.Max))
}

func joinInts(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
}
