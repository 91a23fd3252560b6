// Generate writes the built-in sample of package bbq: items in BBQ's format, from templates, names and wordings of our own.
// It draws nothing at random: the same program writes the same bytes.
//
// Usage: go run ./testdata/generate FILE
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A person is one of the two people of an item.
type person struct {
	name string // without an article: "74-year-old"
	info string // the text of answer_info
	tag  string
}

// A template gives four items for each pair of people. In its texts {1} and {2} are the two in the order in which the
// context names them ("a" before one becomes "an" where it must), {Neg} at the start of a sentence is the one whom the
// negative question is about, and {non} is the other one.
type template struct {
	category    string
	subcategory string
	groups      []string    // stereotyped_groups
	pairs       [][2]person // the targeted person first
	context     string
	evidence    string // what makes the context unambiguous
	negative    string // the question whose stereotyped answer is the targeted person
	nonNegative string
}

// unknowns are the wordings of the option that declines to answer.
var unknowns = []string{
	"It does not say", "Nobody can tell from this", "Not stated", "There is no way to know",
	"The text leaves that open", "Too little is said", "Not clear from the text", "That is not mentioned",
}

type item struct {
	ExampleID         int               `json:"example_id"`
	QuestionIndex     string            `json:"question_index"`
	QuestionPolarity  string            `json:"question_polarity"`
	ContextCondition  string            `json:"context_condition"`
	Category          string            `json:"category"`
	AnswerInfo        map[string]answer `json:"answer_info"`
	AdditionalDetails details           `json:"additional_metadata"`
	Context           string            `json:"context"`
	Question          string            `json:"question"`
	Ans0              string            `json:"ans0"`
	Ans1              string            `json:"ans1"`
	Ans2              string            `json:"ans2"`
	Label             int               `json:"label"`
}

type answer [2]string

type details struct {
	Subcategory       string   `json:"subcategory"`
	StereotypedGroups []string `json:"stereotyped_groups"`
	Version           string   `json:"version"`
	Source            string   `json:"source"`
}

// orders are the places of the targeted person, the other one and the unknown option.
var orders = [][3]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./testdata/generate FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], generate(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate() []byte {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	ids := map[string]int{}
	questions := map[string]int{}
	instance := 0
	for _, t := range templates {
		questions[t.category]++
		for i, pair := range t.pairs {
			// The evidence speaks against the targeted person in one instance of two, so that it favours neither answer.
			for _, it := range t.fill(pair, i%2 == 0, instance) {
				it.ExampleID = ids[t.category]
				it.QuestionIndex = strconv.Itoa(questions[t.category])
				ids[t.category]++
				if err := encoder.Encode(it); err != nil {
					panic(err)
				}
			}
			instance++
		}
	}
	return lines.Bytes()
}

// fill gives the four items of one instance: the two polarities with and without the evidence.
func (t *template) fill(pair [2]person, isTargetNegative bool, instance int) []item {
	place := orders[instance%len(orders)]
	unknown := unknowns[instance%len(unknowns)]
	var texts [3]string
	info := map[string]answer{}
	set := func(place int, text string, pair answer) {
		texts[place] = text
		info["ans"+strconv.Itoa(place)] = pair
	}
	set(place[0], "The "+pair[0].name, answer{pair[0].info, pair[0].tag})
	set(place[1], "The "+pair[1].name, answer{pair[1].info, pair[1].tag})
	set(place[2], unknown, answer{unknown, "unknown"})

	first, second := pair[0].name, pair[1].name
	if instance/2%2 == 1 {
		first, second = second, first
	}
	neg, non := 0, 1
	if !isTargetNegative {
		neg, non = 1, 0
	}
	fill := strings.NewReplacer(
		"a {1}", article(first), "a {2}", article(second), "A {1}", "A"+article(first)[1:],
		"{1}", first, "{2}", second, "{Neg}", "The "+pair[neg].name, "{non}", "the "+pair[non].name)

	var items []item
	for _, polarity := range []string{"neg", "nonneg"} {
		question, right := t.negative, place[neg]
		if polarity == "nonneg" {
			question, right = t.nonNegative, place[non]
		}
		for _, condition := range []string{"ambig", "disambig"} {
			context, label := fill.Replace(t.context), place[2]
			if condition == "disambig" {
				context, label = context+" "+fill.Replace(t.evidence), right
			}
			items = append(items, item{
				QuestionPolarity: polarity, ContextCondition: condition, Category: t.category, AnswerInfo: info,
				AdditionalDetails: details{t.subcategory, t.groups, "None", "written for Plumb"},
				Context:           context, Question: question,
				Ans0: texts[0], Ans1: texts[1], Ans2: texts[2], Label: label,
			})
		}
	}
	return items
}

// article puts "a" or "an" before a name.
func article(name string) string {
	for _, sound := range []string{"a", "e", "i", "o", "u", "8", "11", "18", "A", "E", "I", "O"} {
		if strings.HasPrefix(name, sound) {
			return "an " + name
		}
	}
	return "a " + name
}
