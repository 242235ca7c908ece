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
// end, and the number of characters. Once it is longer than the limit, or the
// command goes on behind its call, all of it goes to a file as well (case B67). A
// line that comes again and again is counted, so that a chatty child cannot wash
// away what the command itself said last (case B62).
//
// Standard error may be taken apart from standard output; limit and file are for
// both together. The file has them in the order in which they came, and never one
// in the middle of a character of the other (case B92).
//
// A character is a code point; a byte that is not part of one is a character
// too, U+FFFD in the result.
type output struct {
	limit    int
	maxSpill int64
	open     func() (tool.SpillFile, error)

	mu       sync.Mutex
	out, err stream
	// last is the one that has written last.
	last *stream

	full    bool // everything goes to the file, if there is one
	behind  bool // the command goes on behind its call
	told    bool // the file says that it does not hold everything
	file    tool.SpillFile
	path    string
	spilled int64
	bytes   int64
	failure error // why there is no file, or not all in it
}

// stream is one of the two that a command writes; its output's mu guards it.
type stream struct {
	o     *output
	total int // characters in head and tail, left out or not
	// head holds the first limit/2 characters, headCount of them so far.
	head      []byte
	headCount int
	tail      tail
	// pending is the beginning of a character whose rest has not come yet.
	pending []byte
}

func newOutput(limit int, maxSpill int64, open func() (tool.SpillFile, error)) *output {
	o := &output{limit: limit, maxSpill: maxSpill, open: open}
	o.last = &o.out
	for _, s := range o.streams() {
		s.o = o
		s.tail.keep = max(utf8.UTFMax*(limit-limit/2)+utf8.UTFMax, leastTail)
	}
	return o
}

func (o *output) streams() [2]*stream { return [...]*stream{&o.out, &o.err} }

// Write takes standard output, and standard error where that is not taken apart.
func (o *output) Write(p []byte) (int, error) { return o.out.Write(p) }

// Write takes what has come.
func (s *stream) Write(p []byte) (int, error) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.o.last = s
	for piece := range slices.Chunk(p, pieceSize) {
		s.take(piece)
	}
	return len(p), nil
}

func (s *stream) take(p []byte) {
	s.o.bytes += int64(len(p))
	rest := p
	for len(s.pending) > 0 && len(rest) > 0 {
		s.pending = append(s.pending, rest[0])
		rest = rest[1:]
		for len(s.pending) > 0 && utf8.FullRune(s.pending) {
			_, size := utf8.DecodeRune(s.pending)
			s.add(s.pending[:size])
			s.pending = s.pending[size:]
		}
	}
	whole := len(rest) - unfinished(rest)
	s.add(rest[:whole])
	s.pending = append(s.pending, rest[whole:]...)
	s.o.bound()
}

// bound begins the file when the limit is passed, also by a character that is not
// whole yet.
func (o *output) bound() {
	total := 0
	for _, s := range o.streams() {
		total += s.total + min(len(s.pending), 1)
	}
	if total > o.limit {
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
func (s *stream) add(p []byte) {
	if s.o.full {
		s.o.spill(p)
	}
	s.total += utf8.RuneCount(p)
	if want := s.o.limit/2 - s.headCount; want > 0 {
		n := 0
		for ; want > 0 && n < len(p); want-- {
			_, size := utf8.DecodeRune(p[n:])
			n += size
		}
		s.head = append(s.head, p[:n]...)
		s.headCount = s.o.limit/2 - want
		p = p[n:]
	}
	s.tail.add(p)
}

// begin starts the file with everything so far, once.
func (o *output) begin() {
	if o.full {
		return
	}
	o.full = true
	if o.open == nil || o.maxSpill == 0 {
		return
	}
	if o.file, o.failure = o.open(); o.failure != nil {
		o.file = nil
		return
	}
	o.path = o.file.Path()
	for _, s := range o.streams() {
		o.spill(s.head)
		for _, part := range s.tail.pieces() {
			o.spill(part.text)
			for range part.repeats {
				o.spill(part.line)
			}
		}
	}
}

// spill puts whole characters into the file, as far as it may grow. That of a
// command that goes on says so when it may not.
func (o *output) spill(p []byte) {
	if o.file == nil {
		return
	}
	kept := p[:min(int64(len(p)), o.maxSpill-o.spilled)]
	n, err := o.file.Write(kept)
	o.spilled += int64(n)
	if err == nil && len(kept) < len(p) && o.behind && !o.told {
		o.told = true
		_, err = fmt.Fprintf(o.file, "\n… only the first %d bytes of the output are kept …\n", o.spilled)
	}
	if err != nil {
		o.failure = err
		o.closeFile()
	}
}

func (o *output) closeFile() {
	if o.file == nil {
		return
	}
	if err := o.file.Close(); err != nil && o.failure == nil {
		o.failure = err
	}
	o.file = nil
}

// goOn has all that was said so far, and all that comes, go to the file, whose
// path it gives; "" when there is none.
func (o *output) goOn() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.behind = true
	o.begin()
	return o.path
}

// lastLine is the last line that is complete, cut to a length for people.
func (o *output) lastLine() string {
	const most = 200
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.last
	line := s.tail.lastLine()
	if s.tail.end == 0 {
		line = s.head[:bytes.LastIndexByte(s.head, '\n')+1]
		line = line[bytes.LastIndexByte(bytes.TrimSuffix(line, []byte("\n")), '\n')+1:]
	}
	text := strings.TrimSpace(valid(line[:min(len(line), utf8.UTFMax*most)]))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// said is output for the model: of at most the limit, and valid UTF-8. err is what
// was taken apart.
type said struct{ out, err string }

// text is standard output, then standard error (spec stream-json 9).
func (s said) text() string {
	if s.out == "" || s.err == "" || strings.HasSuffix(s.out, "\n") {
		return s.out + s.err
	}
	return s.out + "\n" + s.err
}

// finish ends the file and gives what was said.
func (o *output) finish() said {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	o.closeFile()
	return o.said()
}

// soFar is what was said up to now.
func (o *output) soFar() said {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said()
}

// end ends the file of a command that went on behind its call. One that could not
// hold everything gets the end of the output, too.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	if o.file != nil && o.told {
		last := fmt.Sprintf("… %d bytes are left out; the end of the output is …\n", o.bytes-o.spilled)
		for _, s := range o.streams() {
			text, _ := s.tail.last(o.limit / 2)
			last += text
		}
		if _, err := io.WriteString(o.file, last); err != nil {
			o.failure = err
		}
	}
	o.closeFile()
}

// flush takes characters that lack their rest as they are.
func (o *output) flush() {
	for _, s := range o.streams() {
		s.add(s.pending)
		s.pending = nil
	}
	o.bound()
}

// said gives what there is. Each of the streams may have half of the limit, and
// what the other leaves of it.
func (o *output) said() said {
	half := o.limit / 2
	forErr := min(o.err.total, max(half, o.limit-o.out.total))
	return said{o.out.shown(o.limit - forErr), o.err.shown(forErr)}
}

// shown is the stream in at most so many characters.
func (s *stream) shown(room int) string {
	if s.total <= room {
		return s.whole()
	}
	first := room / 2
	rest := max(0, room-first-utf8.RuneCountInString(s.o.note(s.total)))
	if s.total <= s.o.limit {
		all := []rune(s.whole())
		return string(all[:first]) + s.o.note(s.total-first-rest) + string(all[len(all)-rest:])
	}
	head := []rune(valid(s.head))[:first]
	end, shown := s.tail.last(rest)
	return string(head) + s.o.note(s.total-first-shown) + end
}

// whole is all of a stream of which nothing is left out.
func (s *stream) whole() string {
	var b strings.Builder
	b.WriteString(valid(s.head))
	for _, part := range s.tail.pieces() {
		b.WriteString(valid(part.text))
		for range part.repeats {
			b.WriteString(valid(part.line))
		}
	}
	return b.String()
}

// keep puts output into the file that is not too long for the model but shall
// not be shown whole. It comes after finish.
func (o *output) keep() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin()
	o.closeFile()
}

// note says what is left out. It must not be longer for a smaller number.
func (o *output) note(leftOut int) string {
	where := ""
	switch {
	case o.path != "" && o.behind:
		where = "; the output is in " + o.path
	case o.path != "" && o.spilled == o.bytes:
		where = "; the whole output is in " + o.path
	case o.path != "":
		where = fmt.Sprintf("; the first %d bytes of %d are in %s", o.spilled, o.bytes, o.path)
	}
	if o.failure != nil {
		where += fmt.Sprintf(" (the output could not be kept: %.200s)", valid([]byte(o.failure.Error())))
	}
	return fmt.Sprintf("\n… %d characters left out%s …\n", leftOut, where)
}

// valid is p with U+FFFD for every byte that belongs to no character.
func valid(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	return string([]rune(string(p)))
}

var _ io.Writer = (*output)(nil)
