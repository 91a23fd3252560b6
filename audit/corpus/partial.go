package corpus

import (
	"cmp"
	"encoding/json"
	"os"
)

// PartialValidation keeps the validations of a run that is not finished, so that a killed one goes on.
type PartialValidation struct {
	path  string
	lines *lineFile
	done  map[string]Validation
}

// partialLine is a line of the file: first what was asked, then a validation each.
type partialLine struct {
	Asked      string      `json:"asked,omitempty"`
	Validation *Validation `json:"validation,omitempty"`
}

// OpenPartialValidation opens the file of an unfinished run that asked for the same, or begins it. asked says all that a
// validation depends on; what was asked for otherwise is not used.
func OpenPartialValidation(path, asked string) (*PartialValidation, error) {
	p := &PartialValidation{path: path, done: map[string]Validation{}}
	before := ""
	lines, err := openLines(path, func(text []byte) bool {
		var line partialLine
		if json.Unmarshal(text, &line) != nil || (line.Asked == "") == (line.Validation == nil) {
			return false
		}
		if line.Validation == nil {
			before = line.Asked
		} else {
			p.done[line.Validation.ID] = *line.Validation
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	p.lines = lines
	if before != asked {
		clear(p.done)
		lines.size = 0
		if err := cmp.Or(lines.file.Truncate(0), lines.append(partialLine{Asked: asked})); err != nil {
			return nil, cmp.Or(err, lines.close())
		}
	}
	return p, nil
}

// Done is how many validations are there.
func (p *PartialValidation) Done() int { return len(p.done) }

// Find returns the validation of a triplet, if it is there.
func (p *PartialValidation) Find(id string) (Validation, bool) {
	v, ok := p.done[id]
	return v, ok
}

// Append keeps a validation.
func (p *PartialValidation) Append(v Validation) error {
	p.done[v.ID] = v
	return p.lines.append(partialLine{Validation: &v})
}

// Close gives the file back.
func (p *PartialValidation) Close() error { return p.lines.close() }

// Remove closes the file of a run that is finished, and removes it.
func (p *PartialValidation) Remove() error { return cmp.Or(p.lines.close(), os.Remove(p.path)) }
