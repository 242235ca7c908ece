package chatwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits of an event stream.
const (
	maxEventBytes  = 16 << 20
	firstReadBytes = 4 << 10
)

var errEventTooLarge = fmt.Errorf("an event of the stream is larger than %d MiB", maxEventBytes>>20)

// events reads server-sent events. What it gives does not depend on where the
// bytes were cut on their way. Comments are read over: that they count as life
// is the business of the reader underneath.
type events struct {
	src io.Reader
	// last reports whether some data ends the stream.
	last func(data []byte) bool
	// buf[start:end] has been read and not been used; no line ends in
	// buf[start:scanned].
	buf                 []byte
	start, scanned, end int
	// skipLF says that a CR ended the last line and its LF may follow.
	skipLF bool
	begun  bool
	err    error

	name []byte
	data []byte
	some bool // the event has data so far
}

func newEvents(src io.Reader, last func([]byte) bool) *events {
	return &events{src: src, last: last, buf: make([]byte, firstReadBytes)}
}

// next gives the next event that has data, valid until the call after it, and its
// name where that is ping or error. At
// the end of the input it gives io.EOF; an event that the end cuts off is given
// only if it is the terminator, whose line end some servers leave out.
func (e *events) next() (name string, data []byte, err error) {
	e.name, e.data, e.some = e.name[:0], e.data[:0], false
	for {
		line, err := e.line()
		if err != nil {
			if errors.Is(err, io.EOF) {
				e.field(line)
				if e.some && e.last(e.data) {
					return nameOf(e.name), e.data, nil
				}
			}
			return "", nil, err
		}
		if len(line) > 0 {
			if err := e.field(line); err != nil {
				return "", nil, err
			}
			continue
		}
		if e.some && len(bytes.TrimSpace(e.data)) > 0 {
			return nameOf(e.name), e.data, nil
		}
		e.name, e.data, e.some = e.name[:0], e.data[:0], false
	}
}

// nameOf gives the name of an event that readers know; the others say in their data
// what they are, and a text for each would be an allocation for each.
func nameOf(name []byte) string {
	switch string(name) {
	case "ping":
		return "ping"
	case "error":
		return "error"
	}
	return ""
}

func (e *events) field(line []byte) error {
	key, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(key) {
	case "data":
		if e.some {
			e.data = append(e.data, '\n')
		}
		if len(e.data)+len(value) > maxEventBytes {
			return errEventTooLarge
		}
		e.data, e.some = append(e.data, value...), true
	case "event":
		e.name = append(e.name[:0], value...)
	}
	return nil
}

// line gives the next line without its end; with the error that ends the input,
// what is left.
func (e *events) line() ([]byte, error) {
	for {
		if e.skipLF && e.start < e.end {
			if e.buf[e.start] == '\n' {
				e.start++
				e.scanned = max(e.scanned, e.start)
			}
			e.skipLF = false
		}
		if !e.begun && (e.end-e.start >= 3 || e.err != nil) {
			e.begun = true
			if bytes.HasPrefix(e.buf[e.start:e.end], []byte("\ufeff")) {
				e.start += 3
				e.scanned = e.start
			}
		}
		if e.begun {
			if at := endOfLine(e.buf[e.scanned:e.end]); at >= 0 {
				at += e.scanned
				line := e.buf[e.start:at]
				e.skipLF = e.buf[at] == '\r'
				e.start, e.scanned = at+1, at+1
				return line, nil
			}
			e.scanned = e.end
		}
		if e.err != nil {
			line := e.buf[e.start:e.end]
			e.start, e.scanned = e.end, e.end
			return line, e.err
		}
		if e.end-e.start > maxEventBytes {
			return nil, errEventTooLarge
		}
		e.fill()
	}
}

func endOfLine(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (e *events) fill() {
	if e.start > 0 {
		copy(e.buf, e.buf[e.start:e.end])
		e.end -= e.start
		e.scanned -= e.start
		e.start = 0
	}
	if e.end == len(e.buf) {
		e.buf = append(e.buf, make([]byte, len(e.buf))...)
	}
	n, err := e.src.Read(e.buf[e.end:])
	e.end += n
	e.err = err
}
