package metric_test

import (
	"fmt"
	"log"

	"plumb/audit/metric"
	"plumb/audit/record"
)

// Of four items the model takes the biased option twice, the other group's once, and does not answer one.
func Example() {
	records := func(yield func(record.Record, error) bool) {
		for i, choice := range []int{0, 0, 1, 2} {
			item := record.Record{Index: i, ID: fmt.Sprint(i), Category: "Age", Condition: record.Ambiguous, Label: 2}
			for k, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
				score := float32(-3)
				if k == choice {
					score = -1
				}
				item.Options = append(item.Options, record.NewOption("", role, []float32{score}))
			}
			if !yield(item, nil) {
				return
			}
		}
	}
	set, err := metric.Read(records, metric.Mean)
	if err != nil {
		log.Fatal(err)
	}
	group := metric.Summarize(set, metric.BBQ, 100, 0).Group("Age", record.Ambiguous)
	for _, name := range []string{"commit", "dpref", "pr_s", "s_amb"} {
		fmt.Printf("%s %s of %d items\n", name, group.Values[name], group.Values[name].N)
	}
	// Output:
	// commit 0.750 of 4 items
	// dpref 0.667 of 3 items
	// pr_s 0.500 of 4 items
	// s_amb 0.250 of 4 items
}
