package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/urfave/cli/v2"

	"plumb/audit/metric"
	"plumb/audit/report"
	"plumb/steer"
)

func steerInspectCommand() *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name:      "inspect",
		Usage:     "print what steering files hold, and how their directions lie to each other",
		ArgsUsage: "FILE...",
		Description: `Prints how each steering file came about and its norms; of several files also the cosines between their directions
at each layer that all of them have. In a file every direction points from the biased option to the anti one,
whatever its method: a contrast is turned round.

EXIT STATUS
   0  the files were read
   1  one is not a steering file, or is broken
   2  the command line is wrong`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &asJSON}},
		Action: func(c *cli.Context) error {
			arguments, err := laterFlags(c)
			if err != nil {
				return err
			}
			if len(arguments) == 0 {
				return usageError("inspect takes at least one steering file; see plumb steer inspect --help")
			}
			return runSteerInspect(arguments, asJSON, c.App.Writer)
		},
	}
}

// inspectedFile is a steering file as it is printed.
type inspectedFile struct {
	Name string `json:"file"`
	steer.Description
}

func runSteerInspect(paths []string, asJSON bool, out io.Writer) error {
	var files []*steer.File
	var inspected []inspectedFile
	for _, path := range paths {
		f, err := steer.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, f)
		inspected = append(inspected, inspectedFile{filepath.Base(path), f.Describe()})
	}
	var cosines []steer.LayerCosines
	if len(files) > 1 {
		var err error
		if cosines, err = steer.FileCosines(files); err != nil {
			return err
		}
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			Files   []inspectedFile      `json:"files"`
			Cosines []steer.LayerCosines `json:"cosines,omitempty"`
		}{inspected, cosines})
	}
	var text strings.Builder
	for i := range inspected {
		if i > 0 {
			text.WriteString("\n")
		}
		if err := printSteeringFile(&text, &inspected[i]); err != nil {
			return err
		}
	}
	if len(files) > 1 {
		if err := printCosines(&text, inspected, cosines); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func printSteeringFile(text *strings.Builder, f *inspectedFile) error {
	method := string(f.Method)
	if f.Constraint != "" {
		method += ", constraint: " + string(f.Constraint)
	}
	if f.Seed != nil {
		method += fmt.Sprintf(", seed %d", *f.Seed)
	}
	if f.Source != "" {
		method += ", layers as " + f.Source + " counts them"
	}
	operators := map[steer.Operator]string{steer.Add: "h + s·v", steer.Project: "h − s·⟨h, u⟩u"}
	fmt.Fprintf(text, "%s\n", f.Name)
	for _, line := range [][2]string{
		{"Method", method},
		{"Operator", fmt.Sprintf("%s, %s, strength %g", f.Operator, operators[f.Operator], f.Strength)},
		{"Read-out", f.ReadOut},
		{"Norms of", f.NormOf},
		{"Fitted on", fitInWords(&f.Fit)},
		{"Left out", leftOutInWords(f.Fit.LeftOut)},
		{"Model", modelInWords(&f.Model)},
		{"llama.cpp control vector", f.ControlVector},
	} {
		if line[1] != "" {
			fmt.Fprintf(text, "  %-25s %s\n", line[0], line[1])
		}
	}
	header := []string{"Layer", "Norm", "Weight"}
	extra := []struct {
		title string
		value func(steer.LayerDescription) *float64
	}{
		{"Explained variance", func(l steer.LayerDescription) *float64 { return l.Explained }},
		{"cos(contrast, axis)", func(l steer.LayerDescription) *float64 { return l.AxisCosine }},
		{"cos(contrast, projected)", func(l steer.LayerDescription) *float64 { return l.UnprojectedCosine }},
	}
	var rows [][]string
	for _, l := range f.Layers {
		rows = append(rows, []string{strconv.Itoa(l.Layer), strconv.FormatFloat(l.Norm, 'g', 4, 64), strconv.FormatFloat(l.Weight, 'g', 4, 64)})
	}
	for _, e := range extra {
		if e.value(f.Layers[0]) == nil {
			continue
		}
		header = append(header, e.title)
		for i, l := range f.Layers {
			cell := "–"
			if v := e.value(l); v != nil {
				cell = metric.Format(*v)
			}
			rows[i] = append(rows[i], cell)
		}
	}
	return printRightAligned(text, header, rows)
}

// printFitted lists files that were written, a line each; the rest is for inspect.
func printFitted(paths []string, out io.Writer) error {
	table := tablewriter.NewTable(out, tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithAlignment(tw.Alignment{tw.AlignLeft, tw.AlignLeft, tw.AlignRight, tw.AlignRight, tw.AlignRight, tw.AlignLeft}))
	table.Header("Method", "Category", "Layer", "Norm", "Items", "File")
	for _, path := range paths {
		f, err := steer.ReadFile(path)
		if err != nil {
			return err
		}
		category := "all"
		if len(f.Fit.Categories) == 1 {
			category = f.Fit.Categories[0]
		}
		items := "–"
		if f.Fit.Items > 0 {
			items = report.Thousands(f.Fit.Items)
		}
		layers, norms := layersInWords(f.Layers)
		if err := table.Append(methodName(f.Method, f.Constraint), category, layers, norms, items, path); err != nil {
			return err
		}
	}
	return table.Render()
}

// layersInWords names the layers and their norms: of several the first and last, the least and greatest.
func layersInWords(layers []steer.FileLayer) (numbers, norms string) {
	first, last := layers[0], layers[len(layers)-1]
	if len(layers) == 1 {
		return strconv.Itoa(first.Layer), strconv.FormatFloat(first.Norm, 'g', 4, 64)
	}
	byNorm := func(a, b steer.FileLayer) int { return cmp.Compare(a.Norm, b.Norm) }
	return fmt.Sprintf("%d–%d (%d)", first.Layer, last.Layer, len(layers)),
		fmt.Sprintf("%.4g–%.4g", slices.MinFunc(layers, byNorm).Norm, slices.MaxFunc(layers, byNorm).Norm)
}

func fitInWords(f *steer.Fit) string {
	if f.Items == 0 {
		return ""
	}
	words := report.Count(f.Items, "item")
	if len(f.Categories) > 0 {
		words += " of " + strings.Join(f.Categories, ", ")
	}
	if len(f.Templates) > 0 {
		words += fmt.Sprintf(", from %s (the fit half, split by seed %d)", report.Count(len(f.Templates), "template"), f.Seed)
	}
	return words
}

func leftOutInWords(reasons map[string]int) string {
	var words []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		words = append(words, fmt.Sprintf("%s: %s", reason, report.Thousands(reasons[reason])))
	}
	return strings.Join(words, "; ")
}

func modelInWords(m *steer.Model) string {
	var words []string
	for _, word := range []string{m.Name, m.Architecture} {
		if word != "" {
			words = append(words, word)
		}
	}
	if m.NLayer > 0 {
		words = append(words, report.Count(m.NLayer, "layer"))
	}
	words = append(words, fmt.Sprintf("width %d", m.NEmbd))
	if m.SHA256 != "" {
		words = append(words, "SHA-256 "+m.SHA256)
	}
	return strings.Join(words, ", ")
}

// maxCosineFiles is how many files' cosines fit side by side.
const maxCosineFiles = 8

func printCosines(text *strings.Builder, files []inspectedFile, tables []steer.LayerCosines) error {
	if len(tables) == 0 {
		text.WriteString("\nThe files have no layer in common, so there are no cosines between them.\n")
		return nil
	}
	if len(files) > maxCosineFiles {
		fmt.Fprintf(text, "\nThe cosines between %d files are printed by --json.\n", len(files))
		return nil
	}
	text.WriteString("\nCosines between the files' directions\n")
	header := []string{"Layer", "File"}
	for i := range files {
		header = append(header, strconv.Itoa(i+1))
	}
	var rows [][]string
	for _, t := range tables {
		for i, cosines := range t.Cosines {
			row := []string{strconv.Itoa(t.Layer), fmt.Sprintf("%d %s", i+1, files[i].Name)}
			for _, c := range cosines {
				row = append(row, metric.Format(c))
			}
			rows = append(rows, row)
		}
	}
	return printRightAligned(text, header, rows)
}

func printRightAligned(text *strings.Builder, header []string, rows [][]string) error {
	table := tablewriter.NewTable(text, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(slices.Repeat(tw.Alignment{tw.AlignRight}, len(header))))
	table.Header(header)
	if err := table.Bulk(rows); err != nil {
		return err
	}
	return table.Render()
}
