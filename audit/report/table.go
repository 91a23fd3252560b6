package report

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"plumb/audit/metric"
)

// Table is a table of text cells for every kind of report. Its first column is aligned to the left, the others to the right.
type Table struct {
	Title  string
	Note   string // below it; may be empty
	Header []string
	Rows   [][]string
}

// Cell is a value with its interval, on two lines.
func Cell(v metric.Value) string { return cell(v, "\n") }

// WriteText appends the table for a terminal.
func (t *Table) WriteText(text *strings.Builder) error {
	fmt.Fprintf(text, "%s\n", printable(t.Title))
	table := tablewriter.NewTable(text,
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(alignments(len(t.Header))),
		tablewriter.WithTrimSpace(tw.Off))
	if err := t.fill(table, printable); err != nil {
		return err
	}
	if t.Note != "" {
		fmt.Fprintf(text, "%s\n", printable(t.Note))
	}
	text.WriteString("\n")
	return nil
}

// WriteMarkdown appends the table as Markdown, under a heading of level two.
func (t *Table) WriteMarkdown(text *strings.Builder) error {
	fmt.Fprintf(text, "\n## %s\n\n", escapeMarkdown(t.Title))
	table := tablewriter.NewTable(text,
		tablewriter.WithRenderer(renderer.NewMarkdown()),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(alignments(len(t.Header))))
	if err := t.fill(table, escapeMarkdown); err != nil {
		return err
	}
	if t.Note != "" {
		fmt.Fprintf(text, "\n%s\n", escapeMarkdown(t.Note))
	}
	return nil
}

// HTML is the table as an element of a page.
func (t *Table) HTML() template.HTML {
	escape := template.HTMLEscapeString
	var b strings.Builder
	fmt.Fprintf(&b, "<div class=\"scroll\">\n<table>\n<caption>%s</caption>\n<thead><tr>", escape(t.Title))
	for _, h := range t.Header {
		fmt.Fprintf(&b, `<th scope="col">%s</th>`, escape(h))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		for i, c := range row {
			value, interval, _ := strings.Cut(c, "\n")
			switch {
			case i == 0:
				fmt.Fprintf(&b, `<tr><th scope="row">%s</th>`, escape(c))
			case c == metric.Undefined:
				fmt.Fprintf(&b, `<td class="undefined">%s</td>`, c)
			case interval != "":
				fmt.Fprintf(&b, `<td>%s<small>%s</small></td>`, escape(value), escape(interval))
			default:
				fmt.Fprintf(&b, `<td>%s</td>`, escape(c))
			}
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody>\n</table>\n</div>")
	if t.Note != "" {
		fmt.Fprintf(&b, "\n<p class=\"soft\">%s</p>", escape(t.Note))
	}
	return template.HTML(b.String())
}

func (t *Table) fill(table *tablewriter.Table, escape func(string) string) error {
	escaped := func(cells []string) []string {
		out := make([]string, len(cells))
		for i, c := range cells {
			out[i] = escape(c)
		}
		return out
	}
	table.Header(escaped(t.Header))
	for _, row := range t.Rows {
		if err := table.Append(escaped(row)); err != nil {
			return err
		}
	}
	return table.Render()
}

func alignments(n int) tw.Alignment { return columns(n - 3) }
