package cli

import (
	"errors"
	"fmt"

	"plumb/bindings"
)

// Exit statuses of the program.
const (
	exitFailed = 1 // the work could not be done
	exitUsage  = 2 // the command line is wrong
	exitGate   = 3 // a gate said no
)

// usage is an error in the command line.
type usage struct{ message string }

func (u *usage) Error() string { return u.message }

func usageError(format string, args ...any) error {
	return &usage{fmt.Sprintf(format, args...)}
}

// rejected is the answer of a gate that said no.
type rejected struct{ decision string }

func (r *rejected) Error() string { return r.decision }

// textError is an error of one text, not of the model.
type textError struct{ error }

func (e *textError) Unwrap() error { return e.error }

// perText tells an error of one text from one of the model.
func perText(err error) (ofText, fatal error) {
	var native *bindings.Error
	if text := (*textError)(nil); errors.As(err, &text) ||
		errors.As(err, &native) && (native.Status == bindings.StatusTooLong || native.Status == bindings.StatusNotFinite) {
		return err, nil
	}
	return nil, err
}

// errHelpShown ends a command after whose arguments --help stood.
var errHelpShown = errors.New("help was shown")

// ExitStatus is the status with which the program ends after Run returned err.
func ExitStatus(err error) int {
	var u *usage
	var r *rejected
	switch {
	case err == nil:
		return 0
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &r):
		return exitGate
	}
	return exitFailed
}
