package cli

import (
	"errors"
	"fmt"
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
