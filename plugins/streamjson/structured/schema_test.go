package structured

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

const point = `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x","y"],"additionalProperties":false}`

// TestValue: what a call's arguments hold (spec stream-json 11.6): the arguments
// themselves where the schema is about an object, else a member of theirs.
func TestValue(t *testing.T) {
	for name, tc := range map[string]struct{ schema, arguments, value, wrong string }{
		"an object":           {point, `{"x":1,"y":2}`, `{"x":1,"y":2}`, ""},
		"all that is wrong":   {point, `{"x":"a","z":1}`, "", `/x: type: a has type "string", want "integer"; /z: unknown; known members: x, y`},
		"an array":            {`{"type":"array","items":{"type":"string"}}`, `{"value":["a"]}`, `["a"]`, ""},
		"in an array":         {`{"type":"array","items":{"type":"string"}}`, `{"value":["a",1]}`, "", "/value/1: type: 1 has type"},
		"a string":            {`{"type":"string"}`, `{"value":"x"}`, `"x"`, ""},
		"null":                {`{"type":["string","null"]}`, `{"value":null}`, `null`, ""},
		"not in the member":   {`{"type":"string"}`, `{"x":"x"}`, "", `the one member "value"`},
		"beside the member":   {`{"type":"string"}`, `{"value":"x","x":1}`, "", `the one member "value"`},
		"one of two":          {`{"anyOf":[` + point + `,{"type":"null"}]}`, `{"value":{"x":1,"y":2}}`, `{"x":1,"y":2}`, ""},
		"an object of a kind": {`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"value":{"a":1}}`, `{"a":1}`, ""},
		"a reference":         {`{"$ref":"#/$defs/P","$defs":{"P":` + point + `}}`, `{"value":{"x":1,"y":2}}`, `{"x":1,"y":2}`, ""},
		"a large number":      {`{"type":"object"}`, `{"n":12345678901234567890}`, `{"n":12345678901234567890}`, ""},
		"format checks nothing": {`{"type":"object","properties":{"at":{"type":"string","format":"date-time"}}}`,
			`{"at":"soon"}`, `{"at":"soon"}`, ""},
		"draft 7": {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"n":{"minimum":3}},"properties":{"a":{"$ref":"#/definitions/n"}}}`,
			`{"a":2}`, "", "minimum"},
		"draft 7 without its hash": {`{"$schema":"http://json-schema.org/draft-07/schema","type":"object"}`, `{}`, `{}`, ""},
		"draft 6":                  {`{"$schema":"http://json-schema.org/draft-06/schema#","type":"object","required":["a"]}`, `{}`, "", "/a: missing"},
		"draft 2020-12": {`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array","prefixItems":[{"type":"string"}]}`,
			`{"value":[1]}`, "", "/value: type: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			value, err := s.value(json.RawMessage(tc.arguments))
			switch {
			case tc.wrong == "" && (err != nil || string(value) != tc.value):
				t.Errorf("got %s, %v; want %s", value, err, tc.value)
			case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
				t.Errorf("got %v, want %q", err, tc.wrong)
			}
		})
	}
}

// TestParameters: providers take an object without alternatives at its root, and
// references in it lead where they led.
func TestParameters(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"as it is": {point, point},
		"wrapped": {`{"$ref":"#/$defs/L","$defs":{"L":{"type":"array"}}}`,
			`{"type":"object","properties":{"value":{"$ref":"#/$defs/L","$defs":{"L":{"type":"array"}}}},"required":["value"],"additionalProperties":false,"$defs":{"L":{"type":"array"}}}`},
		"of an older draft": {`{"$schema":"http://json-schema.org/draft-07/schema#","enum":["a"],"definitions":{}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"value":{"$schema":"http://json-schema.org/draft-07/schema#","enum":["a"],"definitions":{}}},"required":["value"],"additionalProperties":false,"definitions":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decoded(t, tc.want), decoded(t, string(s.parameters))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := wirejson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCompile: a schema that cannot be checked is refused up front, with the
// reason (S037).
func TestCompile(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":7}`:           `"type"`,
		`{"$ref":"#/nowhere"}`: "nowhere",
		`{"pattern":"^(?=x)"}`: "pattern",
		`[]`:                   "read schema",
		`{"type":"object"`:     "read schema",
		`{"$schema":"http://json-schema.org/draft-04/schema#"}`:      "use draft-07 or draft 2020-12",
		`{"$schema":"https://json-schema.org/draft/2019-09/schema"}`: "use draft-07 or draft 2020-12",
	} {
		if _, err := Compile(json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}
