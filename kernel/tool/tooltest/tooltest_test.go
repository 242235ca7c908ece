package tooltest_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
)

// TestSoundTool runs the suite over a tool that keeps the contract.
func TestSoundTool(t *testing.T) {
	dir := t.TempDir()
	type params struct {
		In    string `json:"in,omitzero" jsonschema:"A folder to look at."`
		Text  string `json:"text" jsonschema:"What to repeat."`
		Times int    `json:"times,omitzero" jsonschema:"How often."`
		Wait  bool   `json:"wait,omitzero" jsonschema:"Wait until the call is cancelled."`
	}
	repeat := tool.Typed(tool.Spec{Name: "repeat", Description: "Repeats a text.", ReadOnly: true,
		Subject: tool.Subject{Rule: "Repeat", Kind: tool.SubjectPath, Member: "in"}},
		func(ctx context.Context, _ tool.Invocation, p params) (tool.Result, error) {
			if strings.TrimSpace(p.Text) == "" {
				return tool.ErrorResult("RepeatError", "EMPTY", "Error: the text is empty"), nil
			}
			if p.Wait {
				<-ctx.Done()
				return tool.Result{}, context.Cause(ctx)
			}
			first, _ := utf8.DecodeRuneInString(p.Text)
			return tool.TextResult(strings.Repeat(string(first), min(max(p.Times, 1), 10_000))), nil
		})
	tooltest.TestTool(t, repeat, tooltest.Options{
		Good:     []string{`{"text":"a","times":3}`, `{"text":"b"}`},
		NotEmpty: []string{"text"},
		CWD:      dir,
		Huge:     `{"text":"a","times":100000}`,
		Slow:     `{"text":"a","wait":true}`,
	})
}
