package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"plumb/audit/record"
	"plumb/internal/jsonfile"
)

// Partial keeps the results of a run that is not finished, so that a killed one goes on. The zero one keeps nothing.
type Partial[T any] struct {
	path  string
	lines *lineFile
	done  map[string]T
}

// partialLine is a line of the file: first what was asked, then a result each.
type partialLine[T, A any] struct {
	Asked  *A     `json:"asked,omitempty"`
	ID     string `json:"id,omitempty"`
	Result *T     `json:"result,omitempty"`
}

// OpenPartial opens the file of an unfinished run, or begins it. asked is all that a result depends on beside what its id names,
// the program's version included; a file of a run that asked for something else is refused. check says why a result cannot be that
// of an id.
func OpenPartial[T, A any](path string, asked A, check func(id string, result *T) error) (*Partial[T], error) {
	p := &Partial[T]{path: path, done: map[string]T{}}
	var before *A
	lines, err := openLines(path, func(text []byte) error {
		var line partialLine[T, A]
		if err := jsonfile.Decode(text, &line); err != nil {
			return err
		}
		_, twice := p.done[line.ID]
		switch {
		case before == nil && line.Asked != nil && line.Result == nil && line.ID == "":
			before = line.Asked
			return nil
		case before == nil:
			return errors.New("the first line does not say what was asked for")
		case line.Asked != nil || line.Result == nil || line.ID == "":
			return errors.New("the line is not an id and its result")
		case twice:
			return fmt.Errorf("%.80q has a result already", line.ID)
		}
		p.done[line.ID] = *line.Result
		return check(line.ID, line.Result)
	})
	if err != nil {
		return nil, err
	}
	p.lines = lines
	if before == nil {
		err = lines.append(partialLine[T, A]{Asked: &asked})
	} else if what := record.Difference(*before, asked); what != "" {
		err = fmt.Errorf("%s holds another run: %s; ask for the same, or remove that file", path, what)
	}
	if err != nil {
		return nil, cmp.Or(err, lines.close())
	}
	return p, nil
}

// Done is how many results are there.
func (p *Partial[T]) Done() int { return len(p.done) }

// Find returns the result of an id, if it is there.
func (p *Partial[T]) Find(id string) (T, bool) {
	result, ok := p.done[id]
	return result, ok
}

// Append keeps a result.
func (p *Partial[T]) Append(id string, result T) error {
	if p.lines == nil {
		return nil
	}
	p.done[id] = result
	return p.lines.append(partialLine[T, struct{}]{ID: id, Result: &result})
}

// Close gives the file back.
func (p *Partial[T]) Close() error {
	if p.lines == nil {
		return nil
	}
	return p.lines.close()
}

// Remove closes the file of a run that is finished, and removes it.
func (p *Partial[T]) Remove() error {
	if p.lines == nil {
		return nil
	}
	return cmp.Or(p.lines.close(), os.Remove(p.path))
}
