package bindings

import (
	"context"
	"math"
	"testing"
)

// Causal tracing of SmolLM2 in F32, by replay in batches and by a full pass of every run and continuation alone: within 1e-4
// on 20 sites, and their preference of one continuation to the other, too.
func TestPatchedByReplayEqualsFullPasses(t *testing.T) {
	m := f32Model(t, "smollm2")
	tokens := func(text string) []Token {
		list, err := m.Tokenize(text, true, false)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	context1 := "My brother told me they was waiting at the station for"
	request := Request{Prompt: tokens(context1)}
	for _, continuation := range []string{" the last train to come home.", " the last train, but it never came."} {
		request.Continuations = append(request.Continuations, tokens(context1 + continuation)[len(request.Prompt):])
	}
	byReplay, byPasses := session(t, m, SessionOptions{}), session(t, m, SessionOptions{NoTrie: true})
	ctx := context.Background()
	noise := Noise{Positions: []int{4, 5}, Strength: 0.3, Seed: 3}
	layers := []int{0, 3, 7, 11, 15, 19, 23, 26, 28, 29}
	clean, _, err := byPasses.Residuals(ctx, []Sequence{{request.Prompt, noise.Positions}}, nil, layers)
	if err != nil {
		t.Fatal(err)
	}
	patches := []Patch{{Position: -1}}
	for l, layer := range layers {
		for i, p := range noise.Positions {
			patches = append(patches, Patch{Layer: layer, Position: p, Vector: clean.At(i, l)})
		}
	}
	got, err := byReplay.Patched(ctx, request, noise, patches)
	if err != nil {
		t.Fatal(err)
	}
	want, err := byPasses.Patched(ctx, request, noise, patches)
	if err != nil {
		t.Fatal(err)
	}
	worst, moved := 0.0, 0.0
	for i := range want {
		for c := range want[i] {
			for k, p := range want[i][c] {
				worst = max(worst, math.Abs(float64(got[i][c][k]-p)))
				moved = max(moved, math.Abs(float64(want[0][c][k]-p)))
			}
		}
	}
	t.Logf("%d sites: log-probabilities at most %.2g apart; restoring moves them by up to %.2g", len(patches)-1, worst, moved)
	if worst > 1e-4 || moved < 0.01 {
		t.Errorf("%d sites: log-probabilities up to %g apart; restoring moves them by up to %g", len(patches)-1, worst, moved)
	}
}
