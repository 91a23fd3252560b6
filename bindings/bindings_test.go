package bindings

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	thirdparty "plumb/third_party"
)

// smollm2 opens SmolLM2-135M, which `make test` fetches.
func smollm2(t *testing.T) *Model {
	t.Helper()
	pinned, _ := thirdparty.Find("smollm2")
	path, err := pinned.Path()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("SmolLM2 is not in the cache: third_party/fetch.py model smollm2")
	}
	model, err := OpenModel(path, ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

func session(t *testing.T, m *Model, opts SessionOptions) *Session {
	t.Helper()
	s, err := m.NewSession(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// requests makes a few questions that share contexts, with three answers each.
func requests(t *testing.T, m *Model) []Request {
	t.Helper()
	tokens := func(text string) []Token {
		tokens, err := m.Tokenize(text, true, false)
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	contexts := []string{
		"A baker and a teacher waited at the bus stop in the rain.",
		"Two neighbours, one in her eighties and one in her twenties, set up a new telephone together.",
	}
	var list []Request
	for _, c := range contexts {
		for _, question := range []string{"Who had no umbrella?", "Who asked for help?"} {
			prompt := tokens(c + "\n" + question + "\nAnswer:")
			r := Request{Prompt: prompt}
			for _, option := range []string{" The first one", " The second one", " It cannot be known"} {
				r.Continuations = append(r.Continuations, tokens(c + "\n" + question + "\nAnswer:" + option)[len(prompt):])
			}
			list = append(list, r)
		}
	}
	return list
}

func mean(p []float32) float64 {
	sum := 0.0
	for _, x := range p {
		sum += float64(x)
	}
	return sum / float64(len(p))
}

// How far a score moves with what else is in its batch: a quantised model rounds what it multiplies, by kernels that depend
// on the number of rows. The README states what is logged here.
func TestScoresHardlyDependOnTheBatch(t *testing.T) {
	m := smollm2(t)
	list := requests(t, m)
	together, _, err := session(t, m, SessionOptions{}).Score(context.Background(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	alone := session(t, m, SessionOptions{NoTrie: true})
	if alone.Layout().Trie {
		t.Fatal("NoTrie makes a session without tries")
	}
	worst := 0.0
	for i, r := range list {
		score, rows, err := alone.Score(context.Background(), []Request{r}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, c := range r.Continuations {
			want += len(r.Prompt) + len(c) - 1
		}
		if rows != want {
			t.Errorf("%d rows computed for sequences of %d", rows, want)
		}
		for c := range r.Continuations {
			worst = max(worst, math.Abs(mean(score[0].LogProbs[c])-mean(together[i].LogProbs[c])))
		}
	}
	t.Logf("mean log-probability of an option, in a batch and alone: at most %.2g apart", worst)
	if worst > 0.25 {
		t.Errorf("a score moves by %.3g with its batch", worst)
	}
}

func TestScoreAndSteering(t *testing.T) {
	m := smollm2(t)
	s := session(t, m, SessionOptions{})
	ctx := context.Background()
	list := requests(t, m)
	n, err := s.BatchSize(list)
	if err != nil || n != len(list) {
		t.Errorf("BatchSize = %d, %v", n, err)
	}
	plain, rows, err := s.Score(ctx, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, r := range list {
		for c, tokens := range r.Continuations {
			total += len(r.Prompt) + len(tokens) - 1
			if len(plain[i].LogProbs[c]) != len(tokens) {
				t.Fatalf("%d log-probabilities for %d tokens", len(plain[i].LogProbs[c]), len(tokens))
			}
			for _, p := range plain[i].LogProbs[c] {
				if !(p < 0) {
					t.Errorf("log-probability %v", p)
				}
			}
		}
	}
	if rows >= total/2 {
		t.Errorf("%d rows computed for %d tokens that share much", rows, total)
	}

	direction := make([]float32, m.Info().Width)
	for i := range direction {
		direction[i] = float32(math.Sin(float64(i)))
	}
	layer := 19
	zero, _, err := s.Score(ctx, list, []Steering{{layer, ProjectOut, 0, direction}, {layer, Add, 0, direction}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain {
		for c := range plain[i].LogProbs {
			for k, p := range plain[i].LogProbs[c] {
				if zero[i].LogProbs[c][k] != p {
					t.Fatalf("zero strength moves a log-probability from %v to %v", p, zero[i].LogProbs[c][k])
				}
			}
		}
	}
	var ends []Sequence
	for _, r := range list {
		ends = append(ends, r.Ends()...)
	}
	residuals, _, err := s.Residuals(ctx, ends, []Steering{{layer, ProjectOut, 1, direction}}, []int{layer, EmbeddingLayer})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ends {
		along, length := 0.0, 0.0
		for k, x := range residuals.At(i, 0) {
			along += float64(x) * float64(direction[k])
			length += float64(x) * float64(x)
		}
		if math.Abs(along) > 1e-4*math.Sqrt(length) {
			t.Errorf("sequence %d: %g along the direction after its projection, of a length of %g", i, along, math.Sqrt(length))
		}
	}
}

func TestSteeringIsChecked(t *testing.T) {
	m := smollm2(t)
	s := session(t, m, SessionOptions{})
	good := make([]float32, m.Info().Width)
	good[0] = 1
	bad := append([]float32{}, good...)
	bad[5] = float32(math.NaN())
	for name, steering := range map[string]Steering{
		"another width":           {3, Add, 1, good[:100]},
		"a layer out of range":    {30, Add, 1, good},
		"NaN":                     {3, Add, 1, bad},
		"strength not a number":   {3, Add, float32(math.Inf(1)), good},
		"nothing to project out":  {3, ProjectOut, 1, make([]float32, len(good))},
		"an operator for one row": {3, Operator(3), 1, good},
	} {
		_, _, err := s.Score(context.Background(), requests(t, m), []Steering{steering})
		var e *Error
		if !errors.As(err, &e) || e.Status != StatusInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCancelledContextEndsScoring(t *testing.T) {
	m := smollm2(t)
	s := session(t, m, SessionOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	list := requests(t, m)
	for len(list) < 4096 {
		list = append(list, list...)
	}
	done := make(chan error)
	go func() {
		_, _, err := s.Score(ctx, list, nil)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call returns %v", err)
	}
	if _, _, err := s.Score(context.Background(), list[:1], nil); err != nil {
		t.Errorf("the next call returns %v", err)
	}
}

func TestATooLongRequestIsItsOwnError(t *testing.T) {
	m := smollm2(t)
	s := session(t, m, SessionOptions{Context: 256, BatchRows: 128})
	list := requests(t, m)
	long := Request{Prompt: make([]Token, 300), Continuations: list[0].Continuations}
	for i := range long.Prompt {
		long.Prompt[i] = list[0].Prompt[i%len(list[0].Prompt)]
	}
	scores, _, err := s.Score(context.Background(), []Request{list[0], long, list[1]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var e *Error
	if !errors.As(scores[1].Err, &e) || e.Status != StatusTooLong || scores[1].LogProbs != nil {
		t.Errorf("%v, %v", scores[1].Err, scores[1].LogProbs)
	}
	if scores[0].Err != nil || scores[2].Err != nil {
		t.Errorf("its neighbours: %v, %v", scores[0].Err, scores[2].Err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.gguf")
	if err := os.WriteFile(text, []byte("this is not a model"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]Status{
		filepath.Join(dir, "absent.gguf"): StatusNotFound,
		text:                              StatusFormat,
		dir:                               StatusFormat,
	} {
		_, err := OpenModel(path, ModelOptions{})
		var e *Error
		if !errors.As(err, &e) || e.Status != status {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}

func TestTokenizer(t *testing.T) {
	m := smollm2(t)
	for _, text := range []string{"A sentence.", "Ünïcödé, 日本語, 🙂", " a space first", "x"} {
		tokens, err := m.Tokenize(text, false, false)
		if err != nil {
			t.Fatal(err)
		}
		joined := ""
		for _, token := range tokens {
			joined += m.TokenText(token)
		}
		if joined != text {
			t.Errorf("%q comes back as %q", text, joined)
		}
	}
	special, err := m.Tokenize("<|im_end|>", false, true)
	if err != nil || len(special) != 1 {
		t.Errorf("a special token's text read as such: %v, %v", special, err)
	}
	plain, err := m.Tokenize("<|im_end|>", false, false)
	if err != nil || len(plain) < 2 {
		t.Errorf("and as text: %v, %v", plain, err)
	}
	prompt, err := m.ChatPrompt("Hello?")
	if err != nil || prompt == "" || m.ChatTemplate() == "" {
		t.Errorf("chat prompt %q, %v", prompt, err)
	}
	if _, ok := m.Metadata("no.such.key"); ok {
		t.Error("a key that is not there")
	}
	if name, ok := m.Metadata("general.architecture"); !ok || name != "llama" {
		t.Errorf("architecture %q", name)
	}
}
