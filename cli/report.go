package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/capability"
	"plumb/audit/dialect"
	"plumb/audit/metric"
	"plumb/audit/protocol"
	"plumb/audit/record"
	"plumb/audit/report"
)

// outputOptions say how a run is read and printed.
type outputOptions struct {
	json, csv, markdown bool
	readOut             string
	bootstrap           int
}

func (o *outputOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Usage: "print JSON: the run's description and every metric", Destination: &o.json},
		&cli.BoolFlag{Name: "csv", Usage: "print CSV: a row a metric of a category and condition", Destination: &o.csv},
		&cli.BoolFlag{Name: "markdown", Usage: "print Markdown", Destination: &o.markdown},
		&cli.StringFlag{Name: "read-out", Usage: "choose options by `SCORE`: mean, sum, first (token) or forced (mean, unknown excluded) (default: mean; CrowS-Pairs: sum)", Destination: &o.readOut},
		&cli.IntFlag{Name: "bootstrap", Usage: "compute intervals from `N` draws, the first being the sample itself", Value: 100, Destination: &o.bootstrap},
	}
}

func (o *outputOptions) check() error {
	formats := 0
	for _, wanted := range []bool{o.json, o.csv, o.markdown} {
		if wanted {
			formats++
		}
	}
	if formats > 1 {
		return usageError("--json, --csv and --markdown exclude each other")
	}
	if o.bootstrap < 2 {
		return usageError("--bootstrap %d: an interval needs at least 2 draws", o.bootstrap)
	}
	if _, err := metric.ParseReadOut(o.readOut); o.readOut != "" && err != nil {
		return usageError("--read-out: %s", err)
	}
	return nil
}

// printable is a run's report, whatever was audited.
type printable interface {
	tabular
	WriteFile(dir string) (path string, err error)
}

// read reads a run as the options ask.
func (o *outputOptions) read(dir string) (printable, error) {
	benchmark, err := benchmarkOf(dir)
	if err != nil {
		return nil, err
	}
	if benchmark == capability.Benchmark {
		return capability.New(dir, o.bootstrap)
	}
	return report.New(dir, report.Options{ReadOut: metric.ReadOut(o.readOut), Draws: o.bootstrap})
}

// benchmarkOf says what a run is of.
func benchmarkOf(dir string) (string, error) {
	r, err := record.Open(dir)
	if err != nil {
		return "", err
	}
	return r.Run.Benchmark, r.Close()
}

// print prints a run in the format asked for.
func (o *outputOptions) print(r printable, out io.Writer) error {
	switch {
	case o.json:
		return r.WriteJSON(out)
	case o.csv:
		return r.WriteCSV(out)
	case o.markdown:
		return r.WriteMarkdown(out)
	}
	return r.WriteTable(out)
}

// table says whether the output is for a person at a terminal.
func (o *outputOptions) table() bool { return !o.json && !o.csv && !o.markdown }

// reportRun prints the run that an audit has just finished, and writes its report.html.
func reportRun(dir string, options outputOptions, out io.Writer) error {
	r, err := options.read(dir)
	if err != nil {
		return err
	}
	if err := options.print(r, out); err != nil {
		return err
	}
	path, err := r.WriteFile(dir)
	if err == nil && options.table() {
		_, err = fmt.Fprintf(out, "Report: %s\n", path)
	}
	if err != nil {
		return err
	}
	if r, ok := r.(*report.Report); ok {
		return r.Unscored()
	}
	return nil
}

type reportOptions struct {
	outputOptions
	noText   string
	unmasked bool
}

func reportCommand() *cli.Command {
	var options reportOptions
	return &cli.Command{
		Name:      "report",
		Usage:     "print a run again, without its model",
		ArgsUsage: "RUN",
		Description: `Computes the metrics of the run directory RUN, finished or not, prints them, and writes report.html into it: a page
that needs nothing else, with figures, settings and what was left out. Another read-out needs no new audit.

Every metric comes with the number of items it is of and its 95 % percentile bootstrap interval. What nothing was
answered for is undefined, and printed so.

EXIT STATUS
   0  the run was printed
   1  it cannot be read
   2  the command line is wrong`,
		Flags: append(options.flags(),
			&cli.StringFlag{Name: "no-text", Usage: "copy the run to `DIR` without the texts of data set and user, for sharing, and report on the copy", Destination: &options.noText},
			&cli.BoolFlag{Name: "unmasked", Usage: "of a dialect audit, print slurs of the lexicon as they are", Destination: &options.unmasked}),
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if len(arguments) != 1 {
				return usageError("report takes one run directory; see plumb report --help")
			}
			if c.IsSet("no-text") && options.noText == "" {
				return usageError("--no-text: which directory? The name is empty")
			}
			return runReport(&options, arguments[0], c.App.Writer, c.App.ErrWriter)
		},
	}
}

func runReport(options *reportOptions, dir string, out, notes io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	if options.noText != "" {
		if err := record.CopyWithoutText(dir, options.noText); err != nil {
			return err
		}
		dir = options.noText
	}
	if protocol.IsSweep(dir) {
		return reportSweep(dir, options.outputOptions, protocol.DefaultThresholds(), out)
	}
	o := options.outputOptions
	pairs := dialectOutput{o.json, o.csv, o.markdown, o.bootstrap, options.unmasked}
	if runs, ok := dialect.SweepIn(dir); ok {
		return reportDialectSweep(dir, runs, pairs, out)
	}
	switch benchmark, _ := benchmarkOf(dir); benchmark { // an error is for whoever reads the run next
	case dialect.Benchmark:
		return reportDialect(dir, pairs, out)
	case dialect.TraceBenchmark:
		return reportTrace(dir, pairs, out)
	}
	r, err := options.read(dir)
	if err != nil {
		return err
	}
	if err := options.print(r, out); err != nil {
		return err
	}
	path, err := r.WriteFile(dir)
	if err != nil { // a run can be read where it cannot be written
		fmt.Fprintf(notes, "plumb: %v\n", err)
		return nil
	}
	if options.table() {
		_, err = fmt.Fprintf(out, "Report: %s\n", path)
	}
	return err
}

// laterFlags sets the flags that stand behind a command's arguments, where the flag parser does not look, and returns the
// arguments without them. What follows a "--" is an argument.
func laterFlags(c *cli.Context) (arguments []string, err error) {
	rest := c.Args().Slice()
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		if word == "--" {
			return append(arguments, rest...), nil
		}
		if len(word) < 2 || word[0] != '-' {
			arguments = append(arguments, word)
			continue
		}
		name, value, found := strings.Cut(strings.TrimLeft(word, "-"), "=")
		at := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if at < 0 {
			return nil, usageError("flag provided but not defined: %s", word)
		}
		if slices.Contains(cli.HelpFlag.Names(), name) {
			return nil, cmp.Or(cli.ShowSubcommandHelp(c), errHelpShown)
		}
		if _, boolean := c.Command.Flags[at].(*cli.BoolFlag); !found && boolean {
			value = "true"
		} else if !found {
			if len(rest) == 0 {
				return nil, usageError("flag needs an argument: %s", word)
			}
			value, rest = rest[0], rest[1:]
		}
		if err := c.Set(name, value); err != nil {
			return nil, usageError("invalid value %q for flag %s: %s", value, word, err)
		}
	}
	return arguments, nil
}
