package corpus

import (
	"fmt"
	"strconv"
	"strings"
)

// Triplet is an AAE sentence, its translation to SAE, and that translated back to AAE.
type Triplet struct {
	ID      string `json:"id"`
	AAE     string `json:"aae"`
	SAE     string `json:"sae"`
	AAEBack string `json:"aae_back"`
	Natural *bool  `json:"natural,omitempty"` // whether annotators found AAEBack natural; nil: not judged
}

// Names of a triplet's texts, as they are written in files and rules.
const (
	FieldAAE     = "aae"
	FieldSAE     = "sae"
	FieldAAEBack = "aae_back"
)

// text returns a text by its name.
func (t *Triplet) text(field string) string {
	switch field {
	case FieldAAE:
		return t.AAE
	case FieldSAE:
		return t.SAE
	}
	return t.AAEBack
}

// ReadSentences reads cleaned texts.
func ReadSentences(path string) ([]Sentence, error) {
	var list []Sentence
	seen := ids{}
	for row, err := range Rows(path) {
		if err == nil {
			err = row.need("id", FieldAAE)
		}
		if err == nil {
			err = seen.add(row.Fields["id"], &row)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Sentence{row.Fields["id"], row.Fields[FieldAAE]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: there are no texts in the file; give what plumb corpus clean wrote", path)
	}
	return list, nil
}

// ReadTriplets reads triplets.
func ReadTriplets(path string) ([]Triplet, error) {
	var list []Triplet
	seen := ids{}
	for row, err := range Rows(path) {
		if err == nil {
			err = row.need("id", FieldAAE, FieldSAE, FieldAAEBack)
		}
		if err == nil {
			err = seen.add(row.Fields["id"], &row)
		}
		if err != nil {
			return nil, err
		}
		t := Triplet{ID: row.Fields["id"], AAE: row.Fields[FieldAAE], SAE: row.Fields[FieldSAE], AAEBack: row.Fields[FieldAAEBack]}
		if text := row.Fields["natural"]; text != "" {
			natural, err := strconv.ParseBool(text)
			if err != nil {
				return nil, fmt.Errorf("%s: natural is %q; it is true or false, or empty where nobody judged", row.at(), text)
			}
			t.Natural = &natural
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: there are no triplets in the file; give what plumb corpus translate or filter wrote", path)
	}
	return list, nil
}

// need says which of the fields the row lacks.
func (r *Row) need(fields ...string) error {
	for _, name := range fields {
		if _, ok := r.Fields[name]; !ok {
			return fmt.Errorf("%s: the row has no %s; rows need %s, as JSON lines or as CSV with a header", r.at(), name, strings.Join(fields, ", "))
		}
	}
	return nil
}
