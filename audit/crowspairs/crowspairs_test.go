package crowspairs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumb/audit/record"
	"plumb/internal/shared"
)

const file = `,sent_more,sent_less,stereo_antistereo,bias_type,annotations
0,"Old people are slow, he said.","Young people are slow, he said.",stereo,age,[['age']]
1,The rich are honest.,The poor are honest.,antistereo,socioeconomic,[['socioeconomic']]
`

func TestParse(t *testing.T) {
	items, err := parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := Item{"pair/0", record.Stereo, "age", "Old people are slow, he said.", "Young people are slow, he said."}
	if len(items) != 2 || items[0] != want || items[1].Condition != record.Antistereo {
		t.Errorf("%+v", items)
	}
}

func TestRefuses(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"empty":       {"", ": empty"},
		"no pairs":    {file[:strings.Index(file, "\n")], ": holds no pairs"},
		"no column":   {strings.Replace(file, "bias_type", "bias", 1), ":1: no column bias_type, as CrowS-Pairs has"},
		"no sentence": {strings.Replace(file, "The poor are honest.", " ", 1), ":3: a sentence or the bias type is empty"},
		"a direction": {strings.Replace(file, "antistereo,socio", "both,socio", 1), `:3: stereo_antistereo is "both"`},
		"a field":     {file + "2,x\n", ":4: not CSV: wrong number of fields"},
		"a quote":     {file + "2,\"x\n", ":4: not CSV: extraneous or missing"},
		"Latin-1":     {file + "\xe4", ": not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pairs.csv")
			if err := os.WriteFile(path, []byte(test.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if err == nil || !strings.HasPrefix(err.Error(), path+test.want) || !strings.HasSuffix(err.Error(), "; fetch the file again") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s%s", err, path, test.want)
			}
		})
	}
}

func TestPublished(t *testing.T) {
	data, err := Read(filepath.Join(shared.Data(t, "crows_pairs"), "crows_pairs_anonymized.csv"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, item := range data.Items {
		count[item.Condition]++
		count[item.BiasType]++
	}
	if len(data.Items) != 1508 || count[record.Antistereo] != 218 || count["race-color"] != 516 {
		t.Errorf("%d, %v", len(data.Items), count)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file))
	f.Fuzz(func(t *testing.T, content []byte) {
		items, err := parse(content)
		if (err == nil) == (len(items) == 0) {
			t.Fatalf("%v, %v", items, err)
		}
	})
}
