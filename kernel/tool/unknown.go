package tool

import (
	"context"
	"fmt"
	"strings"

	"dsh/sdkproto"
)

// unknown stands for a tool that a session does not have, so that the stages see
// a call of it, too: one of them may have something to say about calls of which
// nobody knows what they would do (spec stream-json 7.3 rule 1, 11.11).
type unknown struct {
	name string
	// text is Pipeline.Unknown.
	text string
}

// IsUnknown reports whether t stands for a tool that the session does not have.
// A stage that has nothing to say about such a call passes it on; its result
// tells the model that there is no such tool.
func IsUnknown(t Tool) bool {
	_, is := t.(*unknown)
	return is
}

func (u *unknown) Name() string { return u.name }

func (u *unknown) Spec() Spec { return Spec{Name: u.name} }

func (u *unknown) Call(context.Context, Invocation) (Result, error) {
	name := clip(u.name, 200)
	text := fmt.Sprintf("Error: unknown tool %q", name)
	if u.text != "" {
		text = strings.ReplaceAll(u.text, "{name}", name)
	}
	return ErrorResult("ToolNotFoundError", sdkproto.CodeUnknownTool, text), nil
}
