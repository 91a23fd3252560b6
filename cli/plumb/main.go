// Command plumb audits the bias of GGUF models and steers them.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"plumb/cli"
)

func main() {
	err := cli.Run(context.Background(), os.Args, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "plumb: %s\n", oneLine(err.Error()))
	}
	os.Exit(cli.ExitStatus(err))
}

// oneLine keeps an error on one line, whatever names it quotes.
func oneLine(text string) string { return strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(text) }
