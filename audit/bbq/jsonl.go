package bbq

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxLine is far above any item (BBQ's longest has 1.3 kB) and far below what would hurt.
const maxLine = 16 << 20

var errLongLine = fmt.Errorf("the line is longer than %d MB", maxLine>>20)

// jsonLines feeds the reader with the rows of a file of JSON lines. Empty lines are no rows.
func (r *reader) jsonLines(source source, file *bufio.Reader) error {
	lines, closeLines, err := decompress(file)
	if err != nil {
		return err
	}
	defer closeLines()
	var buffer []byte
	for number := 1; ; number++ {
		line, err := readLine(lines, buffer[:0])
		if err == io.EOF {
			return nil
		}
		if err != nil && err != errLongLine {
			return fmt.Errorf("cannot be read at line %d: %w; fetch the file again", number, err)
		}
		buffer = line
		line = bytes.TrimSpace(line)
		switch {
		case err != nil:
			r.add(source, number, nil, err)
		case len(line) > 0:
			fields, err := parseRow(line)
			r.add(source, number, fields, err)
		}
	}
}

// decompress returns the text of a file that may be compressed by gzip or zstd, without a byte order mark.
func decompress(file *bufio.Reader) (*bufio.Reader, func(), error) {
	text, closeText := file, func() {}
	magic, _ := file.Peek(4) // a shorter file has no such magic
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot be decompressed: %w", err)
		}
		text, closeText = bufio.NewReader(unzipped), func() { unzipped.Close() }
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unzipped, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return nil, nil, fmt.Errorf("cannot be decompressed: %w", err)
		}
		text, closeText = bufio.NewReader(unzipped), unzipped.Close
	}
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		text.Discard(3)
	}
	return text, closeText, nil
}

// readLine appends the next line to buffer, without its line feed. It returns io.EOF after the last line, and
// errLongLine, having skipped the line, for one that is longer than maxLine.
func readLine(lines *bufio.Reader, buffer []byte) ([]byte, error) {
	length := 0
	for {
		part, err := lines.ReadSlice('\n')
		length += len(part)
		if length <= maxLine {
			buffer = append(buffer, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && length == 0:
			return buffer, io.EOF
		case err != nil && err != io.EOF:
			return buffer, err
		case length > maxLine:
			return buffer[:0], errLongLine
		}
		return bytes.TrimSuffix(buffer, []byte{'\n'}), nil
	}
}
