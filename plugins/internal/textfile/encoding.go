package textfile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// Encoding is how a file holds its text.
type Encoding int

// Encodings that Sniff tells apart.
const (
	// UTF8 is also the answer for other encodings that contain ASCII.
	UTF8 Encoding = iota
	// UTF8BOM is UTF-8 behind a byte-order mark.
	UTF8BOM
	// UTF16LE and UTF16BE begin with a byte-order mark.
	UTF16LE
	UTF16BE
	// Binary holds a NUL byte among the first ones.
	Binary
)

// SniffLen is how many bytes from the start of a file Sniff wants to see.
const SniffLen = 8 << 10

const (
	bom8    = "\xef\xbb\xbf"
	bom16LE = "\xff\xfe"
	bom16BE = "\xfe\xff"
)

// Sniff tells the encoding of a file from its first bytes.
func Sniff(head []byte) Encoding {
	head = head[:min(len(head), SniffLen)]
	switch {
	case bytes.HasPrefix(head, []byte(bom8)):
		if bytes.IndexByte(head, 0) < 0 {
			return UTF8BOM
		}
	case bytes.HasPrefix(head, []byte(bom16LE+"\x00\x00")):
		// UTF-32, which nobody writes.
	case bytes.HasPrefix(head, []byte(bom16LE)):
		return UTF16LE
	case bytes.HasPrefix(head, []byte(bom16BE)):
		return UTF16BE
	case bytes.IndexByte(head, 0) < 0:
		return UTF8
	}
	return Binary
}

// Garbled reports that so much of the first bytes of a file is not UTF-8 that
// showing it as text makes no sense: more than one byte in ten. A character
// that the end of head cuts in two does not count.
func Garbled(head []byte) bool {
	head = head[:min(len(head), SniffLen)]
	bad := 0
	for i := 0; i < len(head); {
		r, size := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && size == 1 && (utf8.FullRune(head[i:]) || len(head) < SniffLen) {
			bad++
		}
		i += size
	}
	return bad*10 > len(head)
}

// BOM is the mark that begins a file of this encoding, possibly none.
func (e Encoding) BOM() string {
	switch e {
	case UTF8BOM:
		return bom8
	case UTF16LE:
		return bom16LE
	case UTF16BE:
		return bom16BE
	}
	return ""
}

// Reader gives the text of r, whose mark has been read already, as UTF-8; what
// UTF-16 cannot mean becomes U+FFFD. Bytes of the UTF-8 encodings come as they
// are, good or bad.
func (e Encoding) Reader(r io.Reader) io.Reader {
	if t := e.utf16(); t != nil {
		return t.NewDecoder().Reader(r)
	}
	return r
}

// Encode gives the bytes of a file with this text, mark included.
func (e Encoding) Encode(text string) ([]byte, error) {
	s, err := e.EncodeString(text)
	if err != nil {
		return nil, err
	}
	return []byte(s), nil
}

// EncodeString is Encode, which of plain UTF-8 gives text itself and no copy.
func (e Encoding) EncodeString(text string) (string, error) {
	if t := e.utf16(); t != nil {
		s, err := t.NewEncoder().String(text)
		if err != nil {
			return "", fmt.Errorf("encode as UTF-16: %w", err)
		}
		text = s
	}
	return e.BOM() + text, nil
}

func (e Encoding) utf16() encoding.Encoding {
	switch e {
	case UTF16LE:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case UTF16BE:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return nil
}

// IsPrintable reports that Printable leaves bytes as they are.
func IsPrintable(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// Printable makes bytes of a file fit for a result: what is not UTF-8, and NUL,
// becomes U+FFFD. changed reports that there was such a thing.
func Printable(b []byte) (s string, changed bool) {
	if IsPrintable(b) {
		return string(b), false
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\ufffd"), "\x00", "\ufffd"), true
}

// Cut shortens s to at most n runes, the last of which is then "…". cut reports
// that it did.
func Cut(s string, n int) (short string, cut bool) {
	if len(s) <= n {
		return s, false
	}
	end, count := 0, 0
	for i := range s {
		if count == n-1 {
			end = i
		}
		count++
		if count > n {
			return s[:end] + "…", true
		}
	}
	return s, false
}
