package cli

import (
	"errors"
	"fmt"
)

// Exit statuses of the program.
const (
	exitFailed = 1 // the work could not be done
	exitUsage  = 2 // the command line is wrong
)

// usage is an error in the command line.
type usage struct{ message string }

func (u *usage) Error() string { return u.message }

func usageError(format string, args ...any) error {
	return &usage{fmt.Sprintf(format, args...)}
}

// errHelpShown ends a command after whose arguments --help stood.
var errHelpShown = errors.New("help was shown")

// ExitStatus is the status with which the program ends after Run returned err.
func ExitStatus(err error) int {
	var u *usage
	switch {
	case err == nil:
		return 0
	case errors.As(err, &u):
		return exitUsage
	}
	return exitFailed
}
