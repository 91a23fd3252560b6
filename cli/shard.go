package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plumb/audit/record"
)

// shardOptions say which part of an audit a process does, so that many machines can share one.
type shardOptions struct {
	shard      string
	number, of int // what it says, from 1 on; 0: the whole
}

func (o *shardOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "shard", Usage: "do part `I/N` of the items, kept in DIR/I-of-N for plumb merge; auto: as the job array says", Destination: &o.shard},
	}
}

// shardsVariable holds how many jobs there are where the job array does not say.
const shardsVariable = "PLUMB_SHARDS"

func (o *shardOptions) check() (err error) {
	text := o.shard
	switch text {
	case "":
		return nil
	case "auto":
		if text, err = arrayShard(os.Getenv); err != nil {
			return err
		}
	}
	number, of, found := strings.Cut(text, "/")
	o.number, err = strconv.Atoi(number)
	if err == nil {
		o.of, err = strconv.Atoi(of)
	}
	if !found || err != nil || o.number < 1 || o.number > o.of {
		return usageError("--shard %s: write I/N, part I of N, from 1/N to N/N; or auto", text)
	}
	return nil
}

// folder is where in dir a part of the run is kept.
func (o *shardOptions) folder(dir string) string {
	if o.of == 0 {
		return dir
	}
	return filepath.Join(dir, fmt.Sprintf("%d-of-%d", o.number, o.of))
}

// divide makes a whole run the shard that is asked for, and returns the end of its questions.
func (o *shardOptions) divide(run *record.Run, all *questions) (int, error) {
	if o.of == 0 {
		return run.Items, nil
	}
	shard, items, err := all.cut(o.number, o.of)
	if err != nil {
		return 0, err
	}
	run.Shard, run.Items = shard, items
	return shard.First + items, nil
}

// arrayShard is the part that a task of a Slurm job array, or a pod of a Kubernetes indexed job, is to do.
func arrayShard(env func(string) string) (string, error) {
	number := func(name string, otherwise int) (int, error) {
		value := env(name)
		if value == "" && otherwise >= 0 {
			return otherwise, nil
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return 0, usageError("--shard auto: %s is %q, not a number; give --shard I/N", name, value)
		}
		return n, nil
	}
	const none = -1
	var index, count int
	var err error
	switch {
	case env("SLURM_ARRAY_TASK_ID") != "":
		var id, first, step int
		for _, v := range []struct {
			name      string
			otherwise int
			to        *int
		}{{"SLURM_ARRAY_TASK_ID", none, &id}, {"SLURM_ARRAY_TASK_MIN", none, &first}, {"SLURM_ARRAY_TASK_COUNT", none, &count}, {"SLURM_ARRAY_TASK_STEP", 1, &step}} {
			if *v.to, err = number(v.name, v.otherwise); err != nil {
				return "", err
			}
		}
		index = (id - first) / max(step, 1)
	case env("JOB_COMPLETION_INDEX") != "":
		if index, err = number("JOB_COMPLETION_INDEX", none); err != nil {
			return "", err
		}
		if env(shardsVariable) == "" {
			return "", usageError("--shard auto: Kubernetes does not tell a pod how many there are; set %s to the job's completions, or give --shard I/N", shardsVariable)
		}
		if count, err = number(shardsVariable, none); err != nil {
			return "", err
		}
	default:
		return "", usageError("--shard auto: this is no task of a Slurm array (SLURM_ARRAY_TASK_ID) nor of a Kubernetes indexed job (JOB_COMPLETION_INDEX); give --shard I/N")
	}
	if index < 0 || index >= count {
		return "", usageError("--shard auto: task %d (from 0) of %d; give --shard I/N", index, count)
	}
	return fmt.Sprintf("%d/%d", index+1, count), nil
}

// cut finds a shard and how many items it has: those of the batch groups that begin in the number-th of `of` equal parts of the run. A
// group is never cut, so that every item shares its batch with the same others as in the whole run.
func (q *questions) cut(number, of int) (*record.Shard, int, error) {
	shard := &record.Shard{Number: number, Of: of, First: -1, Total: q.n}
	from, to := q.n*(number-1)/of, q.n*number/of
	begin := 0
	for begin < to {
		if begin >= from && shard.First < 0 {
			shard.First = begin
		}
		group, err := q.group()
		if err != nil {
			return nil, 0, err
		}
		begin += len(group)
	}
	if shard.First < 0 { // smaller than a group, it got none
		shard.First = begin
	}
	return shard, begin - shard.First, nil
}
