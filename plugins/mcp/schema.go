package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dsh/sdkproto/wirejson"
)

// Model APIs take less than JSON Schema has: the top must be an object without
// alternatives, arrays must say what they hold, nested schemas must be objects.
// A request with one schema they refuse is refused as a whole, so that each
// schema is made to fit, where need be by one that accepts more: the server
// checks its calls anyway (case B35).

// maxDepth bounds how far references are followed and schemas are searched,
// maxSteps how many schemas are joined at the top of one: references can make a
// few alternatives endless.
const (
	maxDepth = 64
	maxSteps = 1000
)

type members = map[string]json.RawMessage

// silent are members of the top that say nothing about arguments.
var silent = []string{"$schema", "$id", "id", "$anchor", "$comment", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}

// notOnTop are members that no provider takes at the top.
var notOnTop = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "$ref", "$dynamicRef",
	"$recursiveRef", "dependentSchemas", "dependentRequired", "dependencies", "unevaluatedProperties"}

// adapted is a schema that providers take.
type adapted struct {
	schema json.RawMessage
	// raw gives the names of those arguments whose names providers refuse.
	raw map[string]string
	// notes say what the schema does not say any more, for people.
	notes []string
}

const emptyObject = `{"properties":{},"type":"object"}`

// adapt makes a tool's input schema one that providers take; what is fine stays
// byte for byte. An error means that nothing can be made of it.
func adapt(schema json.RawMessage, most int) (adapted, error) {
	schema = bytes.TrimSpace(schema)
	a := &adapter{}
	switch {
	case len(schema) == 0 || string(schema) == "null":
		return adapted{schema: json.RawMessage(emptyObject), notes: []string{"it has no schema"}}, nil
	case string(schema) == "false":
		return adapted{}, errors.New("its schema is false: it can never be called")
	case schema[0] != '{':
		return adapted{schema: json.RawMessage(emptyObject), notes: []string{"its schema is no object"}}, nil
	}
	root, ok := decode[members](schema)
	if !ok {
		return adapted{}, errors.New("its schema is no JSON")
	}
	a.root = root
	top := a.flatten(root, 0)
	changed := a.tidy(top, root)
	if a.nested(top, 0) {
		changed = true
	}
	raw := a.rename(top)
	out := schema
	if changed || raw != nil {
		var err error
		if out, err = wirejson.Marshal(top); err != nil {
			return adapted{}, fmt.Errorf("its schema cannot be encoded: %w", err)
		}
	} else if compact, err := wirejson.Compact(schema); err == nil {
		out = compact
	}
	if len(out) > most {
		out = shrink(top, most)
		a.note("its schema was longer than %d bytes and says less now", most)
	}
	return adapted{out, raw, a.notes}, nil
}

type adapter struct {
	root  members
	steps int
	notes []string
}

func (a *adapter) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(a.notes, n) {
		a.notes = append(a.notes, n)
	}
}

// lookup follows a reference within the document.
func (a *adapter) lookup(ref string) (json.RawMessage, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	if pointer == "" {
		whole, err := wirejson.Marshal(a.root)
		return whole, err == nil
	}
	var at json.RawMessage
	level := a.root
	for i, token := range strings.Split(pointer, "/") {
		if i == 0 {
			if token != "" {
				return nil, false
			}
			continue
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if level != nil {
			if at, ok = level[token]; !ok {
				return nil, false
			}
		} else {
			return nil, false
		}
		level, _ = decode[members](at)
	}
	return at, true
}

// flatten gives a schema of an object without references and alternatives at
// its top: what all alternatives want is wanted, what one of them knows is
// known.
func (a *adapter) flatten(s members, depth int) members {
	out := maps.Clone(s)
	if out == nil {
		out = members{}
	}
	if a.steps++; depth > maxDepth || a.steps > maxSteps {
		for _, key := range notOnTop {
			delete(out, key)
		}
		return out
	}
	if ref, ok := decode[string](s["$ref"]); ok {
		target, found := a.lookup(ref)
		if m, isObject := decode[members](target); found && isObject {
			for key, v := range a.flatten(m, depth+1) {
				if _, own := out[key]; !own {
					out[key] = v
				}
			}
		} else {
			a.note("its reference %q leads nowhere", clip(ref, 100))
		}
	}
	properties, _ := decode[members](out["properties"])
	properties = maps.Clone(properties)
	if properties == nil {
		properties = members{}
	}
	required, _ := decode[[]string](out["required"])
	own := len(required)
	merged := false
	learn := func(from members, both string) {
		theirs, _ := decode[members](from["properties"])
		for name, p := range theirs {
			merged = true
			if mine, ok := properties[name]; !ok {
				properties[name] = p
			} else if !bytes.Equal(mine, p) {
				properties[name] = either(both, mine, p)
			}
		}
	}
	parts, _ := decode[[]json.RawMessage](s["allOf"])
	for _, raw := range parts {
		if m, ok := decode[members](raw); ok {
			branch := a.flatten(m, depth+1)
			learn(branch, "allOf")
			theirs, _ := decode[[]string](branch["required"])
			required = union(required, theirs)
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		parts, _ := decode[[]json.RawMessage](s[key])
		var common []string
		first := true
		for _, raw := range parts {
			m, ok := decode[members](raw)
			if !ok || !mayBeObject(m) {
				continue
			}
			branch := a.flatten(m, depth+1)
			learn(branch, "anyOf")
			theirs, _ := decode[[]string](branch["required"])
			if first {
				common, first = theirs, false
			} else {
				common = slices.DeleteFunc(slices.Clone(common), func(n string) bool { return !slices.Contains(theirs, n) })
			}
		}
		required = union(required, common)
	}
	for _, key := range []string{"then", "else"} {
		if m, ok := decode[members](s[key]); ok {
			learn(a.flatten(m, depth+1), "anyOf")
		}
	}
	for _, key := range notOnTop {
		if _, ok := s[key]; ok {
			if key != "$ref" {
				a.note("%s at the top of its schema is left out", key)
			}
			delete(out, key)
		}
	}
	if merged {
		// What the alternatives know must not be refused for it.
		delete(out, "additionalProperties")
		out["properties"] = encoded(properties)
	}
	if len(required) > own {
		out["required"] = encoded(required)
	}
	return out
}

// tidy gives the top what it must have and takes what it must not.
func (a *adapter) tidy(top, was members) (changed bool) {
	for _, key := range silent {
		if _, ok := top[key]; ok {
			delete(top, key)
			changed = true
		}
	}
	if !mayBeObject(top) {
		a.note("its schema is that of no object")
		clear(top)
	}
	if p, _ := decode[members](top["properties"]); p == nil {
		top["properties"] = json.RawMessage("{}")
		changed = true
	}
	if raw, ok := top["required"]; ok {
		if list, _ := decode[[]string](raw); list == nil {
			delete(top, "required")
			changed = true
		}
	}
	if t, ok := decode[string](top["type"]); !ok || t != "object" {
		top["type"] = json.RawMessage(`"object"`)
	}
	return changed || !maps.EqualFunc(top, was, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// mayBeObject says whether a schema can accept an object.
func mayBeObject(s members) bool {
	raw, ok := s["type"]
	if !ok {
		return true
	}
	if one, ok := decode[string](raw); ok {
		return one == "object"
	}
	many, ok := decode[[]string](raw)
	return !ok || slices.Contains(many, "object")
}

// Where nested schemas are: one, a list of them, or a mapping to them.
var (
	holdOne  = []string{"items", "additionalItems", "contains", "not", "propertyNames", "if", "then", "else", "unevaluatedItems"}
	holdList = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	holdMap  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

func (a *adapter) nested(s members, depth int) (changed bool) {
	if depth > maxDepth {
		return false
	}
	put := func(key string, v any) { s[key], changed = encoded(v), true }
	for _, key := range holdOne {
		if raw, ok := s[key]; ok {
			if fixed, did := a.mend(raw, depth); did {
				put(key, fixed)
			}
		}
	}
	if raw := s["additionalProperties"]; len(raw) > 0 && raw[0] == '{' {
		if fixed, did := a.mend(raw, depth); did {
			put("additionalProperties", fixed)
		}
	}
	for _, key := range holdList {
		list, _ := decode[[]json.RawMessage](s[key])
		any := false
		for i, raw := range list {
			fixed, did := a.mend(raw, depth)
			list[i], any = fixed, any || did
		}
		if any {
			put(key, list)
		}
	}
	for _, key := range holdMap {
		m, _ := decode[members](s[key])
		any := false
		for name, raw := range m {
			fixed, did := a.mend(raw, depth)
			m[name], any = fixed, any || did
		}
		if any {
			put(key, m)
		}
	}
	return changed
}

// mend gives a nested schema that providers take.
func (a *adapter) mend(raw json.RawMessage, depth int) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	s, ok := decode[members](raw)
	if !ok || s == nil {
		// true, or a list of schemas, which the old drafts allow.
		return json.RawMessage("{}"), true
	}
	changed := false
	if ref, ok := s["$ref"]; ok {
		name, isText := decode[string](ref)
		if _, found := a.lookup(name); !isText || !found {
			a.note("its reference %s leads nowhere", clip(string(ref), 100))
			delete(s, "$ref")
			changed = true
		}
	}
	if isArray(s["type"]) && s["items"] == nil {
		s["items"] = json.RawMessage("{}")
		changed = true
	}
	if req, ok := s["required"]; ok {
		if list, _ := decode[[]string](req); list == nil {
			delete(s, "required")
			changed = true
		}
	}
	if a.nested(s, depth+1) {
		changed = true
	}
	if !changed {
		return raw, false
	}
	return encoded(s), true
}

func isArray(kind json.RawMessage) bool {
	one, _ := decode[string](kind)
	many, _ := decode[[]string](kind)
	return one == "array" || slices.Contains(many, "array")
}

// rename gives arguments names that providers take and tells their own.
func (a *adapter) rename(top members) map[string]string {
	properties, _ := decode[members](top["properties"])
	var raw map[string]string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if isArgument(name) {
			continue
		}
		given := strings.Map(func(r rune) rune {
			if r < 0x80 && isArgument(string(r)) {
				return r
			}
			return '_'
		}, name)
		if _, taken := properties[given]; taken || given == "" || len(given) > maxName {
			given = suffixed(given, digest(name), maxName)
		}
		if raw == nil {
			raw = map[string]string{}
		}
		raw[given] = name
		properties[given] = properties[name]
		delete(properties, name)
		a.note("its argument %q is called %q for the model", clip(name, 100), given)
	}
	if raw == nil {
		return nil
	}
	top["properties"] = encoded(properties)
	if required, ok := decode[[]string](top["required"]); ok {
		for i, name := range required {
			for given, own := range raw {
				if own == name {
					required[i] = given
				}
			}
		}
		top["required"] = encoded(required)
	}
	return raw
}

// isArgument reports whether every provider takes the name of an argument.
func isArgument(name string) bool {
	return name != "" && len(name) <= maxName &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

// shrink keeps of a schema the names of the arguments, and of each its type and
// the beginning of its description, as far as they fit.
func shrink(top members, most int) json.RawMessage {
	properties, _ := decode[members](top["properties"])
	for _, text := range []int{300, 60, 0} {
		small := members{}
		for name, raw := range properties {
			p, _ := decode[members](raw)
			keep := members{}
			if _, ok := p["type"]; ok && p["items"] == nil && p["properties"] == nil {
				keep["type"] = p["type"]
			}
			if d, ok := decode[string](p["description"]); ok && text > 0 {
				keep["description"] = encoded(clip(d, text))
			}
			small[name] = encoded(keep)
		}
		out := members{"type": json.RawMessage(`"object"`), "properties": encoded(small)}
		if r, ok := top["required"]; ok {
			out["required"] = r
		}
		if s := encoded(out); len(s) <= most {
			return s
		}
	}
	return json.RawMessage(emptyObject)
}

func either(how string, a, b json.RawMessage) json.RawMessage {
	return encoded(map[string][]json.RawMessage{how: {a, b}})
}

func union(a, b []string) []string {
	a = slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// encoded is for values that were decoded from JSON, which always encode.
func encoded(v any) json.RawMessage {
	data, err := wirejson.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return data
}
