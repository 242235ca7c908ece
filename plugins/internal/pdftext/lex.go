package pdftext

import (
	"bytes"
	"context"
	"errors"
	"strconv"
)

// Values of a PDF. Numbers are int and float64, strings are string, and null is
// nil.
type (
	name string
	// keyword is a word that is no value: an operator of a content stream, obj.
	keyword string
	dict    map[name]any
	ref     struct{ num, gen int }
	stream  struct {
		dict dict
		raw  []byte
	}
	// ending stands for the end of the data.
	ending struct{}
)

const (
	// maxDepth bounds how deep values lie in each other, and forms in forms.
	maxDepth = 64
	// maxWork bounds the values that are read for one page. A drawing of half a
	// million lines is below it.
	maxWork = 4 << 20
	// patience is after how many values the context is asked.
	patience = 1 << 12
)

var errTooMuch = errors.New("it holds more than can be looked at; take fewer pages, or another program such as pdftotext")

// meter ends the work of a call that is no longer wanted or grows too large: a
// file of a few bytes can ask for hours.
type meter struct {
	ctx  context.Context
	done int
}

// stop is what ends a reading from deep inside; contain makes an error of it.
type stop struct{ err error }

func (m *meter) step() {
	if m.done++; m.done > maxWork {
		panic(stop{errTooMuch})
	}
	if m.done%patience == 0 && m.ctx.Err() != nil {
		panic(stop{context.Cause(m.ctx)})
	}
}

// scan is a step for each kilobyte that is looked through.
func (m *meter) scan(size int) {
	m.done += size >> 10
	if m.ctx.Err() != nil {
		panic(stop{context.Cause(m.ctx)})
	}
	m.step()
}

// lexer reads values. What is malformed becomes null, or is passed over: readers
// of PDF files are expected to make the best of them.
type lexer struct {
	data  []byte
	at    int
	meter *meter
	depth int
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

func (l *lexer) skipSpace() {
	for l.at < len(l.data) {
		switch c := l.data[l.at]; {
		case isSpace(c):
			l.at++
		case c == '%':
			for l.at < len(l.data) && l.data[l.at] != '\n' && l.data[l.at] != '\r' {
				l.at++
			}
		default:
			return
		}
	}
}

// peek gives the byte at a distance, 0 behind the end.
func (l *lexer) peek(distance int) byte {
	if l.at+distance < len(l.data) {
		return l.data[l.at+distance]
	}
	return 0
}

// value reads the next value, keyword or ending.
func (l *lexer) value() any {
	l.meter.step()
	l.skipSpace()
	if l.at >= len(l.data) {
		return ending{}
	}
	switch c := l.data[l.at]; {
	case c == '/':
		l.at++
		return name(l.name())
	case c == '(':
		return l.literal()
	case c == '<' && l.peek(1) == '<':
		l.at += 2
		return l.dict()
	case c == '<':
		return l.hex()
	case c == '[':
		l.at++
		return l.array()
	case c >= '0' && c <= '9', c == '+', c == '-', c == '.':
		return l.number()
	case c == '>' && l.peek(1) == '>':
		l.at += 2
		return keyword(">>")
	case isDelimiter(c):
		l.at++
		return keyword(string(c))
	}
	switch w := l.word(); w {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	default:
		return keyword(w)
	}
}

func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.data) && !isSpace(l.data[l.at]) && !isDelimiter(l.data[l.at]) {
		l.at++
	}
	return string(l.data[start:l.at])
}

func (l *lexer) name() string {
	w := l.word()
	if !bytes.Contains([]byte(w), []byte("#")) {
		return w
	}
	out := make([]byte, 0, len(w))
	for i := 0; i < len(w); i++ {
		if w[i] == '#' && i+2 < len(w) {
			if n, err := strconv.ParseUint(w[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, w[i])
	}
	return string(out)
}

// number reads a number, or a reference such as "12 0 R".
func (l *lexer) number() any {
	w := l.word()
	n, err := strconv.Atoi(w)
	if err != nil {
		f, err := strconv.ParseFloat(w, 64)
		if err != nil {
			if n, _ := strconv.Atoi(digits(w)); n != 0 {
				return n // such as --5 or 12-3
			}
			return 0
		}
		return f
	}
	before := l.at
	if n >= 0 && w[0] != '+' {
		l.skipSpace()
		gen, ok := l.digits()
		l.skipSpace()
		if ok && l.peek(0) == 'R' && (l.at+1 >= len(l.data) || isSpace(l.peek(1)) || isDelimiter(l.peek(1))) {
			l.at++
			return ref{n, gen}
		}
	}
	l.at = before
	return n
}

// digits gives the digits that a malformed number begins with.
func digits(w string) string {
	start := 0
	for start < len(w) && (w[start] < '0' || w[start] > '9') {
		start++
	}
	end := start
	for end < len(w) && w[end] >= '0' && w[end] <= '9' {
		end++
	}
	return w[start:end]
}

func (l *lexer) digits() (n int, ok bool) {
	start := l.at
	for l.at < len(l.data) && l.at-start < 10 && l.data[l.at] >= '0' && l.data[l.at] <= '9' {
		n = n*10 + int(l.data[l.at]-'0')
		l.at++
	}
	return n, l.at > start
}

// literal reads a string in parentheses.
func (l *lexer) literal() string {
	var out []byte
	level := 0
	for l.at < len(l.data) {
		c := l.data[l.at]
		l.at++
		switch c {
		case '(':
			if level++; level == 1 {
				continue
			}
		case ')':
			if level--; level == 0 {
				return string(out)
			}
		case '\\':
			out = l.escaped(out)
			continue
		case '\r':
			if l.peek(0) == '\n' {
				l.at++
			}
			c = '\n'
		}
		out = append(out, c)
	}
	return string(out)
}

func (l *lexer) escaped(out []byte) []byte {
	c := l.peek(0)
	l.at++
	switch c {
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case '\n':
		return out
	case '\r':
		if l.peek(0) == '\n' {
			l.at++
		}
		return out
	}
	if c < '0' || c > '7' {
		return append(out, c)
	}
	n := int(c - '0')
	for i := 0; i < 2 && l.peek(0) >= '0' && l.peek(0) <= '7' && l.at < len(l.data); i++ {
		n = n*8 + int(l.peek(0)-'0')
		l.at++
	}
	return append(out, byte(n))
}

func (l *lexer) hex() string {
	end := bytes.IndexByte(l.data[l.at:], '>')
	if end < 0 {
		end = len(l.data) - l.at
	}
	out := unhex(l.data[l.at+1 : l.at+end])
	l.at = min(l.at+end+1, len(l.data))
	return string(out)
}

// unhex decodes hexadecimal digits and passes over everything else; a last digit
// alone is the upper half of its byte.
func unhex(text []byte) []byte {
	out := make([]byte, 0, len(text)/2+1)
	half := -1
	for _, c := range text {
		d := hexDigit(c)
		switch {
		case d < 0:
		case half < 0:
			half = d
		default:
			out = append(out, byte(half<<4|d))
			half = -1
		}
	}
	if half >= 0 {
		out = append(out, byte(half<<4))
	}
	return out
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (l *lexer) deeper() {
	if l.depth++; l.depth > maxDepth {
		panic(stop{errors.New("it is malformed: its values lie too deep in each other")})
	}
}

func (l *lexer) array() []any {
	l.deeper()
	defer func() { l.depth-- }()
	var list []any
	for {
		switch v := l.value().(type) {
		case ending:
			return list
		case keyword:
			if v == "]" {
				return list
			}
			if v == "endobj" || v == ">>" {
				return list
			}
		default:
			list = append(list, v)
		}
	}
}

func (l *lexer) dict() dict {
	l.deeper()
	defer func() { l.depth-- }()
	d := dict{}
	for {
		key := l.value()
		switch k := key.(type) {
		case ending:
			return d
		case keyword:
			if k == ">>" || k == "endobj" || k == "stream" {
				return d
			}
		case name:
			v := l.value()
			if w, ok := v.(keyword); ok {
				if w == ">>" || w == "endobj" {
					return d
				}
				continue
			}
			if _, ok := v.(ending); ok {
				return d
			}
			d[k] = v
		}
	}
}
