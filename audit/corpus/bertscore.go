package corpus

import "math"

// Embedded is a text as contextual token embeddings.
type Embedded struct {
	Vectors [][]float32 // a vector a token, all of the same width; not all zeros
	Weights []float64   // how much each token counts: 1, or its inverse document frequency; 0 for special tokens (BOS)
}

// BERTScore is Zhang et al.'s (2020) score of a candidate text against a reference.
type BERTScore struct {
	Precision float64 `json:"precision"` // mean over the candidate's tokens of the best cosine with one of the reference's
	Recall    float64 `json:"recall"`    // the same with the sides exchanged
	F1        float64 `json:"f1"`
}

// NewBERTScore matches every token greedily with the most similar one of the other text, by cosine. Special tokens weigh
// nothing, but others may match them, as in the reference implementation (greedy_cos_idf of the package bert-score, without
// rescaling by a baseline). Not defined where no token of a side weighs anything, or for vectors of zeros.
func NewBERTScore(candidate, reference Embedded) (BERTScore, bool) {
	c, ok1 := unitVectors(candidate.Vectors)
	r, ok2 := unitVectors(reference.Vectors)
	precision, ok3 := weightedBest(c, r, candidate.Weights)
	recall, ok4 := weightedBest(r, c, reference.Weights)
	if !ok1 || !ok2 || !ok3 || !ok4 || precision+recall <= 0 {
		return BERTScore{}, false
	}
	return BERTScore{precision, recall, 2 * precision * recall / (precision + recall)}, true
}

func unitVectors(vectors [][]float32) ([][]float64, bool) {
	units := make([][]float64, len(vectors))
	for i, v := range vectors {
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if !(sum > 0) || math.IsInf(sum, 0) {
			return nil, false
		}
		units[i] = make([]float64, len(v))
		for k, x := range v {
			units[i][k] = float64(x) / math.Sqrt(sum)
		}
	}
	return units, true
}

// weightedBest is the weighted mean over the unit vectors of the highest product with one of the others.
func weightedBest(of, others [][]float64, weights []float64) (float64, bool) {
	var sum, total float64
	for i, v := range of {
		if weights[i] == 0 || len(others) == 0 {
			continue
		}
		best := math.Inf(-1)
		for _, other := range others {
			product := 0.0
			for k, x := range v {
				product += x * other[k]
			}
			best = max(best, product)
		}
		sum += weights[i] * best
		total += weights[i]
	}
	return quotient(sum, total)
}

func quotient(k, n float64) (float64, bool) {
	if n == 0 {
		return 0, false
	}
	return k / n, true
}

// IDF are inverse document frequencies, log((N + 1) / (n + 1)) of a token that is in n of N texts.
type IDF struct {
	texts int
	in    map[int32]int
}

// NewIDF counts in how many texts each token is; BERTScore takes the references.
func NewIDF(texts [][]int32) *IDF {
	idf := &IDF{len(texts), map[int32]int{}}
	for _, tokens := range texts {
		seen := map[int32]bool{}
		for _, token := range tokens {
			if !seen[token] {
				seen[token] = true
				idf.in[token]++
			}
		}
	}
	return idf
}

// Of is a token's inverse document frequency.
func (idf *IDF) Of(token int32) float64 {
	return math.Log(float64(idf.texts+1) / float64(idf.in[token]+1))
}
