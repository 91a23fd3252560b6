package corpus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"plumb/audit/report"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Answer is a translator's answer, as it is kept.
type Answer struct {
	ID       string    `json:"id"`
	Step     string    `json:"step"`          // what was asked for: FieldSAE or FieldAAEBack
	Model    string    `json:"model"`         // with the hash of its file, or with its endpoint
	Prompt   string    `json:"prompt_sha256"` // of the template
	Input    string    `json:"input_sha256"`  // of the text that was translated
	Text     string    `json:"answer"`
	Finish   string    `json:"finish,omitempty"` // why the answer ended, in the endpoint's words: "stop", "length"
	Attempts int       `json:"attempts"`
	Time     time.Time `json:"time"` // when it came
}

// question is what makes an answer the answer to the same request.
type question struct{ id, step, model, prompt, input string }

func (a *Answer) question() question { return question{a.ID, a.Step, a.Model, a.Prompt, a.Input} }

// Journal keeps answers in a file, a JSON object a line, appended as they come, so that a killed process loses none. It may
// be used from several goroutines. Its file is locked until it is closed.
type Journal struct {
	mutex   sync.Mutex
	lines   *lineFile
	answers map[question]Answer
}

// OpenJournal opens a journal and reads the answers in it. A last line that was cut off is removed. Without resume, a file
// that holds answers is an error.
func OpenJournal(path string, resume bool) (*Journal, error) {
	j := &Journal{answers: map[question]Answer{}}
	lines, err := openLines(path, func(text []byte) error {
		var a Answer
		if err := json.Unmarshal(text, &a); err != nil || a.ID == "" {
			return errors.New("it holds no answer")
		}
		j.answers[a.question()] = a
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n := len(j.answers); n > 0 && !resume {
		err := fmt.Errorf("%s holds %s answers already; go on after them by --resume, or choose another folder", path, report.Thousands(n))
		return nil, cmp.Or(err, lines.close())
	}
	j.lines = lines
	return j, nil
}

// Answers is how many answers the journal holds.
func (j *Journal) Answers() int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return len(j.answers)
}

func (j *Journal) find(q question) (Answer, bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	a, ok := j.answers[q]
	return a, ok
}

// append keeps an answer, on the disk when it returns.
func (j *Journal) append(a Answer) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if err := j.lines.append(a); err != nil {
		return err
	}
	j.answers[a.question()] = a
	return nil
}

// Close gives the file back.
func (j *Journal) Close() error { return j.lines.close() }

// lineFile is a file of JSON lines that is appended to by one process at a time. A line is there whole or not at all.
type lineFile struct {
	file *os.File
	size int64 // end of the last whole line
}

// openLines opens or makes a file, locks it, and hands each of its lines to read, which says why it is none that belongs
// there. A last line that was cut off is removed.
func openLines(path string, read func(text []byte) error) (*lineFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, pathError(path, err)
	}
	f := &lineFile{file: file}
	if err := f.start(path, read); err != nil {
		return nil, cmp.Or(err, file.Close())
	}
	return f, nil
}

func (f *lineFile) start(path string, read func(text []byte) error) error {
	if err := unix.Flock(int(f.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%s: another process is writing here", path)
		}
		return pathError(path, err)
	}
	data, err := io.ReadAll(f.file)
	if err != nil {
		return pathError(path, err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	line := 0
	for text := range bytes.Lines(whole) {
		line++
		if err := read(text); err != nil {
			return fmt.Errorf("%s:%d: this line is not one of ours (%w); put the file right, or choose another place", path, line, err)
		}
	}
	f.size = int64(len(whole))
	return f.file.Truncate(f.size)
}

func (f *lineFile) append(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	_, err = f.file.WriteAt(line, f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		_ = f.file.Truncate(f.size) // a line that stays cut is removed by openLines
		return err
	}
	f.size += int64(len(line))
	return nil
}

func (f *lineFile) close() error { return f.file.Close() }
