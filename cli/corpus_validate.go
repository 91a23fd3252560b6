package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"plumb/audit/corpus"
	"plumb/audit/report"
	"plumb/bindings"
)

type corpusValidateOptions struct {
	modelOptions
	embedModel string
	layer      int
	idf        bool
	sentiment  bool
	classifier string
	out        string
	json       bool
}

func (o *corpusValidateOptions) flags() []cli.Flag {
	return append(o.modelOptions.flags(),
		&cli.StringFlag{Name: "embed-model", Usage: "embed tokens by the encoder in the GGUF `FILE`, or a causal model's middle layer (default: --model's)", Destination: &o.embedModel},
		&cli.IntFlag{Name: "layer", Usage: "embed tokens by the residual stream of a causal model after block `L`, from 0 (default: the middle one)", Value: -1, Destination: &o.layer},
		&cli.BoolFlag{Name: "idf", Usage: "weigh tokens by their inverse document frequency in the AAE texts", Destination: &o.idf},
		&cli.BoolFlag{Name: "sentiment", Usage: "also ask --model for the sentiment of AAE and SAE", Destination: &o.sentiment},
		&cli.StringFlag{Name: "classifier", Usage: "also classify the sentiment of AAE and SAE by the encoder with a classifier in the GGUF `FILE`", Destination: &o.classifier},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep every triplet's scores in `FILE`, JSON lines, and a page with the figures beside it", Destination: &o.out},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json})
}

func corpusValidateCommand() *cli.Command {
	var options corpusValidateOptions
	return &cli.Command{
		Name:      "validate",
		Usage:     "score how much of the AAE text its back-translation keeps, and whether sentiment is kept",
		ArgsUsage: "TRIPLETS",
		Description: `Computes BERTScore (precision, recall, F1) of AAE_back against AAE: every token is matched with the most similar one of
the other text. Tokens are embedded by an encoder (BERT and its kin), read at its output (--embed-model), or by the
residual stream of a causal model after one block (--model). Values of two models or layers cannot be compared; the
paper's are of Twitter-RoBERTa.

With --classifier, an encoder with a classifier whose labels are negative, neutral and positive says the sentiment of
every AAE and SAE text. With --sentiment, the model is asked for it: the label with the highest mean token log-probability
is taken. The confusion matrix AAE × SAE is printed.

A command that was killed goes on where it was.

EXIT STATUS
   0  the triplets are scored
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "the triplets")
			if err != nil {
				return err
			}
			return runCorpusValidate(c.Context, &options, path, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// validationPage is the page beside a file of scores.
func validationPage(out string) string {
	return out[:len(out)-len(filepath.Ext(out))] + ".html"
}

// askedOfValidate is all that scores depend on.
type askedOfValidate struct {
	Plumb      string `json:"plumb"`
	LlamaCpp   string `json:"llama_cpp"`
	Embedder   string `json:"embedder"`
	Classifier string `json:"classifier"`
	Models     string `json:"models"`   // their SHA-256
	Triplets   string `json:"triplets"` // their SHA-256
}

func runCorpusValidate(ctx context.Context, options *corpusValidateOptions, path string, out, notes io.Writer) error {
	if err := checkOutput(options.out, path); err != nil {
		return err
	}
	triplets, err := corpus.ReadTriplets(path)
	if err != nil {
		return err
	}
	v, err := options.open()
	if err != nil {
		return err
	}
	defer v.close()
	if options.idf {
		v.idf = v.frequencies(triplets)
	}
	result := &corpus.Validated{Embedder: v.embedder.describe()}
	if options.idf {
		result.Embedder += ", tokens weighed by idf"
	}
	if v.sentiment != nil {
		result.Classifier = v.sentiment.describe()
	}
	hash, err := tripletsHash(triplets)
	if err != nil {
		return err
	}
	asked := askedOfValidate{bindings.Version(), bindings.LlamaVersion(), result.Embedder, result.Classifier, v.models(), hash}
	partial, err := corpus.OpenPartial(options.out+".partial", asked, v.check(triplets))
	if err != nil {
		return err
	}
	if partial.Done() > 0 {
		fmt.Fprintf(notes, "plumb: going on after %s of %s\n", report.Thousands(partial.Done()), report.Count(len(triplets), "triplet"))
	}
	result.Validations, err = v.validateAll(ctx, triplets, partial, newProgress(notes, len(triplets), partial.Done()))
	if errors.Is(err, errInterrupted) {
		err = fmt.Errorf("interrupted after %s of %s; the same command goes on", report.Thousands(partial.Done()), report.Count(len(triplets), "triplet"))
	}
	if err != nil {
		return cmp.Or(err, partial.Close())
	}
	if err := finishValidation(options, result, out); err != nil {
		return err
	}
	return partial.Remove()
}

// tripletsHash is the SHA-256 of what was read; the file may be a pipe, which cannot be read twice.
func tripletsHash(triplets []corpus.Triplet) (string, error) {
	sum := sha256.New()
	err := json.NewEncoder(sum).Encode(triplets)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func finishValidation(options *corpusValidateOptions, result *corpus.Validated, out io.Writer) error {
	if err := corpus.WriteJSONLines(options.out, result.Validations); err != nil {
		return err
	}
	page := validationPage(options.out)
	if err := corpus.WriteFile(page, result.WriteHTML); err != nil {
		return err
	}
	if err := reportStage(result.Summary(), options.out, options.json, out); err != nil || options.json {
		return err
	}
	_, err := fmt.Fprintf(out, "Report: %s\n", page)
	return err
}
