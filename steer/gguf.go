package steer

import (
	"encoding/binary"
	"math"
)

// GGUF is the container of llama.cpp's models and control vectors: magic, version, counts, key-value pairs, tensor
// descriptions, padding, tensor data, little endian throughout; ggml's gguf.h describes it. Steering files are of
// version 3, have the default alignment and hold F32 vectors only, so this is all of the format that is needed.

const (
	ggufMagic     = "GGUF"
	ggufVersion   = 3
	ggufAlignment = 32
)

// The numbers of ggml's gguf_type.
const (
	ggufUint8 uint32 = iota
	ggufInt8
	ggufUint16
	ggufInt16
	ggufUint32
	ggufInt32
	ggufFloat32
	ggufBool
	ggufString
	ggufArray
	ggufUint64
	ggufInt64
	ggufFloat64
)

// ggmlF32 is ggml's number for tensors of 32-bit floats.
const ggmlF32 uint32 = 0

// ggufWriter lays out a GGUF file, its pairs and its one-dimensional F32 tensors in the order in which they were added.
type ggufWriter struct {
	pairs   []byte
	nPairs  uint64
	tensors []ggufVector
}

type ggufVector struct {
	name string
	data []float32
}

// ggufNumber lists the number types that steering files hold.
type ggufNumber interface {
	int32 | uint32 | uint64 | float64
}

func ggufKind[T ggufNumber](v T) uint32 {
	switch any(v).(type) {
	case int32:
		return ggufInt32
	case uint32:
		return ggufUint32
	case uint64:
		return ggufUint64
	}
	return ggufFloat64
}

func (w *ggufWriter) key(key string, kind uint32) {
	w.pairs = appendString(w.pairs, key)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, kind)
	w.nPairs++
}

func (w *ggufWriter) arrayKey(key string, kind uint32, n int) {
	w.key(key, ggufArray)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, kind)
	w.pairs = binary.LittleEndian.AppendUint64(w.pairs, uint64(n))
}

func (w *ggufWriter) setString(key, value string) {
	w.key(key, ggufString)
	w.pairs = appendString(w.pairs, value)
}

func (w *ggufWriter) setStrings(key string, values []string) {
	w.arrayKey(key, ggufString, len(values))
	for _, v := range values {
		w.pairs = appendString(w.pairs, v)
	}
}

func setNumber[T ggufNumber](w *ggufWriter, key string, value T) {
	w.key(key, ggufKind(value))
	w.pairs = appendNumbers(w.pairs, value)
}

func setNumbers[T ggufNumber](w *ggufWriter, key string, values []T) {
	var zero T
	w.arrayKey(key, ggufKind(zero), len(values))
	w.pairs = appendNumbers(w.pairs, values)
}

func (w *ggufWriter) vector(name string, data []float32) {
	w.tensors = append(w.tensors, ggufVector{name, data})
}

// bytes is the finished file.
func (w *ggufWriter) bytes() []byte {
	out := []byte(ggufMagic)
	out = binary.LittleEndian.AppendUint32(out, ggufVersion)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(w.tensors)))
	out = binary.LittleEndian.AppendUint64(out, w.nPairs)
	out = append(out, w.pairs...)
	offset := 0
	for _, t := range w.tensors {
		out = appendString(out, t.name)
		out = binary.LittleEndian.AppendUint32(out, 1)
		out = binary.LittleEndian.AppendUint64(out, uint64(len(t.data)))
		out = binary.LittleEndian.AppendUint32(out, ggmlF32)
		out = binary.LittleEndian.AppendUint64(out, uint64(offset))
		offset += 4*len(t.data) + padding(4*len(t.data))
	}
	out = append(out, make([]byte, padding(len(out)))...)
	for _, t := range w.tensors {
		for _, x := range t.data {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
		out = append(out, make([]byte, padding(len(out)))...)
	}
	return out
}

// padding is how many zero bytes bring n up to the alignment.
func padding(n int) int { return (ggufAlignment - n%ggufAlignment) % ggufAlignment }

func appendString(out []byte, s string) []byte {
	out = binary.LittleEndian.AppendUint64(out, uint64(len(s)))
	return append(out, s...)
}

// appendNumbers appends a ggufNumber or a slice of them, which cannot fail: they have a fixed size.
func appendNumbers(out []byte, value any) []byte {
	out, _ = binary.Append(out, binary.LittleEndian, value)
	return out
}
