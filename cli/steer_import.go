package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/steer"
)

type steerImportOptions struct {
	convention string
	out        string
}

func (o *steerImportOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "layers", Usage: "the file counts layers as `PROGRAM` does: repeng or cvector-generator", Destination: &o.convention},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the steering file to `FILE`", Destination: &o.out},
	}
}

func steerImportCommand() *cli.Command {
	var options steerImportOptions
	return &cli.Command{
		Name:      "import",
		Usage:     "make a steering file of another program's control vector",
		ArgsUsage: "FILE",
		Description: `Reads a control vector in GGUF and writes it as a steering file that adds it with strength 1. The file does not say which
block its direction.L was taken from, so --layers has to:

   repeng             direction.L is the output of block L, where llama.cpp adds it
   cvector-generator  direction.L is the output of block L − 1: llama.cpp's own tool counts from 1, and llama.cpp then
                      adds it one block later

EXIT STATUS
   0  the steering file was written
   1  the file is no control vector, or cannot be written
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if len(arguments) != 1 || options.out == "" {
				return usageError("import takes one control vector and --out; see plumb steer import --help")
			}
			return runSteerImport(&options, arguments[0], c.App.ErrWriter)
		},
	}
}

func runSteerImport(options *steerImportOptions, path string, notes io.Writer) error {
	if options.convention == "" {
		return usageError("--layers is needed: repeng or cvector-generator, whichever made the file")
	}
	convention, err := steer.ParseConvention(options.convention)
	if err != nil {
		return usageError("--layers: %s", err)
	}
	f, err := steer.Import(path, convention)
	if err != nil {
		return err
	}
	if err := f.WriteFile(options.out); err != nil {
		return err
	}
	fmt.Fprintf(notes, "plumb: %s has directions for layers %d to %d, %d wide\n", options.out, f.Layers[0].Layer, f.Layers[len(f.Layers)-1].Layer, f.Model.NEmbd)
	return nil
}
