package cli

import (
	"cmp"
	"errors"
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
	printing
	readOut string
}

func (o *outputOptions) flags() []cli.Flag {
	return append(o.printing.flags(),
		&cli.StringFlag{Name: "read-out", Usage: "choose options by `SCORE`: mean, sum, first (token) or forced (mean, unknown excluded) (default: mean; CrowS-Pairs: sum)", Destination: &o.readOut})
}

func (o *outputOptions) check() error {
	if err := o.printing.check(); err != nil {
		return err
	}
	if _, err := metric.ParseReadOut(o.readOut); o.readOut != "" && err != nil {
		return usageError("--read-out: %s", err)
	}
	return nil
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

// reportRun prints the run that an audit has just finished, and writes its report.html.
func reportRun(dir string, options outputOptions, out io.Writer) error {
	r, err := options.read(dir)
	if err != nil {
		return err
	}
	if err := options.report(r, dir, out); err != nil {
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
   0  the run was printed, whether or not report.html may be written where it is
   1  it cannot be read, or there is no room for report.html
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
		if protocol.IsSweep(dir) || dialect.IsSweep(dir) {
			return fmt.Errorf("%s is a sweep of several runs, and --no-text copies one; give it the run directories in there, one by one", dir)
		}
		if err := record.CopyWithoutText(dir, options.noText); err != nil {
			return err
		}
		dir = options.noText
	}
	err := options.printRun(dir, out)
	if page := (*pageError)(nil); errors.As(err, &page) && !diskFull(page) { // a run can be read where it may not be written
		fmt.Fprintf(notes, "plumb: %v\n", page)
		return nil
	}
	return err
}

// printRun prints whatever a directory holds, and writes its report.html.
func (o *reportOptions) printRun(dir string, out io.Writer) error {
	if protocol.IsSweep(dir) {
		return reportSweep(dir, o.outputOptions, protocol.DefaultThresholds(), out)
	}
	pairs := dialectOutput{o.printing, o.unmasked}
	if dialect.IsSweep(dir) {
		return reportDialectSweep(dir, pairs, out)
	}
	switch benchmark, _ := benchmarkOf(dir); benchmark { // an error is for whoever reads the run next
	case dialect.Benchmark:
		return reportDialect(dir, pairs, out)
	case dialect.TraceBenchmark:
		return reportTrace(dir, pairs, out)
	}
	r, err := o.read(dir)
	if err != nil {
		return err
	}
	return o.report(r, dir, out)
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
