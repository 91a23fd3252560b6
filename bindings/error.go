package bindings

/*
#cgo CFLAGS: -I${SRCDIR}/../csrc
#include "plumb.h"
*/
import "C"

// Status says what kind of failure an Error is; the values are plumb.h's plumb_status.
type Status int

// The kinds of failure that callers tell apart.
const (
	StatusInvalid      Status = C.PLUMB_INVALID
	StatusNotFound     Status = C.PLUMB_NOT_FOUND
	StatusFormat       Status = C.PLUMB_FORMAT
	StatusUnsupported  Status = C.PLUMB_UNSUPPORTED
	StatusOutOfMemory  Status = C.PLUMB_OUT_OF_MEMORY
	StatusTooLong      Status = C.PLUMB_TOO_LONG
	StatusHookNotFired Status = C.PLUMB_HOOK_NOT_FIRED
	StatusNotFinite    Status = C.PLUMB_NOT_FINITE
)

// Error is a failure of the native library: one line for a person.
type Error struct {
	Status  Status
	Message string
}

func (e *Error) Error() string { return e.Message }

func errorOf(e *C.plumb_error) error {
	return &Error{Status: Status(e.status), Message: C.GoString(&e.message[0])}
}
