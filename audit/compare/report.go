package compare

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"plumb/audit/metric"
)

// Report is one or more comparisons for people (terminal, Markdown, HTML) and machines (JSON, CSV).
type Report struct {
	Rows        []Row         `json:"summary"`
	Comparisons []*Comparison `json:"comparisons"`
}

// NewReport puts comparisons, at least one, into a report.
func NewReport(comparisons []*Comparison) *Report {
	return &Report{Rows: Summarize(comparisons), Comparisons: comparisons}
}

// WriteJSON writes every number.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteCSV writes a line a quantity of a group, at full precision. A metric has its value before and after beside its
// change; of what is undefined, the line says so.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"base", "steered", "category", "condition", "quantity", "before", "after", "value", "low", "high", "n", "undefined_draws"}}
	for _, c := range r.Comparisons {
		for i := range c.Groups {
			g := &c.Groups[i]
			for _, line := range g.lines(c.benchmark.Metrics) {
				lines = append(lines, append([]string{c.Base.Name, c.Steered.Name, g.Category, g.Condition}, line...))
			}
		}
	}
	return out.WriteAll(lines)
}

// lines are the group's quantities for CSV, from the quantity's name on.
func (g *Group) lines(metrics []metric.Metric) [][]string {
	var lines [][]string
	add := func(name, before, after string, v metric.Value) {
		line := []string{name, before, after, metric.Undefined, "", "", "0", "0"}
		if v.OK {
			line = []string{name, before, after, exact(v.V), exact(v.Lo), exact(v.Hi), strconv.Itoa(v.N), strconv.Itoa(v.UndefinedDraws)}
		}
		lines = append(lines, line)
	}
	for _, m := range metrics {
		if change, ok := g.Changes[m.Name]; ok {
			add("delta_"+m.Name, number(change.Before), number(change.After), change.Delta)
		}
	}
	for _, q := range []struct {
		name  string
		value metric.Value
	}{
		{"composition", g.Channels.Composition.Change}, {"preference", g.Channels.Preference.Change},
		{"composition_share", g.Channels.CompositionShare},
		{"score_before", g.Selection.Before}, {"score_after", g.Selection.Naive}, {"score_after_corrected", g.Selection.Corrected},
		{"selection_explained", g.Selection.Explained}, {"selection_lost_weight", g.Selection.LostWeight},
		{"flipped", g.Flips.Rate}, {"biased_before_among_flipped", g.Flips.FlippedS}, {"biased_before_among_stayed", g.Flips.StayedS},
		{"flipped_less_stayed", g.Flips.Difference},
		{"shift_biased", g.Shifts.S}, {"shift_anti", g.Shifts.A}, {"shift_unknown", g.Shifts.U}, {"shift_margin", g.Shifts.Margin},
	} {
		add(q.name, "", "", q.value)
	}
	for _, channel := range []struct {
		name string
		Channel
	}{{"delta_pr_u", g.Channels.AnswerRate}, {"composition", g.Channels.Composition}, {"preference", g.Channels.Preference}} {
		if channel.Range != nil {
			lines = append(lines,
				[]string{channel.name + "_sign_kept", "", "", exact(float64(channel.Kept) / float64(channel.Draws)), "", "", strconv.Itoa(channel.Draws), "0"},
				[]string{channel.name + "_range", "", "", "", exact(channel.Range.Min), exact(channel.Range.Max), strconv.Itoa(channel.Draws), "0"})
		}
	}
	for _, test := range []struct {
		name string
		McNemar
	}{{"mcnemar_free", g.Free}, {"mcnemar_forced", g.Forced}} {
		holm := ""
		if test.Holm != nil {
			holm = exact(*test.Holm)
		}
		n := strconv.Itoa(g.Items)
		lines = append(lines,
			[]string{test.name + "_discordant", strconv.Itoa(test.BeforeOnly), strconv.Itoa(test.AfterOnly), "", "", "", n, "0"},
			[]string{test.name + "_p", "", "", exact(test.Exact), "", "", n, "0"},
			[]string{test.name + "_p_holm", "", "", holm, "", "", n, "0"})
	}
	return lines
}

func exact(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func number(v metric.Value) string {
	if !v.OK {
		return metric.Undefined
	}
	return exact(v.V)
}

// WriteTable writes for a terminal: one comparison in detail, or of several the summary alone.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	tables := []table{summaryTable(r.Rows, true)}
	if len(r.Comparisons) == 1 {
		tables = r.Comparisons[0].briefTables()
	}
	fmt.Fprintf(&text, "%s\n", r.headline())
	for _, t := range tables {
		fmt.Fprintf(&text, "\n%s\n", t.Title)
		writer := tablewriter.NewTable(&text,
			tablewriter.WithHeaderAutoFormat(tw.Off),
			tablewriter.WithHeaderAlignment(tw.AlignRight),
			tablewriter.WithAlignment(columns(len(t.Header))),
			tablewriter.WithTrimSpace(tw.Off))
		if err := fill(writer, t, func(cell string) string { return cell }); err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s\n", wrap(t.Note, 118))
	}
	if len(r.Comparisons) == 1 {
		r.Comparisons[0].writeExamples(&text)
	}
	text.WriteString("\n")
	for _, note := range r.notes() {
		fmt.Fprintf(&text, "%s\n", wrap(note, 118))
	}
	if len(r.Comparisons) > 1 {
		text.WriteString("Every category and interval is in the other formats, and in the comparison of one run alone.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeExamples shows a flipped item of each condition of the first few categories that have one.
func (c *Comparison) writeExamples(text *strings.Builder) {
	const most = 2
	for _, condition := range c.benchmark.Conditions {
		shown := 0
		for _, g := range c.byCategory(condition.Name).groups {
			if len(g.Flips.Examples) > 0 && shown < most {
				shown++
				e := g.Flips.Examples[0]
				fmt.Fprintf(text, "\nFlipped: %s, one of the %s\n", e.ID, condition.Title)
				if e.Text != "" {
					fmt.Fprintf(text, "  %s\n", strings.ReplaceAll(wrap(strings.ReplaceAll(e.Text, "\n", " "), 116), "\n", "\n  "))
				}
				for _, o := range e.Options {
					fmt.Fprintf(text, "  %-8s %8s → %8s  %s%s\n", o.Role, metric.Format(o.Before), metric.Format(o.After), o.Text, e.role(o))
				}
			}
		}
	}
}

// role says what an example's option was.
func (e Example) role(o ExampleOption) string {
	var is []string
	if o.Role == e.Correct {
		is = append(is, "right")
	}
	if o.Role == e.Before {
		is = append(is, "chosen before")
	}
	if o.Role == e.After {
		is = append(is, "chosen after")
	}
	if len(is) == 0 {
		return ""
	}
	return " (" + strings.Join(is, ", ") + ")"
}

// WriteMarkdown writes every table.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", escapeMarkdown(r.headline()))
	write := func(level string, t table) error {
		fmt.Fprintf(&text, "\n%s %s\n\n%s\n\n", level, escapeMarkdown(t.Title), escapeMarkdown(t.Note))
		writer := tablewriter.NewTable(&text,
			tablewriter.WithRenderer(renderer.NewMarkdown()),
			tablewriter.WithHeaderAutoFormat(tw.Off),
			tablewriter.WithAlignment(columns(len(t.Header))))
		return fill(writer, t, escapeMarkdown)
	}
	if err := write("##", summaryTable(r.Rows, false)); err != nil {
		return err
	}
	for _, c := range r.Comparisons {
		fmt.Fprintf(&text, "\n## %s\n\n", escapeMarkdown(c.headline()))
		for _, f := range c.facts() {
			fmt.Fprintf(&text, "- %s: %s\n", escapeMarkdown(f.Name), escapeMarkdown(f.Value))
		}
		for _, t := range c.tables() {
			if err := write("###", t); err != nil {
				return err
			}
		}
	}
	text.WriteString("\n")
	for _, note := range r.notes() {
		fmt.Fprintf(&text, "%s\n", escapeMarkdown(note))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func fill(writer *tablewriter.Table, t table, escape func(string) string) error {
	escaped := func(cells []string) []string {
		out := make([]string, len(cells))
		for i, cell := range cells {
			out[i] = escape(cell)
		}
		return out
	}
	writer.Header(escaped(t.Header))
	for _, row := range t.Rows {
		if err := writer.Append(escaped(row)); err != nil {
			return err
		}
	}
	return writer.Render()
}

// columns aligns the first to the left, the others to the right.
func columns(n int) tw.Alignment {
	alignment := tw.Alignment{tw.AlignLeft}
	for range n - 1 {
		alignment = append(alignment, tw.AlignRight)
	}
	return alignment
}

// escapeMarkdown keeps a text from being read as markup or as the border of a cell.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`, "#", `\#`, "\n", " ").Replace(text)
}

// wrap breaks a text into lines of at most width characters, where its words allow.
func wrap(text string, width int) string {
	var out strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		length := len([]rune(word))
		switch {
		case i == 0:
		case used+1+length > width:
			out.WriteString("\n")
			used = 0
		default:
			out.WriteString(" ")
			used++
		}
		out.WriteString(word)
		used += length
	}
	return out.String()
}
