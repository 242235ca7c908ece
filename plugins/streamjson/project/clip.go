package project

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"dsh/sdkproto/wirejson"
)

// noteRoom is what the note takes that says how much is missing.
const noteRoom = 100

// clip shortens a text so that it takes at most room bytes inside a JSON string,
// and says how much is missing.
func clip(s string, room int) string {
	const worst = 6 // bytes of an escape
	if len(s) <= room/worst {
		return s
	}
	size, cut := 0, 0
	for i, r := range s {
		size += encodedLen(r)
		if size > room-noteRoom && cut == 0 {
			cut = max(i, 1)
		}
		if size > room {
			for !utf8.RuneStart(s[cut]) {
				cut--
			}
			return fmt.Sprintf("%s\n[%d of %d bytes are left out of this line.]", s[:cut], len(s)-cut, len(s))
		}
	}
	return s
}

// encodedLen is how many bytes a character takes inside a JSON string.
func encodedLen(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
		return 2
	case r < 0x20 || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
		return 6
	}
	return utf8.RuneLen(r)
}

// shorten makes a JSON value take at most room bytes, by clipping its strings
// harder and harder; nil when that is not enough.
func shorten(value json.RawMessage, room int) json.RawMessage {
	encoded := normal(value)
	if len(encoded) <= room {
		return encoded
	}
	var v any
	if err := wirejson.Unmarshal(encoded, &v); err != nil {
		return nil
	}
	for limit := room / 2; limit > 2*noteRoom; limit /= 4 {
		encoded, err := wirejson.Marshal(mapStrings(v, "", func(_, s string) string { return clip(s, limit) }))
		if err == nil && len(encoded) <= room {
			return encoded
		}
	}
	return nil
}

// withoutImages empties the base64 of images in a structured output: it stands in
// the content of the line already, and once is enough (spec stream-json 0.2).
func withoutImages(value json.RawMessage) json.RawMessage {
	var v any
	if len(value) == 0 || wirejson.Unmarshal(value, &v) != nil {
		return nil
	}
	encoded, err := wirejson.Marshal(mapStrings(v, "", func(name, s string) string {
		if name == "base64" || name == "data" {
			return ""
		}
		return s
	}))
	if err != nil {
		return nil
	}
	return encoded
}

// mapStrings gives a copy of a decoded JSON value with other strings; f gets the
// name of the member that a string is.
func mapStrings(v any, name string, f func(name, s string) string) any {
	switch v := v.(type) {
	case string:
		return f(name, v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mapStrings(v[i], name, f)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = mapStrings(v[k], k, f)
		}
		return out
	}
	return v
}
