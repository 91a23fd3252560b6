package record_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"plumb/audit/record"
)

// An audit appends the items that shared a batch; a reader streams them back.
func Example() {
	folder, err := os.MkdirTemp("", "plumb")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dir := filepath.Join(folder, "run")

	writer, err := record.Create(dir, record.Run{Benchmark: "bbq", Items: 1})
	if err != nil {
		log.Fatal(err)
	}
	item := record.Record{
		Index: 0, ID: "Age/0", Category: "Age", Condition: record.Ambiguous, Polarity: record.Negative, Label: 2,
		Options: []record.Option{
			record.NewOption("The grandfather", record.Biased, []float32{-0.5, -1.5}),
			record.NewOption("The grandson", record.Anti, []float32{-0.5, -2}),
			record.NewOption("Not known", record.Unknown, []float32{-4}),
		},
	}
	if err := writer.Append([]record.Record{item}); err != nil {
		log.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}

	run, err := record.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	for item, err := range run.Records() {
		if err != nil {
			log.Fatal(err)
		}
		for _, option := range item.Options {
			fmt.Printf("%s: %s, %d tokens, log-probability %g\n", item.ID, option.Role, option.Tokens, option.Sum)
		}
	}
	fmt.Printf("%d of %d items\n", run.Done(), run.Run.Items)
	// Output:
	// Age/0: biased, 2 tokens, log-probability -2
	// Age/0: anti, 2 tokens, log-probability -2.5
	// Age/0: unknown, 1 tokens, log-probability -4
	// 1 of 1 items
}
