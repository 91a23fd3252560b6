package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/steer"
)

type steerExportOptions struct {
	alpha float64
	out   string
}

func (o *steerExportOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: "alpha", Usage: "put strength `A` into the vectors (default: the file's)", Destination: &o.alpha},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the control vector to `FILE`", Destination: &o.out},
	}
}

func steerExportCommand() *cli.Command {
	var options steerExportOptions
	return &cli.Command{
		Name:      "export",
		Usage:     "make a control vector for llama.cpp of a steering file",
		ArgsUsage: "FILE",
		Description: `Writes a file for llama.cpp's --control-vector that does what the steering file does at strength A. That is possible only for
directions that are added, at layers from 1 on, on an architecture that heeds control vectors; anything else is
refused.

EXIT STATUS
   0  the control vector was written
   1  the steering file cannot be read, cannot be a control vector, or the result cannot be written
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if len(arguments) != 1 || options.out == "" {
				return usageError("export takes one steering file and --out; see plumb steer export --help")
			}
			return runSteerExport(&options, c.IsSet("alpha"), arguments[0], c.App.ErrWriter)
		},
	}
}

func runSteerExport(options *steerExportOptions, ownStrength bool, path string, notes io.Writer) error {
	f, err := steer.ReadFile(path)
	if err != nil {
		return err
	}
	strength := f.Strength
	if ownStrength {
		strength = options.alpha
	}
	if err := f.ExportFile(options.out, strength); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(notes, "plumb: load it with --control-vector %s; strength %g is in its vectors\n", options.out, strength)
	return nil
}
