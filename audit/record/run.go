// Package record keeps an audit's run: a directory from which every number can be computed again without the model.
//
// run.json says what was asked. It is canonical: no time stamps, no paths of the machine, so the same request gives the
// same bytes. items.jsonl.zst holds one Record a line, in order. It is a plain zstd file (`zstd -dc` reads it):
//
//   - first a skippable frame with the SHA-256 of run.json, so that items are never read under another run's
//     description and a damaged run.json can be told from a changed one;
//   - then one frame a batch group, with zstd's content checksum, holding whole lines. Whole frames are found by
//     walking the frame and block headers; the first one that is cut, garbage or fails its checksum, and what follows
//     it, does not count. Resume truncates there.
//
// Groups are decided by the data alone, so a run that was cut and resumed has the bytes of one that was not.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The files of a run directory that this package writes.
const (
	RunFile   = "run.json"
	ItemsFile = "items.jsonl.zst"
)

// format is the version of the layout described above.
const format = 1

// Run is what was asked of an audit; everything that its scores depend on.
type Run struct {
	Format    int       `json:"format"` // set by this package
	Plumb     string    `json:"plumb"`  // version
	LlamaCpp  string    `json:"llama_cpp"`
	Benchmark string    `json:"benchmark"` // which audit it is: "bbq", "stereoset", "crows-pairs", "capability"
	Model     Model     `json:"model"`
	Device    string    `json:"device"`
	Data      Data      `json:"data"`
	Sample    int       `json:"sample"` // items asked for by --sample; 0: all
	Seed      uint64    `json:"seed"`   // of the sample
	Prompt    Prompt    `json:"prompt"`
	Scoring   Scoring   `json:"scoring"`
	Steering  *Steering `json:"steering"`        // nil: the model as it is
	Shard     *Shard    `json:"shard,omitempty"` // nil: the run has all the items
	Items     int       `json:"items"`           // how many records the finished run has
	NoText    bool      `json:"no_text"`         // set by CopyWithoutText

	Dialect *Dialect `json:"dialect,omitempty"` // of a dialect audit

	// Steerings are those of a grid: its items were scored without any and then under each, and Items counts all of that.
	Steerings []Steering `json:"steerings,omitempty"`
}

// Single is an error if the run's records are of several interventions.
func (r *Run) Single(dir string) error {
	if n := len(r.Steerings); n > 0 {
		return fmt.Errorf("%s was scored under %d interventions; see plumb compare, or plumb report with the directory of the sweep that it is a stage of", dir, n)
	}
	return nil
}

// Model is the GGUF file that was audited.
type Model struct {
	SHA256       string `json:"sha256"`
	Name         string `json:"name"` // the file's, without its folder
	Architecture string `json:"architecture"`
	Description  string `json:"description"`
	NLayer       int    `json:"n_layer"`
	NEmbd        int    `json:"n_embd"`
}

// Data is what was read and what became of it.
type Data struct {
	Files   []DataFile `json:"files"`
	Kept    int        `json:"kept"`     // items that can be scored, before sampling
	LeftOut []LeftOut  `json:"left_out"` // one entry a reason
}

// DataFile is a file of items; Items counts those in it, kept or not.
type DataFile struct {
	Name   string `json:"name"` // without its folder
	SHA256 string `json:"sha256"`
	Items  int    `json:"items"`
}

// LeftOut names the items that were not scored, for one reason.
type LeftOut struct {
	Reason string   `json:"reason"`
	Count  int      `json:"count"`
	IDs    []string `json:"ids"` // "Age/17", or file and line where a row has no id
}

// Prompt is how an item was put to the model.
type Prompt struct {
	Template string `json:"template"` // CopyWithoutText empties a user's own
	SHA256   string `json:"sha256"`   // of Template
	Own      bool   `json:"own"`      // the user's (--prompt FILE), not the default
	Chat     bool   `json:"chat"`     // wrapped in the model's chat template
}

// Scoring is what a score depends on beside model and prompt.
type Scoring struct {
	ContextTokens int  `json:"context_tokens"`
	BatchRows     int  `json:"batch_rows"`
	Trie          bool `json:"trie"` // shared prefixes computed once
}

// Steering is the intervention under which the items were scored.
type Steering struct {
	Name     string  `json:"name"` // the steering file's, without its folder
	SHA256   string  `json:"sha256"`
	Method   string  `json:"method"`
	Operator string  `json:"operator"`        // "project", "add"
	Layers   []int   `json:"layers"`          // 0-based block indices
	Strength float64 `json:"strength"`        // α of a projection, β of an addition
	Norms    string  `json:"norms,omitempty"` // whose norms the file's directions were given; empty: those of its method
	Half     string  `json:"half"`            // of the file's split by template that was audited: "held-out", "fit", "all"
	Fitted   Fitted  `json:"fitted,omitempty"`
}

// NormsOfResiduals are of directions that have the mean norms of the layers' residual streams.
const NormsOfResiduals = "residual stream"

// Fitted is what is known of the pairs that a dialect steering was fitted on: its directions, and its layers where a trace
// chose them. Empty stands for unknown.
type Fitted string

// What can be known.
const (
	FittedApart     Fitted = "other pairs" // of the same data, none of them in the run
	FittedElsewhere Fitted = "other data"  // some of whose pairs may be in the run
	FittedUnknown   Fitted = "unknown"
)

// Shard is the part of a larger run that this one is: whole batch groups, so that Merge gives the larger run's bytes.
type Shard struct {
	Number int `json:"number"` // from 1 on
	Of     int `json:"of"`
	First  int `json:"first"` // Index of its first record; it has Run.Items
	Total  int `json:"total"` // records of all shards together
}

// first is the Index of the run's first record.
func (r *Run) first() int {
	if r.Shard == nil {
		return 0
	}
	return r.Shard.First
}

// encode returns run.json's bytes.
func (r Run) encode() ([]byte, error) {
	r.Format = format
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("run description: %w", err)
	}
	return buffer.Bytes(), nil
}

func decodeRun(data []byte) (Run, error) {
	var run Run
	if err := json.Unmarshal(data, &run); err != nil {
		return Run{}, fmt.Errorf("not the description of a run (%s); restore it from a copy, or audit again into another directory", strings.TrimPrefix(err.Error(), "json: "))
	}
	if run.Format < 1 || run.Format > format {
		return Run{}, fmt.Errorf("run format %d is not one that this version reads (1 to %d)", run.Format, format)
	}
	return run, nil
}

// difference names the first field in which two runs differ, with both values; "" if there is none.
func difference(have, want Run) string {
	have.Format, want.Format = format, format
	others := have
	others.Items = want.Items // how many there are follows from the rest, which says more
	if d := differingField("", reflect.ValueOf(others), reflect.ValueOf(want)); d != "" {
		return d
	}
	return Difference(have, want)
}

// Difference names the first field in which two descriptions of one type differ, as JSON names it, with both values; "" if there
// is none.
func Difference(have, want any) string {
	return differingField("", reflect.ValueOf(have), reflect.ValueOf(want))
}

func differingField(name string, have, want reflect.Value) string {
	if reflect.DeepEqual(have.Interface(), want.Interface()) {
		return ""
	}
	switch {
	case have.Kind() == reflect.Pointer && !have.IsNil() && !want.IsNil():
		return differingField(name, have.Elem(), want.Elem())
	case have.Kind() == reflect.Slice && have.Len() == want.Len():
		for i := range have.Len() {
			if d := differingField(fmt.Sprintf("%s[%d]", name, i), have.Index(i), want.Index(i)); d != "" {
				return d
			}
		}
		return "" // nil against empty
	case have.Kind() == reflect.Struct:
		for i := range have.NumField() {
			tag, _, _ := strings.Cut(have.Type().Field(i).Tag.Get("json"), ",")
			if d := differingField(strings.TrimPrefix(name+"."+tag, "."), have.Field(i), want.Field(i)); d != "" {
				return d
			}
		}
		return ""
	}
	return fmt.Sprintf("%s was %s, now %s", name, brief(have), brief(want))
}

// brief is a value as JSON, short enough for one line.
func brief(v reflect.Value) string {
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v)
	}
	const limit = 80
	if runes := []rune(string(data)); len(runes) > limit {
		return string(slices.Concat(runes[:limit], []rune("…")))
	}
	return string(data)
}
