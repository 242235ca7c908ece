package profile

import (
	"encoding"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"dsh/sdkproto/wirejson"
)

// maxDecodeErrors bounds how many errors one Decode looks for.
const maxDecodeErrors = 50

// Decode decodes the row's config strictly into the struct that into points to,
// which holds the defaults. A number or boolean written for a field of type
// text arrives as it was spelled (case B81). It reports every error it can find
// and not the first; after an error the struct holds a mixture and is of no use.
func (e *Entry) Decode(into any) []*Error {
	if e.config == nil || string(e.Config) != e.rendered {
		return e.decodeBytes(into)
	}
	bad := slices.Clone(e.deferred)
	for tree := e.config; len(bad) < maxDecodeErrors; {
		data := appendTyped(nil, tree, reflect.TypeOf(into))
		err := wirejson.UnmarshalStrict(data, into)
		if err == nil {
			break
		}
		problem, pointer := e.explain(err, tree, into)
		if !slices.ContainsFunc(e.deferred, func(d *Error) bool { return d.Path == problem.Path }) {
			bad = append(bad, problem)
		}
		// Decoding stops at the first error; it goes on without the culprit.
		if tree = without(tree, pointerTokens(pointer)); tree == nil {
			break
		}
	}
	return bad
}

// decodeBytes decodes an entry that no profile composed, or whose Config was
// replaced: there is nothing to look places up in but Origin.
func (e *Entry) decodeBytes(into any) []*Error {
	err := wirejson.UnmarshalStrict(e.Config, into)
	if err == nil {
		return nil
	}
	problem, _ := e.explain(err, nil, into)
	return []*Error{problem}
}

// explain turns a codec error into one with place and path.
func (e *Entry) explain(err error, tree *value, into any) (problem *Error, pointer string) {
	problem = &Error{Pos: e.Pos, Path: "plugins." + e.ID + ".config", Msg: err.Error()}
	var at *wirejson.Error
	if !errors.As(err, &at) {
		return problem, ""
	}
	tokens := pointerTokens(at.Pointer)
	for _, token := range tokens {
		problem.Path = keyPath(problem.Path, token)
	}
	if e.Origin != nil {
		problem.Pos = e.Origin(at.Pointer)
	}
	problem.Msg = at.Err.Error()
	var culprit *value
	if tree != nil {
		culprit = tree.locate(at.Pointer)
		problem.Pos = culprit.pos
	}
	switch {
	case at.Unknown != "" || len(tokens) > 0 && strings.HasPrefix(problem.Msg, "unknown key "):
		last := len(tokens) - 1
		parent := typeAt(reflect.TypeOf(into), tokens[:last])
		problem.Msg = unknownKey(tokens[last], slices.Sorted(maps.Keys(fields(parent))))
	case errors.Is(at.Err, strconv.ErrSyntax) && culprit != nil && culprit.kind == number:
		problem.Msg = "must be a whole number"
	case errors.Is(at.Err, strconv.ErrRange):
		problem.Msg = "the number is out of range"
	}
	if culprit != nil {
		problem.Msg = culprit.conceal(problem.Msg)
	}
	return problem, at.Pointer
}

// conceal keeps what ${env:} and ${file:} gave out of a message. Values of a
// few characters are no secrets, and replacing them would garble the message.
func (v *value) conceal(msg string) string {
	const secret = 4
	if v.interpolated && len(v.text) >= secret {
		msg = strings.ReplaceAll(msg, v.text, v.raw)
		if quoted := strconv.Quote(v.text); len(quoted) > len(v.text)+2 {
			msg = strings.ReplaceAll(msg, quoted[1:len(quoted)-1], v.raw)
		}
	}
	for _, child := range v.children() {
		msg = child.conceal(msg)
	}
	return msg
}

// Conceal puts what the row's config wrote, as ${env:TOKEN}, in the place of what
// that gave, in a text about the config: values may be secrets.
func (e *Entry) Conceal(text string) string {
	if e.config == nil {
		return text
	}
	return e.config.conceal(text)
}

// without gives tree without the member that holds the value at the pointer;
// nil when that is the whole tree. A list goes as a whole, so that the pointers
// into it stay true.
func without(tree *value, tokens []string) *value {
	if tree.kind != mapping || len(tokens) == 0 || tree.get(tokens[0]) == nil {
		return nil
	}
	out := *tree
	out.keys, out.members = slices.Clone(tree.keys), maps.Clone(tree.members)
	if member := without(tree.get(tokens[0]), tokens[1:]); member != nil {
		out.set(tokens[0], member)
	} else {
		out.remove(tokens[0])
	}
	return &out
}

// appendTyped appends v as JSON for a target of type t: where t wants text, a
// number or boolean becomes the text it was written as.
func appendTyped(dst []byte, v *value, t reflect.Type) []byte {
	t = concrete(t)
	if t == nil {
		return v.appendJSON(dst)
	}
	switch v.kind {
	case truth, number:
		if t.Kind() == reflect.String || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			spelled := v.raw
			if spelled == "" || v.interpolated {
				spelled = v.text
			}
			return wirejson.AppendString(dst, spelled)
		}
	case list:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTyped(dst, item, element(t))
		}
		return append(dst, ']')
	case mapping:
		known := fields(t)
		dst = append(dst, '{')
		for i, key := range v.keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(wirejson.AppendString(dst, key), ':')
			member := known[key]
			if t.Kind() == reflect.Map {
				member = t.Elem()
			}
			dst = appendTyped(dst, v.members[key], member)
		}
		return append(dst, '}')
	}
	return v.appendJSON(dst)
}

// concrete follows pointers; it gives nil for a type that decodes itself, of
// which nothing is known.
func concrete(t reflect.Type) reflect.Type {
	for t != nil {
		if t.Kind() != reflect.Pointer {
			if reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
				return nil
			}
			return t
		}
		t = t.Elem()
	}
	return nil
}

// element gives the type of the items of a list, nil for other types.
func element(t reflect.Type) reflect.Type {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		return t.Elem()
	}
	return nil
}

// typeAt gives the type a pointer leads to, nil when that is not known.
func typeAt(t reflect.Type, tokens []string) reflect.Type {
	t = concrete(t)
	for _, token := range tokens {
		switch {
		case t == nil:
			return nil
		case t.Kind() == reflect.Struct:
			t = fields(t)[token]
		case t.Kind() == reflect.Map:
			t = t.Elem()
		default:
			t = element(t)
		}
		t = concrete(t)
	}
	return t
}

// fields gives the JSON members of a struct type with their types; nothing for
// other types.
func fields(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	all := map[string]reflect.Type{}
	addFields(all, t, map[reflect.Type]bool{})
	return all
}

func addFields(all map[string]reflect.Type, t reflect.Type, within map[reflect.Type]bool) {
	if within[t] {
		return
	}
	within[t] = true
	var inner []reflect.Type
	for field := range t.Fields() {
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		named := name != ""
		switch {
		case tag == "-":
			continue
		case !named && (field.Anonymous || slices.Contains(strings.Split(options, ","), "embed")):
			if ft := concrete(field.Type); ft != nil && ft.Kind() == reflect.Struct {
				inner = append(inner, ft)
				continue
			}
		}
		if !field.IsExported() {
			continue
		}
		if !named {
			name = field.Name
		}
		all[name] = field.Type
	}
	for _, ft := range inner { // an outer field goes ahead of an embedded one
		deeper := map[string]reflect.Type{}
		addFields(deeper, ft, within)
		for name, typ := range deeper {
			if _, ok := all[name]; !ok {
				all[name] = typ
			}
		}
	}
}
