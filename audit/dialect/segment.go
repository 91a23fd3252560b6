package dialect

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/floats"
)

// The paper's settings of the boundary (appendix B.1).
const (
	Rho   = 0.5 // the share of the sentence's words that the context should have
	Gamma = 0.3 // how much a boundary loses by each share of words that it is away from that
)

// Margin is the share of the words at either end of a sentence after which it is not cut: the paper's candidates are "near
// the middle". The mean of a word or two is far from every other mean, whatever it says, and would win nearly always.
const Margin = 0.25

// Settings of the projection on the AAE sentence. They are Plumb's own, as those of the aligner are.
const (
	Sure         = 0.3  // a link is sure if both probabilities are higher
	MostOpen     = 0.2  // the share of the words that the boundaries which as few sure links cross may lie apart
	MostCrossing = 0.25 // the share of the sure links that may cross the cut
)

// Settings of the aligner. Similarities are cosines; the scale takes the place of the hidden states' lengths, which
// differ from model to model.
const (
	alignScale     = 20
	alignThreshold = 1e-3
)

// Words returns the words of a text: the text between white space.
func Words(text string) []string { return strings.Fields(text) }

// Shift is d_j = 1 − cos(φ(L_j), φ(R_j)), the change of meaning at a boundary between the segments that left and right
// embed. It is 0 where one of them is the zero vector.
func Shift(left, right []float64) float64 {
	norms := floats.Norm(left, 2) * floats.Norm(right, 2)
	if norms == 0 {
		return 0
	}
	return 1 - floats.Dot(left, right)/norms
}

// Boundary returns j* = argmax_j d_j − γ·|j/n − ρ| (the paper's eq. 12), the number of words of the context, among the
// boundaries that leave a quarter of the words on either side. shifts[j−1] is d_j for j = 1 … n−1, where n is the number of
// words. Of equal boundaries it is the first.
func Boundary(shifts []float64) int {
	n := len(shifts) + 1
	best, at := math.Inf(-1), 0
	for i, d := range shifts {
		if !inMiddle(i+1, n) {
			continue
		}
		if score := d - Gamma*math.Abs(float64(i+1)/float64(n)-Rho); score > best {
			best, at = score, i+1
		}
	}
	return at
}

// Tokens are the embeddings of a sentence's tokens (a model's hidden states in context), and the word that each belongs to, counted from 0.
type Tokens struct {
	States [][]float64
	Word   []int
}

// Link says that a word of the SAE sentence and one of the AAE sentence correspond, with the probability of the link. It is
// sure if each is the other's likeliest, see Align.
type Link struct {
	SAE, AAE int
	Weight   float64
	Sure     bool
}

// Align links the words of two sentences by their tokens' hidden states in context, as Dou and Neubig (2021, awesome-align)
// do: the softmax of the similarities is taken both ways, and a pair of tokens is linked if both probabilities are above a
// threshold. Words are linked if any of their tokens are. States are centred first, since causal models give all tokens
// a large part in common.
//
// The threshold is low: in a text of some hundred words, or one that repeats itself, a word is linked a little to very many.
// So a link is sure only if each token is the other's likeliest, and both probabilities are above Sure.
func Align(sae, aae Tokens) []Link {
	a, b := centred(sae.States, aae.States)
	similarity := make([][]float64, len(a))
	for i := range a {
		similarity[i] = make([]float64, len(b))
		for j := range b {
			similarity[i][j] = alignScale * floats.Dot(a[i], b[j])
		}
	}
	rowSum, columnSum := make([]float64, len(a)), make([]float64, len(b))
	row, column := make([]float64, len(b)), make([]float64, len(a))
	rowBest, columnBest := make([]int, len(a)), make([]int, len(b))
	for i := range a {
		rowSum[i], rowBest[i] = floats.LogSumExp(similarity[i]), floats.MaxIdx(similarity[i])
	}
	for j := range b {
		for i := range a {
			column[i] = similarity[i][j]
		}
		columnSum[j], columnBest[j] = floats.LogSumExp(column), floats.MaxIdx(column)
	}
	found := map[[2]int]Link{}
	for i := range a {
		copy(row, similarity[i])
		for j, s := range row {
			there, back := math.Exp(s-rowSum[i]), math.Exp(s-columnSum[j])
			if there > alignThreshold && back > alignThreshold {
				key := [2]int{sae.Word[i], aae.Word[j]}
				sure := rowBest[i] == j && columnBest[j] == i && min(there, back) > Sure
				found[key] = Link{key[0], key[1], max(found[key].Weight, there*back), found[key].Sure || sure}
			}
		}
	}
	var links []Link
	if len(a) > 0 && len(b) > 0 {
		for i := range sae.Word[len(sae.Word)-1] + 1 {
			for j := range aae.Word[len(aae.Word)-1] + 1 {
				if l, ok := found[[2]int{i, j}]; ok {
					links = append(links, l)
				}
			}
		}
	}
	return links
}

// centred takes the mean of all states from each and makes them unit vectors; a zero vector stays one.
func centred(a, b [][]float64) (x, y [][]float64) {
	if len(a) == 0 || len(b) == 0 {
		return nil, nil
	}
	mean := make([]float64, len(a[0]))
	for _, list := range [][][]float64{a, b} {
		for _, state := range list {
			floats.Add(mean, state)
		}
	}
	floats.Scale(1/float64(len(a)+len(b)), mean)
	unit := func(states [][]float64) [][]float64 {
		out := make([][]float64, len(states))
		for i, state := range states {
			out[i] = make([]float64, len(state))
			floats.SubTo(out[i], state, mean)
			if norm := floats.Norm(out[i], 2); norm > 0 {
				floats.Scale(1/norm, out[i])
			}
		}
		return out
	}
	return unit(a), unit(b)
}

// Project returns k*, the number of words of the AAE context, given that the SAE sentence is cut after cut words. A link crosses
// a boundary if its words are on different sides. Of the boundaries that leave a quarter of the n words on either side it is the
// one that the fewest sure links cross; of those that as few cross, the one with the least probability crossing it, and of
// these the first.
//
// An error says why there is none: too many sure links cross the best boundary, as where the sentences say things in another
// order, or the boundaries that as few cross lie too far apart, as in a text that repeats itself.
func Project(links []Link, cut, n int) (int, error) {
	sure := 0
	for _, l := range links {
		if l.Sure {
			sure++
		}
	}
	fewest, least, at := math.MaxInt, math.Inf(1), 0
	first, last := 0, 0 // of the boundaries that the fewest cross
	for k := 1; k < n; k++ {
		if !inMiddle(k, n) {
			continue
		}
		crossing, weight := 0, 0.0
		for _, l := range links {
			if (l.SAE < cut) == (l.AAE < k) {
				continue
			}
			weight += l.Weight
			if l.Sure {
				crossing++
			}
		}
		if crossing < fewest {
			first, least = k, math.Inf(1)
		}
		if crossing <= fewest {
			fewest, last = crossing, k
			if weight < least {
				least, at = weight, k
			}
		}
	}
	open := last - first // a word or two of a short sentence are no matter
	switch {
	case sure == 0:
		return 0, errUnlinked
	case float64(fewest) > MostCrossing*float64(sure):
		return 0, errCrossed
	case open > 2 && float64(open) > MostOpen*float64(n):
		return 0, errOpen
	}
	return at, nil
}

// inMiddle is whether a boundary leaves a share of Margin of the words on either side.
func inMiddle(k, n int) bool {
	share := float64(k) / float64(n)
	return share >= Margin && share <= 1-Margin
}

// Why a pair is not cut. The texts name no numbers, since pairs are counted by them.
var (
	errOneWord  = errors.New("a sentence of one word cannot be cut into context and continuation")
	errUnlinked = errors.New("no word of the AAE sentence surely corresponds to one of the SAE sentence; give the pair's contexts and continuations")
	errCrossed  = errors.New("every AAE cut parts more than a quarter of the words that surely correspond; give the pair's contexts and continuations")
	errOpen     = errors.New("the words that surely correspond leave the AAE cut open over more than a fifth of the sentence; give the pair's contexts and continuations")
)

// Cuttable says why a pair has no segments and can have none; nil if it has or can have them.
func (p *Pair) Cuttable() error {
	if p.Segments == nil && (len(Words(p.AAE)) < 2 || len(Words(p.SAE)) < 2) {
		return errOneWord
	}
	return nil
}

// Cut gives the pair the segments that a boundary after so many words of each sentence makes.
func (p *Pair) Cut(sae, aae int) error {
	var s Segments
	var err error
	if s.SAE, err = cut(p.SAE, sae); err != nil {
		return fmt.Errorf("SAE: %w", err)
	}
	if s.AAE, err = cut(p.AAE, aae); err != nil {
		return fmt.Errorf("AAE: %w", err)
	}
	p.Segments = &s
	return nil
}

// cut cuts a text after n words; the white space at the cut is dropped.
func cut(text string, n int) (Segment, error) {
	words, inWord := 0, false
	for i, r := range text {
		if unicode.IsSpace(r) {
			if inWord && words == n {
				return Segment{text[:i], strings.TrimSpace(text[i:])}, nil
			}
			inWord = false
			continue
		}
		if !inWord {
			words++
		}
		inWord = true
	}
	return Segment{}, fmt.Errorf("there is no boundary after %d of %d words", n, words)
}
