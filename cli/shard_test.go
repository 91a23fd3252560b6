package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumb/audit/record"
)

// Four shards, each under its own job array's variables or by hand, one of them cut and resumed, make the bytes of the run
// by one process.
func TestAuditBBQInShards(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	rows := make([]any, 120)
	for i := range rows {
		rows[i] = bbqRow(i)
	}
	rows[61] = bbqRow(61, "question", strings.Repeat("How? ", 4000)) // cannot be scored
	// Short prompts, so that a batch holds a dozen items, and the shards' equal parts end inside of batches.
	ask := []string{"--data", bbqFile(t, "items.jsonl", rows...), "--prompt", textFile(t, "{{.Question}}")}
	whole, dir := newRun(t), newRun(t)
	mustPlumb(t, auditBBQ(model, whole, ask...)...)

	shard := func(variables map[string]string, more ...string) {
		t.Helper()
		for name, value := range variables {
			t.Setenv(name, value)
		}
		mustPlumb(t, append(auditBBQ(model, dir, ask...), more...)...)
		for name := range variables {
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	shard(map[string]string{"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "5"}, "--shard", "auto")
	shard(map[string]string{"JOB_COMPLETION_INDEX": "0", "PLUMB_SHARDS": "4"}, "--shard", "auto")
	shard(nil, "--shard", "3/4")
	shard(nil, "--shard", "4/4")
	third := filepath.Join(dir, "3-of-4", record.ItemsFile)
	if err := os.Truncate(third, 300); err != nil {
		t.Fatal(err)
	}
	shards := []string{filepath.Join(dir, "4-of-4"), filepath.Join(dir, "1-of-4"), filepath.Join(dir, "3-of-4"), filepath.Join(dir, "2-of-4")}
	merged := newRun(t)
	_, _, err := plumb(append([]string{"merge", "--out", merged}, shards...)...)
	refused(t, err, exitFailed, "3-of-4 holds ", "finish it by the same command with --resume")
	shard(nil, "--shard", "3/4", "--resume")

	first, end := 0, 0
	for i := range 4 {
		run, items := readRun(t, shards[[]int{1, 3, 2, 0}[i]])
		if run.Shard.First != end || items[0].Index != end || len(items) != run.Items || run.Items == 30 && run.Shard.First%30 == 0 {
			t.Errorf("shard %d: %+v, %d items", i+1, run.Shard, run.Items)
		}
		first, end = end, end+run.Items
	}
	if end != 120 || first == 90 {
		t.Errorf("the shards end at %d, the last begins with %d", end, first)
	}
	out, _ := mustPlumb(t, append([]string{"merge", "--out", merged}, shards...)...)
	contains(t, out, "119 items, read-out mean", "Report: "+filepath.Join(merged, "report.html"))
	sameRun(t, merged, whole)

	out, _ = mustPlumb(t, "report", "--markdown", shards[0])
	contains(t, out, "; shard 4 of 4, from item ")
}

// There may be more shards than batches: some are empty, and belong to the whole all the same.
func TestAuditBBQInMoreShardsThanBatches(t *testing.T) {
	ownCache(t)
	model, data := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 2)
	whole, dir, merged := newRun(t), newRun(t), newRun(t)
	mustPlumb(t, auditBBQ(model, whole, "--data", data)...)
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		mustPlumb(t, auditBBQ(model, dir, "--data", data, "--shard", shard)...)
	}
	mustPlumb(t, "merge", filepath.Join(dir, "1-of-3"), filepath.Join(dir, "2-of-3"), filepath.Join(dir, "3-of-3"), "--out", merged)
	sameRun(t, merged, whole)
}

func TestShardsThatAreRefused(t *testing.T) {
	for _, shard := range []string{"0/4", "5/4", "1", "a/b", "1/", "/4", "-1/4", "1/0"} {
		_, _, err := plumb("audit", "bbq", "--model", "none", "--shard", shard)
		refused(t, err, exitUsage, "--shard "+shard+": write I/N, part I of N")
	}
	_, _, err := plumb("merge", "a", "b")
	refused(t, err, exitUsage, "merge takes --out DIR")
}

func TestArrayShard(t *testing.T) {
	for _, test := range []struct{ variables, want string }{
		{"SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=8", "1/8"},
		{"SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=8 SLURM_ARRAY_TASK_STEP=1", "8/8"},
		{"SLURM_ARRAY_TASK_ID=10 SLURM_ARRAY_TASK_MIN=2 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_STEP=4", "3/4"},
		{"JOB_COMPLETION_INDEX=0 PLUMB_SHARDS=3", "1/3"},
		{"JOB_COMPLETION_INDEX=2 PLUMB_SHARDS=3", "3/3"},
		{"", "no task of a Slurm array"},
		{"JOB_COMPLETION_INDEX=2", "set PLUMB_SHARDS to the job's completions"},
		{"JOB_COMPLETION_INDEX=3 PLUMB_SHARDS=3", "task 3 (from 0) of 3"},
		{"JOB_COMPLETION_INDEX=x PLUMB_SHARDS=3", `JOB_COMPLETION_INDEX is "x", not a number`},
		{"SLURM_ARRAY_TASK_ID=1", `SLURM_ARRAY_TASK_MIN is "", not a number`},
		{"SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=8", "task 8 (from 0) of 8"},
	} {
		variables := map[string]string{}
		for _, pair := range strings.Fields(test.variables) {
			name, value, _ := strings.Cut(pair, "=")
			variables[name] = value
		}
		shard, err := arrayShard(func(name string) string { return variables[name] })
		if err != nil {
			refused(t, err, exitUsage, test.want, "give --shard I/N")
		} else if shard != test.want {
			t.Errorf("%q: %s, want %s", test.variables, shard, test.want)
		}
	}
}
