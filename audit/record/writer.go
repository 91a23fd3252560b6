package record

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// syncEvery bounds the work that a power cut can undo. A killed process loses nothing that was appended.
const syncEvery = 5 * time.Second

// Writer appends the records of one run. It holds the run's lock until it is closed.
type Writer struct {
	dir     string
	run     Run
	file    *os.File
	encoder *zstd.Encoder
	lines   bytes.Buffer
	frame   []byte
	offset  int64 // end of the last whole frame
	done    int
	cut     int64
	synced  time.Time
	failed  error
}

// Create starts a run in a directory that does not exist yet or is empty.
func Create(dir string, run Run) (*Writer, error) { return openWriter(dir, run, false) }

// Resume goes on with a run that was cut anywhere, after its last whole group; it starts one where there is none.
// It refuses a run that differs from the one asked for, in one line that names the field.
func Resume(dir string, run Run) (*Writer, error) { return openWriter(dir, run, true) }

func openWriter(dir string, run Run, resume bool) (*Writer, error) {
	run.Format = format
	description, err := run.encode()
	if err != nil {
		return nil, err
	}
	if err := prepare(dir, resume); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, ItemsFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the run directory cannot be written: %w", err)
	}
	w := &Writer{dir: dir, run: run, file: file, synced: time.Now()}
	if err := w.start(description, resume); err != nil {
		return nil, cmp.Or(err, file.Close())
	}
	return w, nil
}

// prepare makes the directory, or says why it cannot hold this run.
func prepare(dir string, resume bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o755)
	}
	if errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s is a file or below one, and a run is kept in a directory; choose another name", dir)
	}
	if err != nil {
		return err
	}
	ours := false
	for _, entry := range entries {
		switch entry.Name() {
		case RunFile, RunFile + ".tmp", ItemsFile:
			ours = true
		}
	}
	switch {
	case len(entries) > 0 && !ours:
		return fmt.Errorf("%s is not a run directory and not empty; choose another one", dir)
	case ours && !resume:
		return alreadyThere(dir)
	}
	return nil
}

// alreadyThere says what run is in the way.
func alreadyThere(dir string) error {
	r, err := Open(dir)
	if err != nil {
		return fmt.Errorf("%s already holds a run; go on with it by --resume, or choose another directory", dir)
	}
	defer r.Close()
	for _, err := range r.Records() {
		if err != nil {
			return err
		}
	}
	if r.Done() == r.Run.Items {
		return fmt.Errorf("%s already holds a finished run; print it with `plumb report %s`, or choose another directory", dir, dir)
	}
	return fmt.Errorf("%s already holds a run with %d of %d items; go on with it by --resume, or choose another directory", dir, r.Done(), r.Run.Items)
}

// start takes the lock, settles run.json and finds the end of the last whole group.
func (w *Writer) start(description []byte, resume bool) error {
	if err := unix.Flock(int(w.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("another process is writing to %s", w.dir)
		}
		return fmt.Errorf("lock %s: %w", w.file.Name(), err)
	}
	size, err := w.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size > 0 && !resume { // another process started and ended between prepare and here
		return alreadyThere(w.dir)
	}
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if w.encoder, err = newEncoder(); err != nil {
		return err
	}
	g, err := newGroups(w.file, w.run.first())
	if err != nil {
		return err
	}
	defer g.decoder.Close()
	bound, err := g.binding()
	switch {
	case err == errCut && size >= bindingSize:
		return notItems(w.file.Name())
	case err != nil && err != errCut:
		return err
	}
	if err := w.settle(description, bound); err != nil {
		return err
	}
	if bound != nil {
		return w.recover(g, size)
	}
	start := make([]byte, size)
	if _, err := w.file.ReadAt(start, 0); err != nil && err != io.EOF {
		return err
	}
	if !bytes.HasPrefix(bindingFrame(description), start) { // no start of ours that was cut
		return notItems(w.file.Name())
	}
	w.cut = size
	if err := w.file.Truncate(0); size > 0 && err != nil {
		return err
	}
	return w.write(bindingFrame(description))
}

func notItems(name string) error {
	return fmt.Errorf("%s is not the items file of a run; move it away, or choose another directory", name)
}

// settle makes run.json what is asked for, or says how the run in the directory differs. bound is the SHA-256 of the
// run.json that the items were written under, nil if there are no items yet.
func (w *Writer) settle(description, bound []byte) error {
	path := filepath.Join(w.dir, RunFile)
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if json.Valid(have) && !bytes.HasPrefix(description, have) {
		old, err := decodeRun(have)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		what := difference(old, w.run)
		if what == "" {
			what = "its " + RunFile + " was edited"
		}
		return fmt.Errorf("%s holds another run: %s; ask for the same, or choose another directory", w.dir, what)
	}
	hash := sha256.Sum256(description)
	switch {
	case bound != nil && !bytes.Equal(bound, hash[:]):
		return fmt.Errorf("%s holds the items of another run than the one asked for; choose another directory", w.dir)
	case bytes.Equal(have, description):
		return nil
	case bound == nil && !bytes.HasPrefix(description, have):
		return fmt.Errorf("%s is damaged; choose another directory", path)
	}
	return WriteAtomically(path, description) // missing, or cut
}

// WriteAtomically writes a file and leaves the old file or the new one, whole, whenever the process or the machine stops, and
// where it cannot be written. An error names the file.
func WriteAtomically(path string, data []byte) error {
	temporary := path + ".tmp"
	err := writeSynced(temporary, data)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may not even be there
		return fmt.Errorf("%s: %w", path, reason(err))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return cmp.Or(dir.Sync(), dir.Close())
}

func writeSynced(path string, data []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return cmp.Or(err, file.Close())
}

// reason is an error without the name of the file that it is of.
func reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		return link.Err
	}
	return err
}

// recover counts the whole groups and cuts off what follows them.
func (w *Writer) recover(g *groups, size int64) error {
	for {
		_, err := g.next()
		if err == io.EOF || err == errCut {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.file.Name(), err)
		}
	}
	damaged, err := damagedAt(w.file, g.offset, size)
	if err != nil {
		return err
	}
	if damaged {
		return errDamaged(w.file.Name(), g.offset, g.items)
	}
	if g.items > w.run.Items {
		return fmt.Errorf("%s holds %d items, more than the run's %d", w.file.Name(), g.items, w.run.Items)
	}
	w.done, w.offset, w.cut = g.items, g.offset, size-g.offset
	return w.file.Truncate(w.offset)
}

// Append writes a batch group as one frame. Records carry on from the last one, Index by Index. A group that is refused
// (a gap in the order, a NaN or infinity, a sum that is not its tokens') leaves the run as it was; after a failed write,
// what was appended before is whole and readable, and every later call fails.
func (w *Writer) Append(group []Record) error {
	if w.failed != nil {
		return w.failed
	}
	if len(group) == 0 {
		return errors.New("a group of records must not be empty")
	}
	w.lines.Reset()
	encoder := json.NewEncoder(&w.lines)
	encoder.SetEscapeHTML(false)
	for i := range group {
		item := &group[i]
		if want := w.Next() + i; item.Index != want || w.done+i >= w.run.Items {
			return fmt.Errorf("record %d appended where record %d of %d belongs", item.Index, want, w.run.Items)
		}
		if err := item.validate(); err != nil {
			return err
		}
		if err := encoder.Encode(item); err != nil {
			return fmt.Errorf("item %s: %w", item.ID, err)
		}
	}
	if w.lines.Len() > maxGroup {
		return fmt.Errorf("%d records take %d bytes, more than the %d of one group", len(group), w.lines.Len(), maxGroup)
	}
	w.frame = w.encoder.EncodeAll(w.lines.Bytes(), w.frame[:0])
	if err := w.write(w.frame); err != nil {
		return err
	}
	w.done += len(group)
	return nil
}

// write appends a frame whole or not at all.
func (w *Writer) write(frame []byte) error {
	_, err := w.file.WriteAt(frame, w.offset)
	if err == nil && time.Since(w.synced) >= syncEvery {
		err = w.file.Sync()
		w.synced = time.Now()
	}
	if err != nil {
		_ = w.file.Truncate(w.offset) // a frame that stays cut is found and cut off by Resume
		w.failed = fmt.Errorf("%w; %d of %d items are kept, go on with --resume", err, w.done, w.run.Items)
		return w.failed
	}
	w.offset += int64(len(frame))
	return nil
}

// Done is the number of records in the run, those from before a resumption included.
func (w *Writer) Done() int { return w.done }

// First is the Index of the run's first record: 0, unless the run is a shard.
func (w *Writer) First() int { return w.run.first() }

// Next is the next record's Index.
func (w *Writer) Next() int { return w.First() + w.done }

// Cut is the number of bytes, of a group that was never finished, that Resume cut off.
func (w *Writer) Cut() int64 { return w.cut }

// Close puts everything on the disk and gives the lock back. The run is finished if Done is Run.Items.
func (w *Writer) Close() error {
	return cmp.Or(w.file.Sync(), w.file.Close(), w.encoder.Close())
}
