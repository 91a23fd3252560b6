package record

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Reader streams a run's records, a batch group at a time.
type Reader struct {
	Run Run

	file   *os.File
	size   int64
	groups *groups
}

// Open opens a run to read it, finished or not.
func Open(dir string) (*Reader, error) {
	run, hash, err := readRun(dir)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(dir, ItemsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s; is the run's copy complete?", dir, ItemsFile)
	}
	if err != nil {
		return nil, err
	}
	r, err := newReader(file, run, hash)
	if err != nil {
		return nil, cmp.Or(err, file.Close())
	}
	return r, nil
}

func newReader(file *os.File, run Run, hash []byte) (*Reader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	g, err := newGroups(file, run.first())
	if err != nil {
		return nil, err
	}
	if info.Size() > 0 {
		switch bound, err := g.binding(); {
		case err == errCut && info.Size() >= bindingSize:
			return nil, notItems(file.Name())
		case err != nil && err != errCut:
			return nil, err
		case err == nil && !bytes.Equal(bound, hash):
			return nil, fmt.Errorf("%s belongs to another %s than the one beside it, or that was edited", file.Name(), RunFile)
		}
	}
	return &Reader{Run: run, file: file, size: info.Size(), groups: g}, nil
}

// readRun returns run.json with its bytes' SHA-256.
func readRun(dir string) (Run, []byte, error) {
	path := filepath.Join(dir, RunFile)
	data, err := os.ReadFile(path)
	if err != nil {
		if _, dirErr := os.Stat(dir); dirErr == nil && errors.Is(err, fs.ErrNotExist) {
			return Run{}, nil, fmt.Errorf("%s is not a run directory: it has no %s; name the directory that an audit kept its run in", dir, RunFile)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return Run{}, nil, fmt.Errorf("%w; name the directory that an audit kept its run in", err)
		}
		return Run{}, nil, err
	}
	run, err := decodeRun(data)
	if err != nil {
		return Run{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	hash := sha256.Sum256(data)
	return run, hash[:], nil
}

// Next returns the next batch group, and io.EOF after the last whole one.
func (r *Reader) Next() ([]Record, error) {
	group, err := r.groups.next()
	switch {
	case err == errCut:
		damaged, err := damagedAt(r.file, r.groups.offset, r.size)
		if err == nil && damaged {
			err = errDamaged(r.file.Name(), r.groups.offset, r.groups.items)
		}
		return nil, cmp.Or(err, io.EOF)
	case err == io.EOF:
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.file.Name(), err)
	case r.groups.items > r.Run.Items:
		return nil, fmt.Errorf("%s holds more than the %d items that %s promises", r.file.Name(), r.Run.Items, RunFile)
	}
	return group, nil
}

// Records streams what is left of the records. An error ends it.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			group, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, item := range group {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// Done is the number of records read so far; after the last of them, a run is finished if it equals Run.Items.
func (r *Reader) Done() int { return r.groups.items }

// Cut is the number of bytes after what was read; after the last record, those of a group that was cut off.
func (r *Reader) Cut() int64 { return r.size - r.groups.offset }

// Close closes the run's files.
func (r *Reader) Close() error {
	r.groups.decoder.Close()
	return r.file.Close()
}

// groups reads the frames of an items file from its start.
type groups struct {
	in      *bufio.Reader
	decoder *zstd.Decoder
	frame   []byte // the current frame and its content, kept for reuse
	lines   []byte
	offset  int64 // where the next frame starts
	first   int   // Index of the first record
	items   int   // records so far
}

func newGroups(in io.Reader, first int) (*groups, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return &groups{in: bufio.NewReaderSize(in, 64<<10), decoder: decoder, first: first}, nil
}

// binding reads the first frame of the file.
func (g *groups) binding() ([]byte, error) {
	hash, err := readBinding(g.in)
	if err == nil {
		g.offset = bindingSize
	}
	return hash, err
}

// next returns the next group; io.EOF at the end, errCut where no whole frame follows.
func (g *groups) next() ([]Record, error) {
	var err error
	if g.frame, err = readFrame(g.in, g.frame); err != nil {
		return nil, err
	}
	if g.lines, err = g.decoder.DecodeAll(g.frame, g.lines[:0]); err != nil {
		return nil, errCut // the checksum, or what it protects, is damaged
	}
	group, err := g.parse()
	if err != nil {
		return nil, err
	}
	g.offset += int64(len(g.frame))
	g.items += len(group)
	return group, nil
}

// parse takes a frame's content apart. The frame's checksum is right, so what is wrong here was written that way.
func (g *groups) parse() ([]Record, error) {
	var group []Record
	for line := range bytes.Lines(g.lines) {
		var item Record
		if err := json.Unmarshal(line, &item); err != nil {
			return nil, fmt.Errorf("line %d: %w", g.items+len(group)+1, err)
		}
		if want := g.first + g.items + len(group); item.Index != want {
			return nil, fmt.Errorf("item %d stands where item %d belongs", item.Index, want)
		}
		if err := item.validate(); err != nil {
			return nil, err
		}
		group = append(group, item)
	}
	if len(group) == 0 {
		return nil, fmt.Errorf("a group without items after item %d", g.first+g.items-1)
	}
	return group, nil
}
