package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"dsh/sdkproto/wirejson"
)

// SchemaFor derives a tool's parameters from a Go struct: json tags name the
// members, `omitzero` makes one optional, a jsonschema tag describes it, and an
// enum tag lists the words a text may be, parted by commas. The form is the
// plain one that every provider takes: one type per member, no unknown members.
func SchemaFor[T any]() (json.RawMessage, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", reflect.TypeFor[T](), err)
	}
	plain(s)
	enums(s, reflect.TypeFor[T]())
	return wirejson.Marshal(s)
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

// checker is implemented by tools that check their arguments themselves.
type checker interface {
	CheckArguments(json.RawMessage) error
}

// checkArguments refuses what is no JSON object, and says where (case B52). A
// member that comes twice is refused, too: who looks at a call before it runs may
// see the one, and the tool the other (case B23).
func checkArguments(t Tool, arguments json.RawMessage) error {
	var value any
	if err := wirejson.UnmarshalStrict(arguments, &value); err != nil {
		at := ""
		if e := (*wirejson.Error)(nil); errors.As(err, &e) {
			at = fmt.Sprintf(" at byte %d", e.Offset)
		}
		return fmt.Errorf("they cannot be read%s: %w; send one JSON object", at, err)
	}
	if _, ok := value.(map[string]any); !ok {
		return errors.New("not a JSON object; send one JSON object")
	}
	if c, ok := t.(checker); ok {
		return c.CheckArguments(arguments)
	}
	return nil
}
