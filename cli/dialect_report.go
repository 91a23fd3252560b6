package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/dialect"
	"plumb/audit/report"
)

// dialectOutput says how a dialect audit is printed.
type dialectOutput struct {
	printing
	unmasked bool
}

func (o *dialectOutput) flags() []cli.Flag {
	return append(o.printing.flags(),
		&cli.BoolFlag{Name: "unmasked", Usage: "print slurs of the lexicon as they are", Destination: &o.unmasked})
}

// reportDialect prints a run of a dialect audit, and writes its report.html.
func reportDialect(dir string, options dialectOutput, out io.Writer) error {
	r, err := dialect.New(dir, options.bootstrap, options.unmasked)
	if err != nil {
		return err
	}
	err = options.report(r, dir, out)
	failures := r.Summary.Failures
	switch {
	case err != nil || len(failures) == 0:
	case len(failures) == r.Done:
		err = fmt.Errorf("none of %s could be scored; the first, %s: %s", report.Count(len(failures), "item"), failures[0].ID, failures[0].Reason)
	case r.Finished() && !r.Summary.Values[dialect.LP].OK:
		err = fmt.Errorf("LP could be measured on none of the pairs, %s; the first failure, %s: %s", report.Thousands(r.Summary.Pairs), failures[0].ID, failures[0].Reason)
	}
	return err
}

// reportTrace prints a causal trace, and writes its report.html.
func reportTrace(dir string, options dialectOutput, out io.Writer) error {
	trace, err := dialect.NewTrace(dir, options.bootstrap, options.unmasked)
	if err != nil {
		return err
	}
	if err := options.report(trace, dir, out); err != nil {
		return err
	}
	if n := len(trace.Failures); n > 0 && n == trace.Done {
		return fmt.Errorf("none of %s could be traced; the first, %s: %s", report.Count(n, "pair"), trace.Failures[0].ID, trace.Failures[0].Reason)
	}
	return nil
}

// reportDialectSweep prints a sweep, and writes its report.html.
func reportDialectSweep(dir string, options dialectOutput, out io.Writer) error {
	runs, err := dialect.ReadSweep(dir)
	if err != nil {
		return err
	}
	sweep, err := dialect.NewSweep(runs, options.bootstrap, options.unmasked)
	if err != nil {
		return err
	}
	return options.report(sweep, dir, out)
}

// compareDialects prints runs of dialect audits side by side.
func compareDialects(options *compareOptions, dirs []string, out io.Writer) error {
	var runs []*dialect.Report
	for _, dir := range dirs {
		r, err := dialect.New(dir, options.bootstrap, false)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	c, err := dialect.Compare(runs)
	if err != nil {
		return err
	}
	if options.html != "" {
		if err := corpus.WriteFile(options.html, c.WriteHTML); err != nil {
			return err
		}
	}
	return options.print(c, out)
}
