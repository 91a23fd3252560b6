package bbq

import (
	"bufio"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"plumb/internal/shared"
)

// kept is the number of items in the published files that are at hand, all of which have a unique targeted option.
var kept = map[string]int{
	"Age": 3680, "Disability_status": 1556, "Nationality": 3080, "Race_ethnicity": 6880,
	"Race_x_SES": 11160, "Race_x_gender": 15960, "Religion": 1200, "SES": 6864,
}

// derived is an independent answer: the place of the targeted group by the logic of BBQ's own analysis.
const derived = "derived_target_loc.csv.gz"

func TestPublished(t *testing.T) {
	dir := shared.Data(t, "bbq")
	data := read(t, dir)
	if data.Bad != 0 {
		t.Errorf("%d bad rows: %v …", data.Bad, data.BadRows[0])
	}
	rows := 0
	for _, count := range data.Categories() {
		rows += count.Rows
		if count.Rows != kept[count.Category] || count.Kept != count.Rows {
			t.Errorf("%+v, want %d", count, kept[count.Category])
		}
	}
	targets := derivedTargets(t, filepath.Join(dir, derived))
	if rows != 50380 || len(targets) != 50380 {
		t.Errorf("%d items and %d derived targets, want 50,380", rows, len(targets))
	}

	agree := 0
	for i := range data.Items {
		item := &data.Items[i]
		if problem := invalid(item); problem != "" {
			t.Fatalf("%s: %+v", problem, item)
		}
		target := Biased
		if item.Polarity == NonNegative {
			target = Anti
		}
		if targets[item.ID] == strconv.Itoa(item.Find(target)) {
			agree++
		}
	}
	t.Logf("%d items read, %d kept, %d left out; the targeted option agrees on %d of the kept items (%.2f %%)",
		rows, len(data.Items), len(data.LeftOut), agree, 100*float64(agree)/float64(len(data.Items)))
	if float64(agree) < 0.995*float64(len(data.Items)) {
		t.Error("that is below 99.5 %")
	}

	sample := Sample(data.Items, 1000, 1)
	halves := [2]map[string]int{}
	fit, heldOut := SplitTemplates(data.Items, 1)
	for i, half := range [][]Item{fit, heldOut} {
		halves[i] = count(half, ofTemplate)
	}
	if len(sample) != 1000 || len(halves[0])+len(halves[1]) != len(count(data.Items, ofTemplate)) {
		t.Errorf("a sample of %d, %d and %d templates", len(sample), len(halves[0]), len(halves[1]))
	}
}

// The derived file has the columns of the published metadata too, with target_loc as in its releases since July 2022:
// given as metadata it must lead to the same roles.
func TestPublishedMetadata(t *testing.T) {
	dir := shared.Data(t, "bbq")
	metadata, err := ReadMetadata(filepath.Join(dir, derived))
	if err != nil {
		t.Fatal(err)
	}
	with, err := Read([]string{dir}, metadata)
	if err != nil {
		t.Fatal(err)
	}
	without := read(t, dir)
	if len(with.Items) != len(without.Items) || metadata.File.Rows != 50380 {
		t.Fatalf("%d items, %d without metadata; %d rows of metadata", len(with.Items), len(without.Items), metadata.File.Rows)
	}
	differ := 0
	for i := range with.Items {
		if with.Items[i] != without.Items[i] {
			differ++
		}
	}
	t.Logf("%d of %d items differ from those read without metadata", differ, len(with.Items))
	if differ > len(with.Items)/200 {
		t.Error("that is more than 0.5 %")
	}
}

// derivedTargets returns the column stereotyped_group_loc by item ID.
func derivedTargets(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, closeText, err := decompress(bufio.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer closeText()
	records, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if records[0][0] != "category" || records[0][2] != "example_id" || records[0][4] != "stereotyped_group_loc" {
		t.Fatalf("columns %q", records[0])
	}
	targets := map[string]string{}
	for _, record := range records[1:] {
		targets[record[0]+"/"+record[2]] = record[4]
	}
	return targets
}
