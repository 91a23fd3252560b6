package stats

// Agreement between raters is computed from counts: counts[i][c] is how many raters put item i into category c. times says
// how often each item counts, as a bootstrap draw does; nil counts every item once.

// ExactAgreement is the share of items whose raters all chose one category. Items of fewer than two raters do not count.
// Not defined where none is left.
func ExactAgreement(counts [][]int, times []int32) (float64, bool) {
	var items, agreed float64
	for i, row := range counts {
		raters, most := 0, 0
		for _, n := range row {
			raters += n
			most = max(most, n)
		}
		if raters < 2 {
			continue
		}
		items += weight(times, i)
		if most == raters {
			agreed += weight(times, i)
		}
	}
	return quotient(agreed, items)
}

// FleissKappa is Fleiss' (1971) κ, (P − Pe) / (1 − Pe), of items that have all the same number of raters, at least two. Not
// defined without items, or where all judgements are of one category.
func FleissKappa(counts [][]int, times []int32) (float64, bool) {
	var items, judgements, pairs float64 // pairs: of agreeing raters, as a share of an item's pairs
	var categories []float64
	for i, row := range counts {
		w := weight(times, i)
		raters, agreeing := 0, 0
		for _, n := range row {
			raters += n
			agreeing += n * (n - 1)
		}
		if raters < 2 {
			return 0, false
		}
		categories = addTo(categories, row, w)
		items += w
		judgements += w * float64(raters)
		pairs += w * float64(agreeing) / float64(raters*(raters-1))
	}
	if items == 0 {
		return 0, false
	}
	expected := 0.0
	for _, n := range categories {
		expected += n / judgements * (n / judgements)
	}
	return chanceCorrected(pairs/items, expected)
}

// CohenKappa is Cohen's (1960) κ of two raters: table[a][b] is how many items the first put into category a and the second
// into b. Not defined without items, or where both put everything into the same one category.
func CohenKappa(table [][]float64) (float64, bool) {
	first, second := make([]float64, len(table)), make([]float64, len(table))
	var total, agreed float64
	for a, row := range table {
		for b, n := range row {
			first[a] += n
			second[b] += n
			total += n
		}
		agreed += row[a]
	}
	if total == 0 {
		return 0, false
	}
	expected := 0.0
	for c := range first {
		expected += first[c] / total * (second[c] / total)
	}
	return chanceCorrected(agreed/total, expected)
}

// KrippendorffAlpha is Krippendorff's α for nominal categories, 1 − Do/De, from the coincidences of all pairs of judgements
// of one item. The number of raters may differ between items; those with one judgement or none do not count. Not defined
// where no item is left, or where all judgements are of one category.
func KrippendorffAlpha(counts [][]int, times []int32) (float64, bool) {
	var total, agreeing float64
	var categories []float64
	for i, row := range counts {
		w := weight(times, i)
		raters, same := 0, 0
		for _, n := range row {
			raters += n
			same += n * (n - 1)
		}
		if raters < 2 {
			continue
		}
		categories = addTo(categories, row, w)
		total += w * float64(raters)
		agreeing += w * float64(same) / float64(raters-1)
	}
	if total <= 1 {
		return 0, false
	}
	expected := 0.0 // agreeing pairs, were judgements dealt to the items by chance, without replacement
	for _, n := range categories {
		expected += n * (n - 1) / (total - 1)
	}
	return chanceCorrected(agreeing/total, expected/total)
}

// chanceCorrected is by how much observed agreement exceeds what chance gives, as a share of what it could.
func chanceCorrected(observed, expected float64) (float64, bool) {
	const one = 1 - 1e-12 // an expected agreement of 1, but for rounding
	if expected >= one {
		return 0, false
	}
	return (observed - expected) / (1 - expected), true
}

func weight(times []int32, i int) float64 {
	if times == nil {
		return 1
	}
	return float64(times[i])
}

func addTo(sum []float64, row []int, w float64) []float64 {
	if sum == nil {
		sum = make([]float64, len(row))
	}
	for c, n := range row {
		sum[c] += w * float64(n)
	}
	return sum
}

func quotient(k, n float64) (float64, bool) {
	if n == 0 {
		return 0, false
	}
	return k / n, true
}
