package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/audit/record"
	"plumb/audit/report"
)

// dialectOutput says how a dialect audit is printed.
type dialectOutput struct {
	json, csv, markdown bool
	bootstrap           int
	unmasked            bool
}

func (o *dialectOutput) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Usage: "print JSON: the run's description and every metric", Destination: &o.json},
		&cli.BoolFlag{Name: "csv", Usage: "print CSV: a row a metric", Destination: &o.csv},
		&cli.BoolFlag{Name: "markdown", Usage: "print Markdown", Destination: &o.markdown},
		&cli.IntFlag{Name: "bootstrap", Usage: "compute intervals from `N` draws, the first being the sample itself", Value: 100, Destination: &o.bootstrap},
		&cli.BoolFlag{Name: "unmasked", Usage: "print slurs of the lexicon as they are", Destination: &o.unmasked},
	}
}

func (o *dialectOutput) check() error {
	return (&outputOptions{json: o.json, csv: o.csv, markdown: o.markdown, bootstrap: o.bootstrap, readOut: "mean"}).check()
}

// table says whether the output is for a person at a terminal.
func (o *dialectOutput) table() bool { return !o.json && !o.csv && !o.markdown }

// tabular is what a report of pairs can be printed as.
type tabular interface {
	WriteJSON(io.Writer) error
	WriteCSV(io.Writer) error
	WriteMarkdown(io.Writer) error
	WriteTable(io.Writer) error
}

func (o *dialectOutput) print(r tabular, out io.Writer) error {
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

// report prints what is in a directory and writes its report.html.
func (o *dialectOutput) report(r printable, dir string, out io.Writer) error {
	if err := o.print(r, out); err != nil {
		return err
	}
	path, err := r.WriteFile(dir)
	if err == nil && o.table() {
		_, err = fmt.Fprintf(out, "Report: %s\n", path)
	}
	return err
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
func reportDialectSweep(dir string, runs dialect.SweepRuns, options dialectOutput, out io.Writer) error {
	sweep, err := dialect.NewSweep(runs, options.bootstrap, options.unmasked)
	if err != nil {
		return err
	}
	return options.report(sweep, dir, out)
}

// isDialectRun says whether a directory holds a run of a dialect audit; an error is for whoever reads the run next.
func isDialectRun(dir string) bool {
	r, err := record.Open(dir)
	if err != nil {
		return false
	}
	defer r.Close()
	return r.Run.Benchmark == dialect.Benchmark
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
		if err := writeFile(options.html, c.WriteHTML); err != nil {
			return err
		}
	}
	output := dialectOutput{json: options.json, csv: options.csv, markdown: options.markdown}
	return output.print(c, out)
}

// writeFile writes a file by a function that writes its content.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = write(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
