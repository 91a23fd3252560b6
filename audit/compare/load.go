// Package compare says what an intervention did: it pairs two runs over the same items, one before and one after, and
// takes the change of every metric apart into what comes from answering less often and what from another preference.
//
// Equations and sections are those of Answerability Confounds (GCD). Subscript 0 is the base run, 1 the steered one. Every
// interval comes from bootstrap draws of items, the same items on both sides.
package compare

import (
	"cmp"
	"fmt"
	"iter"
	"path/filepath"

	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/report"
)

// Run is a finished run under one read-out.
type Run struct {
	Dir      string
	Name     string // the directory's own
	Info     record.Run
	ReadOut  metric.ReadOut
	Items    []metric.Item
	Failures []metric.Failure

	forced []record.Role // the choice without the unknown option, an item each
}

// Load reads a run; an empty read-out means the benchmark's own. A run that was not finished is refused.
func Load(dir string, readOut metric.ReadOut) (*Run, error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if err := reader.Run.Single(dir); err != nil {
		return nil, err
	}
	run := &Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir)), Info: reader.Run}
	benchmark, err := metric.ForBenchmark(reader.Run.Benchmark)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	run.ReadOut = cmp.Or(readOut, benchmark.ReadOut)
	set, err := metric.Read(run.readForced(reader.Records()), run.ReadOut)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if reader.Done() != reader.Run.Items {
		return nil, fmt.Errorf("%s holds %d of its %s; finish it with --resume", dir, reader.Done(), report.Count(reader.Run.Items, "item"))
	}
	run.Items, run.Failures = set.Items, set.Failures
	return run, nil
}

// readForced passes the records on and keeps their forced choices.
func (r *Run) readForced(records iter.Seq2[record.Record, error]) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for item, err := range records {
			if err == nil && item.Error == "" {
				forced, forcedErr := metric.NewItem(&item, metric.Forced)
				r.forced, err = append(r.forced, forced.Choice), forcedErr
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// recordsOf reads some records of a run again, for their texts.
func recordsOf(dir string, wanted map[string]bool) (map[string]record.Record, error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	found := make(map[string]record.Record, len(wanted))
	for item, err := range reader.Records() {
		if err != nil {
			return nil, err
		}
		if wanted[item.ID] {
			found[item.ID] = item
		}
		if len(found) == len(wanted) {
			break
		}
	}
	return found, nil
}
