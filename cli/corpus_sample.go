package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/report"
)

type corpusSampleOptions struct {
	out        string
	n          int
	seed       uint64
	annotators int
	dimensions cli.StringSlice
}

func (o *corpusSampleOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write annotator-1.csv and so on into `DIR`", Destination: &o.out},
		&cli.IntFlag{Name: "sample", Aliases: []string{"n"}, Usage: "draw `N` triplets", Value: 1000, Destination: &o.n},
		&cli.Uint64Flag{Name: "seed", Usage: "draw sample and orders with seed `S`", Destination: &o.seed},
		&cli.IntFlag{Name: "annotators", Usage: "write a sheet for each of `N` annotators", Value: 3, Destination: &o.annotators},
		&cli.StringSliceFlag{Name: "dimension", Usage: "have them judge `NAME`; repeatable (default: " + strings.Join(corpus.Dimensions, ", ") + ")", Destination: &o.dimensions},
	}
}

func corpusSampleCommand() *cli.Command {
	var options corpusSampleOptions
	return &cli.Command{
		Name:      "sample",
		Usage:     "draw sheets for annotators",
		ArgsUsage: "TRIPLETS",
		Description: `Draws triplets, stratified by the length of the AAE text and by how much of it the translation changed, and writes the
same ones for every annotator in an order of their own. Each dimension is an empty column, to be filled in with yes or
no. plumb corpus agreement reads the sheets.

EXIT STATUS
   0  the sheets are written
   1  a file cannot be read, or sheets are there already
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the triplets")
			if err != nil {
				return err
			}
			return runCorpusSample(&options, path, c.App.Writer)
		},
	}
}

func (o *corpusSampleOptions) check() error {
	switch {
	case o.out == "":
		return usageError("where to? --out DIR")
	case o.n < 1:
		return usageError("--sample %d: at least 1", o.n)
	case o.annotators < 1:
		return usageError("--annotators %d: at least 1", o.annotators)
	}
	for i, name := range o.dimensions.Value() {
		if !corpus.IsDimension(name) {
			return usageError("--dimension %q is no name of a judgement; choose another", name)
		}
		if slices.Contains(o.dimensions.Value()[:i], name) {
			return usageError("--dimension %s is given twice", name)
		}
	}
	return nil
}

func runCorpusSample(options *corpusSampleOptions, path string, out io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	triplets, err := corpus.ReadTriplets(path)
	if err != nil {
		return err
	}
	dimensions := options.dimensions.Value()
	if len(dimensions) == 0 {
		dimensions = corpus.Dimensions
	}
	sheets := make([]string, options.annotators)
	for i := range sheets {
		sheets[i] = filepath.Join(options.out, fmt.Sprintf("annotator-%d.csv", i+1))
		if err := checkNew(sheets[i]); err != nil {
			return err
		}
	}
	if err := makeFolder(options.out); err != nil {
		return err
	}
	sample := corpus.Sample(triplets, options.n, options.seed)
	for i, sheet := range sheets {
		if err := corpus.WriteSheet(sheet, sample, dimensions, i+1, options.seed); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s of %s, on each of %s in %s\n", report.Thousands(len(sample)), report.Count(len(triplets), "triplet"), report.Count(len(sheets), "sheet"), options.out)
	return err
}
