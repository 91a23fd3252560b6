package corpus_test

import (
	"fmt"

	"plumb/audit/corpus"
)

// A curly apostrophe is written in ASCII, so that "don’t" does not turn into another spelling; link, name and emoji go.
func ExampleCleanText() {
	text, stripped := corpus.CleanText("@dana we don’t be talkin like that 😂 https://example.org/a")
	fmt.Println(text)
	fmt.Println(stripped.Mentions, "mention,", stripped.URLs, "URL")
	// Output:
	// we don't be talkin like that
	// 1 mention, 1 URL
}
