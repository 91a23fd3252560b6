package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/bindings"
)

type generateOptions struct {
	modelOptions
	steerOptions
	prompt      string
	chat        string
	limit       int
	seed        uint
	temperature float64
	topP        float64
	json        bool
}

func (o *generateOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.steerOptions.actionFlags()...)
	return append(flags,
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "continue `TEXT`", Destination: &o.prompt},
		&cli.StringFlag{Name: "chat", Usage: "`off` gives the model the bare prompt; on (the default) uses its chat template if it has one", Value: "on", Destination: &o.chat},
		&cli.IntFlag{Name: "tokens", Aliases: []string{"n"}, Usage: "generate at most `N` tokens", Value: 128, Destination: &o.limit},
		&cli.UintFlag{Name: "seed", Usage: "sample with seed `S`, the same on both sides", Value: 1, Destination: &o.seed},
		&cli.Float64Flag{Name: "temperature", Usage: "sample at temperature `T`; 0: always the likeliest token", Value: 0.8, Destination: &o.temperature},
		&cli.Float64Flag{Name: "top-p", Usage: "sample from the likeliest tokens that hold probability `P` together", Value: 0.95, Destination: &o.topP},
		&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &o.json})
}

func generateCommand() *cli.Command {
	var options generateOptions
	return &cli.Command{
		Name:  "generate",
		Usage: "continue a prompt, as the model is and steered, side by side",
		Description: `Generates from the same prompt with the same seed without steering and, with --steer, under it, and prints both.

EXIT STATUS
   0  the texts are printed
   1  it failed
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runGenerate(c.Context, &options, c.App.Writer, c.App.ErrWriter)
		},
	}
}

func (o *generateOptions) check() error {
	switch {
	case o.prompt == "":
		return usageError("generate needs --prompt TEXT")
	case o.chat != "on" && o.chat != "off":
		return usageError("--chat is on or off, not %q", o.chat)
	case o.limit < 1:
		return usageError("--tokens %d: at least 1", o.limit)
	case !(o.temperature >= 0 && o.temperature < 1e6):
		return usageError("--temperature %v: a temperature is not negative", o.temperature)
	case !(o.topP > 0 && o.topP <= 1):
		return usageError("--top-p %v: a probability above 0, at most 1", o.topP)
	case o.seed > 1<<32-2:
		return usageError("--seed %d is too large", o.seed)
	}
	o.half = heldOut
	return o.steerOptions.check()
}

func runGenerate(ctx context.Context, options *generateOptions, out, notes io.Writer) error {
	if err := options.check(); err != nil {
		return err
	}
	m, err := options.openScoring(false)
	if err != nil {
		return err
	}
	defer m.close()
	steering, err := options.steerOptions.load(m.model, notes)
	if err != nil {
		return err
	}
	if options.chat == "on" {
		if err := m.chatIfTrained(); err != nil {
			return err
		}
	}
	text := options.prompt
	if m.tokens.chat {
		if text, err = m.model.ChatPrompt(options.prompt); err != nil {
			return err
		}
	}
	prompt, err := m.tokens.tokens(text)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	interrupt := watchInterrupts(stop)
	defer interrupt.stop()

	sampling := bindings.Sampling{Seed: uint32(options.seed), Temperature: float32(options.temperature), TopP: float32(options.topP)}
	plain, err := m.session.Generate(ctx, prompt, nil, sampling, options.limit)
	if err != nil {
		return err
	}
	steered := ""
	if steering != nil {
		if steered, err = m.session.Generate(ctx, prompt, steering.actions, sampling, options.limit); err != nil {
			return err
		}
	}
	if options.json {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]string{"prompt": options.prompt, "unsteered": plain, "steered": steered})
	}
	if steering == nil {
		_, err = fmt.Fprintln(out, strings.TrimSpace(plain))
		return err
	}
	return printSideBySide(out, plain, steered)
}
