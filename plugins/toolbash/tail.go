package toolbash

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

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
