// Command bench is Plumb's side of the benchmarks, and llama.cpp's own; `run` beside it drives it and its peer.
//
//	bench MODEL-f32.gguf BBQ.jsonl PAIRS.jsonl ITEMS.json
//
// It takes real items of the BBQ file, and the pairs of sentences that the other file holds with their segments. It writes
// their tokens to ITEMS.json, so that the peer works on the same, and scores a first batch. Then it reads requests, a line of JSON each, from standard input and answers each with a line on standard
// output. See tasks for what may be asked.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"plumb/audit/bbq"
	"plumb/audit/dialect"
	"plumb/bindings"
)

// What is taken of the file: runs of neighbours, as an audit meets them, from places that are evenly spaced.
const (
	runs      = 4
	runLength = 16
)

// sample is an item to measure on.
type sample struct {
	Prompt  []bindings.Token   `json:"prompt"`
	Options [][]bindings.Token `json:"options"`
	Roles   []bbq.Role         `json:"roles"`
	Texts   []string           `json:"texts"` // prompt and option together, for a peer that has its own tokenizer
}

// samples are all that is measured on.
type samples struct {
	Items []sample `json:"items"` // of BBQ
	Pairs []sample `json:"pairs"` // both contexts of every pair, each with both continuations
	// Traced is an AAE context with a marker, whose tokens in it are at Markers.
	Traced  sample `json:"traced"`
	Markers []int  `json:"markers"`
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: bench MODEL-f32.gguf BBQ.jsonl PAIRS.jsonl ITEMS.json")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(modelPath, dataPath, pairsPath, itemsPath string) error {
	b, err := newBench(modelPath)
	if err != nil {
		return err
	}
	defer b.close()
	if b.Items, err = b.read(dataPath); err != nil {
		return err
	}
	if err := b.readPairs(pairsPath); err != nil {
		return err
	}
	text, err := json.Marshal(b.samples)
	if err != nil {
		return err
	}
	if err := os.WriteFile(itemsPath, text, 0o644); err != nil {
		return err
	}
	if _, err := b.scoreBatch(requestsOf(b.Items)); err != nil {
		return err
	}
	return b.serve(os.Stdin, os.Stdout)
}

// read takes the samples of a BBQ file.
func (b *bench) read(path string) ([]sample, error) {
	data, err := bbq.Read([]string{path}, nil)
	if err != nil {
		return nil, err
	}
	stride := len(data.Items) / runs
	if stride < runLength {
		return nil, fmt.Errorf("%s has %d items; %d are needed", path, len(data.Items), runs*runLength)
	}
	prompt, err := bbq.ParsePrompt(bbq.DefaultPrompt)
	if err != nil {
		return nil, err
	}
	var samples []sample
	for i := range runs * runLength {
		item := &data.Items[i/runLength*stride+i%runLength]
		text, err := prompt.Render(item)
		if err != nil {
			return nil, err
		}
		var continuations []string
		for _, option := range item.Options {
			continuations = append(continuations, option.Continuation())
		}
		s, err := b.tokenize(text, continuations)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", item.ID, err)
		}
		for _, option := range item.Options {
			s.Roles = append(s.Roles, option.Role)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// readPairs takes both contexts of all pairs, and for tracing the first AAE context that holds a marker and whose two
// continuations differ.
func (b *bench) readPairs(path string) error {
	data, err := dialect.Read([]string{path})
	if err != nil {
		return err
	}
	lexicon, err := dialect.PaperLexicon()
	if err != nil {
		return err
	}
	for _, p := range data.Pairs {
		if p.Segments == nil {
			return fmt.Errorf("%s: pair %s has no segments", path, p.ID)
		}
		sae, aae := p.Segments.SAE, p.Segments.AAE
		for _, context := range []string{sae.Context, aae.Context} {
			s, err := b.tokenize(context, []string{" " + aae.Continuation, " " + sae.Continuation})
			if err != nil {
				return fmt.Errorf("%s: %w", p.ID, err)
			}
			b.Pairs = append(b.Pairs, s)
		}
		if markers := lexicon.Find(aae.Context); len(b.Markers) == 0 && len(markers) > 0 && aae.Continuation != sae.Continuation {
			b.Traced = b.Pairs[len(b.Pairs)-1]
			at := 0
			for i, token := range b.Traced.Prompt {
				end := at + len(b.model.TokenText(token))
				if at < markers[0].End && end > markers[0].Start {
					b.Markers = append(b.Markers, i)
				}
				at = end
			}
		}
	}
	if len(b.Markers) == 0 {
		return fmt.Errorf("%s: no pair can be traced", path)
	}
	return nil
}

func (b *bench) tokenize(prompt string, continuations []string) (sample, error) {
	tokens, err := b.model.Tokenize(prompt, true, false)
	if err != nil {
		return sample{}, err
	}
	s := sample{Prompt: tokens}
	for _, continuation := range continuations {
		whole, err := b.model.Tokenize(prompt+continuation, true, false)
		if err != nil {
			return sample{}, err
		}
		s.Options = append(s.Options, whole[len(tokens):])
		s.Texts = append(s.Texts, prompt+continuation)
	}
	return s, nil
}

// serve says that it is ready and answers requests until there are no more.
func (b *bench) serve(in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	ready := map[string]any{
		"ready": true, "plumb": bindings.Version(), "llama_cpp": bindings.LlamaVersion(),
		"layers": b.model.Info().Layers, "model_bytes": b.model.Info().Bytes, "model": b.model.Info().Description,
	}
	if err := answers.Encode(ready); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		task, ok := tasks[r.Task]
		if !ok {
			return fmt.Errorf("there is no task %q", r.Task)
		}
		answer, err := task(b, r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Task, err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
