package protocol

import (
	"fmt"

	"plumb/audit/capability"
	"plumb/audit/record"
)

// Cost is what the selected construction costs at each strength.
type Cost struct {
	Base   *capability.Summary
	Points []CostPoint // by strength, ascending
}

// CostPoint is the model's capability at a strength.
type CostPoint struct {
	Strength float64             `json:"strength"`
	Summary  *capability.Summary `json:"-"`
	Change   capability.Change   `json:"change"`
}

// LoadCost reads the capability stage.
func LoadCost(dir string, draws int) (*Cost, error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	steerings := reader.Run.Steerings
	records := make([][]record.Record, 1+len(steerings))
	for r, err := range reader.Records() {
		if err != nil {
			return nil, err
		}
		if r.Steering < 0 || r.Steering >= len(records) {
			return nil, fmt.Errorf("%s: item %s was scored under steering %d of %d", dir, r.ID, r.Steering, len(steerings))
		}
		records[r.Steering] = append(records[r.Steering], r)
	}
	if reader.Done() != reader.Run.Items {
		return nil, fmt.Errorf("%s holds %d of its %d records; finish it with --resume", dir, reader.Done(), reader.Run.Items)
	}
	var outcomes []*capability.Outcome
	for _, list := range records {
		o, err := capability.Read(func(yield func(record.Record, error) bool) {
			for _, r := range list {
				if !yield(r, nil) {
					return
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		outcomes = append(outcomes, o)
	}
	c := &Cost{Base: outcomes[0].Summarize(draws, seed)}
	for i, s := range steerings {
		c.Points = append(c.Points, CostPoint{max(s.Strength, -s.Strength), outcomes[i+1].Summarize(draws, seed), capability.Compare(outcomes[0], outcomes[i+1], draws, seed)})
	}
	return c, nil
}

// Knee is the smallest strength whose perplexity is more than rise (0.25: 25 %) above the unsteered model's, or whose
// paired change of MMLU accuracy has a 95 % interval below zero. A strength at which the perplexity is no number counts.
// ok is false if there is none in the grid. The paper names a knee without defining it; this is Plumb's definition.
func (c *Cost) Knee(rise float64) (strength float64, ok bool) {
	for _, p := range c.Points {
		lost := len(c.Base.Perplexity) > 0 && (!p.Change.Ratio.OK || p.Change.Ratio.V > 1+rise)
		if lost || p.Change.Accuracy.OK && p.Change.Accuracy.Hi < 0 {
			return p.Strength, true
		}
	}
	return 0, false
}
