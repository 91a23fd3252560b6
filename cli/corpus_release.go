package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
)

type corpusReleaseOptions struct {
	corpus.Card
	out       string
	summaries cli.StringSlice
	json      bool
}

func (o *corpusReleaseOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the release into `DIR`", Destination: &o.out},
		&cli.StringFlag{Name: "name", Usage: "call it `NAME` in the data card", Value: "A parallel corpus of AAE and SAE", Destination: &o.Name},
		&cli.StringFlag{Name: "source", Usage: "say in the data card that the AAE texts are from `CORPUS`", Value: "not stated", Destination: &o.Source},
		&cli.StringFlag{Name: "licence", Usage: "say in the data card that the release is under `LICENCE`", Value: "not stated", Destination: &o.Licence},
		&cli.StringSliceFlag{Name: "summary", Usage: "put the summary that a stage wrote, `FILE`, into the data card; repeatable", Destination: &o.summaries},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json},
	}
}

func corpusReleaseCommand() *cli.Command {
	var options corpusReleaseOptions
	return &cli.Command{
		Name:      "release",
		Usage:     "write what may be published: no source texts, and a data card",
		ArgsUsage: "TRIPLETS",
		Description: `Writes ids, SAE and AAE_back without the AAE texts, which are their writers', and a data card. A translation that equals
the AAE text but for case, punctuation and spaces is left out as well. plumb corpus hydrate puts the texts back for
whoever has a copy of the source.

EXIT STATUS
   0  the release is written
   1  a file cannot be read or written
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the triplets")
			if err != nil {
				return err
			}
			return runCorpusRelease(&options, path, c.App.Writer)
		},
	}
}

// checkRelease refuses to write over what is no earlier release: another README, or triplets with their source texts.
func checkRelease(card, data string) error {
	text, err := os.ReadFile(card)
	if err == nil && bytes.Contains(text, []byte("plumb corpus hydrate")) {
		return nil
	}
	for _, path := range []string{card, data} {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already, and is not of a release; choose another folder", path)
		}
	}
	return nil
}

func runCorpusRelease(options *corpusReleaseOptions, path string, out io.Writer) error {
	if options.out == "" {
		return usageError("where to? --out DIR")
	}
	data := filepath.Join(options.out, corpus.ReleaseFile)
	if err := checkOutput(data, path); err != nil {
		return err
	}
	card := filepath.Join(options.out, corpus.CardFile)
	if err := checkRelease(card, data); err != nil {
		return err
	}
	triplets, err := corpus.ReadTriplets(path)
	if err != nil {
		return err
	}
	var stages []corpus.Summary
	for _, file := range options.summaries.Value() {
		summary, err := corpus.ReadSummary(file)
		if err != nil {
			return err
		}
		stages = append(stages, *summary)
	}
	if err := makeFolder(options.out); err != nil {
		return err
	}
	release := corpus.Release(triplets)
	summary := corpus.ReleaseSummary(release)
	err = corpus.WriteFile(card, func(card io.Writer) error { // first: by it a release is known for what it is
		_, err := io.WriteString(card, options.Markdown(append(stages, summary)))
		return err
	})
	if err != nil {
		return err
	}
	if err := corpus.WriteJSONLines(data, release); err != nil {
		return err
	}
	return reportStage(summary, data, options.json, out)
}

type corpusHydrateOptions struct {
	corpus.CleanOptions
	source cli.StringSlice
	out    string
	json   bool
}

func (o *corpusHydrateOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "source", Usage: "take the AAE texts from `FILE`, your copy of the source as it was given to clean; repeatable", Destination: &o.source},
		&cli.StringFlag{Name: "text", Usage: "the text is in the field `NAME` (default: aae, or text)", Destination: &o.TextField},
		&cli.StringFlag{Name: "id", Usage: "the id is in the field `NAME` (default: id, or else the file's name and the line)", Destination: &o.IDField},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the triplets to `FILE`, JSON lines", Destination: &o.out},
		&cli.BoolFlag{Name: "json", Usage: "print JSON, with the ids that were left out", Destination: &o.json},
	}
}

func corpusHydrateCommand() *cli.Command {
	var options corpusHydrateOptions
	return &cli.Command{
		Name:      "hydrate",
		Usage:     "join a release with your own copy of its source",
		ArgsUsage: "RELEASE",
		Description: `Cleans the texts of the source as plumb corpus clean does, joins them with the release by id, and writes triplets. Texts
that are not in the copy, or are not the ones that were translated, are counted and left out.

EXIT STATUS
   0  the triplets are written
   1  a file cannot be read, or nothing could be joined
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the release's folder")
			if err != nil {
				return err
			}
			return runCorpusHydrate(&options, path, c.App.Writer)
		},
	}
}

func runCorpusHydrate(options *corpusHydrateOptions, path string, out io.Writer) error {
	sources := options.source.Value()
	if len(sources) == 0 {
		return usageError("hydrate needs your copy of the source, --source FILE")
	}
	if err := checkOutput(options.out, append(sources, path, filepath.Join(path, corpus.ReleaseFile))...); err != nil {
		return err
	}
	release, err := corpus.ReadRelease(path)
	if err != nil {
		return err
	}
	hydrated, err := corpus.Hydrate(release, sources, options.CleanOptions)
	if err != nil {
		return err
	}
	if err := corpus.WriteJSONLines(options.out, hydrated.Triplets); err != nil {
		return err
	}
	return reportStage(hydrated.Summary(), options.out, options.json, out)
}
