package toolsearch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"sync/atomic"
	"unicode/utf8"

	"dsh/plugins/internal/textfile"
)

const (
	// readSize is what is read at once.
	readSize = 64 << 10
	// maxLine is how much of a line is searched, in bytes. It bounds memory, and
	// the time until a search notices that it is cancelled.
	maxLine = 256 << 10
)

// matcher finds lines in files. It may be used from any goroutine.
type matcher struct {
	re *regexp.Regexp
	// filter passes every line that matches, and so does program, which has the
	// word where it is not nil.
	filter  filter
	program *program
	// slow: neither helps, so that lines are matched one by one.
	slow atomic.Bool
	// most is how many lines of one file are wanted.
	most      int
	lineRunes int
	// counting keeps only the number of the lines.
	counting bool
	// parts keeps what matches in place of the line.
	parts bool
	// across, when set, finds what may stretch over lines; see acrossLines.
	across *acrossLines
}

// minText is how long a text must be to be rare enough.
const minText = 3

func newMatcher(re *regexp.Regexp, c Config) *matcher {
	m := &matcher{re: re, most: c.MaxMatches + 1, lineRunes: c.LineRunes}
	if tree, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
		m.filter = newFilter(tree.Simplify())
		if m.filter.shortest() < minText {
			m.program = newProgram(tree)
			m.slow.Store(m.program == nil && m.filter.shortest() == 0)
		}
	}
	return m
}

// hit is a line that matches, or a part of one.
type hit struct {
	line int
	text string
}

type fileResult struct {
	hits []hit
	// count is that of the matching lines.
	count    int
	binary   bool
	cutLines bool
	// tooLarge: the file was not searched.
	tooLarge bool
}

// buffer holds the part of a file that is being searched.
type buffer struct {
	b []byte
	// automaton runs the matcher's program.
	automaton *automaton
}

// fill reads on behind what is in the buffer, which has room.
func (b *buffer) fill(r io.Reader) error {
	n, err := r.Read(b.b[len(b.b):cap(b.b)])
	b.b = b.b[:len(b.b)+n]
	return err
}

// keep drops all but the last n bytes.
func (b *buffer) keep(n int) { b.b = b.b[:copy(b.b, b.b[len(b.b)-n:])] }

func (b *buffer) grow() {
	larger := make([]byte, len(b.b), min(2*cap(b.b), maxLine))
	copy(larger, b.b)
	b.b = larger
}

// named searches a file that the model named.
func (m *matcher) named(ctx context.Context, path string) (fileResult, error) {
	f, info, err := textfile.Open(path)
	if err != nil {
		return fileResult{}, err
	}
	defer f.Close()
	return m.read(ctx, f, info.Size(), newBuffer())
}

// file searches a file of a walk.
func (m *matcher) file(ctx context.Context, path string, buf *buffer) (fileResult, error) {
	f, size, err := openWalked(path)
	if err != nil {
		return fileResult{}, err
	}
	defer f.Close()
	return m.read(ctx, f, size, buf)
}

// read searches what is open. It needs no more memory than buf, whatever the file
// holds, and ends soon after ctx does.
func (m *matcher) read(ctx context.Context, f io.Reader, size int64, buf *buffer) (res fileResult, err error) {
	if m.across != nil {
		return m.across.file(ctx, m, f, size)
	}
	buf.b = buf.b[:0]
	err = buf.fill(f)
	if err != nil && !errors.Is(err, io.EOF) {
		return res, err
	}
	enc := textfile.Sniff(buf.b)
	if enc == textfile.Binary {
		res.binary = true
		return res, nil
	}
	buf.keep(len(buf.b) - len(enc.BOM()))
	var r io.Reader = f
	if enc == textfile.UTF16LE || enc == textfile.UTF16BE {
		r = enc.Reader(io.MultiReader(bytes.NewReader(bytes.Clone(buf.b)), f))
		buf.b, err = buf.b[:0], nil
	}
	line, skipping := 1, false
	for {
		if ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return res, err
		}
		whole := len(buf.b)
		if !ended {
			whole = bytes.LastIndexByte(buf.b, '\n') + 1
		}
		block := buf.b[:whole]
		if skipping {
			end := bytes.IndexByte(block, '\n')
			switch {
			case end >= 0:
				block, skipping = block[end+1:], false
				line++
			default:
				block, whole = nil, len(buf.b)
			}
		}
		if whole == 0 && len(buf.b) == maxLine {
			// A line that does not end: its start stands for it.
			block, whole, skipping, res.cutLines = buf.b, len(buf.b), true, true
		}
		line = m.block(block, line, buf, &res)
		if ended || res.count >= m.most {
			return res, nil
		}
		buf.keep(len(buf.b) - whole)
		if len(buf.b) == cap(buf.b) {
			buf.grow()
		}
		err = buf.fill(r)
	}
}

// block searches whole lines, the first of which has the number given, and
// gives the number of the line behind them.
func (m *matcher) block(b []byte, line int, buf *buffer, res *fileResult) int {
	from := m.filter.start(b).from
	if m.program != nil {
		if buf.automaton == nil {
			buf.automaton = newAutomaton(m.program)
		}
		from = func(pos int) int { return buf.automaton.from(b, pos) }
		if buf.automaton.full {
			m.slow.Store(true)
		}
	}
	// pos is the start of a line, whose number is line.
	for pos := 0; pos < len(b) && res.count < m.most; {
		at := from(pos)
		if at == len(b) {
			return line + bytes.Count(b[pos:], []byte{'\n'})
		}
		start := pos + bytes.LastIndexByte(b[pos:at], '\n') + 1
		line += bytes.Count(b[pos:start], []byte{'\n'})
		end := bytes.IndexByte(b[at:], '\n')
		ended := end >= 0
		if end += at; !ended {
			end = len(b)
		}
		text := bytes.TrimSuffix(b[start:end], []byte{'\r'})
		if found := m.re.FindIndex(text); found != nil {
			res.count++
			m.keep(res, line, text, found)
		}
		if !ended {
			break
		}
		pos = end + 1
		line++
	}
	return line
}

// keep keeps what is wanted of a line that matches at a place.
func (m *matcher) keep(res *fileResult, line int, text []byte, at []int) {
	switch {
	case m.counting:
	case m.parts:
		for _, part := range m.re.FindAllIndex(text, m.most) {
			if part[1] > part[0] {
				res.hits = append(res.hits, hit{line, m.excerpt(text[part[0]:part[1]], []int{0, 0})})
			}
		}
	default:
		res.hits = append(res.hits, hit{line, m.excerpt(text, at)})
	}
}

// excerpt gives as much of a line as is shown, the match included.
func (m *matcher) excerpt(text []byte, at []int) string {
	if utf8.RuneCount(text[:min(len(text), m.lineRunes*utf8.UTFMax+1)]) <= m.lineRunes {
		s, _ := textfile.Printable(text)
		return s
	}
	start := 0
	if utf8.RuneCount(text[:min(at[1], m.lineRunes*utf8.UTFMax)]) >= m.lineRunes {
		start = max(0, at[0]-m.lineRunes/5)
		for start < at[0] && !utf8.RuneStart(text[start]) {
			start++
		}
	}
	end := min(len(text), start+m.lineRunes*utf8.UTFMax)
	for end < len(text) && end > start && !utf8.RuneStart(text[end]) {
		end--
	}
	s, _ := textfile.Printable(text[start:end])
	if start > 0 {
		s = "…" + s
	}
	s, cut := textfile.Cut(s, m.lineRunes)
	if !cut && end < len(text) {
		s += "…"
	}
	return s
}
