package corpus

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

// Keep is the verdict of a person that a triplet may stay, as Drop is that it may not.
const Keep = "keep"

// Review is a person's verdict on a triplet.
type Review struct {
	Verdict string // Keep or Drop
	at      string // where it was read
}

// reviewHeader are the columns of a review sheet. People fill in the last one.
var reviewHeader = []string{"id", FieldAAE, FieldSAE, FieldAAEBack, "rules", "verdict"}

// WriteReview draws n triplets with the seed and writes a CSV sheet in which people say of each whether to keep or to drop
// it: half of them triplets that a rule matched, as far as there are so many, taken from the rules in turn so that rare
// rules are seen too, and half such that none matched. They stand in random order. Triplets are those that were filtered,
// in their order. It returns how many there are on the sheet.
func (f *Filtered) WriteReview(path string, triplets []Triplet, n int, seed uint64) (int, error) {
	random := rand.New(rand.NewPCG(seed, 0x7e51e3))
	byRule := map[string][]int{}
	for _, i := range random.Perm(len(f.Verdicts)) {
		names := f.Verdicts[i].rules()
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			byRule[name] = append(byRule[name], i)
		}
	}
	chosen := map[int]bool{}
	for len(chosen) < n/2 && remaining(f.Rules, byRule) > 0 {
		for _, rule := range f.Rules {
			if list := byRule[rule.Name]; len(list) > 0 && len(chosen) < n/2 {
				chosen[list[0]] = true
				byRule[rule.Name] = list[1:]
			}
		}
	}
	matched := len(chosen)
	for _, i := range byRule[""] {
		if len(chosen)-matched < n-n/2 {
			chosen[i] = true
		}
	}
	return len(chosen), WriteFile(path, func(out io.Writer) error {
		sheet := csv.NewWriter(out)
		_ = sheet.Write(reviewHeader) // an error stays until sheet.Error
		for _, i := range random.Perm(len(f.Verdicts)) {
			if t := &triplets[i]; chosen[i] {
				_ = sheet.Write([]string{t.ID, t.AAE, t.SAE, t.AAEBack, strings.Join(f.Verdicts[i].rules(), "; "), ""})
			}
		}
		sheet.Flush()
		return sheet.Error()
	})
}

func remaining(rules []Rule, byRule map[string][]int) int {
	n := 0
	for _, rule := range rules {
		n += len(byRule[rule.Name])
	}
	return n
}

// ReadReview reads the verdicts of a filled-in review sheet by id. A row without a verdict was not reviewed.
func ReadReview(path string) (map[string]Review, error) {
	reviews := map[string]Review{}
	seen := ids{}
	for row, err := range Rows(path) {
		if err == nil {
			err = row.need("id", "verdict")
		}
		if err == nil {
			err = seen.add(row.Fields["id"], &row)
		}
		if err != nil {
			return nil, err
		}
		switch verdict := strings.ToLower(strings.TrimSpace(row.Fields["verdict"])); verdict {
		case "":
		case Keep, Drop:
			reviews[row.Fields["id"]] = Review{verdict, row.at()}
		default:
			return nil, fmt.Errorf("%s: the verdict is %q; it is keep or drop, or empty where nobody looked", row.at(), verdict)
		}
	}
	if len(reviews) == 0 {
		return nil, fmt.Errorf("%s: nobody has written a verdict (keep or drop) into the sheet", path)
	}
	return reviews, nil
}
