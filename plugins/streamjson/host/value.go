package host

import (
	"encoding/json"
	"strings"

	"dsh/sdkproto/wirejson"
)

// The helpers below read JSON that a client sent; what has another type than is
// asked for is not ok.

func object(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	if len(raw) == 0 || wirejson.Unmarshal(raw, &m) != nil {
		return nil, false
	}
	return m, m != nil
}

func list(raw json.RawMessage) (l []json.RawMessage, ok bool) {
	if len(raw) == 0 || wirejson.Unmarshal(raw, &l) != nil {
		return nil, false
	}
	return l, l != nil
}

func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' || wirejson.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// absent reports whether a member is not there or null: some clients send null
// for what they do not say.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// clip bounds a text of the client.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
