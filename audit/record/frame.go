package record

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	maxBlock = 128 << 10 // zstd's own limit of a block
	maxGroup = 256 << 20 // bytes of JSON in one frame, so that a damaged file cannot ask for any amount of memory

	// The frame that ties the items to run.json: zstd's skippable frame number 13 with a SHA-256.
	bindingMagic = 0x184D2A5D
	bindingSize  = 8 + sha256.Size
)

// errCut says that what follows in the file is no whole frame.
var errCut = errors.New("not a whole frame")

func bindingFrame(run []byte) []byte {
	frame := binary.LittleEndian.AppendUint32(nil, bindingMagic)
	frame = binary.LittleEndian.AppendUint32(frame, sha256.Size)
	hash := sha256.Sum256(run)
	return append(frame, hash[:]...)
}

// readBinding reads the first frame and returns run.json's SHA-256, or errCut.
func readBinding(r *bufio.Reader) ([]byte, error) {
	frame := make([]byte, bindingSize)
	if err := readFull(r, frame); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(frame) != bindingMagic || binary.LittleEndian.Uint32(frame[4:]) != sha256.Size {
		return nil, errCut
	}
	return frame[8:], nil
}

// readFrame appends the next frame, with its headers and checksum, to frame[:0]. It returns io.EOF at the end of the
// file, errCut where no whole data frame follows, and any other error of the reader as it is.
// The layout is that of RFC 8878, section 3.1.1.
func readFrame(r *bufio.Reader, frame []byte) ([]byte, error) {
	start, err := r.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(start) == 0 {
		return nil, io.EOF
	}
	var header zstd.Header
	if header.Decode(start) != nil || header.Skippable || !header.HasCheckSum {
		return nil, errCut
	}
	frame, err = readMore(r, frame[:0], header.HeaderSize)
	for last := false; err == nil && !last; {
		if frame, err = readMore(r, frame, 3); err != nil {
			break
		}
		block := frame[len(frame)-3:]
		bits := uint32(block[0]) | uint32(block[1])<<8 | uint32(block[2])<<16
		size := int(bits >> 3)
		last = bits&1 != 0
		if size > maxBlock {
			return nil, errCut
		}
		switch bits >> 1 & 3 {
		case 1: // one byte, repeated
			size = 1
		case 3: // reserved
			return nil, errCut
		}
		frame, err = readMore(r, frame, size)
	}
	if err == nil {
		frame, err = readMore(r, frame, 4)
	}
	return frame, err
}

// readMore appends n bytes to frame.
func readMore(r *bufio.Reader, frame []byte, n int) ([]byte, error) {
	if len(frame)+n > maxGroup {
		return nil, errCut
	}
	old := len(frame)
	frame = append(frame, make([]byte, n)...)
	return frame, readFull(r, frame[old:])
}

func readFull(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errCut
	}
	return err
}

// damagedAt says whether what follows at the offset is damage in the middle of the items, not the end of a file that was cut:
// a whole group stands somewhere behind it.
func damagedAt(file io.ReaderAt, offset, size int64) (bool, error) {
	rest, err := io.ReadAll(io.NewSectionReader(file, offset, size-offset))
	if err != nil {
		return false, err
	}
	decoder, err := newDecoder()
	if err != nil {
		return false, err
	}
	defer decoder.Close()
	magic := []byte{0x28, 0xb5, 0x2f, 0xfd} // a zstd frame's
	for at := bytes.Index(rest, magic); at >= 0; {
		frame, err := readFrame(bufio.NewReader(bytes.NewReader(rest[at:])), nil)
		if err == nil {
			if _, err = decoder.DecodeAll(frame, nil); err == nil {
				return true, nil
			}
		}
		next := bytes.Index(rest[at+1:], magic)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return false, nil
}

// errDamaged is what is said of such a file.
func errDamaged(name string, offset int64, whole int) error {
	return fmt.Errorf("%s is damaged after item %d, at byte %d, and whole items follow; restore it from a copy, or audit again into another directory", name, whole, offset)
}

// newEncoder's settings are part of the format: one thread, always the same bytes for the same group.
func newEncoder() (*zstd.Encoder, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return encoder, nil
}

func newDecoder() (*zstd.Decoder, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxGroup))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return decoder, nil
}
