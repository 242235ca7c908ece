package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"dsh/kernel/tool"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

// schema is a JSON Schema, as far as values are made up for it.
type schema map[string]any

func schemaOf(spec *pb.ToolSpec) schema {
	var s schema
	// What is wrong with it is said elsewhere.
	_ = wirejson.Unmarshal(spec.GetParameters(), &s)
	return s
}

func (s schema) properties() map[string]any {
	p, _ := s["properties"].(map[string]any)
	return p
}

func (s schema) required() []string {
	list, _ := s["required"].([]any)
	var names []string
	for _, one := range list {
		if name, ok := one.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func (s schema) kind() string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			first, _ := t[0].(string)
			return first
		}
	}
	return ""
}

func (s schema) number(key string, otherwise float64) float64 {
	if n, ok := s[key].(float64); ok {
		return n
	}
	return otherwise
}

// sampleArguments makes arguments up; ok is false when the schema wants more than
// that can do.
func sampleArguments(spec *pb.ToolSpec, text string) (arguments json.RawMessage, ok bool) {
	checker, err := tool.NewChecker(spec.GetParameters())
	if err != nil {
		return nil, false
	}
	arguments, err = wirejson.Marshal(schemaOf(spec).sample(text, 0))
	if err != nil || checker.Check(arguments) != nil {
		return nil, false
	}
	return arguments, true
}

// maxDepth bounds how deep values are made up.
const maxDepth = 8

func (s schema) sample(text string, depth int) any {
	if fixed, ok := s["const"]; ok {
		return fixed
	}
	if words, ok := s["enum"].([]any); ok && len(words) > 0 {
		return words[0]
	}
	within := func(v any) any {
		inner, _ := v.(map[string]any)
		if depth == maxDepth {
			return nil
		}
		return schema(inner).sample(text, depth+1)
	}
	switch s.kind() {
	case "string":
		return s.fit(text)
	case "integer", "number":
		n := s.number("minimum", s.number("exclusiveMinimum", 0)+1)
		return min(n, s.number("maximum", n))
	case "boolean":
		return false
	case "array":
		list := []any{}
		for range min(int(s.number("minItems", 0)), 100) {
			list = append(list, within(s["items"]))
		}
		return list
	case "object":
		object := map[string]any{}
		for _, name := range s.required() {
			object[name] = within(s.properties()[name])
		}
		return object
	}
	return nil
}

// fit gives a text the length that a schema asks for.
func (s schema) fit(text string) string {
	if _, bounded := s["maxLength"]; bounded {
		if most := int(s.number("maxLength", 0)); utf8.RuneCountInString(text) > most {
			return string([]rune(text)[:max(most, 0)])
		}
	}
	if least := int(s.number("minLength", 0)); least > 0 && least < 1<<20 {
		return text + strings.Repeat("x", max(least-utf8.RuneCountInString(text), 0))
	}
	return text
}

// wrongTypes are arguments with a value of a wrong type in one member each.
func (s schema) wrongTypes() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.properties())) {
		member, _ := s.properties()[name].(map[string]any)
		for _, value := range []any{nil, true, 1.5, "x", []any{1}, map[string]any{"x": 1}} {
			object, _ := schema(s).sample("hello", 0).(map[string]any)
			if object == nil || schema(member).kind() == "" {
				continue
			}
			object[name] = value
			if text, err := wirejson.Marshal(object); err == nil {
				all = append(all, string(text))
			}
		}
	}
	return all
}
