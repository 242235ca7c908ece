package profile_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"dsh/kernel/profile"
)

type nested struct {
	inner
	Name   string            `json:"name" enum:"one,two"`
	Sizes  []int             `json:"sizes"`
	Labels map[string]string `json:"labels"`
	Filter *struct {
		Allow []string `json:"allow"`
	} `json:"filter"`
	Wait   duration `json:"wait"`
	Any    opaque   `json:"any"`
	Ratio  float64  `json:"ratio"`
	Strict bool     `json:"strict"`
	Again  *nested  `json:"again"`
	Limit  int64    `json:"limit"`
}

func (o opaque) MarshalJSON() ([]byte, error) { return json.Marshal(o.raw) }

func kinds() []profile.Kind {
	return []profile.Kind{
		{Name: "tool-x", Summary: "Does x.", Defaults: &nested{Name: "one", Limit: 500, Any: opaque{"10s"}, Strict: true}},
		{Name: "empty", Summary: "Has nothing to say.", Defaults: struct{}{}},
	}
}

func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := profile.Schema(kinds(), map[string]string{"x": "tool-x"})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("profile.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("profile.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema takes what Load and Decode take and refuses what they refuse, as
// far as one file shows it.
func TestSchemaAgrees(t *testing.T) {
	s := validator(t)
	config := func(text string) string { return "plugins:\n  a:\n    use: tool-x\n    config:\n      " + text + "\n" }
	for source, good := range map[string]bool{
		"summary: s\nextends: base\nenv: {A: a.k}\nsettings: {logLevel: warn, home: /h}\nplugins: {a: {use: tool-x}}": true,
		"plugins: {a: {use: tool-x, enabled: false, required: false, checksum: abc}}":                                 true,
		"plugins: {a: {use: tool-y}}":                    false,
		"plugins: {a: {use: tool-x, enabled: 'no'}}":     false,
		"plugins: {a: {use: tool-x, enabld: false}}":     false,
		"plugins: {A: {use: tool-x}}":                    false,
		"plugins: {a: {use: empty, config: {}}}":         true,
		"plugins: {a: {use: empty, config: {limit: 1}}}": false,
		"plugins: [a]":                                            false,
		"plugin: {}":                                              false,
		"settings: {logLevel: loud}":                              false,
		"settings: {loglevel: warn}":                              false,
		config("limit: 5"):                                        true,
		config("limit: 5.5"):                                      false,
		config("limit: many"):                                     false,
		config("limit: '${env:LIMIT}'"):                           true,
		config("limit: ~"):                                        true,
		config("limt: 5"):                                         false,
		config("deep: 5"):                                         true,
		config("deep: [5]"):                                       false,
		config("name: two"):                                       true,
		config("name: three"):                                     false,
		config("sizes: [1, 2]"):                                   true,
		config("sizes: [1, x]"):                                   false,
		config("sizes: 1"):                                        false,
		config("labels: {any: thing}"):                            true,
		config("labels: {any: [thing]}"):                          false,
		config("filter: {allow: [a]}"):                            true,
		config("filter: {alow: [a]}"):                             false,
		config("wait: 30s"):                                       true,
		config("wait: {s: 30}"):                                   false,
		config("any: [what, ever]"):                               true,
		config("ratio: 0.5"):                                      true,
		config("strict: 'true'"):                                  false,
		config("again: {name: one}"):                              true,
		"plugins: {x: {config: {limit: 5}}}":                      true,
		"plugins: {x: {config: {limt: 5}}}":                       false,
		"plugins: {x: {use: empty, config: {limit: 5}}}":          false,
		"plugins: {other: {config: {what: ever}}}":                true,
		"plugins: {x: ~, a: {use: tool-x, config: ~}}":            true,
		"plugins: {a: {use: tool-x, config: {name: '${env:N}'}}}": true,
	} {
		var doc any
		if err := yaml.Unmarshal([]byte(source), &doc); err != nil {
			t.Fatal(err)
		}
		err := s.Validate(doc)
		if (err == nil) != good {
			t.Errorf("%s\nis good: %v, got %v", source, good, err)
		}
		if !strings.Contains(source, "use: tool-x") || strings.Contains(source, "${") {
			continue
		}
		// The same file through Load and Decode.
		p, err := profile.Load(profile.Options{Name: write(t, filepath.Join(t.TempDir(), "p.yaml"), strings.Replace(source, "extends: base\n", "", 1))})
		if err == nil {
			if e, ok := p.Entry("a"); ok {
				into := nested{Any: opaque{"10s"}}
				if bad := e.Decode(&into); len(bad) > 0 {
					err = bad[0]
				}
			}
		}
		if strings.Contains(source, "name: three") {
			continue // what a word may be is for Validate to say
		}
		if (err == nil) != good {
			t.Errorf("%s\nis good: %v, but loading says %v", source, good, err)
		}
	}
}

func TestExample(t *testing.T) {
	var b bytes.Buffer
	for _, k := range kinds() {
		if err := k.Example(&b, k.Name); err != nil {
			t.Fatal(err)
		}
	}
	want := `tool-x:
  use: tool-x
  config:
    again: null # mapping
    any: "10s"
    deep: "" # text
    filter: null # mapping
    labels: {}
    limit: 500 # whole number
    name: one # text: one, two
    ratio: 0 # number
    sizes: [] # list
    strict: true # true or false
    wait: 0 # text
empty:
  use: empty
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
