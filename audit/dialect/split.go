package dialect

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
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

// Deal is how pairs are dealt out into parts.
type Deal struct {
	Seed  uint64
	Sizes Sizes
}

// Sizes are the pairs of each part. The zero value stands for the paper's sizes, or their proportions.
type Sizes struct {
	Tracing, Direction, Evaluation int
}

// ParseSizes reads three sizes with slashes between them, such as 16/64/64. The empty text is the zero value.
func ParseSizes(text string) (Sizes, error) {
	if text == "" {
		return Sizes{}, nil
	}
	words := strings.Split(text, "/")
	if len(words) != 3 {
		return Sizes{}, fmt.Errorf("%q is not three sizes, for tracing, direction and evaluation, such as 16/64/64", text)
	}
	var n [3]int
	for i, word := range words {
		var err error
		if n[i], err = strconv.Atoi(word); err != nil || n[i] < 1 {
			return Sizes{}, fmt.Errorf("%q: %q is not a number of pairs", text, word)
		}
	}
	return Sizes{n[0], n[1], n[2]}, nil
}

// String writes sizes as ParseSizes reads them.
func (s Sizes) String() string {
	if s == (Sizes{}) {
		return ""
	}
	return fmt.Sprintf("%d/%d/%d", s.Tracing, s.Direction, s.Evaluation)
}

// of are the sizes of n pairs' parts. What the proportions leave goes to the direction part.
func (s Sizes) of(n int) Sizes {
	share := float64(n) / (tracingSize + directionSize + evaluationSize)
	switch {
	case s != Sizes{}:
		return s
	case share >= 1:
		return Sizes{tracingSize, directionSize, evaluationSize}
	}
	return Sizes{int(share * tracingSize), math.MaxInt, int(share * evaluationSize)}
}

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

// ErrTooFewPairs says that the sizes asked for do not fit the pairs.
var ErrTooFewPairs = errors.New("too few pairs")

// Split deals the pairs out. Pairs that share a sentence, in any case and spacing, are never in different parts. traceable
// says of a pair, by its index, whether the tracing part may have it; it is asked in the order of the draw, and no more
// often than needed. The rest goes to the other two parts, and what is more than the sizes to none.
func Split(pairs []Pair, deal Deal, traceable func(i int) (bool, error)) (*Splits, error) {
	groups := bySentence(pairs)
	random := rand.New(rand.NewPCG(deal.Seed, 0xd1a1ec7))
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })

	size := deal.Sizes.of(len(pairs))
	s := &Splits{}
	var rest [][]int
	for _, group := range groups {
		var usable []int
		for _, i := range group {
			if len(s.Tracing)+len(usable) >= size.Tracing {
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
	asked := deal.Sizes != Sizes{}
	directions, evaluations := directionSize, evaluationSize // the proportion
	if asked {
		directions, evaluations = size.Direction, size.Evaluation
	}
	for _, group := range rest {
		// dealt in turn, so that both parts have their share however many there are
		part, room := &s.Direction, size.Direction-len(s.Direction)
		more := size.Evaluation - len(s.Evaluation)
		if more > 0 && (room == 0 || len(s.Evaluation)*directions <= len(s.Direction)*evaluations) {
			part, room = &s.Evaluation, more
		}
		*part = append(*part, group[:min(len(group), room)]...)
	}
	for _, part := range [][]int{s.Tracing, s.Direction, s.Evaluation} {
		slices.Sort(part)
	}
	if got := (Sizes{len(s.Tracing), len(s.Direction), len(s.Evaluation)}); asked && got != size {
		return nil, fmt.Errorf("%w: %d give parts of %d/%d/%d, not %s; the tracing part takes only pairs whose AAE context holds a marker",
			ErrTooFewPairs, len(pairs), got.Tracing, got.Direction, got.Evaluation, size)
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
