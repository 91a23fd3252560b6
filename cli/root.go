// Package cli is the plumb program: one file a command, flags in, packages called, output out.
package cli

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/bindings"
)

// Run runs the program with its arguments (args[0] is its name). Results go to out, progress and notes to notes. What it
// returns is for ExitStatus; the caller prints it.
func Run(ctx context.Context, args []string, out, notes io.Writer) error {
	checked := &checkedWriter{Writer: out}
	app := &cli.App{
		Name:  "plumb",
		Usage: "audit the bias of GGUF models, find what moves it, and steer it",
		Description: `plumb says of a language model in a GGUF file whether it is biased, and separates what it prefers from whether it
answers at all.

  plumb model fetch smollm2
  plumb audit bbq --model smollm2`,
		Version:              bindings.Version() + " (llama.cpp " + bindings.LlamaVersion() + ")",
		Writer:               checked,
		ErrWriter:            notes,
		HideHelpCommand:      true,
		EnableBashCompletion: true,
		// a file's name may hold a comma
		DisableSliceFlagSeparator: true,
		Commands: []*cli.Command{
			modelCommand(),
			dataCommand(),
			auditCommand(),
			reportCommand(),
			mergeCommand(),
			compareCommand(),
			gateCommand(),
			steerCommand(),
			generateCommand(),
			runProgramCommand(),
			corpusCommand(),
			completionCommand(),
			manualCommand(),
		},
		// the caller prints errors and ends the process
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   asUsageError,
		Action:         noSuchCommand,
	}
	prepare(app.Commands)
	if err := app.RunContext(ctx, args); err != nil && err != errHelpShown {
		return err
	}
	return checked.err
}

// checkedWriter keeps the first error, which help and version do not look at.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// prepare makes wrong flags and unknown subcommands usage errors everywhere.
func prepare(commands []*cli.Command) {
	for _, command := range commands {
		command.OnUsageError = asUsageError
		command.HideHelpCommand = true
		if command.Action == nil {
			command.Action = noSuchCommand
		}
		prepare(command.Subcommands)
	}
}

func asUsageError(_ *cli.Context, err error, _ bool) error { return usageError("%v", err) }

// noSuchCommand is what a command with subcommands does when none of them was named.
func noSuchCommand(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("%s has no command %q; see %s --help", c.Command.HelpName, c.Args().First(), c.Command.HelpName)
	}
	if len(c.Command.Subcommands) > 0 && c.Command.HelpName != c.App.Name {
		return cli.ShowSubcommandHelp(c)
	}
	return cli.ShowAppHelp(c)
}

// noArguments refuses what stands after the flags of a command that takes none.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("%s takes no arguments, only flags: %s", c.Command.HelpName, strings.Join(c.Args().Slice(), " "))
	}
	return nil
}
