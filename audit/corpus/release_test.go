package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReleaseAndHydrate(t *testing.T) {
	yes, no := true, false
	source := write(t, "tweets.csv", "tweet_id,body\n"+
		"1,\"@ann she be workin late, every night 😂\"\n2,he don’t know nobody http://t.co/x\n3,we was sittin outside\n4,this one was edited\n9,nobody asked for this\n")
	options := CleanOptions{TextField: "body", IDField: "tweet_id"}
	triplets := []Triplet{
		{"1", "she be workin late, every night", "She works late every night", "She be workin late every night!", &yes}, // back: the source
		{"2", "he don't know nobody", "he don't know nobody", "he ain't know nobody", &no},                              // SAE: the source
		{"3", "we was sittin outside", "we were sitting outside", "we was sittin outside tho", nil},
		{"4", "this one was as it was", "this was so", "this been so", nil},
		{"5", "this one is gone", "gone", "been gone", nil},
	}
	release := Release(triplets)
	dir := t.TempDir()
	path := filepath.Join(dir, ReleaseFile)
	if err := WriteJSONLines(path, release); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range triplets {
		if strings.Contains(strings.ToLower(string(data)), x.AAE) && x.ID != "3" { // 3's back-translation adds to it
			t.Errorf("the release holds the text of %s:\n%s", x.ID, data)
		}
	}
	read, err := ReadRelease(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, release) {
		t.Errorf("read %+v, wrote %+v", read, release)
	}
	h, err := Hydrate(read, []string{source}, options)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]Triplet{}, triplets[:3]...)
	want[0].AAEBack = want[0].AAE
	if !reflect.DeepEqual(h.Triplets, want) || !reflect.DeepEqual(h.Missing, []string{"5"}) || !reflect.DeepEqual(h.Changed, []string{"4"}) {
		t.Errorf("hydrated to %+v", h)
	}
	if s := ReleaseSummary(release); !reflect.DeepEqual(s.Details, map[string]int{"triplets": 5, "sae_as_source": 1, "aae_back_as_source": 1, "judged": 2, "natural": 1}) {
		t.Errorf("%+v", s)
	}
	if _, err := Hydrate(read, []string{write(t, "other.txt", "nothing of it\n")}, CleanOptions{}); err == nil || !strings.Contains(err.Error(), "none of the release's 5 ids") {
		t.Errorf("the error is %v", err)
	}
}

func TestCard(t *testing.T) {
	card := Card{"My | corpus", "Tweets\nof 2018", "CC BY 4.0"}
	text := card.Markdown([]Summary{{Stage: "filter", Facts: []Fact{{`Rule "a|b" (drop)`, "16"}}}, {Stage: "release", Facts: []Fact{{"Triplets", "17,479"}}}})
	for _, want := range []string{`# My \| corpus`, "Tweets of 2018", "CC BY 4.0", "## Filtering", `| Rule "a\|b" (drop) | 16 |`, "## What is published", "| Triplets | 17,479 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the card lacks %q:\n%s", want, text)
		}
	}
}

// TestReleaseKeepsEverythingElse: what is released and hydrated from an unchanged source is what went in.
func TestReleaseKeepsEverythingElse(t *testing.T) {
	var triplets []Triplet
	var raw strings.Builder
	for i := range 50 {
		natural := i%2 == 0
		x := Triplet{ID: fmt.Sprintf("raw/%d", i+1), AAE: fmt.Sprintf("he been had %d of them since last summer tho", i), SAE: "He has long had some.", AAEBack: "he been had some", Natural: &natural}
		triplets = append(triplets, x)
		fmt.Fprintln(&raw, x.AAE+" 😂")
	}
	h, err := Hydrate(Release(triplets), []string{write(t, "raw.txt", raw.String())}, CleanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(h.Triplets, triplets) {
		t.Errorf("hydrated to %+v", h.Triplets)
	}
}
