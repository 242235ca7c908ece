package toolfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/dialect"
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
	v, refused, err := f.view(ctx, in, claudeRead{FilePath: p.FilePath, Offset: p.Offset, Limit: p.Limit})
	if err != nil || refused != nil {
		return deref(refused), err
	}
	if v.page.shown == 0 && v.first > 1 {
		return failed(codeArguments, "cannot read %q from line %d: it has %d lines", v.path, v.first, v.page.total), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<path>%s</path>\n<type>file</type>\n<content>\n%s\n(%s)\n</content>", printable(v.path), v.page.text, v.page.note(v.first))
	return tool.TextResult(b.String()), nil
}

// viewed is what a call reads of a file.
type viewed struct {
	// path is absolute.
	path  string
	first int
	page  page
	// shown is the result of a file that is no text; there is no page then.
	shown *tool.Result
	// odd says why a file that should be more is shown as text.
	odd string
}

// bounds are those of one result.
type bounds struct{ lines, bytes int }

// generous is how much more a call gives that allows it.
const generous = 4

func (f *Files) bounds(p claudeRead) bounds {
	b := bounds{f.config.ReadLines, f.config.ReadBytes}
	if p.AllowLarge {
		b.lines, b.bytes = b.lines*generous, b.bytes*generous
	}
	if p.Limit > 0 {
		b.lines = p.Limit
	}
	return b
}

// view reads what a call asks for, or says why it cannot.
func (f *Files) view(ctx context.Context, in tool.Invocation, p claudeRead) (v viewed, refused *tool.Result, err error) {
	refuse := func(r tool.Result) (viewed, *tool.Result, error) { return v, &r, nil }
	if p.Offset < 0 || p.Limit < 0 {
		return refuse(failed(codeArguments, "cannot read %q: offset and limit must be 1 or more", p.FilePath))
	}
	path, file, info, refused, err := f.open(ctx, in, p.FilePath)
	if file == nil {
		return v, refused, err
	}
	defer file.Close()
	broken := func(err error) (viewed, *tool.Result, error) {
		r, err := f.readFailed(ctx, path, err)
		if err != nil {
			return v, nil, err
		}
		return v, &r, nil
	}
	all := f.seen.summing(&patient{ctx, file})
	r := bufio.NewReaderSize(all, 64<<10)
	v.path, v.first = path, max(p.Offset, 1)
	// know remembers the file as it is shown.
	know := func(whole bool) {
		if real, err := workspace.Real(in.CWD, path); err == nil {
			f.seen.hold(seenKey{in.SessionID, real}, fileState{info.Size(), info.ModTime(), all.sum.Sum64(), whole})
		}
	}
	if f.config.Dialect == dialect.Claude {
		if r, err = f.rich(ctx, r, info, p, &v); err != nil {
			return broken(err)
		}
		if v.shown != nil {
			if !v.shown.IsError {
				know(true)
			}
			return v, nil, nil
		}
	}
	head, err := r.Peek(textfile.SniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return broken(err)
	}
	if f.readImage != nil && imageType(head) != "" {
		return refuse(failed(codeBinary, "cannot read %q: it is an image; use read_image to look at it", path))
	}
	enc := textfile.Sniff(head)
	if enc == textfile.Binary || enc == textfile.UTF8 && textfile.Garbled(head) {
		return refuse(failed(codeBinary, "cannot read %q: it is binary, or text that is not UTF-8 (%d bytes); use a command such as file, xxd or iconv to look into it", path, info.Size()))
	}
	if _, err := r.Discard(len(enc.BOM())); err != nil {
		return broken(err)
	}
	if enc == textfile.UTF16LE || enc == textfile.UTF16BE {
		r = bufio.NewReaderSize(enc.Reader(r), 64<<10)
	}
	if v.page, err = f.page(r, v.first, f.bounds(p)); err != nil {
		return broken(err)
	}
	know(v.page.exact)
	return v, nil, nil
}

// open opens the file that a call wants to read, or says why it cannot.
func (f *Files) open(ctx context.Context, in tool.Invocation, name string) (path string, file *os.File, info fs.FileInfo, refused *tool.Result, err error) {
	path, err = workspace.Resolve(in.CWD, name)
	if err != nil {
		return "", nil, nil, new(failed(codeArguments, "cannot read: %v", err)), nil
	}
	if err := cancelled(ctx); err != nil {
		return "", nil, nil, nil, err
	}
	if file, info, err = textfile.Open(path); err != nil {
		return "", nil, nil, new(f.describe("read", path, err)), nil
	}
	return path, file, info, nil, nil
}

func deref(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

func (f *Files) readFailed(ctx context.Context, path string, err error) (tool.Result, error) {
	if gone := cancelled(ctx); gone != nil {
		return tool.Result{}, gone
	}
	return f.describe("read", path, err), nil
}

// page is a part of a file as the model sees it.
type page struct {
	text  string
	shown int
	// starts are where the lines begin in text, behind their numbers; open says that
	// the last of them has no line end in the file.
	starts []int
	open   bool
	// total counts the lines of the file; there may be more unless exact is set.
	total int
	exact bool
	// full: the text reached its bound before the lines did.
	full    bool
	changed bool
}

// page reads lines from number first on. It holds one line at most besides what
// it gives, and of a long line only the start.
func (f *Files) page(r *bufio.Reader, first int, most bounds) (page, error) {
	var p page
	var out, line []byte
	var err error
	if p.total, err = skipLines(r, first-1); err != nil {
		return p, err
	}
	if p.total < first-1 {
		p.exact = true
		return p, nil
	}
	for p.shown < most.lines {
		var long, more, ended bool
		line, long, more, ended, err = readLine(r, line[:0], f.config.LineRunes*utf8.UTFMax)
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
		out = append(out, f.numberEnd...)
		start := len(out)
		if len(line) <= f.config.LineRunes && !long && textfile.IsPrintable(line) {
			out = append(out, line...)
		} else {
			text, changed := textfile.Printable(line)
			p.changed = p.changed || changed
			begin, cut := cutRunes(text, f.config.LineRunes)
			out = append(out, begin...)
			if cut || long {
				out = fmt.Appendf(out, "… (cut at %d characters)", f.config.LineRunes)
			}
		}
		out = append(out, '\n')
		if len(out) > most.bytes && p.shown > 0 {
			out, p.full = out[:before], true
			break
		}
		p.starts, p.open = append(p.starts, start), !ended
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

// content is what the page shows, without the numbers of the lines.
func (p page) content() string {
	var b strings.Builder
	for i, start := range p.starts {
		b.WriteString(p.text[start : start+strings.IndexByte(p.text[start:], '\n')])
		if i < len(p.starts)-1 || !p.open {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// readLine appends the next line without its end to buf, which is empty. Of a
// line longer than most bytes it gives the start and sets long. more is false at
// the end of the file; ended says that the line has an end of its own.
func readLine(r *bufio.Reader, buf []byte, most int) (line []byte, long, more, ended bool, err error) {
	line = buf
	for {
		part, err := r.ReadSlice('\n')
		more = more || len(part) > 0
		ended = err == nil
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
			return line, long, more, ended, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, false, false, false, err
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

// skipLines passes over n lines, or all that there are.
func skipLines(r *bufio.Reader, n int) (skipped int, err error) {
	open := false // a line has begun and not ended
	for skipped < n {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			if open {
				skipped++
			}
			return skipped, nil
		} else if err != nil {
			return skipped, err
		}
		b, err := r.Peek(r.Buffered())
		if err != nil {
			return skipped, err
		}
		take := len(b)
		if ends := bytes.Count(b, []byte{'\n'}); skipped+ends < n {
			skipped += ends
		} else {
			for take = 0; skipped < n; skipped++ {
				take += bytes.IndexByte(b[take:], '\n') + 1
			}
		}
		open = b[take-1] != '\n'
		if _, err := r.Discard(take); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
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
