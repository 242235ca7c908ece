package session

import (
	"errors"
	"fmt"
	"unicode/utf16"
)

// MaxIDBytes bounds the encoded form of a session id (decision R17).
const MaxIDBytes = 200

// EncodeID turns an id into a file name: A-Z, a-z, 0-9, '.', '_' and '-' stand
// for themselves, every other UTF-16 unit becomes '~' and four upper-case hex
// digits, and so do the dots of "." and ".." (spec jsonrpc 9.1).
func EncodeID(id string) string {
	const hex = "0123456789ABCDEF"
	dots := id == "." || id == ".."
	out := make([]byte, 0, len(id))
	for _, u := range utf16.Encode([]rune(id)) {
		switch {
		case u >= 'A' && u <= 'Z', u >= 'a' && u <= 'z', u >= '0' && u <= '9', u == '_', u == '-', u == '.' && !dots:
			out = append(out, byte(u))
		default:
			out = append(out, '~', hex[u>>12], hex[u>>8&0xf], hex[u>>4&0xf], hex[u&0xf])
		}
	}
	return string(out)
}

// CheckID says what is wrong with a session id that cannot be stored: it is
// empty, or longer than MaxIDBytes when encoded.
func CheckID(id string) error {
	if id == "" {
		return errors.New("a session id must not be empty")
	}
	if n := len(EncodeID(id)); n > MaxIDBytes {
		return fmt.Errorf("session id %.40q… is too long: %d bytes as a file name, at most %d", id, n, MaxIDBytes)
	}
	return nil
}
