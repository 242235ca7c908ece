package tooltest

import (
	"slices"
	"strings"
	"testing"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// Inputs lists the members of a tool's parameters in alphabetical order, with a ?
// behind each one that may be left out: "limit? path".
func Inputs(t testing.TB, tl tool.Tool) string {
	t.Helper()
	var schema struct {
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := wirejson.Unmarshal(tl.Spec().Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range schema.Properties {
		if !slices.Contains(schema.Required, name) {
			name += "?"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
