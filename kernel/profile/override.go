package profile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"dsh/sdkproto/wirejson"
)

// target is what --set or an environment override addresses.
type target struct {
	id   string
	keys []string // below the row
}

// parseTarget reads id.key.sub. The keys use, enabled and required address the
// row; everything else addresses its config.
func parseTarget(s string) (target, error) {
	id, rest, ok := strings.Cut(s, ".")
	if !idForm.matches(id) || !ok {
		return target{}, fmt.Errorf("%q does not name a row's key; write row-id.key", s)
	}
	keys := strings.Split(rest, ".")
	if slices.Contains(keys, "") {
		return target{}, fmt.Errorf("%q holds an empty key; write row-id.key.sub", s)
	}
	if len(keys) == 1 && slices.Contains([]string{"use", "enabled", "required"}, keys[0]) {
		return target{id, keys}, nil
	}
	return target{id, append([]string{"config"}, keys...)}, nil
}

// layer wraps a value into a tree that can be merged on top of a profile.
func (t target) layer(leaf *value, pos Position) *value {
	leaf.pos = pos
	for _, key := range slices.Backward(append([]string{"plugins", t.id}, t.keys...)) {
		outer := newMapping(pos)
		outer.set(key, leaf)
		leaf = outer
	}
	return leaf
}

// parseSets reads the --set overrides.
func (l *loader) parseSets() []*value {
	var sets []*value
	for _, set := range l.opts.Sets {
		name, data, ok := strings.Cut(set, "=")
		name, whole := strings.CutSuffix(name, ":")
		name, more := strings.CutSuffix(name, "+")
		pos := Position{File: "--set " + name}
		if called := l.opts.SetNames[name]; called != "" {
			pos.File = called
		}
		if !ok {
			l.bad.add(pos, "", "there is no value; write --set row-id.key=value")
			continue
		}
		t, err := parseTarget(name)
		if err != nil {
			l.bad.add(pos, "", "%v", err)
			continue
		}
		leaf, err := fromText(data, pos)
		if err != nil {
			l.bad.add(pos, "", "%v", err)
			continue
		}
		if leaf.whole, leaf.more = whole, more; more && leaf.kind != list {
			l.bad.add(pos, "", "+= adds a list, such as [\"a\"], and not %s", leaf.describe())
			continue
		}
		sets = append(sets, t.layer(leaf, pos))
	}
	return sets
}

// envOverrides reads the variables that the profile declares under env
// (decision R27). known are the row ids of all layers; a row that a layer
// removed is left alone.
func (l *loader) envOverrides(top *value, known map[string]bool) []*value {
	var overrides []*value
	for _, name := range top.get("env").names() {
		declared := top.get("env").get(name)
		t, _ := parseTarget(declared.text) // checked when its file was read
		if !known[t.id] {
			l.bad.add(declared.pos, keyPath("env", name), "there is no row %q%s", t.id, DidYouMean(t.id, top.get("plugins").names()))
			continue
		}
		data, ok := l.opts.env(name)
		if !ok || data == "" || top.get("plugins").get(t.id) == nil {
			continue
		}
		pos := Position{File: "$" + name}
		leaf, err := fromText(data, pos)
		if err != nil {
			l.bad.add(pos, "", "%v", err)
			continue
		}
		overrides = append(overrides, t.layer(leaf, pos))
	}
	return overrides
}

// fromText reads JSON, or else takes s as text.
func fromText(s string, pos Position) (*value, error) {
	data := bytes.TrimSpace([]byte(s))
	if !wirejson.Valid(data) {
		return &value{kind: text, text: strings.ToValidUTF8(s, "\ufffd"), pos: pos}, nil
	}
	return fromJSON(data, pos)
}

// raw keeps a part of a JSON text as it stands.
type raw []byte

// UnmarshalJSON keeps a copy of data.
func (r *raw) UnmarshalJSON(data []byte) error {
	*r = append((*r)[:0], data...)
	return nil
}

// fromJSON reads one JSON value; number text is kept, members are sorted.
func fromJSON(data []byte, pos Position) (*value, error) {
	v := &value{pos: pos}
	switch data[0] {
	case 'n':
	case 't', 'f':
		v.kind, v.text = truth, string(data)
	case '"':
		v.kind = text
		if err := wirejson.Unmarshal(data, &v.text); err != nil {
			return nil, err
		}
	case '[':
		v.kind = list
		var items []raw
		if err := wirejson.Unmarshal(data, &items); err != nil {
			return nil, err
		}
		for _, item := range items {
			child, err := fromJSON(item, pos)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, child)
		}
	case '{':
		v.kind, v.members = mapping, map[string]*value{}
		members := map[string]raw{}
		if err := wirejson.UnmarshalStrict(data, &members); err != nil {
			return nil, err
		}
		for key, member := range members {
			child, err := fromJSON(member, pos)
			if err != nil {
				return nil, err
			}
			v.set(key, child)
		}
		slices.Sort(v.keys)
	default:
		v.kind, v.text, v.json = number, string(data), string(data)
	}
	return v, nil
}
