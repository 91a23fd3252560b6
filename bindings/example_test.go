package bindings_test

import (
	"context"
	"fmt"
	"log"

	"plumb/bindings"
)

// Two continuations of a prompt are scored, as the model is and with a direction taken out of the residual stream after
// block 19. It takes a model's file, so it is compiled here and not run.
func Example() {
	model, err := bindings.OpenModel("model.gguf", bindings.ModelOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	session, err := model.NewSession(bindings.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	request := bindings.Request{}
	if request.Prompt, err = model.Tokenize("The sky is", true, false); err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{" blue", " green"} {
		tokens, err := model.Tokenize(text, false, false)
		if err != nil {
			log.Fatal(err)
		}
		request.Continuations = append(request.Continuations, tokens)
	}
	direction := make([]float32, model.Info().Width)
	direction[0] = 1
	for _, steering := range [][]bindings.Steering{nil, {{Layer: 19, Operator: bindings.ProjectOut, Strength: 1, Vector: direction}}} {
		scores, _, err := session.Score(context.Background(), []bindings.Request{request}, steering)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(scores[0].LogProbs)
	}
}
