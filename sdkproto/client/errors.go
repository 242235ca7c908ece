package client

import (
	"errors"
	"strings"

	"dsh/sdkproto"
)

var (
	// ErrClosed is wrapped by the error of everything that is asked of a Client
	// after Close, and of everything that still waited when Close was done.
	ErrClosed = errors.New("client is closed")
	// ErrLost is wrapped by the error of everybody who waited for a server that
	// went away, and of every later call. See ExitError.
	ErrLost = errors.New("connection to the server is lost")
	// ErrMissed is wrapped by the error with which a sequence of notifications
	// ends that is not complete.
	ErrMissed = errors.New("notifications were dropped")
	// ErrSilent is wrapped by the error of everybody who waited while nothing at
	// all came from the server for longer than Limits.Silence. The connection
	// stands: whoever asks later waits anew.
	ErrSilent = errors.New("server is silent")
	// ErrNotOffered is wrapped by the error for an extension that the server does
	// not have (spec jsonrpc 13.3).
	ErrNotOffered = errors.New("server does not offer it")
	// ErrProtocol is wrapped by the error for a frame that does not have the
	// shape that the wire prescribes for it.
	ErrProtocol = errors.New("server broke the protocol")
)

// Details is what the server said of an error beyond its text: a code, whether
// the same request may succeed later, the parameter that is wrong. ok is false
// for an error that is not the server's, and for one that came without, as all
// do unless Initialize sets ProtocolVersion.
func Details(err error) (d sdkproto.ErrorData, ok bool) {
	var e *sdkproto.RPCError
	if errors.As(err, &e) {
		d = e.Details()
	}
	return d, d.Code != ""
}

const (
	// shownBytes and shownLines bound the part of stderr inside an error text.
	shownBytes = 2 << 10
	shownLines = 20
)

// ExitError says how the server's process ended. It wraps ErrLost.
type ExitError struct {
	// Code is the exit code, -1 when a signal ended the process.
	Code int
	// Status is the same in words, for example "exit status 3" or "signal:
	// killed".
	Status string
	// Stderr is what the process wrote there, at most its last 64 KiB.
	Stderr string
}

func (e *ExitError) Error() string {
	return "server ended with " + e.Status + shown(e.Stderr)
}

// Unwrap returns ErrLost.
func (e *ExitError) Unwrap() error { return ErrLost }

// shown is the end of a stderr text as a part of an error text.
func shown(stderr string) string {
	text := strings.TrimSpace(stderr)
	if text == "" {
		return "; nothing on its stderr"
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-shownLines):]
	for len(lines) > 1 && len(strings.Join(lines, "\n")) > shownBytes {
		lines = lines[1:]
	}
	last := strings.Join(lines, "\n")
	last = strings.ToValidUTF8(last[max(0, len(last)-shownBytes):], "")
	return "; its stderr ended: " + last
}
