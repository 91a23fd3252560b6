package cli

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far a long command is, on a terminal alone.
type progress struct {
	bar   *progressbar.ProgressBar // nil: quiet
	start int
}

// newProgress returns the progress of total steps of which start were done before; what an earlier process did says
// nothing about the rate of this one.
func newProgress(notes io.Writer, total, start int) progress {
	file, ok := notes.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return progress{}
	}
	return progress{start: start, bar: progressbar.NewOptions(total-start,
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription("items"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("items"),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth())}
}

// at says that n steps are done, those before the start included.
func (p progress) at(n int) {
	if p.bar != nil {
		_ = p.bar.Set(n - p.start)
	}
}

// end takes the bar off the terminal.
func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
