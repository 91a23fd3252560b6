package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/audit/dialect"
	"plumb/audit/metric"
	"plumb/audit/protocol"
)

type gateOptions struct {
	thresholds string
	json       bool
	readOut    string
	bootstrap  int
}

func gateCommand() *cli.Command {
	var options gateOptions
	return &cli.Command{
		Name:      "gate",
		Usage:     "give a sweep's verdict as an exit status, for CI",
		ArgsUsage: "SWEEP",
		Description: `Judges the intervention that the sweep selected by its held-out half (Answerability Confounds (GCD), appendix B, step
6). It is rejected if

   - the composition share is above 1: answering less explains more than the whole change;
   - the preference term is not told from that of random directions: p = (1 + #)/(1 + N) above 0.05, two-sided;
   - the strength is not below the capability knee, the smallest strength whose perplexity is more than 25 % higher or
     whose paired change of MMLU accuracy has a 95 % interval below zero (the paper names no numbers);
   - |s_Dis| grew: the 95 % interval of its change is above zero. This one is Plumb's own.

What was not measured is no ground to accept. --thresholds names a JSON file with other limits:
{"composition_share": 1, "placebo_p": 0.05, "perplexity_rise": 0.25, "abs_s_dis": true}

EXIT STATUS
   0  the intervention is accepted
   1  the sweep cannot be read
   2  the command line is wrong
   3  the intervention is rejected`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "thresholds", Usage: "take the limits from `FILE`", Destination: &options.thresholds},
			&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &options.json},
			&cli.StringFlag{Name: "read-out", Usage: "choose options by `SCORE`: mean, sum, first or forced (default: mean)", Destination: &options.readOut},
			&cli.IntFlag{Name: "bootstrap", Usage: "compute intervals from `N` draws", Value: 100, Destination: &options.bootstrap},
		},
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if len(arguments) != 1 {
				return usageError("gate takes one sweep directory; see plumb gate --help")
			}
			return runGate(&options, arguments[0], c.App.Writer)
		},
	}
}

func runGate(options *gateOptions, dir string, out io.Writer) error {
	read := outputOptions{printing{json: options.json, bootstrap: options.bootstrap}, options.readOut}
	if err := read.check(); err != nil {
		return err
	}
	thresholds := protocol.DefaultThresholds()
	if options.thresholds != "" {
		var err error
		if thresholds, err = protocol.ReadThresholds(options.thresholds); err != nil {
			return err
		}
	}
	if dialect.IsSweep(dir) {
		return fmt.Errorf("%s is a sweep of dialect audits, which the verdict's criteria do not apply to; plumb report prints it, with the strength that it chose", dir)
	}
	s, err := protocol.Load(dir, protocol.Options{ReadOut: metric.ReadOut(options.readOut), Draws: options.bootstrap})
	if err != nil {
		return err
	}
	verdict := s.Verdict(thresholds)
	if options.json {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(verdict); err != nil {
			return err
		}
	} else {
		for _, c := range verdict.Checks {
			if _, err := fmt.Fprintf(out, "%-12s  %s: %s\n", c.Outcome, c.Name, c.Detail); err != nil {
				return err
			}
		}
	}
	if !verdict.Accepted {
		return &rejected{verdict.Decision()}
	}
	return nil
}

// reportSweep prints a sweep and writes its report files.
func reportSweep(dir string, options outputOptions, thresholds protocol.Thresholds, out io.Writer) error {
	s, err := protocol.Load(dir, protocol.Options{ReadOut: metric.ReadOut(options.readOut), Draws: options.bootstrap})
	if err != nil {
		return err
	}
	return options.report(protocol.NewReport(s, thresholds), dir, out)
}
