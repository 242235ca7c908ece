// Package settingsfile reads and edits settings files: JSON that people write,
// with a byte-order mark, comments and trailing commas where they like (case
// B82). An edit changes what it is about and leaves the rest of the text as it
// is, unknown keys, their order and comments included.
package settingsfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

// Error says where a settings file cannot be used.
type Error struct {
	// Line and Col count from 1; Col counts characters.
	Line, Col int
	Msg       string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Msg) }

// Document is the text of a settings file and the places of its values. It is
// one JSON object.
type Document struct {
	encoding textfile.Encoding
	// text is UTF-8 without a mark; plain is the same, byte for byte, with blanks
	// in place of comments and trailing commas.
	text, plain []byte
	// trailing are the places of trailing commas.
	trailing []int
	root     *node
}

// node is the place of one JSON value: text[start:end].
type node struct {
	start, end int
	// members are those of an object, in order.
	members []member
	items   []*node
}

type member struct {
	key   string
	start int
	value *node
}

func (n *node) member(key string) (int, *node) {
	for i, m := range n.members {
		if m.key == key {
			return i, m.value
		}
	}
	return -1, nil
}

// Parse reads a file. The error is an *Error.
func Parse(data []byte) (*Document, error) {
	encoding := textfile.Sniff(data)
	if encoding == textfile.Binary {
		return nil, &Error{1, 1, "this is no text"}
	}
	text, err := io.ReadAll(encoding.Reader(bytes.NewReader(data[len(encoding.BOM()):])))
	if err != nil {
		return nil, &Error{1, 1, err.Error()}
	}
	return parse(encoding, text)
}

func parse(encoding textfile.Encoding, text []byte) (*Document, error) {
	d := &Document{encoding: encoding, text: text}
	if at := d.standardize(); at >= 0 {
		return nil, d.fail(at, "a comment begins here and does not end")
	}
	if len(bytes.TrimSpace(d.plain)) == 0 {
		return nil, &Error{1, 1, "the file is empty; write {} or remove it"}
	}
	var value any
	if err := wirejson.UnmarshalStrict(d.plain, &value); err != nil {
		return nil, d.Locate(err)
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, &Error{1, 1, "a settings file holds one JSON object, written in braces"}
	}
	s := scanner{text: d.plain}
	d.root = s.value()
	return d, nil
}

// standardize makes plain; it gives the place of a comment that does not end,
// else -1.
func (d *Document) standardize() int {
	out := bytes.Clone(d.text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	// last and before are the places of the last two bytes that mean something.
	last, before := -1, -1
	mean := func(i int) { last, before = i, last }
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '"':
			for mean(i); i+1 < len(out); {
				i++
				if out[i] == '\\' {
					i++
				} else if out[i] == '"' {
					break
				}
			}
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			end := i
			for end < len(out) && out[end] != '\n' {
				end++
			}
			blank(i, end)
			i = end - 1
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			n := bytes.Index(out[i+2:], []byte("*/"))
			if n < 0 {
				return i
			}
			blank(i, i+n+4)
			i += n + 3
		case (c == '}' || c == ']') && last >= 0 && out[last] == ',' && before >= 0 && !strings.ContainsRune("[{,:", rune(out[before])):
			out[last] = ' '
			d.trailing = append(d.trailing, last)
			mean(i)
		default:
			mean(i)
		}
	}
	d.plain = out
	return -1
}

func (d *Document) fail(at int, msg string) *Error {
	line, col := d.position(at)
	return &Error{line, col, msg}
}

func (d *Document) position(at int) (line, col int) {
	before := d.text[:min(max(at, 0), len(d.text))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// Locate gives an error of wirejson about JSON() its line and column.
func (d *Document) Locate(err error) *Error {
	var at *wirejson.Error
	if !errors.As(err, &at) {
		return &Error{1, 1, err.Error()}
	}
	msg := at.Err.Error()
	if at.Pointer != "" {
		msg = at.Pointer + ": " + msg
	}
	if d.root != nil {
		return d.fail(d.place(at.Pointer), msg)
	}
	offset := min(int(at.Offset), len(d.plain))
	for offset < len(d.plain) && strings.IndexByte(" \t\r\n", d.plain[offset]) >= 0 {
		offset++
	}
	return d.fail(offset, msg)
}

// At gives the line and column of a value by its RFC 6901 pointer, or of the
// nearest value around it that there is.
func (d *Document) At(pointer string) (line, col int) { return d.position(d.place(pointer)) }

// AtPath is At with the names and indexes of a pointer one by one.
func (d *Document) AtPath(path ...string) (line, col int) { return d.position(d.find(path)) }

func (d *Document) place(pointer string) int {
	path := strings.Split(pointer, "/")[1:] // a pointer is empty or begins with a slash
	for i, token := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return d.find(path)
}

func (d *Document) find(path []string) int {
	n, at := d.root, d.root.start
	for _, token := range path {
		if i, value := n.member(token); value != nil {
			n, at = value, n.members[i].start
			continue
		}
		index, err := strconv.Atoi(token)
		if err != nil || index < 0 || index >= len(n.items) {
			break
		}
		n = n.items[index]
		at = n.start
	}
	return at
}

// Keys gives the names of an object's members in their order; nil when there is
// no object at the path.
func (d *Document) Keys(path ...string) []string {
	n := d.root
	for _, key := range path {
		if _, n = n.member(key); n == nil {
			return nil
		}
	}
	keys := make([]string, len(n.members))
	for i, m := range n.members {
		keys[i] = m.key
	}
	return keys
}

// Has reports whether there is a value at a path of member names.
func (d *Document) Has(path ...string) bool {
	return len(path) == 0 || slices.Contains(d.Keys(path[:len(path)-1]...), path[len(path)-1])
}

// JSON is the whole as JSON of the standard.
func (d *Document) JSON() json.RawMessage { return d.plain }

// Bytes is the file: its text in its encoding.
func (d *Document) Bytes() ([]byte, error) { return d.encoding.Encode(string(d.text)) }

// scanner finds the places in a text that is valid JSON.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) value() *node {
	s.space()
	n := &node{start: s.at}
	switch s.text[s.at] {
	case '{':
		for s.open(); s.text[s.at] != '}'; s.next() {
			m := member{start: s.at}
			m.key = s.key()
			s.space()
			s.at++ // the colon
			m.value = s.value()
			n.members = append(n.members, m)
		}
		s.at++
	case '[':
		for s.open(); s.text[s.at] != ']'; s.next() {
			n.items = append(n.items, s.value())
		}
		s.at++
	case '"':
		s.str()
	default:
		for s.at < len(s.text) && strings.IndexByte(" \t\r\n,]}", s.text[s.at]) < 0 {
			s.at++
		}
	}
	n.end = s.at
	return n
}

// open and next go to the next member or item, or to the bracket that ends all.
func (s *scanner) open() { s.at++; s.space() }

func (s *scanner) next() {
	s.space()
	if s.text[s.at] == ',' {
		s.at++
		s.space()
	}
}

func (s *scanner) str() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

func (s *scanner) key() string {
	start := s.at
	s.str()
	var key string
	if err := wirejson.Unmarshal(s.text[start:s.at], &key); err != nil {
		panic("a key of valid JSON is no string") // cannot happen: the text was decoded before
	}
	return key
}
