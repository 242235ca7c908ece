package streamclient

import (
	"errors"
	"fmt"
	"strings"

	"dsh/sdkproto/client"
	"dsh/sdkproto/streamjson"
)

// Errors that are those of the client of the other wire.
var (
	// ErrClosed is wrapped by the error of everything that is asked of a Session
	// after Close, and of everything that still waited when Close was done.
	ErrClosed = client.ErrClosed
	// ErrLost is wrapped by the error of everybody who waited for a program that
	// went away, and of every later call. See ExitError.
	ErrLost = client.ErrLost
	// ErrMissed is wrapped by the error with which a sequence of lines ends that is
	// not complete.
	ErrMissed = client.ErrMissed
	// ErrProtocol is wrapped by the error for a line that does not have the shape
	// that the wire prescribes for it.
	ErrProtocol = client.ErrProtocol
	// ErrWithdrawn is wrapped by the error of a turn that will not be, because its
	// message was taken back (Session.CancelMessage).
	ErrWithdrawn = errors.New("the message was taken back")
)

// ExitError says how the program ended: with its exit code and the last of its
// stderr. It wraps ErrLost.
type ExitError = client.ExitError

// ControlError is the program's refusal of a control request.
type ControlError struct {
	// Subtype is that of the request.
	Subtype string
	// Message is why, in the program's words.
	Message string
	// Code is one of the streamjson.Code constants, another one, or "".
	Code string
}

func (e *ControlError) Error() string { return e.Message }

// ResultError is a result that is an error, as an error: Start wraps one when the
// program says why there is no session (spec stream-json 3.8).
type ResultError struct{ Result streamjson.Result }

func (e *ResultError) Error() string {
	if len(e.Result.Errors) > 0 {
		return strings.Join(e.Result.Errors, "; ")
	}
	return e.Result.Result
}

func failed(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }
