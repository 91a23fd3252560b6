package cli

import "github.com/urfave/cli/v2"

func auditCommand() *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "measure a model on a benchmark",
		Subcommands: []*cli.Command{
			auditBBQCommand(), auditStereoSetCommand(), auditCrowSPairsCommand(), auditCapabilityCommand(), auditDialectCommand(),
		},
	}
}
