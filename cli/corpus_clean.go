package cli

import (
	"cmp"
	"io"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
)

type corpusCleanOptions struct {
	corpus.CleanOptions
	out     string
	dropped string
	json    bool
}

func (o *corpusCleanOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the cleaned texts to `FILE`, JSON lines of id and aae", Destination: &o.out},
		&cli.StringFlag{Name: "text", Usage: "the text is in the field `NAME` (default: aae, or text)", Destination: &o.TextField},
		&cli.StringFlag{Name: "id", Usage: "the id is in the field `NAME` (default: id, or else the file's name and the line)", Destination: &o.IDField},
		&cli.IntFlag{Name: "min-words", Usage: "drop texts of fewer than `N` words", Value: corpus.DefaultMinWords, Destination: &o.MinWords},
		&cli.StringFlag{Name: "dropped", Usage: "list what was dropped, id and reason, in `FILE`", Destination: &o.dropped},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json},
	}
}

func corpusCleanCommand() *cli.Command {
	var options corpusCleanOptions
	return &cli.Command{
		Name:      "clean",
		Usage:     "strip raw texts and drop what is short or repeated",
		ArgsUsage: "FILE...",
		Description: `Reads raw texts from JSON lines (.jsonl), CSV or TSV with a header (.csv, .tsv), or a text a line (any other name). In
this order it

  1. writes in ASCII what has a form in it (accents, typographic quotes and dashes, full-width letters), and removes
     every other non-ASCII character: letters, marks and invisible ones without a trace, emoji and the rest for a space;
  2. removes URLs;
  3. removes mentions (@name), and repeats 2 and 3 until nothing changes;
  4. makes every run of white space one space;
  5. drops what is empty, has fewer than 10 words (--min-words), or equals an earlier text but for case.

A word stands between spaces and has a letter or a digit. Cleaning twice changes nothing. Ids are kept.

EXIT STATUS
   0  the cleaned texts are written
   1  a file cannot be read, a row has no text or an id that was there before, or nothing is kept
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			paths, err := laterFlags(c)
			if err != nil {
				return err
			}
			return runCorpusClean(&options, paths, c.App.Writer)
		},
	}
}

func (o *corpusCleanOptions) check(paths []string) error {
	switch {
	case len(paths) == 0:
		return usageError("corpus clean takes the files to clean; see plumb corpus clean --help")
	case o.MinWords < 0:
		return usageError("--min-words %d: a number of words is not negative", o.MinWords)
	}
	return cmp.Or(checkOutput(o.out, paths...), checkSideOutput("dropped", o.dropped, paths...), checkApart("dropped", o.dropped, o.out))
}

func runCorpusClean(options *corpusCleanOptions, paths []string, out io.Writer) error {
	if err := options.check(paths); err != nil {
		return err
	}
	cleaned, err := corpus.Clean(paths, options.CleanOptions)
	if err != nil {
		return err
	}
	if options.dropped != "" {
		if err := corpus.WriteJSONLines(options.dropped, cleaned.Dropped); err != nil {
			return err
		}
	}
	if len(cleaned.Sentences) == 0 {
		return nothingKept(options.out, cleaned.Summary(), "lower --min-words, or name another field (--text)")
	}
	if err := corpus.WriteJSONLines(options.out, cleaned.Sentences); err != nil {
		return err
	}
	return reportStage(cleaned.Summary(), options.out, options.json, out)
}
