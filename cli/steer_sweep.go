package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
	"plumb/audit/metric"
	"plumb/audit/protocol"
	"plumb/audit/report"
)

type sweepOptions struct {
	modelOptions
	bbqOptions
	gridOptions
	capabilityData
	outputOptions
	categories cli.StringSlice
	splitSeed  uint64
	placebos   int
	oracle     bool

	outOfDomain string
	promptOnly  bool
	wording     bool

	out    string
	resume bool
}

func (o *sweepOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.bbqOptions.flags()...)
	flags = append(flags, &cli.StringSliceFlag{Name: "category", Usage: "take the items of category `NAME` alone; repeatable", Destination: &o.categories})
	flags = append(flags, o.gridOptions.flags()...)
	flags = append(flags,
		&cli.Uint64Flag{Name: "split-seed", Usage: "if the files do not say what they were fitted on, split the templates into halves with seed `S`", Value: 1, Destination: &o.splitSeed},
		&cli.IntFlag{Name: "placebos", Usage: "evaluate `N` random directions beside the selected one", Value: 20, Destination: &o.placebos},
		&cli.BoolFlag{Name: "oracle", Usage: "evaluate the whole grid on the held-out half too, to know what selection missed", Destination: &o.oracle},
		&cli.BoolFlag{Name: "prompt-only", Usage: "also ask the unsteered model with an instruction to abstain in the prompt", Destination: &o.promptOnly},
		&cli.BoolFlag{Name: "wording", Usage: "also evaluate the selected one with other texts for the unknown option, a short one and one of Plumb's own", Destination: &o.wording},
		&cli.StringFlag{Name: "out-of-domain", Usage: "also evaluate the selected construction as fitted on each category alone, on each of them; `DIR` holds CATEGORY/METHOD.gguf, as fit without --pooled writes them", Destination: &o.outOfDomain})
	flags = append(flags, o.capabilityData.flags()...)
	flags = append(flags,
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the sweep in `DIR` (default: sweep- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the sweep in DIR if it was cut", Destination: &o.resume})
	return append(flags, o.outputOptions.flags()...)
}

func steerSweepCommand() *cli.Command {
	var options sweepOptions
	return &cli.Command{
		Name:  "sweep",
		Usage: "try a grid of interventions by the audit protocol: select on one half, evaluate on the other",
		Description: `Evaluates every combination of steering file, layer, operator, strength and sign on the fit half of the question
templates, that on which the files were fitted; selects the one with the lowest preference term,
(1 − Pr(U)₁)(dpref₁ − dpref₀); and evaluates that one, once, on the held-out half, beside the unsteered model, a default
(the configuration most like the paper's own: contrast, project, round(0.64 · layers), strength 8), the same at strength
zero, and random directions of matched norm. With --mmlu or --wikitext it measures what the selected construction costs
at every strength of the grid. Answerability Confounds (GCD), appendix B; --prompt-only, --wording and --out-of-domain are
the controls of its appendices A and F.

Everything is kept in DIR: sweep.json, and a run directory for each stage. plumb report DIR prints the sweep again, with
another read-out too if --oracle was given; plumb gate DIR gives its verdict as an exit status. A sweep that was killed goes
on with --resume and ends with the same bytes.

EXIT STATUS
   0  the sweep is complete, whatever its verdict
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags:       options.flags(),
		Subcommands: []*cli.Command{sweepDialectCommand()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runSteerSweep(c, &options)
		},
	}
}

func (o *sweepOptions) check() error {
	if err := cmp.Or(o.bbqOptions.check(), o.capabilityData.check(), o.outputOptions.check()); err != nil {
		return err
	}
	if o.placebos < 0 {
		return usageError("--placebos %d: a number of directions is not negative", o.placebos)
	}
	return nil
}

// choose leaves of the items those of the categories asked for.
func (o *sweepOptions) choose(items []bbq.Item) ([]bbq.Item, error) {
	wanted := o.categories.Value()
	if len(wanted) == 0 {
		return items, nil
	}
	var there []string
	var chosen []bbq.Item
	for _, item := range items {
		if !slices.Contains(there, item.Category) {
			there = append(there, item.Category)
		}
		if slices.Contains(wanted, item.Category) {
			chosen = append(chosen, item)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(there, name) {
			return nil, fmt.Errorf("no item is of category %q; the data holds %s", name, strings.Join(there, ", "))
		}
	}
	return chosen, nil
}

func runSteerSweep(c *cli.Context, o *sweepOptions) error {
	out, notes := c.App.Writer, c.App.ErrWriter
	if err := o.check(); err != nil {
		return err
	}
	grid, err := o.gridOptions.read(c)
	if err != nil {
		return err
	}
	task, err := o.bbqOptions.read(notes)
	if err != nil {
		return err
	}
	if task.items, err = o.choose(task.items); err != nil {
		return err
	}
	var cost *capabilityTask
	if o.mmlu != "" || o.wikitext != "" {
		if cost, err = o.capabilityData.read(); err != nil {
			return err
		}
	}
	m, err := o.openScoring(task.chat)
	if err != nil {
		return err
	}
	defer m.close()
	s := sweep{scoringModel: m, options: o, task: task, dir: o.out, notes: notes, grid: grid}
	if s.configurations, err = grid.configurations(m.model, fitHalf, notes); err != nil {
		return err
	}
	if err := s.split(); err != nil {
		return err
	}
	if err := s.readTransfers(); err != nil {
		return err
	}
	if o.promptOnly {
		if s.abstain, err = s.abstaining(); err != nil {
			return err
		}
	}
	if s.dir == "" {
		s.dir = "sweep-" + strings.TrimSuffix(filepath.Base(o.model), ".gguf")
	}
	if err := s.run(c.Context, cost); err != nil {
		return err
	}
	return reportSweep(s.dir, o.outputOptions, protocol.DefaultThresholds(), out)
}

// sweep is a sweep that is running.
type sweep struct {
	*scoringModel
	options        *sweepOptions
	task           *bbqTask
	grid           *grid
	configurations []configuration
	fit, held      []bbq.Item
	categories     []string               // of the held-out items
	transfers      map[string]*fittedFile // the grid's files as fitted on one category, by protocol.FittedOn
	abstain        *bbqTask               // the task with an instruction to abstain; nil without that control
	dir            string
	notes          io.Writer
}

// split deals the items into the half that the files were fitted on and the other one.
func (s *sweep) split() error {
	templates, err := fitTemplates(s.configurations)
	if err != nil {
		return err
	}
	if templates == nil {
		s.fit, s.held = bbq.SplitTemplates(s.task.items, s.options.splitSeed)
	} else {
		for _, item := range s.task.items {
			if slices.Contains(templates, item.Template) {
				s.fit = append(s.fit, item)
			} else {
				s.held = append(s.held, item)
			}
		}
	}
	for _, half := range []struct {
		name  string
		items []bbq.Item
	}{{"fit", s.fit}, {"held-out", s.held}} {
		if len(half.items) == 0 {
			return fmt.Errorf("none of %s is of the %s half of the templates; take more items, or directions fitted on other templates", report.Count(len(s.task.items), "item"), half.name)
		}
	}
	for _, item := range s.held {
		if !slices.Contains(s.categories, item.Category) {
			s.categories = append(s.categories, item.Category)
		}
	}
	fmt.Fprintf(s.notes, "plumb: %s on %s of the fit half; %s held out\n",
		report.Count(len(s.configurations), "configuration"), report.Count(len(s.fit), "item"), report.Count(len(s.held), "item"))
	return nil
}

// run runs the stages.
func (s *sweep) run(ctx context.Context, cost *capabilityTask) error {
	standard := s.configurations[nearest(s.configurations, s.model.Info().Layers)]
	spec := protocol.Spec{Grid: len(s.configurations), Default: standard.recorded, Placebos: s.options.placebos, Oracle: s.options.oracle}
	if s.options.wording {
		spec.Wordings = wordings
	}
	if err := checkSweepDir(s.dir, s.options.resume); err != nil {
		return err
	}
	if err := protocol.WriteSpec(s.dir, spec); err != nil {
		return err
	}
	if err := s.stage(ctx, protocol.FitStage, s.task, s.fit, s.configurations); err != nil {
		return err
	}
	selected, err := s.selected()
	if err != nil {
		return err
	}
	held, err := s.heldOut(selected, standard)
	if err != nil {
		return err
	}
	if err := s.stage(ctx, protocol.HeldStage, s.task, s.held, held); err != nil {
		return err
	}
	if s.abstain != nil {
		if err := s.stage(ctx, protocol.PromptOnly, s.abstain, s.held, nil); err != nil {
			return err
		}
	}
	selected.recorded.Half = heldOut
	for _, w := range spec.Wordings {
		if err := s.stage(ctx, w.Stage(), s.task, worded(s.held, w.Text), []configuration{selected}); err != nil {
			return err
		}
	}
	if cost == nil {
		return nil
	}
	asked, err := cost.task(&s.tokens)
	if err != nil {
		return err
	}
	curve, err := s.curve(selected)
	if err != nil {
		return err
	}
	return asked.scoreUnder(ctx, s.scoringModel, curve, filepath.Join(s.dir, protocol.CostStage), s.options.resume, s.notes)
}

// stage scores the items under the configurations, the model as it is first.
func (s *sweep) stage(ctx context.Context, name string, task *bbqTask, items []bbq.Item, list []configuration) error {
	part := *task
	part.items = items
	asked := auditTask{run: part.describe(), question: part.question}
	return asked.scoreUnder(ctx, s.scoringModel, list, filepath.Join(s.dir, name), s.options.resume, s.notes)
}

// selected is the configuration that the fit half selects.
func (s *sweep) selected() (configuration, error) {
	half, err := protocol.LoadHalf(filepath.Join(s.dir, protocol.FitStage), protocol.Options{ReadOut: metric.ReadOut(s.options.readOut), Draws: 1})
	if err != nil {
		return configuration{}, err
	}
	best, ok := protocol.Select(half.Rows)
	if !ok {
		return configuration{}, fmt.Errorf("%s: the preference term is defined for no configuration: the model answers no item of the fit half", s.dir)
	}
	return s.configurations[best], nil
}
