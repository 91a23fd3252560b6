package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"plumb/audit/metric"
)

// Table is a table of text cells for any kind of report. A cell may hold a value and, on a second line, its interval.
type Table struct {
	Title  string // may be empty
	Note   string // below it; may be empty
	Header []string
	Rows   [][]string
	Left   int // so many columns are words, aligned to the left; the others are numbers
}

// Cell is a value with its interval, on two lines.
func Cell(v metric.Value) string { return cell(v, "\n") }

// WriteTerminal writes the table for a terminal, its title above it.
func (t Table) WriteTerminal(w io.Writer) error {
	if t.Title != "" {
		if _, err := fmt.Fprintf(w, "%s\n", printable(t.Title)); err != nil {
			return err
		}
	}
	table := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(t.alignment()),
		tablewriter.WithTrimSpace(tw.Off))
	if err := t.fill(table, printable); err != nil {
		return err
	}
	if t.Note != "" {
		_, err := fmt.Fprintf(w, "%s\n", printable(t.Note))
		return err
	}
	return nil
}

// WriteMarkdown writes the table as Markdown, its title as a heading of the second level.
func (t Table) WriteMarkdown(w io.Writer) error {
	if t.Title != "" {
		if _, err := fmt.Fprintf(w, "## %s\n\n", escapeMarkdown(t.Title)); err != nil {
			return err
		}
	}
	table := tablewriter.NewTable(w, tablewriter.WithRenderer(renderer.NewMarkdown()), tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(t.alignment()))
	if err := t.fill(table, escapeMarkdown); err != nil {
		return err
	}
	if t.Note != "" {
		_, err := fmt.Fprintf(w, "\n%s\n", escapeMarkdown(t.Note))
		return err
	}
	return nil
}

// HTML is the table as an element of a page.
func (t Table) HTML() template.HTML {
	escape := template.HTMLEscapeString
	var b strings.Builder
	b.WriteString("<div class=\"scroll\">\n<table>\n")
	if t.Title != "" {
		fmt.Fprintf(&b, "<caption>%s</caption>\n", escape(t.Title))
	}
	b.WriteString("<thead><tr>")
	for _, h := range t.Header {
		fmt.Fprintf(&b, `<th scope="col">%s</th>`, Symbol(h))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		if row[0] == CategoryName(metric.All) {
			b.WriteString(`<tr class="all">`)
		} else {
			b.WriteString("<tr>")
		}
		for i, c := range row {
			value, interval, _ := strings.Cut(c, "\n")
			switch {
			case i < t.Left:
				fmt.Fprintf(&b, `<th scope="row">%s</th>`, escape(c))
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

func (t Table) fill(table *tablewriter.Table, escape func(string) string) error {
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

func (t Table) alignment() tw.Alignment {
	var list tw.Alignment
	for i := range t.Header {
		if i < t.Left {
			list = append(list, tw.AlignLeft)
		} else {
			list = append(list, tw.AlignRight)
		}
	}
	return list
}
