package external

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// maxLine bounds one line that a plugin prints, in bytes; the rest of a longer
// one is skipped.
const maxLine = 64 << 10

// readLines hands on line after line of r, without its end, until r ends or f
// says stop.
func readLines(r io.Reader, f func(line []byte) (more bool)) {
	in := bufio.NewReaderSize(r, maxLine)
	skipping := false
	for {
		line, err := in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if !skipping && len(line) > 0 && !f(trimEnd(line)) {
			return
		}
		skipping = full
		if err != nil && !full {
			return
		}
	}
}

func trimEnd(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// lineWriter is readLines for what is written to it.
type lineWriter struct {
	f func(line []byte)

	mu       sync.Mutex
	pending  []byte
	skipping bool
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		i := slices.Index(rest, '\n')
		part := rest
		if i >= 0 {
			part = rest[:i]
		}
		if !w.skipping {
			w.pending = append(w.pending, part[:min(len(part), maxLine-len(w.pending))]...)
		}
		if i < 0 {
			if len(w.pending) == maxLine && !w.skipping {
				w.f(w.pending)
				w.pending, w.skipping = w.pending[:0], true
			}
			break
		}
		if !w.skipping {
			w.f(trimEnd(w.pending))
		}
		w.pending, w.skipping = w.pending[:0], false
		rest = rest[i+1:]
	}
	return len(p), nil
}

// meter bounds how much of a plugin's output is logged: so many lines and bytes
// a second, and ten times as much at once.
type meter struct {
	mu           sync.Mutex
	now          func() time.Time
	last         time.Time
	lines, bytes float64
	dropped      int
}

const (
	linesPerSecond = 100
	bytesPerSecond = 128 << 10
	burst          = 10
)

// admit reports whether a line may be logged, and how many were not before it.
func (m *meter) admit(size int) (ok bool, dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.last.IsZero() {
		m.lines, m.bytes = burst*linesPerSecond, burst*bytesPerSecond
	} else {
		passed := now.Sub(m.last).Seconds()
		m.lines = min(m.lines+passed*linesPerSecond, burst*linesPerSecond)
		m.bytes = min(m.bytes+passed*bytesPerSecond, burst*bytesPerSecond)
	}
	m.last = now
	if m.lines < 1 || m.bytes < float64(size) {
		m.dropped++
		return false, 0
	}
	m.lines--
	m.bytes -= float64(size)
	dropped, m.dropped = m.dropped, 0
	return true, dropped
}
