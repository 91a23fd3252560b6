package steer_test

import (
	"fmt"
	"log"

	"plumb/steer"
)

// A direction from one item's residual streams after layer 5, and what a file of it does to a model. Adding it moves the
// model towards the anti-stereotyped answer.
func Example() {
	fit, err := steer.NewActivations([]int{5}, 2, steer.ActivationOptions{})
	if err != nil {
		log.Fatal(err)
	}
	item := steer.Sample{Biased: []float32{4, 4}, Anti: []float32{1, 0}, Unknown: []float32{0, 1}}
	if err := fit.Add(item, 0); err != nil {
		log.Fatal(err)
	}
	contrast, err := fit.Contrast()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(contrast.Method, contrast.Vectors, contrast.Norms())

	file, err := steer.NewFile(contrast, steer.Add, 0.5, nil)
	if err != nil {
		log.Fatal(err)
	}
	actions, err := file.Actions("", file.Strength, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range actions {
		fmt.Printf("layer %d: %s %g times %v\n", a.Layer, a.Operator, a.Strength, a.Vector)
	}
	// Output:
	// contrast [[3 4]] [5]
	// layer 5: add 0.5 times [-3 -4]
}
