package bbq

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// columns says where the columns of the Parquet mirrors go. Lists are columns of several values a row.
var columns = map[string]func(*row, string){
	"example_id":        func(r *row, v string) { r.ExampleID = scalar(v) },
	"question_index":    func(r *row, v string) { r.QuestionIndex = scalar(v) },
	"question_polarity": func(r *row, v string) { r.Polarity = v },
	"context_condition": func(r *row, v string) { r.Condition = v },
	"category":          func(r *row, v string) { r.Category = v },
	"answer_info.ans0":  func(r *row, v string) { r.AnswerInfo.Ans0 = append(r.AnswerInfo.Ans0, v) },
	"answer_info.ans1":  func(r *row, v string) { r.AnswerInfo.Ans1 = append(r.AnswerInfo.Ans1, v) },
	"answer_info.ans2":  func(r *row, v string) { r.AnswerInfo.Ans2 = append(r.AnswerInfo.Ans2, v) },
	"additional_metadata.stereotyped_groups": func(r *row, v string) {
		r.AdditionalMetadata.StereotypedGroups = append(r.AdditionalMetadata.StereotypedGroups, v)
	},
	"context":  func(r *row, v string) { r.Context = v },
	"question": func(r *row, v string) { r.Question = v },
	"ans0":     func(r *row, v string) { r.Ans0 = v },
	"ans1":     func(r *row, v string) { r.Ans1 = v },
	"ans2":     func(r *row, v string) { r.Ans2 = v },
	"label":    func(r *row, v string) { r.Label = scalar(v) },
}

// parquet feeds the reader with the rows of a Parquet file.
func (r *reader) parquet(source source, file *os.File) (err error) {
	// The library checks much of a file, not all of it: a damaged one can make it index out of range.
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("the Parquet file is damaged (%s); fetch it again", oneLine(fmt.Sprint(problem)))
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	table, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return fmt.Errorf("not a readable Parquet file: %s; fetch it again", oneLine(err.Error()))
	}
	setters, err := setters(table.Schema().Columns())
	if err != nil {
		return err
	}
	number := 0
	buffer := make([]parquet.Row, 64)
	for _, group := range table.RowGroups() {
		rows := group.Rows()
		defer rows.Close()
		for {
			n, err := rows.ReadRows(buffer)
			for _, values := range buffer[:n] {
				number++
				fields := &row{}
				for _, value := range values {
					if set := setters[value.Column()]; set != nil && !value.IsNull() {
						set(fields, text(value))
					}
				}
				r.add(source, number, fields, nil)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("cannot be read after row %d: %s; fetch the file again", number, oneLine(err.Error()))
			}
		}
	}
	return nil
}

// setters returns the setter of each leaf column, nil for those that are not needed. The names of the levels between a
// list and its elements differ by the program that wrote the file, so they are not looked at.
func setters(paths [][]string) ([]func(*row, string), error) {
	list := make([]func(*row, string), len(paths))
	missing := maps.Clone(columns)
	for i, path := range paths {
		for depth := min(2, len(path)); depth > 0 && list[i] == nil; depth-- {
			name := strings.Join(path[:depth], ".")
			list[i] = columns[name]
			delete(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the Parquet file has no column %s; it is not BBQ in its published columns",
			strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return list, nil
}

// text writes a value the way the JSON files do; whole floating-point numbers are whole numbers there.
func text(value parquet.Value) string {
	switch value.Kind() {
	case parquet.Int32:
		return strconv.FormatInt(int64(value.Int32()), 10)
	case parquet.Int64:
		return strconv.FormatInt(value.Int64(), 10)
	case parquet.Float:
		return strconv.FormatFloat(float64(value.Float()), 'f', -1, 32)
	case parquet.Double:
		return strconv.FormatFloat(value.Double(), 'f', -1, 64)
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return string(value.ByteArray())
	}
	return value.String()
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
