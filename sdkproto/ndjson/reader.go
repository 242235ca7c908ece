package ndjson

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"unicode"
)

const (
	// readBase is the size of a fresh buffer, half of what a pipe holds.
	readBase = 32 << 10
	// readKeep is the largest buffer kept from one line to the next. A larger
	// one is given back, because one message with images would otherwise stay
	// in memory for the life of the process.
	readKeep = 256 << 10
	// emptyReads is how often in a row a source may return neither bytes nor an
	// error.
	emptyReads = 100
)

var byteOrderMark = []byte("\uFEFF")

// Reader takes lines from a stream. It is for one goroutine.
type Reader struct {
	src io.Reader
	max int
	// buf[pos:end] has been read from src and not been returned.
	buf      []byte
	pos, end int
	// err is what src returned last; it is reported after the whole lines
	// before it.
	err error
	// unended is set when the end came inside a line.
	unended bool
}

// NewReader returns a Reader of lines of at most max bytes, the line end not
// counted. A max below 1 means MaxLine.
func NewReader(r io.Reader, max int) *Reader {
	if max < 1 {
		max = MaxLine
	}
	// room adds two to it.
	return &Reader{src: r, max: min(max, math.MaxInt-2)}
}

// Next returns the next line without its end, without the white space around
// it, and without a byte order mark before its first character. Lines end with
// "\n"; one "\r" before it belongs to the end. A line in which nothing is left
// is skipped (spec jsonrpc 1.1). The slice is valid until the next call.
//
// A line that is longer than the bound is read to its end and dropped. It is
// reported with tooLong set and its first bytes, at most MaxPrefix and at most
// the bound, trimmed on the left only. The next call goes on with the line
// behind it.
//
// A last line without an end is dropped, because whoever wrote it may have died
// in the middle. The end of the stream is io.EOF; any other error wraps that of
// the source. Both are returned by every later call as well.
func (r *Reader) Next() (line []byte, tooLong bool, err error) {
	r.release()
	scanned := 0 // bytes behind pos that hold no line feed
	for {
		if i := bytes.IndexByte(r.buf[r.pos+scanned:r.end], '\n'); i >= 0 {
			raw := bytes.TrimSuffix(r.buf[r.pos:r.pos+scanned+i], []byte{'\r'})
			r.pos += scanned + i + 1
			scanned = 0
			if len(raw) > r.max {
				return r.prefix(raw), true, nil
			}
			if line := trim(raw); len(line) > 0 {
				return line, false, nil
			}
			continue
		}
		scanned = r.end - r.pos
		// One byte beyond the bound may still be the "\r" of a line end.
		if scanned > r.max+1 {
			return r.discard()
		}
		r.room()
		if err := r.fill(); err != nil {
			return nil, false, err
		}
	}
}

// trim removes what JSON does not care about.
func trim(line []byte) []byte {
	line = bytes.TrimSpace(line)
	if rest, ok := bytes.CutPrefix(line, byteOrderMark); ok {
		line = bytes.TrimSpace(rest)
	}
	return line
}

// prefix returns what is handed back of a line beyond the bound. raw is the
// line, or as much of it as has been read. Its right side is left alone: what
// was cut off there need not be white space.
func (r *Reader) prefix(raw []byte) []byte {
	raw = raw[:min(len(raw), r.max, MaxPrefix)]
	raw = bytes.TrimLeftFunc(raw, unicode.IsSpace)
	if rest, ok := bytes.CutPrefix(raw, byteOrderMark); ok {
		raw = bytes.TrimLeftFunc(rest, unicode.IsSpace)
	}
	return raw
}

// discard drops the line that begins at pos up to its end, keeping its prefix.
func (r *Reader) discard() (line []byte, tooLong bool, err error) {
	prefix := bytes.Clone(r.prefix(r.buf[r.pos:r.end]))
	if cap(r.buf) > readKeep {
		r.buf = make([]byte, readBase)
	}
	for {
		r.pos, r.end = 0, 0
		if err := r.fill(); err != nil {
			r.unended = true
			return nil, false, err
		}
		if i := bytes.IndexByte(r.buf[:r.end], '\n'); i >= 0 {
			r.pos = i + 1
			return prefix, true, nil
		}
	}
}

// release takes back the memory of the line returned last.
func (r *Reader) release() {
	left := r.end - r.pos
	switch {
	// A quarter, so that the copying stays in proportion to what was read.
	case len(r.buf) > readKeep && left <= len(r.buf)/4:
		buf := make([]byte, max(readBase, 2*left))
		r.pos, r.end = 0, copy(buf, r.buf[r.pos:r.end])
		r.buf = buf
	case left == 0:
		r.pos, r.end = 0, 0
	}
}

// room makes space behind end: by moving the line to the front if that frees
// half of the buffer, else by doubling. Every byte is so moved a bounded number
// of times, whatever the length of its line.
func (r *Reader) room() {
	if r.end < len(r.buf) {
		return
	}
	// What is kept of a line is at most the bound and a "\r"; one byte more is
	// room for the answer to what comes next.
	limit := max(readBase, r.max+2)
	to := r.buf
	if left := r.end - r.pos; len(r.buf) < limit && left >= len(r.buf)/2 {
		to = make([]byte, min(max(readBase, 2*len(r.buf)), limit))
	}
	r.pos, r.end = 0, copy(to, r.buf[r.pos:r.end])
	r.buf = to
}

// fill reads once behind end. There must be room.
func (r *Reader) fill() error {
	for range emptyReads {
		if r.err != nil {
			return r.finish()
		}
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if err != nil && err != io.EOF {
			err = fmt.Errorf("ndjson: read line: %w", err)
		}
		r.err = err
		if n > 0 {
			return nil
		}
	}
	if r.err == nil {
		r.err = fmt.Errorf("ndjson: read line: %w", io.ErrNoProgress)
	}
	return r.finish()
}

func (r *Reader) finish() error {
	r.unended = r.unended || len(trim(r.buf[r.pos:r.end])) > 0
	r.buf, r.pos, r.end = nil, 0, 0
	return r.err
}

// Unended reports, once Next has returned an error, that a last line without an
// end was dropped.
func (r *Reader) Unended() bool { return r.unended }
