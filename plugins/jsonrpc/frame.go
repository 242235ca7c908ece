package jsonrpc

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// request is one request frame.
type request struct {
	// id is the JSON text of a string or a number, to be echoed as it stands.
	id     []byte
	method string
	// params is the JSON text of an object.
	params []byte
	// size is how much memory the request stands for, in bytes.
	size int
	// details: the request itself asks for data in its error.
	details bool
}

// kind is what a frame is treated as (spec jsonrpc 1.2).
type kind int

const (
	// kindNone is no frame: not JSON, or neither id nor method.
	kindNone kind = iota
	kindRequest
	kindResponse
	kindNotification
)

// classify decodes one line. Its result holds no part of line. Only a request
// is returned; nothing listens to the other kinds.
func classify(line []byte) (*request, kind) {
	if len(line) == 0 || line[0] != '{' {
		return nil, kindNone
	}
	var f struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := wirejson.Unmarshal(toUTF8(line), &f); err != nil {
		return nil, kindNone
	}
	hasID := isString(f.ID) || isNumber(f.ID)
	switch {
	case hasID && isString(f.Method):
	case hasID:
		return nil, kindResponse
	case isString(f.Method):
		return nil, kindNotification
	default:
		return nil, kindNone
	}
	r := &request{id: wirejson.Escape(f.ID), params: f.Params, size: len(line)}
	if err := wirejson.Unmarshal(f.Method, &r.method); err != nil {
		return nil, kindNone
	}
	if !isObject(r.params) {
		r.params = []byte("{}")
	}
	return r, kindRequest
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// toUTF8 replaces every byte that is not part of UTF-8 by U+FFFD, so that what
// is echoed or logged verbatim is valid too: a client may die of bytes that are
// not (spec jsonrpc 0.3, 1.1).
func toUTF8(line []byte) []byte {
	if utf8.Valid(line) {
		return line
	}
	out := make([]byte, 0, len(line)+len(line)/8)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		out = utf8.AppendRune(out, r)
		line = line[size:]
	}
	return out
}

// idOf finds the id of a request in the beginning of its line; nil when it is
// not there.
func idOf(prefix []byte) []byte {
	s := scanner{rest: prefix}
	if !s.take('{') {
		return nil
	}
	for {
		name, ok := s.value()
		if !ok || !isString(name) || !s.take(':') {
			return nil
		}
		value, ok := s.value()
		if !ok {
			return nil
		}
		var key string
		if wirejson.Unmarshal(name, &key) == nil && key == "id" {
			if (isString(value) || isNumber(value)) && wirejson.Valid(value) {
				return wirejson.Escape(toUTF8(bytes.Clone(value)))
			}
			return nil
		}
		if !s.take(',') {
			return nil
		}
	}
}

// scanner walks over JSON text that may end anywhere.
type scanner struct{ rest []byte }

func (s *scanner) space() {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
}

func (s *scanner) take(c byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// value takes the next value if it is there to its end. It checks no more than
// where that is.
func (s *scanner) value() ([]byte, bool) {
	s.space()
	depth := 0
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; c {
		case '"':
			n := stringEnd(s.rest[i:])
			if n < 0 {
				return nil, false
			}
			i += n - 1
			if depth == 0 {
				return s.cut(i + 1), true
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth <= 0 {
				if depth < 0 {
					i-- // the end of what is around a number or a literal
				}
				return s.cut(i + 1), true
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.cut(i), true
			}
		}
	}
	return nil, false
}

func (s *scanner) cut(n int) []byte {
	v := s.rest[:n]
	s.rest = s.rest[n:]
	return v
}

// stringEnd gives the length of the JSON string at the head of b, -1 if its end
// is not there.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// appendResult appends a successful answer; result is the JSON text of an
// object.
func appendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// appendError appends a failed answer.
func appendError(dst, id []byte, e *sdkproto.RPCError) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = wirejson.AppendInt(dst, int64(e.Code))
	dst = append(dst, `,"message":`...)
	dst = wirejson.AppendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, "}}"...)
}
