package bbq

import _ "embed"

//go:generate go run ./testdata/generate builtin.jsonl

//go:embed builtin.jsonl
var builtin []byte

// BuiltinName is the name of the built-in sample as the file of its items.
const BuiltinName = "built-in sample"

// Builtin returns the built-in sample: items in BBQ's format, of our own wording, from four of its categories.
// It is there to try things out; it is far too small to say much about a model.
func Builtin() (*Data, error) { return readItems(BuiltinName, builtin) }
