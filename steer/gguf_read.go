package steer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

const (
	ggufMaxDims = 4 // ggml's GGML_MAX_DIMS

	ggufAlignmentKey = "general.alignment"
)

// ggufFile is the head of a GGUF file: its pairs and tensor descriptions. Tensor data stays in the file until asked for,
// so that a model handed in by mistake costs its metadata only.
type ggufFile struct {
	pairs     map[string]any // bool, string, a sized number, or a slice of one of these
	tensors   []ggufTensor
	source    io.ReaderAt
	dataStart uint64
	size      uint64
}

type ggufTensor struct {
	name   string
	kind   uint32   // ggml_type
	dims   []uint64 // as stored, fastest first
	offset uint64   // from dataStart
}

// readGGUF reads the head of a GGUF file of the given size in bytes, version 2 or 3 (which differ in nothing read here).
// It holds for any input: nothing is allocated beyond a small multiple of what the file still has, and every tensor
// reported lies within the file.
func readGGUF(source io.ReaderAt, size int64) (*ggufFile, error) {
	r := &ggufReader{
		source: bufio.NewReaderSize(io.NewSectionReader(source, 0, size), 1<<16),
		left:   uint64(max(size, 0)),
	}
	f := &ggufFile{pairs: map[string]any{}, source: source, size: uint64(max(size, 0))}
	if string(r.bytes(uint64(len(ggufMagic)))) != ggufMagic {
		return nil, errors.New("this is not a GGUF file")
	}
	version := readNumber[uint32](r)
	nTensors, nPairs := readNumber[uint64](r), readNumber[uint64](r)
	switch {
	case r.err != nil:
		return nil, r.err
	case bits.ReverseBytes32(version) == 2 || bits.ReverseBytes32(version) == 3:
		return nil, errors.New("this GGUF file is big endian, which is not supported")
	case version != 2 && version != 3:
		return nil, fmt.Errorf("this GGUF file has version %d; versions 2 and 3 are supported", version)
	}
	for i := uint64(0); i < nPairs && r.err == nil; i++ {
		key := r.string()
		value := r.value()
		if r.err != nil {
			break
		}
		if _, twice := f.pairs[key]; twice {
			return nil, fmt.Errorf("the GGUF file has the key %q twice", key)
		}
		f.pairs[key] = value
	}
	for i := uint64(0); i < nTensors && r.err == nil; i++ {
		f.tensors = append(f.tensors, r.tensor())
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, f.placeTensors(f.size - r.left)
}

// placeTensors finds where the data begins, after a head of headSize bytes, and checks every tensor's place in it.
func (f *ggufFile) placeTensors(headSize uint64) error {
	alignment := uint64(ggufAlignment)
	if value, ok := f.pairs[ggufAlignmentKey]; ok {
		a, isUint32 := value.(uint32)
		if !isUint32 || bits.OnesCount32(a) != 1 {
			return fmt.Errorf("the GGUF file's alignment %v is not a power of two", value)
		}
		alignment = uint64(a)
	}
	f.dataStart = (headSize + alignment - 1) / alignment * alignment
	names := map[string]bool{}
	for _, t := range f.tensors {
		if names[t.name] {
			return fmt.Errorf("the GGUF file has the tensor %q twice", t.name)
		}
		names[t.name] = true
		if t.offset%alignment != 0 {
			return fmt.Errorf("tensor %q is not aligned to %d bytes", t.name, alignment)
		}
		if t.kind != ggmlF32 {
			continue // its size is not known here, and it is never read
		}
		room := uint64(0)
		if f.dataStart <= f.size && t.offset <= f.size-f.dataStart {
			room = f.size - f.dataStart - t.offset
		}
		n := uint64(1)
		for _, d := range t.dims {
			high, low := bits.Mul64(n, d)
			if high != 0 || low > room/4 {
				return fmt.Errorf("the GGUF file is cut off in the data of tensor %q", t.name)
			}
			n = low
		}
	}
	return nil
}

// vector reads a one-dimensional F32 tensor.
func (f *ggufFile) vector(t ggufTensor) ([]float32, error) {
	if t.kind != ggmlF32 {
		return nil, fmt.Errorf("tensor %q is not of type F32 (ggml type %d)", t.name, t.kind)
	}
	if len(t.dims) != 1 {
		return nil, fmt.Errorf("tensor %q has %d dimensions; a direction has one", t.name, len(t.dims))
	}
	data := make([]byte, 4*t.dims[0])
	if _, err := f.source.ReadAt(data, int64(f.dataStart+t.offset)); err != nil {
		return nil, fmt.Errorf("cannot read tensor %q: %w", t.name, err)
	}
	out := make([]float32, t.dims[0])
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out, nil
}

// ggufReader reads a file's head in order. After an error every read returns a zero value.
type ggufReader struct {
	source io.Reader
	left   uint64 // bytes that the file still has
	err    error
}

func (r *ggufReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// bytes reads n bytes, or nil if the file has fewer.
func (r *ggufReader) bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > r.left {
		r.fail(errors.New("the GGUF file is cut off in its head"))
		return nil
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(r.source, buf); err != nil {
		r.fail(fmt.Errorf("cannot read the GGUF file's head: %w", err))
		return nil
	}
	r.left -= n
	return buf
}

func (r *ggufReader) string() string {
	return string(r.bytes(readNumber[uint64](r)))
}

func (r *ggufReader) tensor() ggufTensor {
	t := ggufTensor{name: r.string()}
	nDims := readNumber[uint32](r)
	if nDims == 0 || nDims > ggufMaxDims {
		r.fail(fmt.Errorf("tensor %q has %d dimensions", t.name, nDims))
		return t
	}
	for range nDims {
		t.dims = append(t.dims, readNumber[uint64](r))
	}
	t.kind = readNumber[uint32](r)
	t.offset = readNumber[uint64](r)
	for _, d := range t.dims {
		if d == 0 || d > math.MaxInt64 {
			r.fail(fmt.Errorf("tensor %q has an impossible shape", t.name))
		}
	}
	return t
}

// value reads a pair's type and value.
func (r *ggufReader) value() any {
	kind := readNumber[uint32](r)
	if kind != ggufArray {
		return r.valueOf(kind, 1, false)
	}
	kind = readNumber[uint32](r)
	return r.valueOf(kind, readNumber[uint64](r), true)
}

func (r *ggufReader) valueOf(kind uint32, n uint64, array bool) any {
	switch kind {
	case ggufUint8:
		return readValues[uint8](r, n, array)
	case ggufInt8:
		return readValues[int8](r, n, array)
	case ggufUint16:
		return readValues[uint16](r, n, array)
	case ggufInt16:
		return readValues[int16](r, n, array)
	case ggufUint32:
		return readValues[uint32](r, n, array)
	case ggufInt32:
		return readValues[int32](r, n, array)
	case ggufFloat32:
		return readValues[float32](r, n, array)
	case ggufBool:
		return readValues[bool](r, n, array)
	case ggufUint64:
		return readValues[uint64](r, n, array)
	case ggufInt64:
		return readValues[int64](r, n, array)
	case ggufFloat64:
		return readValues[float64](r, n, array)
	case ggufString:
		if !array {
			return r.string()
		}
		values := []string{}
		for i := uint64(0); i < n && r.err == nil; i++ {
			values = append(values, r.string())
		}
		return values
	}
	r.fail(fmt.Errorf("the GGUF file has a value of unknown type %d", kind))
	return nil
}

func readValues[T any](r *ggufReader, n uint64, array bool) any {
	var zero T
	size := uint64(binary.Size(zero))
	if n > r.left/size {
		r.fail(errors.New("the GGUF file is cut off in its head"))
		return nil
	}
	buf := r.bytes(n * size)
	if r.err != nil {
		return nil
	}
	values := make([]T, n)
	if _, err := binary.Decode(buf, binary.LittleEndian, values); err != nil {
		r.fail(fmt.Errorf("cannot read the GGUF file's head: %w", err))
		return nil
	}
	if array {
		return values
	}
	return values[0]
}

func readNumber[T uint32 | uint64](r *ggufReader) T {
	value, _ := readValues[T](r, 1, false).(T)
	return value
}
