package toolbash

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"dsh/kernel/tool"
)

const (
	// pieceSize is how much is taken at a time.
	pieceSize = 32 << 10
	// leastTail is the least size at which the tail is shortened: it holds a piece
	// beside everything up to the limit.
	leastTail = 2 * pieceSize
	// fewRepeats are written out in the result, more are counted.
	fewRepeats = 3
)

// output takes the output of a command in bounded memory: the beginning, the
// end, and the number of characters. Once it is longer than the limit, all of it
// goes to a file as well (case B67). A line that comes again and again is
// counted, so that a chatty child cannot wash away what the command itself said
// last (case B62).
//
// A character is a code point; a byte that is not part of one is a character
// too, U+FFFD in the result.
type output struct {
	limit    int
	maxSpill int64
	open     func() (tool.SpillFile, error)

	mu    sync.Mutex
	total int // characters in head and tail, left out or not
	// head holds the first limit/2 characters, headCount of them so far.
	head      []byte
	headCount int
	tail      tail
	// pending is the beginning of a character whose rest has not come yet.
	pending []byte

	full    bool // the limit is passed
	file    tool.SpillFile
	path    string
	spilled int64
	bytes   int64
	err     error // why there is no file, or not all in it
}

func newOutput(limit int, maxSpill int64, open func() (tool.SpillFile, error)) *output {
	o := &output{limit: limit, maxSpill: maxSpill, open: open}
	o.tail.keep = max(utf8.UTFMax*(limit-limit/2)+utf8.UTFMax, leastTail)
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for piece := range slices.Chunk(p, pieceSize) {
		o.take(piece)
	}
	return len(p), nil
}

func (o *output) take(p []byte) {
	o.bytes += int64(len(p))
	if o.full {
		o.spill(p)
	}
	rest := p
	for len(o.pending) > 0 && len(rest) > 0 {
		o.pending = append(o.pending, rest[0])
		rest = rest[1:]
		for len(o.pending) > 0 && utf8.FullRune(o.pending) {
			_, size := utf8.DecodeRune(o.pending)
			o.add(o.pending[:size])
			o.pending = o.pending[size:]
		}
	}
	whole := len(rest) - unfinished(rest)
	o.add(rest[:whole])
	o.pending = append(o.pending, rest[whole:]...)
	o.bound(min(len(o.pending), 1))
}

// bound begins the file when the limit is passed with so many characters more.
func (o *output) bound(more int) {
	if !o.full && o.total+more > o.limit {
		o.full = true
		o.begin()
	}
}

// unfinished is the length of a character at the end of p that lacks its rest.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n:]; utf8.RuneStart(b[0]) {
			if utf8.FullRune(b) {
				return 0
			}
			return n
		}
	}
	return 0
}

// add takes whole characters.
func (o *output) add(p []byte) {
	o.total += utf8.RuneCount(p)
	if want := o.limit/2 - o.headCount; want > 0 {
		n := 0
		for ; want > 0 && n < len(p); want-- {
			_, size := utf8.DecodeRune(p[n:])
			n += size
		}
		o.head = append(o.head, p[:n]...)
		o.headCount = o.limit/2 - want
		p = p[n:]
	}
	o.tail.add(p)
}

// begin starts the file with everything so far.
func (o *output) begin() {
	if o.open == nil || o.maxSpill == 0 {
		return
	}
	if o.file, o.err = o.open(); o.err != nil {
		return
	}
	o.path = o.file.Path()
	o.spill(o.head)
	for _, s := range o.tail.pieces() {
		o.spill(s.text)
		for range s.repeats {
			o.spill(s.line)
		}
	}
	o.spill(o.pending)
}

func (o *output) spill(p []byte) {
	if o.file == nil {
		return
	}
	if p = p[:min(int64(len(p)), o.maxSpill-o.spilled)]; len(p) == 0 {
		return
	}
	n, err := o.file.Write(p)
	o.spilled += int64(n)
	if err != nil {
		o.err = err
		o.closeFile()
	}
}

func (o *output) closeFile() {
	if o.file == nil {
		return
	}
	if err := o.file.Close(); err != nil && o.err == nil {
		o.err = err
	}
	o.file = nil
}

// lastLine is the last line that is complete, cut to a length for people.
func (o *output) lastLine() string {
	const most = 200
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.tail.lastLine()
	if o.tail.end == 0 {
		line = o.head[:bytes.LastIndexByte(o.head, '\n')+1]
		line = line[bytes.LastIndexByte(bytes.TrimSuffix(line, []byte("\n")), '\n')+1:]
	}
	text := strings.TrimSpace(valid(line[:min(len(line), utf8.UTFMax*most)]))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// finish ends the file and gives the text for the model: of at most the limit,
// and valid UTF-8.
func (o *output) finish() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) > 0 {
		o.add(o.pending)
		o.pending = nil
		o.bound(0)
	}
	o.closeFile()
	if o.total <= o.limit {
		var b strings.Builder
		b.WriteString(valid(o.head))
		for _, s := range o.tail.pieces() {
			b.WriteString(valid(s.text))
			for range s.repeats {
				b.WriteString(valid(s.line))
			}
		}
		return b.String()
	}
	head := valid(o.head)
	room := o.limit - o.headCount - utf8.RuneCountInString(o.note(o.total))
	end, shown := o.tail.last(room)
	return head + o.note(o.total-o.headCount-shown) + end
}

// keep puts output into the file that is not too long for the model but shall
// not be shown whole. It comes after finish.
func (o *output) keep() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full {
		return
	}
	o.full = true
	o.begin()
	o.closeFile()
}

// note says what is left out. It must not be longer for a smaller number.
func (o *output) note(leftOut int) string {
	where := ""
	switch {
	case o.path != "" && o.spilled == o.bytes:
		where = "; the whole output is in " + o.path
	case o.path != "":
		where = fmt.Sprintf("; the first %d bytes of %d are in %s", o.spilled, o.bytes, o.path)
	}
	if o.err != nil {
		where += fmt.Sprintf(" (the output could not be kept: %.200s)", valid([]byte(o.err.Error())))
	}
	return fmt.Sprintf("\n… %d characters left out%s …\n", leftOut, where)
}

// tail holds the end of the output. While it grows, equal lines are counted only
// where that costs nothing: at the beginning of what comes. compact does the
// rest.
type tail struct {
	// keep is the least number of bytes that are kept; twice that is the most.
	keep int
	buf  []byte
	// The last complete line is buf[start:end]; what follows is not complete. end
	// is 0 before the first.
	start, end int
	repeats    []repeat
}

// repeat says that the line buf[start:end] comes n more times.
type repeat struct{ start, end, n int }

func (t *tail) add(p []byte) {
	if len(t.buf) > t.end {
		i := bytes.IndexByte(p, '\n') + 1
		if i == 0 {
			i = len(p)
		}
		t.addLine(p[:i])
		p = p[i:]
	}
	if line := t.lastLine(); len(line) > 0 && len(t.buf) == t.end && bytes.HasPrefix(p, line) {
		n, k := 1, len(line)
		if bytes.Equal(p[k:], p[:len(p)-k]) {
			n = len(p) / k // all of p is this line
		}
		for bytes.HasPrefix(p[n*k:], line) {
			n++
		}
		t.repeat(n)
		p = p[n*k:]
	}
	t.buf = append(t.buf, p...)
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		t.end = len(t.buf) - len(p) + i + 1
		t.start = bytes.LastIndexByte(t.buf[:t.end-1], '\n') + 1
	}
	if len(t.buf) > 2*t.keep {
		t.shorten()
	}
}

// addLine adds a line, or a part of one.
func (t *tail) addLine(p []byte) {
	t.buf = append(t.buf, p...)
	switch line := t.lastLine(); {
	case !bytes.HasSuffix(p, []byte("\n")):
	case len(line) > 0 && bytes.Equal(t.buf[t.end:], line):
		t.buf = t.buf[:t.end]
		t.repeat(1)
	default:
		t.start, t.end = t.end, len(t.buf)
	}
}

// compact counts all equal neighbours.
func (t *tail) compact() {
	c := tail{keep: t.keep}
	for _, s := range t.pieces() {
		for line := range bytes.Lines(s.text) {
			c.addLine(line)
		}
		if s.repeats > 0 {
			c.repeat(s.repeats)
		}
	}
	*t = c
}

func (t *tail) repeat(n int) {
	if last := len(t.repeats) - 1; last >= 0 && t.repeats[last].end == t.end {
		t.repeats[last].n += n
		return
	}
	t.repeats = append(t.repeats, repeat{t.start, t.end, n})
}

func (t *tail) lastLine() []byte { return t.buf[t.start:t.end] }

func (t *tail) shorten() {
	drop := len(t.buf) - t.keep
	t.buf = append(t.buf[:0], t.buf[drop:]...)
	kept := t.repeats[:0]
	for _, r := range t.repeats {
		// A line of which the beginning is gone can no longer be told.
		if r.start >= drop {
			kept = append(kept, repeat{r.start - drop, r.end - drop, r.n})
		}
	}
	t.repeats = kept
	t.start, t.end = max(0, t.start-drop), max(0, t.end-drop)
}

// span is a part of the tail as it came, and then its last line some more times.
type span struct {
	text, line []byte
	repeats    int
}

func (t *tail) pieces() []span {
	spans := make([]span, 0, len(t.repeats)+1)
	at := 0
	for _, r := range t.repeats {
		spans = append(spans, span{t.buf[at:r.end], t.buf[r.start:r.end], r.n})
		at = r.end
	}
	return append(spans, span{text: t.buf[at:]})
}

// last gives the end of the output in at most room characters, and how many of
// them are output and not remarks.
func (t *tail) last(room int) (text string, shown int) {
	var parts []string
	// take says whether all of b fit.
	take := func(b []byte) bool {
		n := utf8.RuneCount(b)
		for ; n > room; n-- {
			_, size := utf8.DecodeRune(b)
			b = b[size:]
		}
		parts = append(parts, valid(b))
		room -= n
		shown += n
		return room > 0
	}
	t.compact()
	spans := t.pieces()
	slices.Reverse(spans)
	for _, s := range spans {
		if s.repeats > fewRepeats {
			remark := fmt.Sprintf("… the line above %d more times …\n", s.repeats)
			n := utf8.RuneCountInString(remark)
			if n > room {
				break
			}
			parts = append(parts, remark)
			room -= n
		} else if s.repeats > 0 && !take(bytes.Repeat(s.line, s.repeats)) {
			break
		}
		if !take(s.text) {
			break
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, ""), shown
}

// valid is p with U+FFFD for every byte that belongs to no character.
func valid(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	return string([]rune(string(p)))
}

var _ io.Writer = (*output)(nil)
