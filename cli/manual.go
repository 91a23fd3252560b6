package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/bindings"
)

// manualCommand writes the man pages, for `make install`.
func manualCommand() *cli.Command {
	return &cli.Command{
		Name:      "manual",
		Usage:     "write the man pages",
		ArgsUsage: "FOLDER",
		Hidden:    true,
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return usageError("manual takes the folder to write to")
			}
			folder := c.Args().First()
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			app := c.App
			page := manPage("plumb", app.Usage, "", app.Description, app.VisibleFlags(), app.VisibleCommands())
			if err := os.WriteFile(filepath.Join(folder, "plumb.1"), []byte(page), 0o644); err != nil {
				return err
			}
			return writeManPages(folder, "plumb", app.VisibleCommands())
		},
	}
}

func writeManPages(folder, parent string, commands []*cli.Command) error {
	for _, command := range commands {
		name := parent + " " + command.Name
		page := manPage(name, command.Usage, command.ArgsUsage, command.Description, command.VisibleFlags(), command.VisibleCommands())
		path := filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".1")
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			return err
		}
		if err := writeManPages(folder, name, command.VisibleCommands()); err != nil {
			return err
		}
	}
	return nil
}

// manPage is a command's help in roff, with man's macros. A description keeps its lines, as on a terminal.
func manPage(name, usage, arguments, description string, flags []cli.Flag, commands []*cli.Command) string {
	var b strings.Builder
	page := strings.ReplaceAll(name, " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"plumb %s\" \"\"\n", strings.ToUpper(roff(page)), bindings.Version())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n", roff(page), roff(usage), roff(name))
	if len(commands) > 0 {
		b.WriteString("COMMAND\n")
	}
	if len(flags) > 0 {
		b.WriteString("[OPTIONS]\n")
	}
	b.WriteString(roff(arguments) + "\n")
	if description != "" {
		b.WriteString(".SH DESCRIPTION\n.nf\n")
		for _, line := range strings.Split(description, "\n") {
			if line != "" && line == strings.ToUpper(line) && line[0] != ' ' {
				fmt.Fprintf(&b, ".fi\n.SH %s\n.nf\n", roff(line))
				continue
			}
			b.WriteString(roff(line) + "\n")
		}
		b.WriteString(".fi\n")
	}
	if len(commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, command := range commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(page+"-"+command.Name), roff(command.Usage))
		}
	}
	if len(flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, flag := range flags {
			names, meaning, _ := strings.Cut(flag.String(), "\t")
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(names)), roff(strings.TrimSpace(meaning)))
		}
	}
	return b.String()
}

// roff is a line of text for man: what the formatter would take for itself is escaped.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
