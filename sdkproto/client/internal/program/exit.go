package program

import (
	"errors"
	"strings"
)

// ErrLost is the ErrLost of the clients.
var ErrLost = errors.New("connection to the server is lost")

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
