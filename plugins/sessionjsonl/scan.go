package sessionjsonl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	// maxLine bounds one row; a prompt may be as long as a line of the wire
	// (decision D18) and grow by escaping.
	maxLine = 1 << 30
	// maxHead bounds the header row.
	maxHead    = 1 << 20
	scanBuffer = 64 << 10
	headBuffer = 1 << 10
)

// found is what a scan saw of a file.
type found struct {
	// end is the length of what is good, in bytes; lines is that in lines.
	end   int64
	lines int
	// size is the length of everything.
	size int64
}

// scan reads a session file one line at a time and hands on its header and its
// records. What a crash may have left at the end is not handed on: a line
// without a newline, and everything from the first bad row on, provided that no
// turn ends behind it (spec jsonrpc 9.6 rules 1 to 3).
func scan(ctx context.Context, file io.Reader, path string, head func(session.Header) error, fn func(*session.Record) error) (found, error) {
	lines := lineReader{r: bufio.NewReaderSize(file, scanBuffer), max: maxLine}
	var f found
	var next int64
	var bad error
	for {
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		line, err := lines.next()
		f.size = lines.read
		if err == io.EOF {
			if f.lines == 0 {
				return f, session.ErrNotFound
			}
			return f, nil
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return f, err
		}
		switch {
		case bad != nil:
			if err == nil && endsTurn(line) {
				return f, fmt.Errorf("%s:%d: %w: %w", path, f.lines+1, session.ErrCorrupt, bad)
			}
			continue
		case f.lines == 0:
			h, err := parseHead(line, err, path)
			if err != nil {
				return f, err
			}
			if err := head(h); err != nil {
				return f, err
			}
		case err != nil:
			bad = err
			continue
		default:
			var row *session.RowError
			next, err = session.ParseRow(line, next, func(r *session.Record) error {
				if err := session.CheckType(r); err != nil {
					return fmt.Errorf("%s:%d: %w", path, f.lines+1, err)
				}
				return fn(r)
			})
			if errors.As(err, &row) {
				bad = err
				continue
			}
			if err != nil {
				return f, err
			}
		}
		f.lines, f.end = f.lines+1, lines.read
	}
}

func parseHead(line []byte, err error, path string) (session.Header, error) {
	if err != nil {
		return session.Header{}, fmt.Errorf("%s:1: %w: %w", path, session.ErrCorrupt, err)
	}
	h, err := session.ParseHeader(line)
	if err != nil {
		return session.Header{}, fmt.Errorf("%s:1: %w", path, err)
	}
	return h, nil
}

// endsTurn reports whether a line is the row of a turn/end event.
func endsTurn(line []byte) bool {
	if !bytes.Contains(line, []byte(sdkproto.TypeTurnEnd)) {
		return false
	}
	var row struct {
		Type string `json:"type"`
	}
	return wirejson.Unmarshal(line, &row) == nil && row.Type == sdkproto.TypeTurnEnd
}

// readHead reads the header of the file at path. A file that is absent, or has
// no whole first line, is no session yet: ErrNotFound.
func readHead(path string) (session.Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return session.Header{}, notFound(err)
	}
	defer f.Close()
	lines := lineReader{r: bufio.NewReaderSize(f, headBuffer), max: maxHead}
	line, err := lines.next()
	if err == io.EOF {
		return session.Header{}, session.ErrNotFound
	}
	if err != nil && !errors.Is(err, errLongLine) {
		return session.Header{}, err
	}
	return parseHead(line, err, path)
}

var errLongLine = errors.New("the line is too long")

// lineReader gives whole lines without their newline.
type lineReader struct {
	r    *bufio.Reader
	max  int
	read int64 // bytes read, a last line without newline included
	long []byte
}

// next gives the next line, which is good until the next call. A line longer
// than max is passed over and gives errLongLine. At the end of the text, with or
// without a line that lacks its newline, it gives io.EOF.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.read += int64(len(line))
	if err == nil {
		return line[:len(line)-1], nil
	}
	l.long = l.long[:0]
	tooLong := false
	for {
		if tooLong = tooLong || len(l.long)+len(line) > l.max; !tooLong {
			l.long = append(l.long, line...)
		}
		switch {
		case err == nil && tooLong:
			return nil, errLongLine
		case err == nil:
			return l.long[:len(l.long)-1], nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
		line, err = l.r.ReadSlice('\n')
		l.read += int64(len(line))
	}
}
