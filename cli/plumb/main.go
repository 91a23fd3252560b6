// Command plumb audits the bias of GGUF models and steers them.
package main

import (
	"context"
	"fmt"
	"os"

	"plumb/cli"
)

func main() {
	err := cli.Run(context.Background(), os.Args, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "plumb: %v\n", err)
	}
	os.Exit(cli.ExitStatus(err))
}
