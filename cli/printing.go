package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"
)

// printing says how a report is printed.
type printing struct {
	json, csv, markdown bool
	bootstrap           int
}

func (p *printing) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Usage: "print JSON: the run's description and every metric", Destination: &p.json},
		&cli.BoolFlag{Name: "csv", Usage: "print CSV: a row a metric", Destination: &p.csv},
		&cli.BoolFlag{Name: "markdown", Usage: "print Markdown", Destination: &p.markdown},
		&cli.IntFlag{Name: "bootstrap", Usage: "compute intervals from `N` draws, the first being the sample itself", Value: 100, Destination: &p.bootstrap},
	}
}

func (p *printing) check() error {
	formats := 0
	for _, wanted := range []bool{p.json, p.csv, p.markdown} {
		if wanted {
			formats++
		}
	}
	if formats > 1 {
		return usageError("--json, --csv and --markdown exclude each other")
	}
	if p.bootstrap < 2 {
		return usageError("--bootstrap %d: an interval needs at least 2 draws", p.bootstrap)
	}
	return nil
}

// table says whether the output is for a person at a terminal.
func (p *printing) table() bool { return !p.json && !p.csv && !p.markdown }

// tabular is what can be printed in every format.
type tabular interface {
	WriteJSON(io.Writer) error
	WriteCSV(io.Writer) error
	WriteMarkdown(io.Writer) error
	WriteTable(io.Writer) error
}

func (p *printing) print(r tabular, out io.Writer) error {
	switch {
	case p.json:
		return r.WriteJSON(out)
	case p.csv:
		return r.WriteCSV(out)
	case p.markdown:
		return r.WriteMarkdown(out)
	}
	return r.WriteTable(out)
}

// printable is the report of what a directory holds, whatever was audited.
type printable interface {
	tabular
	WriteFile(dir string) (path string, err error)
}

// pageError says that a report was printed, and that report.html could not be written.
type pageError struct{ error }

func (e *pageError) Unwrap() error { return e.error }

// diskFull says whether a file could not be written for want of room, and not because it may not be.
func diskFull(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, func(full error) bool { return errors.Is(err, full) })
}

// report prints what is in a directory, and writes its report.html.
func (p *printing) report(r printable, dir string, out io.Writer) error {
	if err := p.print(r, out); err != nil {
		return err
	}
	path, err := r.WriteFile(dir)
	if err != nil {
		if diskFull(err) {
			err = fmt.Errorf("%w; an older page stays as it was; make room, then plumb report %s writes it", err, dir)
		}
		return &pageError{err}
	}
	if p.table() {
		_, err = fmt.Fprintf(out, "Report: %s\n", path)
	}
	return err
}
