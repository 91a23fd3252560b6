// Package jsonfile reads files that people write: one JSON object each, whose faults are told in their words.
package jsonfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode reads the one object that content is. A field that v does not have is an error, and so is anything behind the
// object. Numbers that v leaves open are json.Number.
func Decode(content []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(v); err != nil {
		return InWords(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// InWords tells an error of encoding/json, in one line, as the field and what it has to be.
func InWords(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends within the object")
	case errors.As(err, &syntax):
		return fmt.Errorf("%w, at byte %d", err, syntax.Offset)
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return fmt.Errorf("it is a JSON %s, not an object", wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s is a JSON %s; it has to be %s", wrongType.Field, wrongType.Value, wanted(wrongType.Type))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
