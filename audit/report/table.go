package report

import (
	"html/template"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Table is a plain table for any format.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
	Left   int // so many columns are words, the others numbers
}

func (t Table) fill(writer *tablewriter.Table, cell func(string) string) error {
	cells := func(row []string) []any {
		var out []any
		for _, c := range row {
			out = append(out, cell(c))
		}
		return out
	}
	writer.Header(cells(t.Header)...)
	for _, row := range t.Rows {
		if err := writer.Append(cells(row)...); err != nil {
			return err
		}
	}
	return writer.Render()
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

// WriteTerminal writes the table for a terminal, its title above it.
func (t Table) WriteTerminal(w io.Writer) error {
	if t.Title != "" {
		if _, err := io.WriteString(w, printable(t.Title)+"\n"); err != nil {
			return err
		}
	}
	return t.fill(tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(t.alignment()),
		tablewriter.WithTrimSpace(tw.Off)), printable)
}

// WriteMarkdown writes the table as Markdown, its title as a heading of the second level.
func (t Table) WriteMarkdown(w io.Writer) error {
	if t.Title != "" {
		if _, err := io.WriteString(w, "## "+escapeMarkdown(t.Title)+"\n\n"); err != nil {
			return err
		}
	}
	return t.fill(tablewriter.NewTable(w, tablewriter.WithRenderer(renderer.NewMarkdown()), tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(t.alignment())), escapeMarkdown)
}

// HTML is the table as an element of a page.
func (t Table) HTML() template.HTML {
	var text strings.Builder
	text.WriteString("<table>\n")
	if t.Title != "" {
		text.WriteString("<caption>" + template.HTMLEscapeString(t.Title) + "</caption>\n")
	}
	text.WriteString("<thead><tr>")
	for _, cell := range t.Header {
		text.WriteString(`<th scope="col">` + string(Symbol(cell)) + "</th>")
	}
	text.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		text.WriteString("<tr>")
		for i, cell := range row {
			element := "td"
			if i < t.Left {
				element = `th scope="row"`
			}
			text.WriteString("<" + element + ">" + template.HTMLEscapeString(cell) + "</" + element[:2] + ">")
		}
		text.WriteString("</tr>\n")
	}
	text.WriteString("</tbody>\n</table>")
	return template.HTML(text.String())
}
