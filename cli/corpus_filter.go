package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/report"
)

type corpusFilterOptions struct {
	out        string
	rules      string
	printRules bool
	drop       cli.StringSlice
	verdicts   string
	review     int
	sheet      string
	seed       uint64
	reviewed   string
	json       bool
}

func (o *corpusFilterOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the kept triplets to `FILE`, JSON lines", Destination: &o.out},
		&cli.StringFlag{Name: "rules", Usage: "take the rules from `FILE` (default: ours)", Destination: &o.rules},
		&cli.BoolFlag{Name: "print-rules", Usage: "print the default rules, to start a file of your own from, and end", Destination: &o.printRules},
		&cli.StringSliceFlag{Name: "drop", Usage: "let the flagging rule `NAME` drop; repeatable", Destination: &o.drop},
		&cli.StringFlag{Name: "verdicts", Usage: "write what every triplet was dropped or flagged for to `FILE`", Destination: &o.verdicts},
		&cli.IntFlag{Name: "review", Usage: "draw `N` triplets for people to review, half of them such that a rule matched", Destination: &o.review},
		&cli.StringFlag{Name: "sheet", Usage: "write the triplets of --review to `FILE`, CSV with a column verdict to fill in: keep or drop", Destination: &o.sheet},
		&cli.Uint64Flag{Name: "seed", Usage: "draw the review with seed `S`", Destination: &o.seed},
		&cli.StringFlag{Name: "reviewed", Usage: "let people's verdicts in `FILE`, a filled-in sheet, count before the rules", Destination: &o.reviewed},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json},
	}
}

func corpusFilterCommand() *cli.Command {
	var options corpusFilterOptions
	return &cli.Command{
		Name:      "filter",
		Usage:     "drop triplets whose translation went wrong, by named rules",
		ArgsUsage: "TRIPLETS",
		Description: `Looks at every triplet with every rule, and writes those that no dropping rule matched. The rules find added
explanations, preambles, refusals, quotes, markup, other scripts and languages, texts far too long or short,
repetition, and back-translations that have hardly anything of the original left. Patterns do not count where the AAE
text has them too. The rules are data: --print-rules shows ours.

A translation that copies its input, and a back-translation that equals the SAE text, are flagged and kept: they are
the more frequent the less dialect a text has, so dropping them selects texts by the strength of their dialect. --drop
"copied input" drops them all the same.

For people, --review N --sheet FILE writes a sheet; filled in, --reviewed FILE reads it back, lets it decide, and says
of every rule how often people agreed with it.

EXIT STATUS
   0  the kept triplets are written
   1  a file cannot be read, or is wrong, or nothing is kept
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if options.printRules {
				_, err := c.App.Writer.Write(corpus.DefaultRules())
				return err
			}
			path, err := oneFile(c, "the triplets")
			if err != nil {
				return err
			}
			return runCorpusFilter(&options, path, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func (o *corpusFilterOptions) check(path string) error {
	switch {
	case o.review < 0:
		return usageError("--review %d: a number of triplets is not negative", o.review)
	case (o.review > 0) != (o.sheet != ""):
		return usageError("--review N and --sheet FILE go together")
	}
	if o.sheet != "" {
		if err := checkNew(o.sheet); err != nil {
			return err
		}
	}
	read := []string{path, o.rules, o.reviewed}
	return cmp.Or(checkOutput(o.out, read...), checkSideOutput("verdicts", o.verdicts, read...),
		checkApart("verdicts", o.verdicts, o.out), checkApart("sheet", o.sheet, o.out))
}

func runCorpusFilter(options *corpusFilterOptions, path string, out, notes io.Writer) error {
	if err := options.check(path); err != nil {
		return err
	}
	rules, err := corpus.ReadRules(options.rules)
	if err != nil {
		return err
	}
	triplets, err := corpus.ReadTriplets(path)
	if err != nil {
		return err
	}
	var reviewed map[string]corpus.Review
	if options.reviewed != "" {
		if reviewed, err = corpus.ReadReview(options.reviewed); err != nil {
			return err
		}
	}
	filtered, err := corpus.Filter(triplets, rules, options.drop.Value(), reviewed)
	if err != nil {
		return err
	}
	if options.verdicts != "" {
		if err := corpus.WriteJSONLines(options.verdicts, filtered.Verdicts); err != nil {
			return err
		}
	}
	if options.sheet != "" {
		n, err := filtered.WriteReview(options.sheet, triplets, options.review, options.seed)
		if err != nil {
			return err
		}
		fmt.Fprintf(notes, "plumb: %s to review in %s\n", report.Count(n, "triplet"), options.sheet)
	}
	if len(filtered.Kept) == 0 {
		return nothingKept(options.out, filtered.Summary(), "see --verdicts FILE, and change the rules (--rules) or the translator")
	}
	if err := corpus.WriteJSONLines(options.out, filtered.Kept); err != nil {
		return err
	}
	return reportStage(filtered.Summary(), options.out, options.json, out)
}
