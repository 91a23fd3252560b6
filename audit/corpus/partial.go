package corpus

import (
	"cmp"
	"encoding/json"
	"os"
)

// Partial keeps the results of a run that is not finished, so that a killed one goes on. A nil one keeps nothing.
type Partial[T any] struct {
	path  string
	lines *lineFile
	done  map[string]T
}

// partialLine is a line of the file: first what was asked, then a result each.
type partialLine[T any] struct {
	Asked  string `json:"asked,omitempty"`
	ID     string `json:"id,omitempty"`
	Result *T     `json:"result,omitempty"`
}

// OpenPartial opens the file of an unfinished run that asked for the same, or begins it. asked says all that a result depends
// on beside what its id names; what was asked for otherwise is not used.
func OpenPartial[T any](path, asked string) (*Partial[T], error) {
	p := &Partial[T]{path: path, done: map[string]T{}}
	before := ""
	lines, err := openLines(path, func(text []byte) bool {
		var line partialLine[T]
		if json.Unmarshal(text, &line) != nil || (line.Asked == "") == (line.Result == nil) {
			return false
		}
		if line.Result == nil {
			before = line.Asked
		} else {
			p.done[line.ID] = *line.Result
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
		if err := cmp.Or(lines.file.Truncate(0), lines.append(partialLine[T]{Asked: asked})); err != nil {
			return nil, cmp.Or(err, lines.close())
		}
	}
	return p, nil
}

// Done is how many results are there.
func (p *Partial[T]) Done() int {
	if p == nil {
		return 0
	}
	return len(p.done)
}

// Find returns the result of an id, if it is there.
func (p *Partial[T]) Find(id string) (T, bool) {
	var result T
	if p == nil {
		return result, false
	}
	result, ok := p.done[id]
	return result, ok
}

// Append keeps a result.
func (p *Partial[T]) Append(id string, result T) error {
	if p == nil {
		return nil
	}
	p.done[id] = result
	return p.lines.append(partialLine[T]{ID: id, Result: &result})
}

// Close gives the file back.
func (p *Partial[T]) Close() error {
	if p == nil {
		return nil
	}
	return p.lines.close()
}

// Remove closes the file of a run that is finished, and removes it.
func (p *Partial[T]) Remove() error {
	if p == nil {
		return nil
	}
	return cmp.Or(p.lines.close(), os.Remove(p.path))
}
