package cli

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
)

type auditBBQOptions struct {
	modelOptions
	bbqOptions
	steerOptions
	shardOptions
	outputOptions
	grids  cli.StringSlice
	out    string
	resume bool
}

func (o *auditBBQOptions) flags() []cli.Flag {
	flags := append(o.modelOptions.flags(), o.bbqOptions.flags()...)
	flags = append(flags, o.steerOptions.flags()...)
	flags = append(flags, o.shardOptions.flags()...)
	flags = append(flags,
		&cli.StringSliceFlag{Name: "grid", Usage: "audit under each of the interventions of the JSON `FILE`, as of plumb steer sweep, in one pass; repeatable", Destination: &o.grids},
		&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep the run in `DIR` (default: bbq- and the model's name)", Destination: &o.out},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the run in DIR if it was cut", Destination: &o.resume})
	return append(flags, o.outputOptions.flags()...)
}

func auditBBQCommand() *cli.Command {
	var options auditBBQOptions
	return &cli.Command{
		Name:  "bbq",
		Usage: "BBQ: bias scores, and whether the model answered at all",
		Description: `Scores every item's three options as continuations of its prompt, takes the one with the highest mean token
log-probability as the answer, and prints BBQ's two scores with what they are made of: how often the model answers
(commit), and what it prefers when it does (dpref). Answerability Confounds (GCD), section 3, has the formulas.

The prompt, rendered for an item (an option follows after a space; nothing else is added but the BOS that the model
asks for):

` + indent(renderedDefaultPrompt()) + `

A template of your own is a Go text/template over {{.Context}}, {{.Question}} and {{.Options}}.

With --steer the model is steered by a file of plumb steer fit, and only the templates that it was not fitted on are
audited. plumb compare then says what changed. With --grid, the unsteered model and every intervention of a grid are
audited in one pass, which computes what is common to them once: as plumb steer sweep does, but on one half, and nothing is
selected. The run holds them all; plumb compare DIR prints it again.

The run directory holds run.json (what was asked), items.jsonl.zst (every item's scores) and report.html. An audit that
was killed goes on with --resume. plumb report prints a run again without the model.

SEVERAL MACHINES
Each does a part, and plumb merge --out whole DIR/* makes of the parts the bytes of the whole. A Slurm job array
(sbatch --array=1-8 FILE):

   #!/bin/sh
   #SBATCH --array=1-8 --requeue
   plumb audit bbq --model model.gguf --data BBQ/data --out base --shard auto --resume

A Kubernetes indexed job, whose pods share a volume:

   apiVersion: batch/v1
   kind: Job
   metadata: {name: base}
   spec:
     completionMode: Indexed
     completions: 8
     parallelism: 8
     template:
       spec:
         restartPolicy: OnFailure
         volumes: [{name: work, persistentVolumeClaim: {claimName: work}}]
         containers:
         - name: plumb
           image: plumb
           workingDir: /work
           env: [{name: PLUMB_SHARDS, value: "8"}]
           args: [audit, bbq, --model, model.gguf, --data, BBQ/data, --out, base, --shard, auto, --resume]
           volumeMounts: [{name: work, mountPath: /work}]

To do one part again by hand, give its number: --shard 3/8.

EXIT STATUS
   0  the audit is complete
   1  it failed, or was interrupted
   2  the command line is wrong`,
		Flags: options.flags(),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return runAuditBBQ(c, &options)
		},
	}
}

func indent(text string) string { return "   " + strings.ReplaceAll(text, "\n", "\n   ") }

func runAuditBBQ(c *cli.Context, options *auditBBQOptions) error {
	ctx, out, notes := c.Context, c.App.Writer, c.App.ErrWriter
	if err := cmp.Or(options.bbqOptions.check(), options.shardOptions.check(), options.outputOptions.check()); err != nil {
		return err
	}
	grids, err := options.readGrids(c)
	if err != nil {
		return err
	}
	task, err := options.bbqOptions.read(notes)
	if err != nil {
		return err
	}
	m, err := options.openScoring(task.chat)
	if err != nil {
		return err
	}
	defer m.close()
	dir := options.out
	if dir == "" {
		dir = "bbq-" + strings.TrimSuffix(filepath.Base(options.model), ".gguf")
	}
	if len(grids) > 0 {
		return options.auditGrids(ctx, grids, task, m, dir, out, notes)
	}
	steering, err := options.steerOptions.load(m.model, notes)
	if err != nil {
		return err
	}
	if steering != nil {
		if task.items, err = steering.choose(task.items, options.half, notes); err != nil {
			return err
		}
	}
	asked := auditTask{run: task.describe(), question: task.question, shard: options.shardOptions}
	dir = options.shardOptions.folder(dir)
	if err := asked.score(ctx, m, steering, dir, options.resume, notes); err != nil {
		return err
	}
	return reportRun(dir, options.outputOptions, out)
}

// renderedDefaultPrompt shows the default prompt with an item of the built-in sample.
func renderedDefaultPrompt() string {
	data, err := bbq.Builtin()
	if err != nil {
		return err.Error()
	}
	prompt, err := bbq.ParsePrompt(bbq.DefaultPrompt)
	if err != nil {
		return err.Error()
	}
	text, err := prompt.Render(&data.Items[0])
	if err != nil {
		return err.Error()
	}
	return text
}
