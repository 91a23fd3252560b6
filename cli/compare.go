package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/compare"
	"plumb/audit/corpus"
	"plumb/audit/dialect"
	"plumb/audit/metric"
	"plumb/audit/protocol"
	"plumb/audit/record"
)

type compareOptions struct {
	outputOptions
	html string
}

func (o *compareOptions) flags() []cli.Flag {
	return append(o.outputOptions.flags(),
		&cli.StringFlag{Name: "html", Usage: "write a page with every table and figure to `FILE`", Destination: &o.html})
}

func compareCommand() *cli.Command {
	var options compareOptions
	return &cli.Command{
		Name:      "compare",
		Usage:     "say what an intervention changed: the preference, or only how often the model answers",
		ArgsUsage: "BASE STEERED...",
		Description: `Pairs the items of a base run with those of each steered run after it and prints what changed, by category and
condition: every metric; the two channels that the change of Pr(S) is made of (Answerability Confounds (GCD), eqs. 4
and 5); the bias score corrected for the changed set of answered items (eq. 6); the items that went to the unknown
option; the shifts of the options' log-probabilities; and McNemar's tests. Intervals are of bootstrap draws of the same
items on both sides.

A run of plumb audit bbq --grid holds a base and many steered runs, and stands for all of them.

Runs of plumb audit dialect, of one model or of several, are put side by side, with the vote on every pair.

One steered run is printed in detail, several as one table; --json, --csv, --markdown and --html have everything. A
run of another model starts over: it is the base of the runs after it, and the table has the rows of both models.

The runs of a comparison must be of the same data, and a steered run of its base's model. It may have fewer items than its
base, such as a held-out half; those are compared. It may differ in its steering or in its prompt, not in both.

EXIT STATUS
   0  the runs were compared
   1  one cannot be read, or they do not belong together
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			return runCompare(&options, arguments, c.App.Writer)
		},
	}
}

func runCompare(options *compareOptions, dirs []string, out io.Writer) error {
	if len(dirs) == 0 || len(dirs) == 1 && !isGridRun(dirs[0]) {
		return usageError("compare takes a base run and at least one steered run; see plumb compare --help")
	}
	if err := options.check(); err != nil {
		return err
	}
	dialects, err := ofDialects(dirs)
	if err != nil {
		return err
	}
	if dialects {
		return compareDialects(options, dirs, out)
	}
	comparisons, err := compareRuns(options, dirs)
	if err != nil {
		return err
	}
	r := compare.NewReport(comparisons)
	if options.html != "" {
		if err := corpus.WriteFile(options.html, r.WriteHTML); err != nil {
			return err
		}
	}
	if err := options.print(r, out); err != nil {
		return err
	}
	if options.table() && options.html != "" {
		_, err = fmt.Fprintf(out, "Report: %s\n", options.html)
	}
	return err
}

// ofDialects says whether the directories hold dialect audits. It refuses what cannot be compared, by its name.
func ofDialects(dirs []string) (bool, error) {
	first := ""
	for i, dir := range dirs {
		if dialect.IsSweep(dir) {
			runs, err := dialect.ReadSweep(dir)
			if err != nil {
				return false, err
			}
			return false, fmt.Errorf("%s is a sweep of several runs; compare those in it: %s", dir, strings.Join(runs.All(), " "))
		}
		benchmark, err := benchmarkOf(dir)
		if err != nil {
			return false, err
		}
		if i == 0 {
			first = benchmark
		}
		switch {
		case benchmark == dialect.TraceBenchmark:
			return false, fmt.Errorf("%s is a causal trace, and traces are not compared; plumb report prints one", dir)
		case (benchmark == dialect.Benchmark) != (first == dialect.Benchmark):
			return false, fmt.Errorf("%s is a run of benchmark %q and %s of %q; compare runs of one", dir, benchmark, dirs[0], first)
		}
	}
	return first == dialect.Benchmark, nil
}

// seedOfComparisons is the seed of an audit's intervals, so that a base run's values have the same ones here.
const seedOfComparisons = 0

// compareRuns compares every run with the last one before it that began a model.
func compareRuns(options *compareOptions, dirs []string) ([]*compare.Comparison, error) {
	readOut := metric.ReadOut(options.readOut)
	var comparisons []*compare.Comparison
	var base *compare.Run
	used := true // the base has been compared with something
	for _, dir := range dirs {
		runs, err := loadRuns(dir, readOut)
		if err != nil {
			return nil, err
		}
		for i, run := range runs {
			ofGrid := i == 0 && len(runs) > 1
			if base == nil || ofGrid || run.Info.Model.SHA256 != base.Info.Model.SHA256 {
				if !used {
					return nil, alone(base)
				}
				base, used = run, false
				continue
			}
			c, err := compare.Compare(base, run, run.ReadOut, options.bootstrap, seedOfComparisons)
			if err != nil {
				return nil, err
			}
			comparisons, used = append(comparisons, c), true
		}
	}
	if !used {
		return nil, alone(base)
	}
	return comparisons, nil
}

// loadRuns reads a run; of a grid, the base and then a run for each intervention.
func loadRuns(dir string, readOut metric.ReadOut) ([]*compare.Run, error) {
	if isGridRun(dir) {
		return compare.LoadGrid(dir, readOut, protocol.Name)
	}
	run, err := compare.Load(dir, readOut)
	return []*compare.Run{run}, err
}

// isGridRun says whether a directory holds a run under several interventions.
func isGridRun(dir string) bool {
	reader, err := record.Open(dir)
	if err != nil {
		return false
	}
	defer reader.Close()
	return len(reader.Run.Steerings) > 0
}

func alone(base *compare.Run) error {
	return fmt.Errorf("%s is of %s, and no other run of that model follows it; a base run stands before the runs that it is compared with", base.Dir, base.Info.Model.Name)
}
