package stereoset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumb/audit/record"
	"plumb/internal/shared"
)

const line = `{"id": "a", "type": "intersentence", "target": "Norway", "bias_type": "race", "context": "She is from Norway.", "stereotype": "She skis.", "anti-stereotype": "She hates snow.", "unrelated": "Doors open."}
`

const release = `{"version": "1.1", "data": {
 "intersentence": [{"id": "a", "target": "Norway", "bias_type": "race", "context": "She is from Norway.", "sentences": [
  {"id": "a0", "sentence": "Doors open.", "gold_label": "unrelated", "labels": []},
  {"id": "a1", "sentence": "She skis.", "gold_label": "stereotype"},
  {"id": "a2", "sentence": "She hates snow.", "gold_label": "anti-stereotype"}]}],
 "intrasentence": [{"id": "a", "target": "baker", "bias_type": "profession", "context": "The baker is BLANK.", "sentences": [
  {"id": "b0", "sentence": "The baker is fat.", "gold_label": "stereotype"},
  {"id": "b1", "sentence": "The baker is thin.", "gold_label": "anti-stereotype"},
  {"id": "b2", "sentence": "The baker is seven.", "gold_label": "unrelated"}]}]}}`

func TestBothFormats(t *testing.T) {
	lines, err := parse([]byte("\ufeff" + line + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := parse([]byte(release))
	if err != nil {
		t.Fatal(err)
	}
	want := Item{"a", record.Intersentence, "race", "Norway", "She is from Norway.", "She skis.", "She hates snow.", "Doors open."}
	if len(lines.Items) != 1 || lines.Items[0] != want {
		t.Errorf("lines: %+v", lines.Items)
	}
	if len(whole.Items) != 2 || whole.Items[0] != want || whole.Items[1].Condition != record.Intrasentence || whole.Items[1].Unrelated != "The baker is seven." {
		t.Errorf("published: %+v", whole.Items)
	}
}

func TestRefuses(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"empty":            {"", ": holds no items of StereoSet; fetch the file again"},
		"no items":         {`{"data": {}}`, ": holds no items"},
		"not JSON":         {line + "x\n", ":2: not an item of StereoSet: invalid character"},
		"another file":     {`{"a": 1}`, `:1: type is "", not intersentence or intrasentence`},
		"no context":       {strings.Replace(line, "She is from Norway.", " ", 1), ":1: context is missing or empty"},
		"twice":            {line + line, `:2: id "a" was already read from line 1`},
		"a label":          {strings.Replace(release, `"gold_label": "unrelated"`, `"gold_label": "none"`, 1), `: intersentence item 1: gold_label is "none"`},
		"one label twice":  {strings.Replace(release, `"gold_label": "unrelated"`, `"gold_label": "stereotype"`, 1), ": intersentence item 1: two sentences are labelled stereotype"},
		"two sentences":    {strings.Replace(release, `{"id": "b1", "sentence": "The baker is thin.", "gold_label": "anti-stereotype"},`, "", 1), ": intrasentence item 1: the anti-stereotype is missing"},
		"Latin-1":          {strings.Replace(line, "skis", "\xe4", 1), ": not UTF-8"},
		"a NUL character":  {strings.Replace(line, "skis", `\u0000`, 1), ":1: the stereotype holds a NUL character"},
		"an endless line":  {strings.Repeat("x", maxLine+1), ":1: the line is longer than 1 MB"},
		"a cut file":       {release[:len(release)/2], ": not the JSON of StereoSet: unexpected end of JSON input; fetch the file again"},
		"a long cut file":  {release[:len(release)/2] + strings.Repeat(" ", maxLine), ": not the JSON of StereoSet: unexpected end of JSON input"},
		"a number of data": {`{"version": "1", "data": {"intersentence": [{"id": 5}]}}`, ": not the JSON of StereoSet: cannot unmarshal number"},
		"a number of type": {strings.Replace(line, `"a"`, "1", 1), ":1: not an item of StereoSet: cannot unmarshal number"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.json")
			if err := os.WriteFile(path, []byte(test.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if err == nil || !strings.HasPrefix(err.Error(), path+test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s%s", err, path, test.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil || !strings.HasSuffix(err.Error(), "none: no such file or directory") {
		t.Error(err)
	}
}

func TestDevelopmentSet(t *testing.T) {
	data, err := Read(filepath.Join(shared.Data(t, "stereoset"), "stereoset_dev_merged.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, item := range data.Items {
		count[item.Condition]++
		count[item.BiasType]++
	}
	if count[record.Intersentence] != 2123 || count[record.Intrasentence] != 2106 || count["race"] != 1938 || data.File.Items != 4229 {
		t.Errorf("%v", count)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte(release))
	f.Add([]byte(`{"data": null}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		data, err := parse(content)
		if (err == nil) == (data == nil) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v, %v", data, err)
		}
		if err == nil {
			for _, item := range data.Items {
				if item.Context == "" || item.Unrelated == "" || item.ID == "" {
					t.Fatalf("%+v", item)
				}
			}
		}
	})
}
