package corpus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	file    *os.File
	size    int64 // end of the last whole line
	answers map[question]Answer
}

// OpenJournal opens a journal and reads the answers in it. A last line that was cut off is removed. Without resume, a file
// that holds answers is an error.
func OpenJournal(path string, resume bool) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, pathError(path, err)
	}
	j := &Journal{file: file, answers: map[question]Answer{}}
	if err := j.read(path, resume); err != nil {
		return nil, cmp.Or(err, file.Close())
	}
	return j, nil
}

func (j *Journal) read(path string, resume bool) error {
	if err := unix.Flock(int(j.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%s: another process is writing answers here", path)
		}
		return pathError(path, err)
	}
	data, err := io.ReadAll(j.file)
	if err != nil {
		return pathError(path, err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	line := 0
	for text := range bytes.Lines(whole) {
		line++
		var a Answer
		if err := json.Unmarshal(text, &a); err != nil || a.ID == "" {
			return fmt.Errorf("%s:%d: not an answer; the file was changed by something else, put it right or choose another folder", path, line)
		}
		j.answers[a.question()] = a
	}
	if line > 0 && !resume {
		return fmt.Errorf("%s holds %s answers already; go on after them by --resume, or choose another folder", path, thousands(line))
	}
	j.size = int64(len(whole))
	return j.file.Truncate(j.size)
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

// append keeps an answer, on the disk when it returns. A line is written whole or not at all.
func (j *Journal) append(a Answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	j.mutex.Lock()
	defer j.mutex.Unlock()
	_, err = j.file.WriteAt(line, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		_ = j.file.Truncate(j.size) // a line that stays cut is removed by OpenJournal
		return err
	}
	j.size += int64(len(line))
	j.answers[a.question()] = a
	return nil
}

// Close gives the file back.
func (j *Journal) Close() error { return j.file.Close() }
