package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"plumb/audit/metric"
)

// section is the table of one condition.
type section struct {
	Condition string
	Title     string
	Metrics   []metric.Metric
	Rows      []metric.Group // a category each, then all of them
}

// sections are the report's tables, with all metrics or the brief ones.
func (r *Report) sections(brief bool) []section {
	var list []section
	for _, condition := range r.Summary.Benchmark.Conditions {
		s := section{Condition: condition.Name, Title: sectionTitle(condition)}
		for _, m := range r.Summary.Benchmark.Metrics {
			if m.Applies(condition.Name) && !brief {
				s.Metrics = append(s.Metrics, m)
			}
		}
		for _, name := range condition.Brief {
			if m, ok := r.Summary.Benchmark.Metric(name); ok && brief {
				s.Metrics = append(s.Metrics, m)
			}
		}
		for _, g := range r.Summary.Groups {
			if g.Condition == condition.Name {
				s.Rows = append(s.Rows, g)
			}
		}
		if len(s.Rows) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// sectionTitle is "Ambiguous items (what to know of them)".
func sectionTitle(c metric.Condition) string {
	title := strings.ToUpper(c.Title[:1]) + c.Title[1:]
	if c.Note != "" {
		title += " (" + c.Note + ")"
	}
	return title
}

// table lays a section out: a header and rows of cells, each value with its interval after the separator.
func (s section) table(separator string) (header []any, rows [][]any) {
	header = []any{"Category", "Items", "Answered"}
	for _, m := range s.Metrics {
		header = append(header, m.Symbol)
	}
	for _, g := range s.Rows {
		row := []any{CategoryName(g.Category), Thousands(g.Counts.N()), Thousands(g.Counts.Answered())}
		for _, m := range s.Metrics {
			row = append(row, cell(g.Values[m.Name], separator))
		}
		rows = append(rows, row)
	}
	return header, rows
}

func cell(v metric.Value, separator string) string {
	if !v.OK {
		return v.String()
	}
	return v.String() + mark(v) + separator + v.Interval()
}

// undefinedMark stands at a value whose interval leaves draws out.
const undefinedMark = "†"

func mark(v metric.Value) string {
	if v.UndefinedDraws > 0 {
		return undefinedMark
	}
	return ""
}

// CategoryName is a category as tables show it.
func CategoryName(category string) string {
	if category == metric.All {
		return "All"
	}
	return category
}

// WriteTable writes the report for a terminal.
func (r *Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", r.headline())
	for _, s := range r.sections(true) {
		if s.Condition == metric.All {
			continue
		}
		fmt.Fprintf(&text, "%s\n", s.Title)
		table := tablewriter.NewTable(&text,
			tablewriter.WithHeaderAutoFormat(tw.Off),
			tablewriter.WithFooterAutoFormat(tw.Off),
			tablewriter.WithAlignment(columns(len(s.Metrics))),
			tablewriter.WithTrimSpace(tw.Off))
		header, rows := s.table("\n")
		table.Header(header...)
		if err := table.Bulk(rows[:len(rows)-1]); err != nil {
			return err
		}
		table.Footer(rows[len(rows)-1]...)
		if err := table.Render(); err != nil {
			return err
		}
		text.WriteString("\n")
	}
	for _, note := range r.notes(text.String()) {
		fmt.Fprintf(&text, "%s\n", note)
	}
	_, err := io.WriteString(w, printable(text.String()))
	return err
}

// printable keeps control characters of names in the data away from the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func columns(metrics int) tw.Alignment {
	alignment := tw.Alignment{tw.AlignLeft}
	for range metrics + 2 {
		alignment = append(alignment, tw.AlignRight)
	}
	return alignment
}

// WriteMarkdown writes the report as Markdown, with every metric.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n", escapeMarkdown(r.headline()))
	for _, f := range r.facts() {
		fmt.Fprintf(&text, "- %s: %s\n", escapeMarkdown(f.Name), escapeMarkdown(f.Value))
	}
	for _, s := range r.sections(false) {
		fmt.Fprintf(&text, "\n## %s\n\n", escapeMarkdown(s.Title))
		table := tablewriter.NewTable(&text,
			tablewriter.WithRenderer(renderer.NewMarkdown()),
			tablewriter.WithHeaderAutoFormat(tw.Off),
			tablewriter.WithAlignment(columns(len(s.Metrics))))
		header, rows := s.table(" ")
		for i := range header {
			header[i] = escapeMarkdown(header[i].(string))
		}
		table.Header(header...)
		for _, row := range rows {
			for i := range row {
				row[i] = escapeMarkdown(row[i].(string))
			}
			if err := table.Append(row...); err != nil {
				return err
			}
		}
		if err := table.Render(); err != nil {
			return err
		}
	}
	text.WriteString("\n")
	for _, note := range r.notes(text.String()) {
		fmt.Fprintf(&text, "- %s\n", escapeMarkdown(note))
	}
	if len(r.Run.Data.LeftOut) > 0 {
		text.WriteString("\n## Left out\n\n")
		for _, l := range r.Run.Data.LeftOut {
			fmt.Fprintf(&text, "- %s: %s\n", escapeMarkdown(l.Reason), Thousands(l.Count))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// escapeMarkdown keeps a text from being read as markup or as the border of a cell.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`, "#", `\#`, "\n", " ").Replace(text)
}
