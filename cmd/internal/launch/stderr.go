package launch

import (
	"io"
	"time"
)

// Stderr writes to standard error without ever waiting for whoever reads it: a
// client that lets its pipe fill up must not hold up the work (spec stream-json
// 1.6). What finds no room is dropped.
type Stderr struct {
	lines      chan []byte
	stop, done chan struct{}
}

const (
	// stderrLines is how many writes may wait.
	stderrLines = 512
	// stderrLimit is how long the end of the process waits for them.
	stderrLimit = 500 * time.Millisecond
)

// NewStderr writes to w until Close.
func NewStderr(w io.Writer) *Stderr {
	s := &Stderr{lines: make(chan []byte, stderrLines), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			select {
			case line := <-s.lines:
				_, _ = w.Write(line) // there is nowhere to say so
				continue
			default:
			}
			select {
			case line := <-s.lines:
				_, _ = w.Write(line)
			case <-s.stop:
				return
			}
		}
	}()
	return s
}

// Write takes a copy of p, or drops it; it never fails.
func (s *Stderr) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	select {
	case s.lines <- append(make([]byte, 0, len(p)), p...):
	default:
	}
	return len(p), nil
}

// Close waits for what was taken, as long as somebody reads it. It is called once;
// what is written later may go nowhere.
func (s *Stderr) Close() {
	close(s.stop)
	select {
	case <-s.done:
	case <-time.After(stderrLimit):
	}
}
