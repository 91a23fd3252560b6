package cli

import (
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
)

// printSideBySide prints the same model's text without and with steering in two columns.
func printSideBySide(out io.Writer, plain, steered string) error {
	table := tablewriter.NewTable(out,
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignLeft}),
		tablewriter.WithRowAutoWrap(tw.WrapNormal),
		tablewriter.WithMaxWidth(120))
	table.Header("unsteered", "steered")
	if err := table.Append(strings.TrimSpace(plain), strings.TrimSpace(steered)); err != nil {
		return err
	}
	return table.Render()
}
