package bbq

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The files were written by pyarrow from the first items of the built-in sample (testdata/make_parquet.py).
func TestParquet(t *testing.T) {
	want, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"testdata/sample.parquet", "testdata/older.parquet"} {
		data := read(t, path)
		if len(data.Items) != 48 || data.Bad != 0 || len(data.LeftOut) != 0 {
			t.Fatalf("%s: %d items, bad rows %v, left out %v", path, len(data.Items), data.BadRows, data.LeftOut)
		}
		for i, got := range data.Items {
			if got.File != path || got.Line != i+1 {
				t.Errorf("item %d is said to come from %s:%d", i, got.File, got.Line)
			}
			got.File, got.Line = want.Items[i].File, want.Items[i].Line
			if !reflect.DeepEqual(got, want.Items[i]) {
				t.Errorf("%s: item %d is %+v, want %+v", path, i, got, want.Items[i])
			}
		}
		if file := data.Files[0]; file.Rows != 48 || file.Items != 48 || len(file.SHA256) != 64 {
			t.Errorf("%s: %+v", path, file)
		}
	}
}

func TestParquetColumns(t *testing.T) {
	_, err := Read([]string{"testdata/no_columns.parquet"}, nil)
	if want := "no column ans2, answer_info.ans0, answer_info.ans1, answer_info.ans2, label;"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A damaged file gives an error of one line or bad rows, never a panic or a wrong item.
func TestParquetDamaged(t *testing.T) {
	whole, err := os.ReadFile("testdata/older.parquet")
	if err != nil {
		t.Fatal(err)
	}
	check := func(content []byte) {
		path := write(t, "damaged.parquet", content)
		data, err := Read([]string{path}, nil)
		if err != nil {
			if !strings.HasPrefix(err.Error(), path+": ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		for i := range data.Items {
			if problem := invalid(&data.Items[i]); problem != "" {
				t.Errorf("%s: %+v", problem, data.Items[i])
			}
		}
	}
	for _, length := range []int{4, 8, 100, len(whole) / 2, len(whole) - 1} {
		check(whole[:length])
	}
	for at := 4; at < len(whole); at += 37 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0xff
		check(damaged)
	}
}
