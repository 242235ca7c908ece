// Package structured has the model give the result of each turn as a JSON value
// that matches a schema of the client's (spec stream-json 11.6, S037): it offers
// a tool whose parameters are the schema, and sees to it that the tool is called.
package structured

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// Schema is what a value has to match.
type Schema struct {
	checker *tool.Checker
	// parameters are those of the tool. With wrapped they are an object whose only
	// member holds the value.
	parameters json.RawMessage
	wrapped    bool
}

// member holds the value where the schema is none that providers take for the
// parameters of a tool.
const member = "value"

// Compile reads a JSON Schema. Its keyword format says something about a value
// and checks nothing.
func Compile(raw json.RawMessage) (*Schema, error) {
	checker, err := tool.NewChecker(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{checker: checker, parameters: raw}
	var keywords map[string]json.RawMessage
	if err := wirejson.Unmarshal(raw, &keywords); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	if isParameters(keywords) {
		return s, nil
	}
	s.wrapped = true
	w := wrapper{
		Schema: keywords["$schema"], Type: "object", Required: []string{member},
		Defs: keywords["$defs"], Definitions: keywords["definitions"],
	}
	w.Properties.Value = raw
	if s.parameters, err = wirejson.Marshal(w); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return s, nil
}

// wrapper is the schema of an object with a value. What references name from the
// root of the value's schema is at its own root, too.
type wrapper struct {
	Schema     json.RawMessage `json:"$schema,omitzero"`
	Type       string          `json:"type"`
	Properties struct {
		Value json.RawMessage `json:"value"`
	} `json:"properties"`
	Required    []string        `json:"required"`
	Additional  bool            `json:"additionalProperties"`
	Defs        json.RawMessage `json:"$defs,omitzero"`
	Definitions json.RawMessage `json:"definitions,omitzero"`
}

// isParameters reports whether providers take a schema as it is: its type is
// object, and none of these keywords stands at its root.
func isParameters(keywords map[string]json.RawMessage) bool {
	for _, name := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "const", "if"} {
		if _, ok := keywords[name]; ok {
			return false
		}
	}
	return string(keywords["type"]) == `"object"`
}

// value gives what a call's arguments hold, and what is wrong with it in one
// error. The arguments are a JSON object.
func (s *Schema) value(arguments json.RawMessage) (json.RawMessage, error) {
	if !s.wrapped {
		return arguments, s.check(arguments, "")
	}
	var members map[string]json.RawMessage
	if err := wirejson.Unmarshal(arguments, &members); err != nil {
		return nil, err
	}
	v, ok := members[member]
	if !ok || len(members) > 1 {
		return nil, fmt.Errorf("the output is the one member %q of the arguments", member)
	}
	return v, s.check(v, "/"+member)
}

// check lists everything that is wrong with a value; at is its place.
func (s *Schema) check(value json.RawMessage, at string) error {
	problems, err := s.checker.Problems(value)
	if err != nil || len(problems) == 0 {
		return err
	}
	texts := make([]string, len(problems))
	for i, p := range problems {
		if texts[i] = p.Msg; at+p.Pointer != "" {
			texts[i] = at + p.Pointer + ": " + p.Msg
		}
	}
	return errors.New(strings.Join(slices.Compact(texts), "; "))
}
