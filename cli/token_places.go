package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"plumb/bindings"
)

// tokenized is a text's tokens with their places in it.
type tokenized struct {
	tokens  []bindings.Token
	special int   // tokens before the text's own (BOS)
	start   []int // of every token of the text, in bytes; the last element is the text's length
	text    string
}

// ownTokens tokenizes a text as the start of a sequence; its own tokens are tokens[first:end], the others are special.
func ownTokens(model *bindings.Model, text string) (tokens []bindings.Token, first, end int, err error) {
	own, err := model.Tokenize(text, false, false)
	if err != nil {
		return nil, 0, 0, err
	}
	if tokens, err = model.Tokenize(text, true, false); err != nil {
		return nil, 0, 0, err
	}
	for first+len(own) <= len(tokens) && !slices.Equal(tokens[first:first+len(own)], own) {
		first++
	}
	if first+len(own) > len(tokens) {
		return nil, 0, 0, fmt.Errorf("the tokenizer gives %.40q other tokens at the start of a sequence", text)
	}
	return tokens, first, first + len(own), nil
}

// tokenPlaces tokenizes a text as the start of a sequence and finds each token's place, by spelling the tokens out: whatever
// the tokenizer, the places are exact or it is an error.
func tokenPlaces(model *bindings.Model, text string) (tokenized, error) {
	t := tokenized{text: text}
	tokens, first, end, err := ownTokens(model, text)
	if err != nil {
		return t, err
	}
	t.tokens, t.special = tokens[:end], first // an EOS would end the text
	own := tokens[first:end]
	var spelt strings.Builder
	var ends []int
	for _, token := range own {
		spelt.WriteString(model.TokenText(token))
		ends = append(ends, spelt.Len())
	}
	shift := 0
	switch spelt.String() {
	case text:
	case " " + text: // SentencePiece's space before the first word
		shift = 1
	default:
		return t, fmt.Errorf("the model's tokens of %.40q do not spell it, so that words have no certain tokens", text)
	}
	t.start = append(t.start, 0)
	for _, end := range ends {
		t.start = append(t.start, max(0, end-shift))
	}
	return t, nil
}

// words are the words that the text's own tokens stand in; −1 for white space alone. A token that reaches over several words is
// of the first.
func (t tokenized) words() []int {
	var words []int
	of := wordAt(t.text)
	for i := range len(t.start) - 1 {
		word := -1
		for at := t.start[i]; at < t.start[i+1] && word < 0; at++ {
			word = of[at]
		}
		words = append(words, word)
	}
	return words
}

// wordAt is the word that each byte of a text belongs to, −1 for white space.
func wordAt(text string) []int {
	words := make([]int, 0, len(text))
	current, inWord := -1, false
	for _, r := range text {
		space := unicode.IsSpace(r)
		if !space && !inWord {
			current++
		}
		inWord = !space
		for range utf8.RuneLen(r) {
			if space {
				words = append(words, -1)
			} else {
				words = append(words, current)
			}
		}
	}
	return words
}

// overlapping are the tokens, of all, that share a byte with text[start:end].
func (t tokenized) overlapping(start, end int) []int {
	var list []int
	for i := range len(t.start) - 1 {
		if t.start[i] < end && t.start[i+1] > start {
			list = append(list, t.special+i)
		}
	}
	return list
}

// wordEnds are the ends of a text's words, in bytes.
func wordEnds(text string) []int {
	var ends []int
	inWord := false
	for i, r := range text {
		space := unicode.IsSpace(r)
		if space && inWord {
			ends = append(ends, i)
		}
		inWord = !space
	}
	if inWord {
		ends = append(ends, len(text))
	}
	return ends
}

func isSpace(text string) bool { return text != "" && strings.TrimSpace(text) == "" }
