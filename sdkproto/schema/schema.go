// Package schema derives JSON Schemas from Go structs, for parameters of tools
// and configs of plugins.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"dsh/sdkproto/wirejson"
)

// For derives the schema of a struct: json tags name the members, `omitzero`
// makes one optional, a jsonschema tag describes it, and an enum tag lists the
// words a text may be, parted by commas. The form is the plain one that every
// provider takes: one type per member, no unknown members.
func For[T any]() (json.RawMessage, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", reflect.TypeFor[T](), err)
	}
	plain(s)
	enums(s, reflect.TypeFor[T]())
	encoded, err := wirejson.Marshal(s)
	if err == nil && len(s.Properties) == 0 {
		// The library leaves an empty list of members out, and some providers ask for
		// it.
		encoded = bytes.Replace(encoded, []byte(`"type":"object"`), []byte(`"type":"object","properties":{}`), 1)
	}
	return encoded, err
}

// enums takes the words of enum tags up into the schema made from t.
func enums(s *jsonschema.Schema, t reflect.Type) {
	if s == nil {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		enums(s, t.Elem())
	case reflect.Slice, reflect.Array:
		enums(s.Items, t.Elem())
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			member := s.Properties[name]
			if words := f.Tag.Get("enum"); words != "" && member != nil {
				for word := range strings.SplitSeq(words, ",") {
					member.Enum = append(member.Enum, word)
				}
			}
			enums(member, f.Type)
		}
	}
}

// plain replaces lists of types, which some model APIs refuse, by the one that
// is not null.
func plain(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) > 0 {
		if i := slices.IndexFunc(s.Types, func(t string) bool { return t != "null" }); i >= 0 {
			s.Type, s.Types = s.Types[i], nil
		}
	}
	for _, p := range s.Properties {
		plain(p)
	}
	plain(s.Items)
}
