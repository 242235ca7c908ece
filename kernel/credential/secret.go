package credential

import (
	"fmt"
	"log/slog"
	"strings"
)

// hidden is what a secret shows of itself.
const hidden = "[secret]"

// Secret is a value that no formatting, logging or encoding shows. The zero
// value is no secret at all.
type Secret struct {
	// A pointer, so that a secret inside an unexported field of something that is
	// printed, whose methods fmt cannot call, is an address and not a text.
	text *string
}

// Parse makes a secret of what a place holds: white space around it is cut off,
// and what is left must be printable ASCII (spec jsonrpc 10.1), else the error
// is an *InvalidError. A blank text counts as not set: the zero Secret.
func Parse(name, place, text string) (Secret, error) {
	text = strings.TrimSpace(text)
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return Secret{}, &InvalidError{Name: name, Place: place}
		}
	}
	if text == "" {
		return Secret{}, nil
	}
	return Secret{&text}, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// Reveal gives the value.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Redact gives text without the value of the secret, for what others wrote and
// may have quoted it in.
func (s Secret) Redact(text string) string {
	if s.text == nil {
		return text
	}
	return strings.ReplaceAll(text, *s.text, hidden)
}

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// String implements fmt.Stringer.
func (s Secret) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON implements json.Marshaler.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
