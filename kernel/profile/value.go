package profile

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dsh/sdkproto/wirejson"
)

type kind uint8

const (
	null kind = iota
	truth
	number
	text
	list
	mapping
)

// value is a node of a profile: what YAML or JSON said, with its place. Values
// are not changed once they are part of a layer; merging and interpolating
// build new ones and share what stays the same.
type value struct {
	kind kind
	// text is a scalar as it counts; for numbers and booleans, what Decode gives
	// a field of type text (case B81).
	text string
	// json is a number in JSON's form, with all its digits.
	json string
	// raw is a scalar as written, before interpolation.
	raw string
	// bare is set for an unquoted scalar, which is typed again after
	// interpolation.
	bare bool
	// interpolated is set when text came from ${env:} or ${file:}: such a text
	// is never printed.
	interpolated bool
	// whole is set for a value that replaces what it is merged on, nulls and all;
	// more for a list that adds to it.
	whole, more bool
	// pos is the place of the key for members, and of the value for list items.
	pos Position
	// layer is the file the value was read from; nil for --set and environment
	// overrides.
	layer *layer

	items   []*value
	keys    []string
	members map[string]*value
}

func newMapping(pos Position) *value {
	return &value{kind: mapping, pos: pos, members: map[string]*value{}}
}

func (v *value) set(key string, member *value) {
	if _, ok := v.members[key]; !ok {
		v.keys = append(v.keys, key)
	}
	v.members[key] = member
}

func (v *value) remove(key string) {
	if _, ok := v.members[key]; ok {
		delete(v.members, key)
		v.keys = slices.DeleteFunc(v.keys, func(k string) bool { return k == key })
	}
}

// get gives a member, nil when there is none.
func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	return v.members[key]
}

func (v *value) names() []string {
	if v == nil {
		return nil
	}
	return v.keys
}

func (v *value) children() []*value {
	if v.kind == list {
		return v.items
	}
	all := make([]*value, 0, len(v.keys))
	for _, key := range v.keys {
		all = append(all, v.members[key])
	}
	return all
}

// dir is the folder of the file the value was read from.
func (v *value) dir() string {
	if v.layer == nil || v.layer.embedded {
		return ""
	}
	return filepath.Dir(v.layer.file)
}

func (v *value) describe() string {
	switch v.kind {
	case truth:
		return "a boolean"
	case number:
		return "a number"
	case text:
		if v.text == "" {
			return "empty text"
		}
		return "text"
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	}
	return "null"
}

// merge puts over on base. Where both are mappings it goes key by key, in the
// order of base and then of over; null in over deletes a key; anything else
// replaces. A merged mapping keeps the place where it first appeared.
func merge(base, over *value) *value {
	switch {
	case over.more && over.kind == list && base != nil && base.kind == list:
		out := *over
		out.items = slices.Concat(base.items, over.items)
		return &out
	case over.kind != mapping || over.whole:
		return over
	}
	out := newMapping(over.pos)
	out.layer = over.layer
	if base != nil && base.kind == mapping {
		out.pos, out.layer = base.pos, base.layer
		out.keys, out.members = slices.Clone(base.keys), maps.Clone(base.members)
	}
	var gone []string
	for _, key := range over.keys {
		member := over.members[key]
		if member.kind == null {
			if _, ok := out.members[key]; ok {
				gone = append(gone, key)
				delete(out.members, key)
			}
			continue
		}
		out.set(key, merge(out.members[key], member))
	}
	if len(gone) > 0 {
		out.keys = slices.DeleteFunc(out.keys, func(k string) bool { return slices.Contains(gone, k) })
	}
	return out
}

// appendJSON appends v as JSON, members in order.
func (v *value) appendJSON(dst []byte) []byte {
	switch v.kind {
	case truth:
		return append(dst, v.text...)
	case number:
		return append(dst, v.json...)
	case text:
		return wirejson.AppendString(dst, v.text)
	case list:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	case mapping:
		dst = append(dst, '{')
		for i, key := range v.keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(wirejson.AppendString(dst, key), ':')
			dst = v.members[key].appendJSON(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// child gives the member or item a pointer token names, nil when there is none.
func (v *value) child(token string) *value {
	switch v.kind {
	case mapping:
		return v.members[token]
	case list:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v.items) {
			return v.items[i]
		}
	}
	return nil
}

// locate gives the value at an RFC 6901 pointer, or the nearest that encloses it.
func (v *value) locate(pointer string) *value {
	for _, token := range pointerTokens(pointer) {
		next := v.child(token)
		if next == nil {
			break
		}
		v = next
	}
	return v
}

// pointerTokens splits an RFC 6901 pointer and undoes its escapes.
func pointerTokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens
}

// keyPath appends a key to a dotted path; a key that would be misread is quoted.
func keyPath(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '.' || r == '"' }) {
		key = strconv.Quote(key)
	}
	return path + "." + key
}
