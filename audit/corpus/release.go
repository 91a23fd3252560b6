package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"plumb/audit/report"
	"slices"
	"strconv"
	"strings"
)

// Files of a release's folder.
const (
	ReleaseFile = "triplets.jsonl"
	CardFile    = "README.md"
)

// Released is a triplet as it is published: without the text of the AAE side, which is its writer's.
type Released struct {
	ID      string  `json:"id"`
	SAE     *string `json:"sae"`      // nil: as the source
	AAEBack *string `json:"aae_back"` // nil: as the source
	Natural *bool   `json:"natural,omitempty"`
	Source  string  `json:"source"` // the first 16 hexadecimal digits of the SHA-256 of the cleaned AAE text
}

// Release takes the AAE texts out of triplets. A translation that equals the AAE text, but for case, punctuation and spaces,
// would publish it all the same; it is left out too, and Hydrate puts the AAE text in its place.
func Release(triplets []Triplet) []Released {
	list := make([]Released, len(triplets))
	for i := range triplets {
		t := &triplets[i]
		r := Released{ID: t.ID, Natural: t.Natural, Source: sourceHash(t.AAE)}
		if fold(t.SAE) != fold(t.AAE) {
			r.SAE = &t.SAE
		}
		if fold(t.AAEBack) != fold(t.AAE) {
			r.AAEBack = &t.AAEBack
		}
		list[i] = r
	}
	return list
}

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// ReleaseSummary is what is published and what is not.
func ReleaseSummary(list []Released) Summary {
	var sae, back, judged, natural int
	for _, r := range list {
		if r.SAE == nil {
			sae++
		}
		if r.AAEBack == nil {
			back++
		}
		if r.Natural != nil {
			judged++
			if *r.Natural {
				natural++
			}
		}
	}
	return Summary{
		Stage: "release",
		Facts: []Fact{
			{"Triplets", report.Thousands(len(list))},
			{"SAE left out, as it is the source text", report.Thousands(sae)},
			{"AAE_back left out, as it is the source text", report.Thousands(back)},
			{"Judged by annotators", report.Thousands(judged)},
			{"Judged natural", report.Thousands(natural)},
		},
		Details: map[string]int{"triplets": len(list), "sae_as_source": sae, "aae_back_as_source": back, "judged": judged, "natural": natural},
	}
}

// ReadRelease reads a release: its folder, or the file in it.
func ReadRelease(path string) ([]Released, error) {
	if filepath.Ext(path) != ".jsonl" {
		path = filepath.Join(path, ReleaseFile)
	}
	var list []Released
	seen := ids{}
	for row, err := range Rows(path) {
		if err == nil {
			err = row.need("id", "source")
		}
		if err == nil {
			err = seen.add(row.Fields["id"], &row)
		}
		if err != nil {
			return nil, err
		}
		r := Released{ID: row.Fields["id"], Source: row.Fields["source"]}
		if text, ok := row.Fields[FieldSAE]; ok {
			r.SAE = &text
		}
		if text, ok := row.Fields[FieldAAEBack]; ok {
			r.AAEBack = &text
		}
		if natural, err := strconv.ParseBool(row.Fields["natural"]); err == nil {
			r.Natural = &natural
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: there are no triplets in the release", path)
	}
	return list, nil
}

// Hydrated is what joining a release with a copy of its source gave.
type Hydrated struct {
	Triplets []Triplet
	Missing  []string // ids that the copy does not have
	Changed  []string // ids whose text in the copy is not the one that was translated
}

// Hydrate joins a release with the user's own copy of the source: its rows are cleaned by CleanText and joined by id. A
// text that is not the one that was translated is left out.
func Hydrate(release []Released, paths []string, options CleanOptions) (*Hydrated, error) {
	wanted := map[string]bool{}
	for _, r := range release {
		wanted[r.ID] = true
	}
	texts := map[string]string{}
	seen := ids{}
	for _, path := range paths {
		for row, err := range Rows(path) {
			if err != nil {
				return nil, err
			}
			id, text, err := options.fields(&row)
			if err != nil {
				return nil, err
			}
			if !wanted[id] {
				continue
			}
			if err := seen.add(id, &row); err != nil {
				return nil, err
			}
			texts[id], _ = CleanText(text)
		}
	}
	h := &Hydrated{}
	for _, r := range release {
		text, ok := texts[r.ID]
		switch {
		case !ok:
			h.Missing = append(h.Missing, r.ID)
			continue
		case sourceHash(text) != r.Source:
			h.Changed = append(h.Changed, r.ID)
			continue
		}
		t := Triplet{ID: r.ID, AAE: text, SAE: text, AAEBack: text, Natural: r.Natural}
		if r.SAE != nil {
			t.SAE = *r.SAE
		}
		if r.AAEBack != nil {
			t.AAEBack = *r.AAEBack
		}
		h.Triplets = append(h.Triplets, t)
	}
	if len(h.Triplets) == 0 {
		return nil, fmt.Errorf("%s: none of the release's %s ids is there with the text that was translated; name the fields by --id and --text",
			strings.Join(paths, ", "), report.Thousands(len(release)))
	}
	return h, nil
}

// Summary is what was joined and what was not.
func (h *Hydrated) Summary() Summary {
	return Summary{
		Stage: "hydrate",
		Facts: []Fact{
			{"Triplets", report.Thousands(len(h.Triplets))},
			{"Left out, not in the copy", report.Thousands(len(h.Missing))},
			{"Left out, another text in the copy", report.Thousands(len(h.Changed))},
		},
		Details: struct {
			Triplets int      `json:"triplets"`
			Missing  []string `json:"missing"`
			Changed  []string `json:"changed"`
		}{len(h.Triplets), slices.Concat([]string{}, h.Missing), slices.Concat([]string{}, h.Changed)},
	}
}

// Card is what whoever publishes a release says of it.
type Card struct {
	Name    string
	Source  string // the corpus that the AAE texts are from
	Licence string
}

// stageTitles are the card's sections on how the corpus was made.
var stageTitles = map[string]string{
	"clean": "Cleaning", "translate": "Translation and back-translation", "filter": "Filtering",
	"validate": "Automatic validation", "agreement": "Human validation", "release": "What is published",
}

// Markdown writes the data card of a release with the summaries of the stages that made it.
func (c *Card) Markdown(stages []Summary) string {
	var text strings.Builder
	fmt.Fprintf(&text, `# %s

A parallel corpus of African American English (AAE) and Standard American English (SAE). Each triplet began as a real AAE
text, was translated to SAE, and from SAE back to AAE. The AAE texts themselves are not here: they are their writers'.

* Source of the AAE texts: %s
* Licence of this release: %s

## Files

`+"`%s`"+` holds a JSON object a line:

| field | |
|---|---|
| id | the source's id of the text |
| sae | the translation to SAE; null where it equals the source text but for case, punctuation and spaces |
| aae_back | the translation of sae back to AAE; null in the same case |
| natural | whether annotators found aae_back natural; not there where nobody judged |
| source | the first 16 digits of the SHA-256 of the cleaned source text |

Whoever has the source gets the triplets by

    plumb corpus hydrate FOLDER --source SOURCE-FILE --out triplets.jsonl

which cleans the source's texts as they were cleaned here, joins them by id, and leaves out those that have changed.
`, escapeMarkdown(c.Name), escapeMarkdown(c.Source), escapeMarkdown(c.Licence), ReleaseFile)
	for _, s := range stages {
		title := stageTitles[s.Stage]
		if title == "" {
			title = s.Stage
		}
		fmt.Fprintf(&text, "\n## %s\n\n| | |\n|---|---|\n", title)
		for _, f := range s.Facts {
			fmt.Fprintf(&text, "| %s | %s |\n", escapeMarkdown(f.Name), escapeMarkdown(f.Value))
		}
	}
	text.WriteString(`
## Limits

* SAE and AAE_back were written by a model, not by speakers. A result that rests on AAE_back should use the triplets that
  annotators found natural.
* A translation keeps much of its source's wording. People should not be searched for by these texts.
* Which texts are AAE is the source's judgement; AAE differs by region, age and setting, and one corpus is not all of it.
* The corpus is for auditing models and for reducing their bias. It is no means of telling who speaks how.
`)
	return text.String()
}

// escapeMarkdown keeps a text from being read as markup or as the border of a cell.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "\r", " ", "\n", " ").Replace(text)
}
