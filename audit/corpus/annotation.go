package corpus

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Dimensions are the four on which annotators judge a triplet, yes or no (section 3, "Human validation").
var Dimensions = []string{"sentiment_preserved", "semantically_equivalent", "aae_natural", NaturalDimension}

// NaturalDimension is the one that cDGI is restricted by.
const NaturalDimension = "aae_back_natural"

// annotatorField names the annotator in a table of several ones'.
const annotatorField = "annotator"

// noDimensions are columns of a sheet that hold no judgement.
var noDimensions = []string{"id", annotatorField, FieldAAE, FieldSAE, FieldAAEBack, "natural", "order", "note", ""}

// IsDimension says whether judgements are read from a column of this name.
func IsDimension(name string) bool { return !slices.Contains(noDimensions, name) }

// Annotations are the judgements of any number of annotators on any number of dimensions.
type Annotations struct {
	Items      []string // ids, in the order in which they were read
	Annotators []string // sorted
	Dimensions []string // sorted

	labels map[judgement]string
	rows   map[[2]string]string // where an annotator's judgements of an item were read
}

type judgement struct{ dimension, item, annotator string }

// Label is what an annotator judged; "" if nothing.
func (a *Annotations) Label(dimension, item, annotator string) string {
	return a.labels[judgement{dimension, item, annotator}]
}

// ReadAnnotations reads tables with a column id and a column for every dimension. The annotator is named in a column
// annotator, or else by the file. A cell that is empty is no judgement. Labels are compared without case, and where a
// dimension has only yes, y, true or 1 and no, n, false or 0, as yes and no.
func ReadAnnotations(paths []string) (*Annotations, error) {
	a := &Annotations{labels: map[judgement]string{}, rows: map[[2]string]string{}}
	items, annotators, dimensions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		for row, err := range Rows(path) {
			if err == nil {
				err = row.need("id")
			}
			if err != nil {
				return nil, err
			}
			item, annotator := row.Fields["id"], strings.TrimSpace(row.Fields[annotatorField])
			if annotator == "" {
				annotator = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
			}
			if item == "" {
				return nil, fmt.Errorf("%s: the id is empty", row.at())
			}
			if before, ok := a.rows[[2]string{item, annotator}]; ok {
				return nil, fmt.Errorf("%s: %s judged %q before, at %s; name annotators by a column annotator, or by the files' names", row.at(), annotator, item, before)
			}
			a.rows[[2]string{item, annotator}] = row.at()
			if !items[item] {
				items[item] = true
				a.Items = append(a.Items, item)
			}
			for name, value := range row.Fields {
				if !IsDimension(name) {
					continue
				}
				if label := strings.ToLower(strings.TrimSpace(value)); label != "" {
					dimensions[name] = true
					annotators[annotator] = true
					a.labels[judgement{name, item, annotator}] = label
				}
			}
		}
	}
	a.Annotators = slices.Sorted(maps.Keys(annotators))
	a.Dimensions = slices.Sorted(maps.Keys(dimensions))
	if len(a.labels) == 0 {
		return nil, fmt.Errorf("%s: there are no judgements in the tables; a column a dimension holds them", strings.Join(paths, ", "))
	}
	a.unifyYesNo()
	return a, nil
}

var yesNo = map[string]string{
	"yes": "yes", "y": "yes", "true": "yes", "1": "yes",
	"no": "no", "n": "no", "false": "no", "0": "no",
}

// unifyYesNo writes the labels of a dimension as yes and no if they are spellings of these only.
func (a *Annotations) unifyYesNo() {
	other := map[string]bool{}
	for key, label := range a.labels {
		if yesNo[label] == "" {
			other[key.dimension] = true
		}
	}
	for key, label := range a.labels {
		if !other[key.dimension] {
			a.labels[key] = yesNo[label]
		}
	}
}

// Naturalness is what became of the triplets' judgements.
type Naturalness struct {
	Natural, Unnatural, NotJudged int
}

// SetNatural marks the triplets that annotators judged on a dimension: natural where more of the judgements are yes than
// not, or all of them if unanimous is set. Those that nobody judged are left unmarked. The marked ones that are natural are
// what cDGI is computed over (condition ii of section 4.1.1).
func (a *Annotations) SetNatural(triplets []Triplet, dimension string, unanimous bool) (Naturalness, error) {
	var n Naturalness
	if !slices.Contains(a.Dimensions, dimension) {
		return n, fmt.Errorf("the annotations have no dimension %s; they have %s", dimension, strings.Join(a.Dimensions, ", "))
	}
	for i := range triplets {
		yes, judged := 0, 0
		for _, annotator := range a.Annotators {
			label := a.Label(dimension, triplets[i].ID, annotator)
			if label == "" {
				continue
			}
			judged++
			switch yesNo[label] {
			case "yes":
				yes++
			case "":
				return n, fmt.Errorf("%s: %s is %q; write yes or no, or leave it empty", a.rows[[2]string{triplets[i].ID, annotator}], dimension, label)
			}
		}
		natural := 2*yes > judged && (yes == judged || !unanimous)
		switch {
		case judged == 0:
			triplets[i].Natural = nil
			n.NotJudged++
			continue
		case natural:
			n.Natural++
		default:
			n.Unnatural++
		}
		triplets[i].Natural = &natural
	}
	if n.Natural+n.Unnatural == 0 {
		return n, fmt.Errorf("none of the triplets was judged on %s; ids of triplets and annotations must be the same", dimension)
	}
	return n, nil
}
