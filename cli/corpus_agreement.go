package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/metric"
	"plumb/audit/report"
)

type corpusAgreementOptions struct {
	triplets  string
	out       string
	natural   string
	unanimous bool
	bootstrap int
	json      bool
}

func (o *corpusAgreementOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "triplets", Usage: "mark the triplets of `FILE` as natural or not, by the judgements", Destination: &o.triplets},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the marked triplets to `FILE`, JSON lines; the rest stays unmarked", Destination: &o.out},
		&cli.StringFlag{Name: "natural", Usage: "mark by the dimension `NAME`", Value: corpus.NaturalDimension, Destination: &o.natural},
		&cli.BoolFlag{Name: "unanimous", Usage: "natural is what all annotators call so (default: most of them)", Destination: &o.unanimous},
		&cli.IntFlag{Name: "bootstrap", Usage: "compute intervals from `N` draws, the first being the items themselves", Value: 1000, Destination: &o.bootstrap},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json},
	}
}

func corpusAgreementCommand() *cli.Command {
	var options corpusAgreementOptions
	return &cli.Command{
		Name:      "agreement",
		Usage:     "measure how far annotators agree, and mark what they find natural",
		ArgsUsage: "TABLE...",
		Description: `Reads annotators' sheets, CSV or JSON lines with an id and a column a dimension, and prints of each dimension the exact
agreement of all annotators, Fleiss' κ, Krippendorff's α, the commonest judgement, and Cohen's κ of every two, each with
its 95 % bootstrap interval over items. A table is one annotator's, named by its file, or has a column annotator. Exact
agreement and Fleiss' κ are of the items that all annotators judged, α of those that two or more did.

A κ can be near 0 where annotators nearly always agree: if nearly all judgements are the same, chance agrees as often.
So read it with the exact agreement and the prevalence.

With --triplets and --out the triplets are written again, marked as natural or not; cDGI is of the natural ones.

EXIT STATUS
   0  the agreement was printed
   1  a file cannot be read, or is wrong
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			paths, err := laterFlags(c)
			if err != nil {
				return err
			}
			return runCorpusAgreement(&options, paths, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func (o *corpusAgreementOptions) check(paths []string) error {
	switch {
	case len(paths) == 0:
		return usageError("corpus agreement takes the annotators' tables; see plumb corpus agreement --help")
	case o.bootstrap < 2:
		return usageError("--bootstrap %d: an interval needs at least 2 draws", o.bootstrap)
	case (o.triplets == "") != (o.out == ""):
		return usageError("--triplets FILE and --out FILE go together")
	case o.out != "":
		return checkOutput(o.out, append(paths, o.triplets)...)
	}
	return nil
}

// seedOfAgreement is the seed of the intervals.
const seedOfAgreement = 0

func runCorpusAgreement(options *corpusAgreementOptions, paths []string, out, notes io.Writer) error {
	if err := options.check(paths); err != nil {
		return err
	}
	annotations, err := corpus.ReadAnnotations(paths)
	if err != nil {
		return err
	}
	agreements := annotations.Agreements(options.bootstrap, seedOfAgreement)
	summary := corpus.AgreementSummary(agreements)
	if options.triplets != "" {
		triplets, err := corpus.ReadTriplets(options.triplets)
		if err != nil {
			return err
		}
		natural, err := annotations.SetNatural(triplets, options.natural, options.unanimous)
		if err != nil {
			return err
		}
		if err := corpus.WriteJSONLines(options.out, triplets); err != nil {
			return err
		}
		if err := summary.WriteFile(options.out); err != nil {
			return err
		}
		fmt.Fprintf(notes, "plumb: natural: %s, not: %s, not judged: %s\n",
			report.Thousands(natural.Natural), report.Thousands(natural.Unnatural), report.Thousands(natural.NotJudged))
	}
	if options.json {
		return summary.WriteJSON(out)
	}
	return printAgreements(agreements, out)
}

func printAgreements(list []corpus.Agreement, out io.Writer) error {
	cell := func(v metric.Value) string {
		if !v.OK {
			return v.String()
		}
		return v.String() + "\n" + v.Interval()
	}
	var text strings.Builder
	table := tablewriter.NewTable(&text, tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignRight, tw.AlignRight, tw.AlignRight, tw.AlignRight, tw.AlignRight}))
	table.Header("Dimension", "Items", "Exact", "Fleiss' κ", "Krippendorff's α", "Prevalence")
	for _, a := range list {
		commonest := a.Prevalence[0]
		prevalence := fmt.Sprintf("%.1f %% %s", 100*commonest.Share, commonest.Label)
		if err := table.Append(a.Dimension, report.Thousands(a.Exact.N), cell(a.Exact), cell(a.Fleiss), cell(a.Alpha), prevalence); err != nil {
			return err
		}
	}
	if err := table.Render(); err != nil {
		return err
	}
	text.WriteString("\nCohen's κ of every two annotators\n")
	pairs := tablewriter.NewTable(&text, tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignLeft, tw.AlignRight, tw.AlignRight}))
	pairs.Header("Dimension", "Annotators", "Items", "κ")
	for _, a := range list {
		for _, pair := range a.Cohen {
			if err := pairs.Append(a.Dimension, pair.First+", "+pair.Second, report.Thousands(pair.Items), strings.ReplaceAll(cell(pair.Kappa), "\n", " ")); err != nil {
				return err
			}
		}
	}
	if err := pairs.Render(); err != nil {
		return err
	}
	for _, a := range list {
		if note := a.Note(); note != "" {
			fmt.Fprintf(&text, "\n%s: %s.\n", a.Dimension, note)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
