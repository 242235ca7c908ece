package main

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"dsh/profiles"
)

// The schema that editors get takes the built-in profiles, and marks in them
// what a start would refuse.
func TestSchema(t *testing.T) {
	var text bytes.Buffer
	if err := writeSchema(&text); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("profile.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("profile.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(source string) error {
		var v any
		if err := yaml.Unmarshal([]byte(source), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	names, err := fs.Glob(profiles.FS, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		source, err := fs.ReadFile(profiles.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(string(source)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for source, good := range map[string]bool{
		"extends: sdk\nplugins: {loop: {config: {maxSteps: 50, retries: {delay: 1s}}}}": true,
		"extends: sdk\nplugins: {loop: {config: {maxStep: 50}}}":                        false,
		"plugins: {mine: {use: agentloop, config: {retries: {maks: 1}}}}":               false,
		"plugins: {mine: {use: agent-loop}}":                                            false,
		"plugins: {headless: {config: {output: json}}}":                                 true,
		"plugins: {headless: {config: {output: xml}}}":                                  false,
	} {
		if err := check(source); (err == nil) != good {
			t.Errorf("%s\nis good: %v, got %v", source, good, err)
		}
	}
}
