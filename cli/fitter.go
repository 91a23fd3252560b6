package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"plumb/audit/bbq"
	"plumb/bindings"
	"plumb/steer"
)

// fitter fits directions with one model.
type fitter struct {
	options   *steerFitOptions
	model     *openedModel
	task      *bbqTask
	chosen    map[string]bool
	layers    []int
	interrupt *interruption

	session   *bindings.Session
	gradients *bindings.Gradients
	progress  progress
	steps     int
}

func (f *fitter) wants(methods ...string) bool {
	return slices.ContainsFunc(methods, func(m string) bool { return f.chosen[m] })
}

func (f *fitter) wantsActivations() bool {
	return f.wants("contrast", "stratified", "projected", "pca")
}

func (f *fitter) wantsGradients() bool {
	return f.wants("gcd", "gcd-stereotype", "gcd-anti", "gcd-nothing", "random-orthogonal")
}

// passes is how often an item goes through the model.
func (f *fitter) passes() int {
	n := 0
	for _, wanted := range []bool{f.wants("stratified"), f.wantsActivations(), f.wantsGradients()} {
		if wanted {
			n++
		}
	}
	return n
}

func (f *fitter) open() error {
	var err error
	if f.wantsActivations() {
		if f.session, err = f.model.scoringSession(); err != nil {
			return err
		}
	}
	if f.wantsGradients() {
		if f.gradients, err = f.model.NewGradients(bindings.GradientOptions{}); err != nil {
			return fmt.Errorf("%s: %w", f.model.path, err)
		}
	}
	return nil
}

func (f *fitter) close() {
	if f.session != nil {
		f.session.Close()
	}
	if f.gradients != nil {
		f.gradients.Close()
	}
}

// fitItem is an item that can be fitted on.
type fitItem struct {
	request               bindings.Request
	biased, anti, unknown int // the options' places
}

// sample picks the options' rows by role; at returns the rows of an option of the item.
func (i *fitItem) sample(at func(option int) []float32) steer.Sample {
	return steer.Sample{Biased: at(i.biased), Anti: at(i.anti), Unknown: at(i.unknown)}
}

// items tokenizes the items; those that cannot be are counted by reason.
func (f *fitter) items(items []bbq.Item) ([]fitItem, map[string]int, error) {
	tokens, err := f.model.tokenizer(min(f.model.Info().Context, 4096), f.task.chat)
	if err != nil {
		return nil, nil, err
	}
	var usable []fitItem
	leftOut := map[string]int{}
	for i := range items {
		q, err := f.task.questionOf(0, &items[i])
		if err != nil {
			return nil, nil, err
		}
		request, err := tokens.request(&q)
		if err != nil {
			leftOut[err.Error()]++
			continue
		}
		usable = append(usable, fitItem{request, items[i].Find(bbq.Biased), items[i].Find(bbq.Anti), items[i].Find(bbq.Unknown)})
	}
	return usable, leftOut, nil
}

// inChunks calls do with a few items at a time, so that memory does not grow with them.
func (f *fitter) inChunks(items []fitItem, do func(chunk []fitItem, requests []bindings.Request) error) error {
	for chunk := range slices.Chunk(items, 32) {
		if f.interrupt.seen() {
			return errInterrupted
		}
		requests := make([]bindings.Request, len(chunk))
		for i, item := range chunk {
			requests[i] = item.request
		}
		if err := do(chunk, requests); err != nil {
			return err
		}
		f.steps += len(chunk)
		f.progress.at(f.steps)
	}
	return nil
}

// fit fits the chosen methods on the items, writes their files into the folder and returns their paths.
func (f *fitter) fit(ctx context.Context, items []bbq.Item, folder string) ([]string, error) {
	usable, leftOut, err := f.items(items)
	if err != nil {
		return nil, err
	}
	// An item that both passes leave out is one item in either's files.
	ofActivations, ofGradients := maps.Clone(leftOut), maps.Clone(leftOut)
	var activations *steer.Activations
	if f.wantsActivations() {
		if activations, err = f.fitActivations(ctx, usable, ofActivations); err != nil {
			return nil, err
		}
	}
	var gradients *steer.Gradients
	if f.wantsGradients() {
		if gradients, err = f.fitGradients(ctx, usable, ofGradients); err != nil {
			return nil, err
		}
	}
	norms := map[steer.Method][]float64{}
	var paths []string
	for _, m := range fitMethods {
		if !f.chosen[m.name] {
			continue
		}
		directions, err := f.directions(m.method, m.constraint, activations, gradients)
		if err != nil {
			return nil, err
		}
		normOf := map[steer.Method]steer.Method{steer.Random: steer.Contrast, steer.RandomOrthogonal: steer.GCD}[m.method]
		if norms[normOf] != nil {
			if directions, err = directions.WithNorms(norms[normOf]); err != nil {
				return nil, err
			}
		} else {
			normOf = ""
		}
		if m.constraint == "" || m.constraint == steer.ConstrainUnknown {
			norms[m.method] = directions.Norms()
		}
		file, err := steer.NewFile(directions, steer.Operator(f.options.operator), f.options.strength, nil)
		if err != nil {
			return nil, err
		}
		file.NormOf = string(normOf)
		file.ReadOut = f.readOut(m.method)
		file.Model = f.model.facts()
		switch m.method {
		case steer.Contrast, steer.Stratified, steer.Projected, steer.PCA:
			file.Fit = f.account(items, activations.Items(), ofActivations)
		case steer.GCD, steer.RandomOrthogonal:
			file.Fit = f.account(items, gradients.Items(), ofGradients)
		default:
			file.Fit = f.account(items, 0, leftOut)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		path := filepath.Join(folder, m.name+".gguf")
		if err := file.WriteFile(path); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (f *fitter) directions(method steer.Method, constraint steer.Constraint, a *steer.Activations, g *steer.Gradients) (*steer.Directions, error) {
	switch method {
	case steer.Contrast:
		return a.Contrast()
	case steer.Stratified:
		return a.Stratified()
	case steer.Projected:
		return a.Projected()
	case steer.PCA:
		return a.PCA()
	case steer.GCD:
		return g.GCD(constraint)
	case steer.RandomOrthogonal:
		return g.RandomOrthogonal(f.options.fitSeed)
	}
	return steer.NewRandom(f.options.fitSeed, f.layers, f.model.Info().Width)
}

func (f *fitter) readOut(method steer.Method) string {
	switch method {
	case steer.Contrast, steer.Stratified, steer.Projected, steer.PCA:
		return "residual stream at the last option token"
	case steer.GCD, steer.RandomOrthogonal:
		score := map[string]string{"logit": "mean raw logit", "logprob": "mean log-probability"}[f.options.grad]
		where := map[string]string{"answer": "at the last prompt token", "all": "summed over positions"}[f.options.at]
		return "gradient of an option's " + score + " " + where
	}
	return "nothing"
}

// account is what a file says of its fit: how many of the items were used, and why others were not.
func (f *fitter) account(items []bbq.Item, used int, leftOut map[string]int) steer.Fit {
	fit := steer.Fit{Seed: f.options.splitSeed, Items: used, LeftOut: leftOut}
	for _, file := range f.task.data.Files {
		fit.Data = append(fit.Data, file.Name)
		fit.DataSHA256 = append(fit.DataSHA256, file.SHA256)
	}
	for _, item := range items {
		fit.Categories = append(fit.Categories, item.Category)
		fit.Templates = append(fit.Templates, item.Template)
	}
	slices.Sort(fit.Categories)
	slices.Sort(fit.Templates)
	fit.Categories, fit.Templates = slices.Compact(fit.Categories), slices.Compact(fit.Templates)
	return fit
}

func (f *fitter) fitActivations(ctx context.Context, items []fitItem, leftOut map[string]int) (*steer.Activations, error) {
	options := steer.ActivationOptions{PCA: f.wants("pca")}
	strata := make([]int, len(items))
	if f.wants("stratified") {
		var err error
		if strata, err = f.strata(ctx, items); err != nil {
			return nil, err
		}
		options.Strata = f.options.strata
	}
	width := f.model.Info().Width
	activations, err := steer.NewActivations(f.layers, width, options)
	if err != nil {
		return nil, err
	}
	done := 0
	err = f.inChunks(items, func(chunk []fitItem, requests []bindings.Request) error {
		var ends []bindings.Sequence
		for _, r := range requests {
			ends = append(ends, r.Ends()...)
		}
		residuals, errs, err := f.session.Residuals(ctx, ends, nil, f.layers)
		if err != nil {
			return err
		}
		for i, item := range chunk {
			stratum := strata[done]
			done++
			if err := cmp.Or(errs[3*i : 3*i+3]...); err != nil {
				leftOut[err.Error()]++
				continue
			}
			if err := activations.Add(item.sample(func(option int) []float32 { return residuals.Layers(3*i + option) }), stratum); err != nil {
				return err
			}
		}
		return nil
	})
	return activations, err
}

// strata puts the items into quantiles of the unsteered model's margin between its best and its second-best option.
func (f *fitter) strata(ctx context.Context, items []fitItem) ([]int, error) {
	margins := make([]float64, 0, len(items))
	err := f.inChunks(items, func(_ []fitItem, requests []bindings.Request) error {
		scores, _, err := f.session.Score(ctx, requests, nil)
		if err != nil {
			return err
		}
		for _, s := range scores {
			margin := 0.0 // of an item that has no scores, and will be left out
			if s.Err == nil {
				var means []float64
				for _, p := range s.LogProbs {
					sum := 0.0
					for _, x := range p {
						sum += float64(x)
					}
					means = append(means, sum/float64(len(p)))
				}
				margin = steer.TopTwoMargin(means)
			}
			margins = append(margins, margin)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return steer.MarginStrata(margins, f.options.strata)
}

func (f *fitter) fitGradients(ctx context.Context, items []fitItem, leftOut map[string]int) (*steer.Gradients, error) {
	gradients, err := steer.NewGradients(f.layers, f.model.Info().Width)
	if err != nil {
		return nil, err
	}
	job := bindings.GradientJob{Layers: f.layers, LogProbability: f.options.grad == "logprob", AllPositions: f.options.at == "all"}
	err = f.inChunks(items, func(chunk []fitItem, requests []bindings.Request) error {
		rows, errs, err := f.gradients.Run(ctx, requests, job)
		if err != nil {
			return err
		}
		for i, item := range chunk {
			if errs[i] != nil {
				leftOut[errs[i].Error()]++
				continue
			}
			if err := gradients.Add(item.sample(func(option int) []float32 { return rows.Layers(3*i + option) })); err != nil {
				return err
			}
		}
		return nil
	})
	return gradients, err
}
