package dialect

import (
	"strings"
	"testing"

	"plumb/audit/record"
)

// What a trace says of its layers, and of the examples that can say nothing.
func TestTraceNotes(t *testing.T) {
	example := func(sae string, effects ...[]float64) record.Record {
		return record.Record{Trace: &record.Trace{Positions: []int{1}, Effects: effects},
			Options: []record.Option{{Text: "to school", Role: AAE}, {Text: sae, Role: SAE}}}
	}
	for want, examples := range map[string][]record.Record{
		"No layer has a negative R":                     {example("to class", []float64{0}, []float64{2})},
		"Layers with a negative R: 1, fewer than":       {example("to class", []float64{-1}, []float64{2})},
		"In 1 of them the AAE and the SAE continuation": {example("to class", []float64{-1}, []float64{2}), example("to school", []float64{0}, []float64{0})},
	} {
		trace := Trace{Run: record.Run{Dialect: &record.Dialect{}}, records: examples, Layers: LayerEffects(examples, 2, 2)}
		notes := strings.Join(trace.notes(), "\n")
		if !strings.Contains(notes, want) || strings.Contains(notes, "are the same") != (len(examples) == 2) {
			t.Errorf("%q; want %q", notes, want)
		}
	}
}
