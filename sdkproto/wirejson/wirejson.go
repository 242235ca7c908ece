// Package wirejson is the one JSON codec for bytes that come from, or go to,
// somebody else: wire frames, log files, configuration, model output.
//
// It differs from encoding/json where that package guesses: member names match
// case-sensitively, nil slices and maps are written as [] and {}, and nothing
// is escaped for HTML; what some readers take for the end of a line is escaped
// (see Escape). Decoding is lenient about the two things real peers get
// wrong and nobody can repair: a duplicate member (the last one wins) and text
// that is not UTF-8 (each bad sequence becomes U+FFFD; spec jsonrpc 1.1, 1.2).
//
// Struct tags are those of encoding/json; use omitzero, which means the same
// in both. No other package may import the codec underneath.
package wirejson

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error says where in a JSON text decoding failed.
type Error struct {
	// Pointer is the RFC 6901 pointer of the offending value; "" is the whole text.
	Pointer string
	// Offset is the number of bytes read before the problem.
	Offset int64
	// Unknown is set when the value is a member that the target does not know;
	// it holds the member's name.
	Unknown string
	// Err is the reason.
	Err error
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Err.Error()
	}
	return e.Pointer + ": " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// Unmarshal decodes one JSON value into v and ignores members v does not know.
// Errors are of type *Error.
func Unmarshal(data []byte, v any) error {
	return located(json.Unmarshal(data, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
}

// UnmarshalStrict decodes like Unmarshal but refuses members v does not know
// and members named twice. Errors are of type *Error.
func UnmarshalStrict(data []byte, v any) error {
	return located(json.Unmarshal(data, v, json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true)))
}

// Marshal encodes v on one line, with map keys sorted.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return Escape(b), err
}

// Append appends the encoding of v to dst.
func Append(dst []byte, v any) ([]byte, error) {
	b, err := Marshal(v)
	if err != nil {
		return dst, err
	}
	return append(dst, b...), nil
}

// Valid reports whether data is exactly one JSON value, with the leniency of
// Unmarshal.
func Valid(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Compact returns data without white space between tokens, and escaped as by
// Escape.
func Compact(data []byte) ([]byte, error) {
	v := jsontext.Value(append([]byte(nil), data...))
	if err := v.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)); err != nil {
		return nil, located(err)
	}
	return Escape(v), nil
}

// Escape escapes U+0085, U+2028, U+2029 and U+FEFF in a JSON text. They may
// stand raw in strings, but many readers end a line at the first three, and some
// drop the last (case B91). A text without them is returned as it is.
func Escape(data []byte) []byte {
	clean := true
	for _, c := range []string{"\u0085", "\u2028", "\u2029", "\ufeff"} {
		clean = clean && !bytes.Contains(data, []byte(c))
	}
	if clean {
		return data
	}
	out := make([]byte, 0, len(data)+len(data)/16+16)
	start := 0
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if unsafeInLine(r) {
			out = appendEscape(append(out, data[start:i]...), r)
			start = i + size
		}
		i += size
	}
	return append(out, data[start:]...)
}

func unsafeInLine(r rune) bool {
	return r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string, escaped as by Escape. Bytes that are
// not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = appendEscape(dst, rune(c))
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
			start = i + size
		case unsafeInLine(r):
			dst = appendEscape(append(dst, s[start:i]...), r)
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// AppendInt appends n as a JSON number.
func AppendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func located(err error) error {
	if err == nil {
		return nil
	}
	var sem *json.SemanticError
	if errors.As(err, &sem) {
		e := &Error{Pointer: string(sem.JSONPointer), Offset: sem.ByteOffset, Err: sem.Err}
		switch {
		case errors.Is(sem.Err, json.ErrUnknownName):
			e.Unknown = sem.JSONPointer.LastToken()
			e.Err = fmt.Errorf("unknown key %q", e.Unknown)
		case sem.Err == nil && sem.GoType != nil:
			e.Err = fmt.Errorf("cannot use a JSON %s as %s", kindName(sem.JSONKind), goKind(sem.GoType.Kind().String()))
		case sem.Err == nil:
			e.Err = err
		}
		return e
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		return &Error{Pointer: string(syn.JSONPointer), Offset: syn.ByteOffset, Err: syn.Err}
	}
	return &Error{Err: err}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value"
}

func goKind(k string) string {
	switch k {
	case "slice", "array":
		return "a list"
	case "map", "struct":
		return "an object"
	case "bool":
		return "a boolean"
	case "string":
		return "a string"
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64":
		return "an integer"
	case "float32", "float64":
		return "a number"
	}
	return k
}
