package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"plumb/audit/bbq"
	"plumb/audit/record"
	"plumb/audit/report"
)

// bbqOptions say which BBQ items are put to a model, and how.
type bbqOptions struct {
	data     cli.StringSlice
	metadata string
	strict   bool
	sample   int
	seed     uint64
	prompt   string
	chat     string
}

func (o *bbqOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "data", Aliases: []string{"d"}, Usage: "read BBQ from `PATH`, a file or a folder; repeatable (default: the built-in sample)", Destination: &o.data},
		&cli.StringFlag{Name: "metadata", Usage: "take the biased options from `FILE`, BBQ's additional_metadata.csv", Destination: &o.metadata},
		&cli.BoolFlag{Name: "strict", Usage: "stop if the data has a bad row", Destination: &o.strict},
		&cli.IntFlag{Name: "sample", Usage: "take `N` items, stratified by template, condition and polarity (0: all)", Destination: &o.sample},
		&cli.Uint64Flag{Name: "seed", Usage: "draw the sample with seed `S`", Destination: &o.seed},
		&cli.StringFlag{Name: "prompt", Usage: "take the prompt template from `FILE`", Destination: &o.prompt},
		&cli.StringFlag{Name: "chat", Usage: "`on` wraps the prompt in the model's chat template", Value: "off", Destination: &o.chat},
	}
}

func (o *bbqOptions) check() error {
	switch {
	case o.sample < 0:
		return usageError("--sample %d: a number of items is not negative", o.sample)
	case o.chat != "on" && o.chat != "off":
		return usageError("--chat is on or off, not %q", o.chat)
	case o.metadata != "" && len(o.data.Value()) == 0:
		return usageError("--metadata goes with --data")
	}
	return nil
}

// bbqTask is BBQ items with the prompt by which they are put to a model.
type bbqTask struct {
	data   *bbq.Data
	items  []bbq.Item // the sample of data's
	prompt *bbq.Prompt
	own    bool // the prompt is the user's
	chat   bool
	sample int
	seed   uint64
}

// read reads the items. Bad rows are told to notes.
func (o *bbqOptions) read(notes io.Writer) (*bbqTask, error) {
	t := &bbqTask{chat: o.chat == "on", own: o.prompt != "", sample: o.sample}
	var err error
	if t.prompt, err = readPrompt(o.prompt); err != nil {
		return nil, err
	}
	if t.data, err = readBBQ(o.data.Value(), o.metadata); err != nil {
		return nil, err
	}
	if bad := t.data.Bad; bad > 0 {
		first := t.data.BadRows[0]
		switch {
		case o.strict:
			return nil, fmt.Errorf("%w (--strict; bad rows: %s)", first, report.Thousands(bad))
		case len(t.data.Items) == 0:
			return nil, fmt.Errorf("no item of the data can be used; bad rows: %s, the first: %w (plumb data check lists them)", report.Thousands(bad), first)
		}
		fmt.Fprintf(notes, "plumb: bad rows left out: %s; the first: %v (plumb data check lists them)\n", report.Thousands(bad), first)
	}
	if len(t.data.Items) == 0 {
		return nil, fmt.Errorf("no item of %s can be used; plumb data check says why", strings.Join(o.data.Value(), ", "))
	}
	t.items = t.data.Items
	if o.sample > 0 {
		t.items = bbq.Sample(t.items, o.sample, o.seed)
		t.seed = o.seed
	}
	return t, nil
}

// readPrompt returns the template in the file, or the default one where none is named.
func readPrompt(file string) (*bbq.Prompt, error) {
	if file == "" {
		return bbq.ParsePrompt(bbq.DefaultPrompt)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) || bytes.ContainsRune(text, 0) {
		return nil, fmt.Errorf("%s: not a text in UTF-8; save the prompt template as one", file)
	}
	prompt, err := bbq.ParsePrompt(strings.TrimPrefix(string(text), "\ufeff"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return prompt, nil
}

func readBBQ(paths []string, metadata string) (*bbq.Data, error) {
	if len(paths) == 0 {
		return bbq.Builtin()
	}
	var targets *bbq.Metadata
	if metadata != "" {
		var err error
		if targets, err = bbq.ReadMetadata(metadata); err != nil {
			return nil, err
		}
	}
	return bbq.Read(paths, targets)
}

// describe returns what a run records of the task.
func (t *bbqTask) describe() record.Run {
	hash := sha256.Sum256([]byte(t.prompt.String()))
	run := record.Run{
		Benchmark: "bbq",
		Data:      record.Data{Kept: len(t.data.Items), Files: []record.DataFile{}, LeftOut: leftOut(t.data)},
		Sample:    t.sample,
		Seed:      t.seed,
		Prompt:    record.Prompt{Template: t.prompt.String(), SHA256: hex.EncodeToString(hash[:]), Own: t.own, Chat: t.chat},
		Items:     len(t.items),
	}
	files := t.data.Files
	if t.data.Metadata != nil {
		files = append(slices.Clone(files), *t.data.Metadata)
	}
	for _, f := range files {
		run.Data.Files = append(run.Data.Files, record.DataFile{Name: f.Name, SHA256: f.SHA256, Items: f.Rows})
	}
	return run
}

// leftOut is what of the data is not scored, by reason, in the order in which the reasons first appear.
func leftOut(data *bbq.Data) []record.LeftOut {
	list := []record.LeftOut{}
	of := func(reason string) *record.LeftOut {
		i := slices.IndexFunc(list, func(l record.LeftOut) bool { return l.Reason == reason })
		if i < 0 {
			i = len(list)
			list = append(list, record.LeftOut{Reason: reason, IDs: []string{}})
		}
		return &list[i]
	}
	for _, left := range data.LeftOut {
		entry := of(left.Reason)
		entry.Count++
		entry.IDs = append(entry.IDs, left.ID)
	}
	if data.Bad > 0 {
		entry := of("the row is no item")
		entry.Count += data.Bad
		for _, bad := range data.BadRows {
			entry.IDs = append(entry.IDs, fmt.Sprintf("%s:%d", filepath.Base(bad.File), bad.Line))
		}
	}
	return list
}

// question returns the i-th item, ready to be scored.
func (t *bbqTask) question(i int) (question, error) { return t.questionOf(i, &t.items[i]) }

func (t *bbqTask) questionOf(i int, item *bbq.Item) (question, error) {
	text, err := t.prompt.Render(item)
	if err != nil {
		return question{}, fmt.Errorf("%s: %w", item.ID, err)
	}
	q := question{prompt: text, record: record.Record{
		Index: i, ID: item.ID, Category: item.Category, Template: item.Template, Condition: item.Condition,
		Polarity: item.Polarity, Label: item.Label, Text: item.Context + "\n" + item.Question,
	}}
	for _, option := range item.Options {
		q.record.Options = append(q.record.Options, record.Option{Text: option.Text, Role: option.Role})
		q.options = append(q.options, option.Continuation())
	}
	return q, nil
}
