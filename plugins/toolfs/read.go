package toolfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/textfile"
)

type readParams struct {
	FilePath string `json:"file_path" jsonschema:"The file to read: an absolute path, or one relative to the working directory."`
	Offset   int    `json:"offset,omitzero" jsonschema:"The number of the first line to give; the first line of the file is 1, which is the default."`
	Limit    int    `json:"limit,omitzero" jsonschema:"How many lines to give at most."`
}

// countAhead is how much of a file is read beyond the lines that are given only
// to tell how many there are, in bytes.
const countAhead = 16 << 20

func (f *Files) callRead(ctx context.Context, in tool.Invocation, p readParams) (tool.Result, error) {
	path, err := workspace.Resolve(in.CWD, p.FilePath)
	if err != nil {
		return failed(codeArguments, "cannot read: %v", err), nil
	}
	if p.Offset < 0 || p.Limit < 0 {
		return failed(codeArguments, "cannot read %q: offset and limit must be 1 or more", path), nil
	}
	if err := cancelled(ctx); err != nil {
		return tool.Result{}, err
	}
	file, info, err := textfile.Open(path)
	if err != nil {
		return describe("read", path, err), nil
	}
	defer file.Close()
	r := bufio.NewReaderSize(&patient{ctx, file}, 64<<10)
	head, err := r.Peek(textfile.SniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return f.readFailed(ctx, path, err)
	}
	enc := textfile.Sniff(head)
	if enc == textfile.Binary || enc == textfile.UTF8 && textfile.Garbled(head) {
		return failed(codeBinary, "cannot read %q: it is binary, or text that is not UTF-8 (%d bytes); use a command such as file, xxd or iconv to look into it", path, info.Size()), nil
	}
	if _, err := r.Discard(len(enc.BOM())); err != nil {
		return f.readFailed(ctx, path, err)
	}
	if enc == textfile.UTF16LE || enc == textfile.UTF16BE {
		r = bufio.NewReaderSize(enc.Reader(r), 64<<10)
	}
	first := max(p.Offset, 1)
	lines := p.Limit
	if lines == 0 {
		lines = f.config.ReadLines
	}
	page, err := f.page(r, first, lines)
	if err != nil {
		return f.readFailed(ctx, path, err)
	}
	if page.shown == 0 && first > 1 {
		return failed(codeArguments, "cannot read %q from line %d: it has %d lines", path, first, page.total), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<path>%s</path>\n<type>file</type>\n<content>\n%s\n(%s)\n</content>", printable(path), page.text, page.note(first))
	return tool.TextResult(b.String()), nil
}

func (f *Files) readFailed(ctx context.Context, path string, err error) (tool.Result, error) {
	if gone := cancelled(ctx); gone != nil {
		return tool.Result{}, gone
	}
	return describe("read", path, err), nil
}

// page is a part of a file as the model sees it.
type page struct {
	text  string
	shown int
	// total counts the lines of the file; there may be more unless exact is set.
	total int
	exact bool
	// full: the text reached its bound before the lines did.
	full    bool
	changed bool
}

// page reads lines from number first on. It holds one line at most besides what
// it gives, and of a long line only the start.
func (f *Files) page(r *bufio.Reader, first, lines int) (page, error) {
	var p page
	var out, line []byte
	for p.total < first-1 {
		more, err := skipLine(r)
		if err != nil {
			return p, err
		}
		if !more {
			p.exact = true
			return p, nil
		}
		p.total++
	}
	for p.shown < lines {
		var long, more bool
		var err error
		line, long, more, err = readLine(r, line[:0], f.config.LineRunes*utf8.UTFMax)
		if err != nil {
			return p, err
		}
		if !more {
			p.exact = true
			break
		}
		p.total++
		before := len(out)
		out = strconv.AppendInt(out, int64(p.total), 10)
		out = append(out, ": "...)
		if len(line) <= f.config.LineRunes && !long && textfile.IsPrintable(line) {
			out = append(out, line...)
		} else {
			text, changed := textfile.Printable(line)
			p.changed = p.changed || changed
			start, cut := cutRunes(text, f.config.LineRunes)
			out = append(out, start...)
			if cut || long {
				out = fmt.Appendf(out, "… (cut at %d characters)", f.config.LineRunes)
			}
		}
		out = append(out, '\n')
		if len(out) > f.config.ReadBytes && p.shown > 0 {
			out, p.full = out[:before], true
			break
		}
		p.shown++
	}
	p.text = string(out)
	if p.exact {
		return p, nil
	}
	n, exact, err := countLines(r, countAhead)
	p.total += n
	p.exact = exact
	return p, err
}

func (p page) note(first int) string {
	var note string
	last := first + p.shown - 1
	least := ""
	if !p.exact {
		least = "at least "
	}
	switch {
	case p.exact && last >= p.total:
		note = fmt.Sprintf("End of file - total %d lines", p.total)
	case p.full:
		note = fmt.Sprintf("the result is full: showing lines %d-%d of %s%d; use offset %d to read on", first, last, least, p.total, last+1)
	default:
		note = fmt.Sprintf("showing lines %d-%d of %s%d; use offset %d to read on", first, last, least, p.total, last+1)
	}
	if p.changed {
		note += "; bytes that are not text are shown as \ufffd"
	}
	return note
}

// readLine appends the next line without its end to buf, which is empty. Of a
// line longer than most bytes it gives the start and sets long. more is false at
// the end of the file.
func readLine(r *bufio.Reader, buf []byte, most int) (line []byte, long, more bool, err error) {
	line = buf
	for {
		part, err := r.ReadSlice('\n')
		more = more || len(part) > 0
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		// One byte more, for the \r that may turn out to be part of the line's end.
		if room := most + 1 - len(line); len(part) > room {
			part, long = part[:room], true
		}
		line = append(line, part...)
		switch {
		case ended || errors.Is(err, io.EOF):
			if ended && !long {
				line = bytes.TrimSuffix(line, []byte("\r"))
			}
			if len(line) > most {
				line, long = line[:most], true
			}
			if long {
				line = wholeRunes(line)
			}
			return line, long, more, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, false, false, err
		}
	}
}

// wholeRunes cuts a character that the end of b splits.
func wholeRunes(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

func skipLine(r *bufio.Reader) (more bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		more = more || len(part) > 0
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return more, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return false, err
		}
	}
}

// countLines counts the lines that remain, but reads little more than most
// bytes for it; exact reports that it came to the end.
func countLines(r *bufio.Reader, most int) (n int, exact bool, err error) {
	open := false
	for seen := 0; ; {
		if r.Buffered() == 0 {
			if _, err := r.Peek(1); errors.Is(err, io.EOF) {
				if open {
					n++
				}
				return n, true, nil
			} else if err != nil {
				return n, false, err
			}
			if seen >= most {
				return n + 1, false, nil
			}
		}
		b, err := r.Peek(r.Buffered())
		if err != nil {
			return n, false, err
		}
		n += bytes.Count(b, []byte{'\n'})
		open = b[len(b)-1] != '\n'
		seen += len(b)
		if _, err := r.Discard(len(b)); err != nil {
			return n, false, err
		}
	}
}

// cutRunes gives the first n runes of s.
func cutRunes(s string, n int) (start string, cut bool) {
	if len(s) <= n {
		return s, false
	}
	for i := range s {
		if n == 0 {
			return s[:i], true
		}
		n--
	}
	return s, false
}

// patient reads from a file for as long as the call is wanted.
type patient struct {
	ctx context.Context
	r   io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.r.Read(b)
}
