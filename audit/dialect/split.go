package dialect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// The parts of the data (the paper's section 5).
const (
	SplitAll        = "all"        // no part
	SplitTracing    = "tracing"    // for the layers: pairs whose AAE context holds a marker
	SplitDirection  = "direction"  // for the directions
	SplitEvaluation = "evaluation" // for everything that is reported
)

// The paper's sizes of the parts. Fewer pairs are dealt out in the same proportions.
const (
	tracingSize    = 1200
	directionSize  = 7000
	evaluationSize = 3000
)

// Splits are three disjoint parts of the pairs, as indices, in the data's order.
type Splits struct {
	Tracing, Direction, Evaluation []int
}

// Part returns a part by its name.
func (s *Splits) Part(name string) ([]int, error) {
	switch name {
	case SplitTracing:
		return s.Tracing, nil
	case SplitDirection:
		return s.Direction, nil
	case SplitEvaluation:
		return s.Evaluation, nil
	}
	return nil, fmt.Errorf("there is no part %q; choose %s, %s or %s", name, SplitTracing, SplitDirection, SplitEvaluation)
}

// Split deals the pairs out, drawn with the seed. Pairs that share a sentence, in any case and spacing, are never in
// different parts. traceable says of a pair, by its index, whether the tracing part may have it; it is asked in the order
// of the draw, and no more often than needed. The rest goes to the other two parts, what is more than the paper's 1,200,
// 7,000 and 3,000 to none.
func Split(pairs []Pair, seed uint64, traceable func(i int) (bool, error)) (*Splits, error) {
	groups := bySentence(pairs)
	random := rand.New(rand.NewPCG(seed, 0xd1a1ec7))
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })

	share := min(1, float64(len(pairs))/(tracingSize+directionSize+evaluationSize))
	tracing, direction, evaluation := int(share*tracingSize), int(share*directionSize), int(share*evaluationSize)
	s := &Splits{}
	var rest [][]int
	for _, group := range groups {
		var usable []int
		for _, i := range group {
			if len(s.Tracing) >= tracing {
				break
			}
			ok, err := traceable(i)
			if err != nil {
				return nil, err
			}
			if ok {
				usable = append(usable, i)
			}
		}
		if len(usable) == 0 {
			rest = append(rest, group)
			continue
		}
		s.Tracing = append(s.Tracing, usable...)
	}
	for _, group := range rest {
		switch {
		// dealt in turn, so that both parts have their share however many there are
		case len(s.Evaluation) < evaluation && len(s.Evaluation)*directionSize <= len(s.Direction)*evaluationSize:
			s.Evaluation = append(s.Evaluation, group...)
		case len(s.Direction) < direction || share < 1:
			s.Direction = append(s.Direction, group...)
		}
	}
	for _, part := range [][]int{s.Tracing, s.Direction, s.Evaluation} {
		slices.Sort(part)
	}
	return s, nil
}

// bySentence groups the indices of pairs that are connected by equal sentences, in the order of their first members.
func bySentence(pairs []Pair) [][]int {
	parent := make([]int, len(pairs))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	first := map[string]int{}
	for i := range pairs {
		for _, text := range []string{pairs[i].AAE, pairs[i].SAE} {
			key := strings.ToLower(strings.Join(Words(text), " "))
			if j, ok := first[key]; ok {
				a, b := root(i), root(j)
				parent[max(a, b)] = min(a, b)
			} else {
				first[key] = i
			}
		}
	}
	place := map[int]int{}
	var groups [][]int
	for i := range pairs {
		r := root(i)
		if _, ok := place[r]; !ok {
			place[r] = len(groups)
			groups = append(groups, nil)
		}
		groups[place[r]] = append(groups[place[r]], i)
	}
	return groups
}
