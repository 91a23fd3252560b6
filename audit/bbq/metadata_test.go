package bbq

import (
	"os"
	"strings"
	"testing"
)

const header = "category,question_index,example_id,target_loc,label_type\n"

// age is an instance of a template as the published file has it: target_loc changes with the polarity.
const age = `"Age","3",4,0,"label"` + "\n" + `"Age","3",5,0,"label"` + "\n" + `"Age","3",6,1,"label"` + "\n" + `"Age","3",7,1,"label"` + "\n"

func TestMetadata(t *testing.T) {
	tests := []struct {
		name, table string
		biased      int // -1: left out
		reason      string
	}{
		{"published", header + age, 1, ""},
		{"mark and CRLF", "\ufeff" + strings.ReplaceAll(header+age, "\n", "\r\n"), 1, ""},
		{"other order of columns", "target_loc,example_id,category,question_id,full_cond\n1,7,Age,3,\n", 1, ""},
		{"repeated", header + age + age, 1, ""},
		{"contradicts the tags", header + "Age,3,7,0,label\n", 0, ""},
		{"repeated with another target", header + age + "Age,3,7,0,label\n", -1, noTarget},
		{"NA", header + "Age,3,7,NA,label\n", -1, noTarget},
		{"empty", header + "Age,3,7,,label\n", -1, noTarget},
		{"unknown option", header + "Age,3,7,2,label\n", -1, badTarget},
		{"other example", header + "Age,3,8,1,label\n", -1, notInFile},
		{"other question", header + "Age,4,7,1,label\n", -1, notInFile},
		{"other category", header + "Religion,3,7,1,label\n", -1, notInFile},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			metadata, err := ReadMetadata(write(t, "additional_metadata.csv", []byte(test.table)))
			if err != nil {
				t.Fatal(err)
			}
			data, err := Read([]string{write(t, "Age.jsonl", []byte(good))}, metadata)
			if err != nil {
				t.Fatal(err)
			}
			if data.Metadata == nil || data.Metadata.Name != "additional_metadata.csv" || len(data.Metadata.SHA256) != 64 {
				t.Errorf("metadata file %+v", data.Metadata)
			}
			if test.reason != "" {
				if len(data.Items) != 0 || len(data.LeftOut) != 1 || data.LeftOut[0].Reason != test.reason {
					t.Errorf("items %v, left out %v; want %q", data.Items, data.LeftOut, test.reason)
				}
				return
			}
			if len(data.Items) != 1 || data.Items[0].Find(Biased) != test.biased || data.Items[0].Find(Unknown) != 2 {
				t.Errorf("items %v, left out %v; want option %d biased", data.Items, data.LeftOut, test.biased)
			}
		})
	}
}

func TestMetadataErrors(t *testing.T) {
	tests := []struct{ name, table, message string }{
		{"empty", "", ": not BBQ's additional_metadata.csv: it needs the columns"},
		{"no target_loc", "category,question_index,example_id\nAge,3,7\n", ": not BBQ's additional_metadata.csv: it needs the columns"},
		{"no rows", header, ": the file holds no rows"},
		{"target 3", header + "Age,3,6,1,label\nAge,3,7,3,label\n", `:3: target_loc is "3", not 0, 1, 2 or NA`},
		{"short row", header + "Age,3\n", ":2: wrong number of fields"},
		{"open quote", header + "\"Age,3,7,1,label\n", ":2: "},
		{"cut", "\x1f\x8b\x08", ": cannot be decompressed"},
		{"old release", header + strings.ReplaceAll(age, ",1,", ",0,"), ": target_loc does not change with the polarity"},
	}
	for _, test := range tests {
		path := write(t, "m.csv", []byte(test.table))
		_, err := ReadMetadata(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+test.message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", test.name, err, test.message)
		}
	}
	if _, err := ReadMetadata("none.csv"); err == nil || err.Error() != "none.csv: no such file or directory" {
		t.Errorf("error %v", err)
	}
	if _, err := ReadMetadata(os.TempDir()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a folder: error %v", err)
	}
}
