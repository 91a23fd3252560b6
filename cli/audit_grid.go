package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
	"plumb/audit/report"
)

// readGrids reads the files of --grid, and refuses options that they have no place for.
func (o *auditBBQOptions) readGrids(c *cli.Context) ([]*grid, error) {
	paths := o.grids.Value()
	if len(paths) == 0 {
		return nil, o.steerOptions.check()
	}
	for _, name := range []string{"steer", "alpha", "layer", "operator", "shard"} {
		if c.IsSet(name) {
			return nil, usageError("--grid and --%s exclude each other", name)
		}
	}
	if err := o.checkHalf(); err != nil {
		return nil, err
	}
	var grids []*grid
	for _, path := range paths {
		g, err := readGrid(path)
		if err != nil {
			return nil, err
		}
		grids = append(grids, g)
	}
	return grids, nil
}

// auditGrids audits the unsteered model and every configuration of the grids in one pass, and prints what each changed.
func (o *auditBBQOptions) auditGrids(ctx context.Context, grids []*grid, task *bbqTask, m *scoringModel, dir string, out, notes io.Writer) error {
	var list []configuration
	for _, g := range grids {
		more, err := g.configurations(m.model, o.half, notes)
		if err != nil {
			return err
		}
		list = appendNew(list, more...)
	}
	var err error
	if task.items, err = chooseHalf(task.items, list, o.half, notes); err != nil {
		return err
	}
	asked := auditTask{run: task.describe(), question: task.question}
	if err := asked.scoreUnder(ctx, m, list, dir, o.resume, notes); err != nil {
		return err
	}
	return runCompare(&compareOptions{outputOptions: o.outputOptions}, []string{dir}, out)
}

// chooseHalf leaves of the items a half of the templates that the configurations' files were fitted on, and says so.
func chooseHalf(items []bbq.Item, list []configuration, half string, notes io.Writer) ([]bbq.Item, error) {
	templates, err := fitTemplates(list)
	if err != nil || half == allOf {
		return items, err
	}
	if templates == nil {
		fmt.Fprintln(notes, "plumb: the steering files do not say what they were fitted on: all items are audited")
		return items, nil
	}
	return itemsOfHalf(items, templates, half, notes)
}

// itemsOfHalf are the items of the fit half, whose templates these are, or of the held-out one.
func itemsOfHalf(items []bbq.Item, templates []string, half string, notes io.Writer) ([]bbq.Item, error) {
	var chosen []bbq.Item
	for _, item := range items {
		if slices.Contains(templates, item.Template) == (half == fitHalf) {
			chosen = append(chosen, item)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("none of %s is of the %s half of the steering file's split", report.Count(len(items), "item"), half)
	}
	fmt.Fprintf(notes, "plumb: %s of %s audited, the %s half of the templates (--half all for all)\n",
		report.Thousands(len(chosen)), report.Count(len(items), "item"), half)
	return chosen, nil
}
