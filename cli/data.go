package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
	"plumb/audit/report"
)

func dataCommand() *cli.Command {
	return &cli.Command{
		Name:        "data",
		Usage:       "look after the data sets",
		Subcommands: []*cli.Command{dataCheckCommand()},
	}
}

type dataCheckOptions struct {
	json     bool
	strict   bool
	metadata string
}

func (o *dataCheckOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Usage: "print JSON, with every left-out item", Destination: &o.json},
		&cli.BoolFlag{Name: "strict", Usage: "fail if there are bad rows", Destination: &o.strict},
		&cli.StringFlag{Name: "metadata", Usage: "take the biased options from `FILE`, BBQ's additional_metadata.csv", Destination: &o.metadata},
	}
}

func dataCheckCommand() *cli.Command {
	var options dataCheckOptions
	return &cli.Command{
		Name:      "check",
		Usage:     "read BBQ as an audit would, and say what it can use",
		ArgsUsage: "PATH...",
		Description: `Reads files and folders of BBQ: JSON lines as published, plain or compressed by gzip or zstd, or Parquet with
the same columns. Prints how many items of each category an audit can use, which it leaves out and why, and
the rows that are no items, with file and line. It needs no model.

An item is left out if no single option is the targeted group's. Which one is, is worked out from the item's
answer_info and stereotyped_groups by rules for each category, or taken from the file of --metadata.

EXIT STATUS
   0  the files were read
   1  a file cannot be read or holds nothing that an audit can use, or there are bad rows with --strict
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			paths, err := laterFlags(c)
			if err != nil {
				return err
			}
			return runDataCheck(options, paths, c.App.Writer)
		},
	}
}

func runDataCheck(options dataCheckOptions, paths []string, out io.Writer) error {
	if len(paths) == 0 {
		return usageError("data check needs the files or folders to check")
	}
	data, err := readBBQ(paths, options.metadata)
	if err != nil {
		return err
	}
	print := printDataCheck
	if options.json {
		print = printDataCheckJSON
	}
	if err := print(out, data); err != nil {
		return err
	}
	if options.strict && data.Bad > 0 {
		return fmt.Errorf("bad rows: %s (--strict)", report.Thousands(data.Bad))
	}
	if len(data.Items) == 0 {
		return fmt.Errorf("no item of %s can be used", strings.Join(paths, ", "))
	}
	return nil
}

func printDataCheckJSON(out io.Writer, data *bbq.Data) error {
	reasons := map[string]int{}
	for _, left := range data.LeftOut {
		reasons[left.Reason]++
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Files      []bbq.File          `json:"files"`
		Metadata   *bbq.File           `json:"metadata"`
		Categories []bbq.CategoryCount `json:"categories"`
		Kept       int                 `json:"kept"`
		LeftOut    []bbq.LeftOut       `json:"left_out"`
		Reasons    map[string]int      `json:"left_out_reasons"`
		Bad        int                 `json:"bad"`
		BadRows    []bbq.BadRow        `json:"bad_rows"` // not all of them if they are very many
	}{
		data.Files, data.Metadata, data.Categories(), len(data.Items),
		append([]bbq.LeftOut{}, data.LeftOut...), reasons, data.Bad, append([]bbq.BadRow{}, data.BadRows...),
	})
}

// maxShownRows is how many bad rows, or left-out items of one reason, are shown to people.
const maxShownRows = 20

func printDataCheck(out io.Writer, data *bbq.Data) error {
	table := tablewriter.NewTable(out,
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithFooterAutoFormat(tw.Off),
		tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignRight, tw.AlignRight, tw.AlignRight}))
	table.Header("Category", "Items", "Kept", "Left out")
	rows := 0
	for _, count := range data.Categories() {
		rows += count.Rows
		if err := table.Append(count.Category, report.Thousands(count.Rows), report.Thousands(count.Kept), report.Thousands(count.LeftOut)); err != nil {
			return err
		}
	}
	table.Footer("All", report.Thousands(rows), report.Thousands(len(data.Items)), report.Thousands(len(data.LeftOut)))
	if err := table.Render(); err != nil {
		return err
	}

	var text strings.Builder
	byReason := map[string][]string{}
	for _, left := range data.LeftOut {
		byReason[left.Reason] = append(byReason[left.Reason], left.ID)
	}
	reasons := make([]string, 0, len(byReason))
	for reason := range byReason {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byReason[b]), len(byReason[a])), cmp.Compare(a, b))
	})
	for _, reason := range reasons {
		ids := byReason[reason]
		fmt.Fprintf(&text, "\nLeft out because %s: %s\n  %s%s\n", reason, report.Thousands(len(ids)),
			strings.Join(ids[:min(maxShownRows, len(ids))], ", "), andMore(len(ids), "--json lists all"))
	}
	if data.Bad > 0 {
		fmt.Fprintf(&text, "\nBad rows: %s\n", report.Thousands(data.Bad))
		for _, bad := range data.BadRows[:min(maxShownRows, len(data.BadRows))] {
			fmt.Fprintf(&text, "  %s\n", bad.Error())
		}
		if note := andMore(data.Bad, "--json lists up to 1,000"); note != "" {
			fmt.Fprintf(&text, " %s\n", note)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// andMore says how many of a list are not shown, and where they are.
func andMore(total int, where string) string {
	if total <= maxShownRows {
		return ""
	}
	return fmt.Sprintf(" … and %s more (%s)", report.Thousands(total-maxShownRows), where)
}
