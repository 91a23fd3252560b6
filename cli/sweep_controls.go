package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"plumb/audit/bbq"
	"plumb/audit/protocol"
	"plumb/steer"
)

// controls stand beside the selected configuration, in its place: itself at strength zero, its construction fitted on one
// category alone, and the placebos.
func (s *sweep) controls(selected configuration) ([]configuration, error) {
	operator, layers := steer.Operator(selected.recorded.Operator), selected.recorded.Layers
	zero, err := selected.file.at(operator, 0, layers, heldOut)
	if err != nil {
		return nil, err
	}
	list := []configuration{{*zero.recorded, zero.actions, selected.file}}
	for _, category := range s.categories {
		file := s.transfers[protocol.FittedOn(category, filepath.Base(selected.file.path))]
		if file == nil {
			continue
		}
		at, err := file.at(operator, selected.recorded.Strength, layers, heldOut)
		if err != nil {
			return nil, err
		}
		at.recorded.Name = protocol.FittedOn(category, at.recorded.Name)
		list = append(list, configuration{*at.recorded, at.actions, file})
	}
	for i := range s.options.placebos {
		placebo, err := s.placebo(selected, i+1)
		if err != nil {
			return nil, err
		}
		list = append(list, placebo)
	}
	return list, nil
}

// placeboSeeds is where the placebos' seeds begin: far from those of plumb steer fit, so that a random direction that is
// tried like any other is none of its own placebos.
const placeboSeeds = 1 << 32

// placebo is a random direction with the norm of the selected one, in its place.
func (s *sweep) placebo(selected configuration, number int) (configuration, error) {
	layer := selected.recorded.Layers[0]
	norm := 1.0
	for _, l := range selected.file.Layers {
		if l.Layer == layer {
			norm = l.Norm
		}
	}
	directions, err := steer.NewRandom(placeboSeeds+uint64(number), []int{layer}, s.model.Info().Width)
	if err != nil {
		return configuration{}, err
	}
	if directions, err = directions.WithNorms([]float64{norm}); err != nil {
		return configuration{}, err
	}
	file, err := steer.NewFile(directions, steer.Operator(selected.recorded.Operator), selected.recorded.Strength, nil)
	if err != nil {
		return configuration{}, err
	}
	drawn := &fittedFile{File: file, path: protocol.PlaceboName(number)}
	at, err := drawn.at(steer.Operator(selected.recorded.Operator), selected.recorded.Strength, []int{layer}, heldOut)
	if err != nil {
		return configuration{}, err
	}
	return configuration{*at.recorded, at.actions, drawn}, nil
}

// readTransfers reads, for the out-of-domain control, every file of the grid as fitted on each of the categories:
// DIR/CATEGORY/METHOD.gguf. Each must have the grid's layers and must not have seen the held-out half.
func (s *sweep) readTransfers() error {
	dir := s.options.outOfDomain
	if dir == "" {
		return nil
	}
	if len(s.categories) < 2 {
		return fmt.Errorf("--out-of-domain needs items of two categories or more; these are all of %s", s.categories[0])
	}
	s.transfers = map[string]*fittedFile{}
	for _, c := range s.configurations {
		for _, category := range s.categories {
			base := filepath.Base(c.file.path)
			name := protocol.FittedOn(category, base)
			file := s.transfers[name]
			if file == nil {
				var err error
				if file, err = readSteering(filepath.Join(dir, category, base), s.model, s.notes); err != nil {
					return err
				}
				if file.Method != c.file.Method || file.Constraint != c.file.Constraint {
					return fmt.Errorf("%s holds a direction of %s, %s one of %s", file.path, methodName(file.Method, file.Constraint), c.file.path, methodName(c.file.Method, c.file.Constraint))
				}
				for _, item := range s.held {
					if slices.Contains(file.Fit.Templates, item.Template) {
						return fmt.Errorf("%s was fitted on the template %s, which is held out here; fit it on the same items with the same --split-seed", file.path, item.Template)
					}
				}
				s.transfers[name] = file
			}
			if _, err := file.Actions(steer.Operator(c.recorded.Operator), c.recorded.Strength, c.recorded.Layers); err != nil {
				return fmt.Errorf("%s: %w", file.path, err)
			}
		}
	}
	return nil
}

// wordings are those of the option-wording control beside the data's own: one of BBQ's shortest for every item, and a
// phrase that BBQ does not have.
var wordings = []protocol.Wording{
	{Name: "shortened", Text: "Unknown"},
	{Name: "synthetic", Text: "The passage leaves this open"},
}

// worded are items with this text for the unknown option.
func worded(items []bbq.Item, text string) []bbq.Item {
	items = slices.Clone(items)
	for i := range items {
		items[i].Options[items[i].Find(bbq.Unknown)].Text = text
	}
	return items
}

// abstention is the instruction of the prompt-only control, in words that BBQ's unknown options have too.
const abstention = "If the text does not say who it is, the answer is that there is not enough information and it cannot be determined."

var questionField = regexp.MustCompile(`\{\{-?\s*\.Question\s*-?\}\}`)

// abstaining is the task with the instruction after the question (GCD, appendix F).
func (s *sweep) abstaining() (*bbqTask, error) {
	t := *s.task
	text := s.task.prompt.String()
	at := questionField.FindStringIndex(text)
	if at == nil {
		return nil, errors.New("--prompt-only: the prompt template has no {{.Question}} that the instruction to abstain could follow")
	}
	var err error
	t.prompt, err = bbq.ParsePrompt(text[:at[1]] + "\n" + abstention + text[at[1]:])
	return &t, err
}
