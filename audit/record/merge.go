package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Merge puts the shards of a run together, in any order given, into the run that one process would have made: the same
// bytes. It refuses shards of different runs, a missing, doubled or unfinished one, and items that are missing or double,
// before it writes anything. A merge that was cut goes on.
func Merge(dst string, shards []string) (err error) {
	parts, err := inOrder(shards)
	if err != nil {
		return err
	}
	of := make(map[string]string) // an item's id: the shard that has it
	for _, p := range parts {
		if err := p.check(of); err != nil {
			return err
		}
	}
	run := parts[0].run
	run.Items, run.Shard = run.Shard.Total, nil
	to, err := Resume(dst, run)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, to.Close()) }()
	for _, p := range parts {
		if _, err := p.each(func(group []Record) error {
			if group[0].Index < to.Next() {
				return nil
			}
			return to.Append(group)
		}); err != nil {
			return err
		}
	}
	return nil
}

// part is a shard that is merged.
type part struct {
	dir string
	run Run
}

// each calls f for every batch group and returns how many items there were.
func (p part) each(f func(group []Record) error) (items int, err error) {
	r, err := Open(p.dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, r.Close()) }()
	for {
		group, err := r.Next()
		if err == io.EOF {
			return r.Done(), nil
		}
		if err == nil {
			err = f(group)
		}
		if err != nil {
			return r.Done(), err
		}
	}
}

// check reads the shard: whether it is finished, and none of its items in another. of is filled with them.
func (p part) check(of map[string]string) error {
	done, err := p.each(func(group []Record) error {
		for _, item := range group {
			if other, double := of[item.ID]; double {
				return fmt.Errorf("item %s is double: in %s and in %s", item.ID, other, p.dir)
			}
			of[item.ID] = p.dir
		}
		return nil
	})
	if err == nil && done != p.run.Items {
		err = fmt.Errorf("%s holds %d of %d items; finish it by the same command with --resume", p.dir, done, p.run.Items)
	}
	return err
}

// inOrder returns the shards by number, all of one run.
func inOrder(dirs []string) ([]part, error) {
	if len(dirs) == 0 {
		return nil, errors.New("no shard to merge")
	}
	var parts []part
	for _, dir := range dirs {
		run, _, err := readRun(dir)
		if err != nil {
			return nil, err
		}
		if run.Shard == nil {
			return nil, fmt.Errorf("%s is a whole run, not a shard; merge takes the runs of audits with --shard", dir)
		}
		parts = append(parts, part{dir, run})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.run.Shard.Number, b.run.Shard.Number) })
	whole := func(run Run) Run {
		run.Items, run.Shard = 0, &Shard{Of: run.Shard.Of, Total: run.Shard.Total}
		return run
	}
	next := 0
	for i, p := range parts {
		if d := difference(whole(parts[0].run), whole(p.run)); d != "" {
			return nil, fmt.Errorf("%s and %s are shards of different runs: %s", parts[0].dir, p.dir, d)
		}
		s := p.run.Shard
		if i > 0 && s.Number == parts[i-1].run.Shard.Number {
			return nil, fmt.Errorf("shard %d of %d is there twice: %s and %s", s.Number, s.Of, parts[i-1].dir, p.dir)
		}
		if s.Number != i+1 {
			return nil, missing(i+1, s.Of)
		}
		if s.First != next {
			return nil, fmt.Errorf("%s begins with item %d where item %d belongs: the shards were cut by other batches; do them again with one build of plumb", p.dir, s.First, next)
		}
		next += p.run.Items
	}
	s := parts[0].run.Shard
	if len(parts) < s.Of {
		return nil, missing(len(parts)+1, s.Of)
	}
	if next != s.Total {
		return nil, fmt.Errorf("the shards hold %d items of %d: they were cut by other batches; do them again with one build of plumb", next, s.Total)
	}
	return parts, nil
}

func missing(number, of int) error {
	return fmt.Errorf("shard %d of %d is missing; do it with --shard %d/%d", number, of, number, of)
}
