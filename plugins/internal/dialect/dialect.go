// Package dialect names the two faces of the built-in tools. A face is the name,
// the parameters, the words and the structured result of a tool; what it does is
// the same behind both.
package dialect

import (
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// Dialect says which face the tools of a row have.
type Dialect string

const (
	// DSH has the names and schemas of decision D20.
	DSH Dialect = "dsh"
	// Claude has those of spec stream-json 9.
	Claude Dialect = "claude"
)

// Check is for the Validate method of a config with the key dialect.
func (d Dialect) Check() error {
	if d == DSH || d == Claude {
		return nil
	}
	return kernel.Invalid("dialect", "%q is no dialect; use %s or %s", string(d), DSH, Claude)
}

// Bare takes "Error: " from the front of a failed result's text. Under the dialect
// claude the text goes without; the wire puts it in front where it belongs, in
// tool_use_result (spec stream-json 3.4).
func Bare(r tool.Result) tool.Result {
	if !r.IsError || len(r.Content) == 0 || r.Content[0].Type != sdkproto.BlockText {
		return r
	}
	if text, ok := strings.CutPrefix(r.Content[0].Text, "Error: "); ok {
		r.Content = slices.Clone(r.Content)
		r.Content[0] = sdkproto.Text(text)
	}
	return r
}
