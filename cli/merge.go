package cli

import (
	"io"

	"github.com/urfave/cli/v2"

	"plumb/audit/record"
)

type mergeOptions struct {
	outputOptions
	out string
}

func mergeCommand() *cli.Command {
	var options mergeOptions
	return &cli.Command{
		Name:      "merge",
		Usage:     "put the shards of an audit together",
		ArgsUsage: "SHARD…",
		Description: `Puts the runs of an audit that was done in parts (--shard) together, in any order, and prints the whole. The result has
the bytes of the audit done by one process. What does not belong together is refused, as is a shard that is missing,
double or not finished; then nothing is written.

  plumb merge --out whole base/*

EXIT STATUS
   0  the run is whole
   1  the shards do not make a run
   2  the command line is wrong`,
		Flags: append(options.flags(),
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the run in `DIR`", Destination: &options.out}),
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if len(arguments) == 0 || options.out == "" {
				return usageError("merge takes --out DIR and the shards' run directories; see plumb merge --help")
			}
			return runMerge(&options, arguments, c.App.Writer)
		},
	}
}

func runMerge(options *mergeOptions, shards []string, out io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	if err := record.Merge(options.out, shards); err != nil {
		return err
	}
	return reportRun(options.out, options.outputOptions, out)
}
