package jsonrpc

import (
	"encoding/json"
	"math"
	"strconv"

	"dsh/kernel/session"
	"dsh/sdkproto/wirejson"
)

// args are the parameters of a request. Members that a method does not know are
// ignored.
type args struct {
	method string
	// prefix stands before the names in messages: "options." for a nested object.
	prefix  string
	members map[string]json.RawMessage
}

func decodeArgs(method string, params []byte) (args, error) {
	a := args{method: method}
	if err := wirejson.Unmarshal(params, &a.members); err != nil {
		return a, invalid("", "%s params: %v", method, err)
	}
	return a, nil
}

// has reports whether a member is there at all; null counts.
func (a args) has(name string) bool { return len(a.members[name]) > 0 }

// given reports whether an optional member of an extension is there: clients
// write null for what they leave out.
func (a args) given(name string) bool { return a.has(name) && !isNull(a.members[name]) }

func (a args) wrong(name, should string) error {
	return invalid(a.prefix+name, "%s %s%s must be %s", a.method, a.prefix, name, should)
}

// text gives a non-empty string.
func (a args) text(name string) (string, error) {
	if s, ok := text(a.members[name]); ok {
		return s, nil
	}
	return "", a.wrong(name, "a non-empty string")
}

// optionalText gives "" for a member that is left out.
func (a args) optionalText(name string) (string, error) {
	if !a.given(name) {
		return "", nil
	}
	return a.text(name)
}

// sessionID gives an id that a session can have (decision R17).
func (a args) sessionID() (string, error) {
	id, err := a.text("sessionId")
	if err != nil {
		return "", err
	}
	if err := session.CheckID(id); err != nil {
		return "", invalid("sessionId", "%s sessionId: %v", a.method, err)
	}
	return id, nil
}

// positive gives a positive safe integer.
func (a args) positive(name string) (int64, error) {
	if n, ok := safeInteger(a.members[name]); ok && n > 0 {
		return n, nil
	}
	return 0, a.wrong(name, "a positive safe integer")
}

// integer gives an integer of a range, or otherwise for a member left out.
func (a args) integer(name string, least, most, otherwise int64) (int64, error) {
	if !a.given(name) {
		return otherwise, nil
	}
	n, ok := safeInteger(a.members[name])
	if !ok || n < least || n > most {
		should := "an integer from " + strconv.FormatInt(least, 10)
		if most < maxSafeInteger {
			should += " to " + strconv.FormatInt(most, 10)
		} else {
			should += " on"
		}
		return 0, a.wrong(name, should)
	}
	return n, nil
}

// object gives the members of a nested object; nil members when it is left out.
func (a args) object(name string) (args, error) {
	inner := args{method: a.method, prefix: a.prefix + name + "."}
	if !a.given(name) {
		return inner, nil
	}
	if !isObject(a.members[name]) {
		return inner, a.wrong(name, "an object")
	}
	if err := wirejson.Unmarshal(a.members[name], &inner.members); err != nil {
		return inner, invalid(a.prefix+name, "%s %s%s: %v", a.method, a.prefix, name, err)
	}
	return inner, nil
}

// maxSafeInteger is the largest integer that clients can tell from its
// neighbours, 2^53-1.
const maxSafeInteger = 1<<53 - 1

// safeInteger reads JSON text as clients read numbers, as a double: 1e3 and
// 1000.0 are integers.
func safeInteger(raw []byte) (int64, bool) {
	if !isNumber(raw) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(f) > maxSafeInteger || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// text decodes a non-empty JSON string.
func text(raw []byte) (string, bool) {
	if !isString(raw) {
		return "", false
	}
	var s string
	if err := wirejson.Unmarshal(raw, &s); err != nil {
		return "", false
	}
	return s, s != ""
}

func isNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }
