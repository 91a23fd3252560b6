package compare

import (
	"cmp"
	"fmt"
	"path/filepath"

	"plumb/audit/metric"
	"plumb/audit/record"
)

// LoadGrid reads a run that was scored under several interventions: the base first, then a Run for each of
// record.Run.Steerings, named by name. A run that was not finished is refused.
func LoadGrid(dir string, readOut metric.ReadOut, name func(record.Steering) string) ([]*Run, error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	benchmark, err := metric.ForBenchmark(reader.Run.Benchmark)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	readOut = cmp.Or(readOut, benchmark.ReadOut)
	runs := make([]*Run, 1+len(reader.Run.Steerings))
	for i := range runs {
		runs[i] = &Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir)), Info: reader.Run, ReadOut: readOut}
		runs[i].Info.Steerings = nil
		if i > 0 {
			steering := reader.Run.Steerings[i-1]
			runs[i].Name, runs[i].Info.Steering = name(steering), &steering
		}
	}
	first := map[string]*metric.Item{} // whose names the others share
	for r, err := range reader.Records() {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if r.Steering < 0 || r.Steering >= len(runs) {
			return nil, fmt.Errorf("%s: item %s was scored under steering %d of %d", dir, r.ID, r.Steering, len(runs)-1)
		}
		run := runs[r.Steering]
		if r.Error != "" {
			run.Failures = append(run.Failures, metric.Failure{ID: r.ID, Reason: r.Error})
			continue
		}
		item, err := metric.NewItem(&r, readOut)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		forced, err := metric.NewItem(&r, metric.Forced)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if known := first[item.ID]; known != nil {
			item.ID, item.Category, item.Template, item.Condition, item.Polarity = known.ID, known.Category, known.Template, known.Condition, known.Polarity
		} else {
			first[item.ID] = &item
		}
		run.Items, run.forced = append(run.Items, item), append(run.forced, forced.Choice)
	}
	if reader.Done() != reader.Run.Items {
		return nil, fmt.Errorf("%s holds %d of its %d records; finish it with --resume", dir, reader.Done(), reader.Run.Items)
	}
	return runs, nil
}
