package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"dsh/sdkproto"
	"dsh/sdkproto/schema"
	"dsh/sdkproto/wirejson"
)

// Tool does something for the model.
type Tool interface {
	Spec() ToolSpec
	// Call runs to its end or until ctx ends, and then leaves nothing running. What
	// the model did wrong is a Result; an error is a failure of the tool itself.
	Call(ctx context.Context, c Call) (Result, error)
}

// ToolSpec says what a tool is, to the model and to the harness.
type ToolSpec struct {
	// Name matches [A-Za-z0-9_-]{1,64}.
	Name string
	// Description tells the model when and how to use the tool.
	Description string
	// Parameters is a JSON Schema of type object. The harness checks every call
	// against it.
	Parameters json.RawMessage
	// ReadOnly: a call changes nothing outside the session.
	ReadOnly bool
	// Destructive: a call may destroy what cannot be restored.
	Destructive bool
	// Parallel: calls may run beside other parallel calls of the same session.
	Parallel bool
	// Subject says what permission rules see of a call.
	Subject Subject
}

// Subject says what of a call permission rules speak about. The zero value
// leaves them the tool's name.
type Subject struct {
	// Rule is the name that rules use beside the tool's own, such as Bash, Edit or
	// Read; "" for none.
	Rule string
	// Kind is command, path, url or text: what the argument Member holds.
	Kind, Member string
}

// Call is one call of a tool.
type Call struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD string
	// CallID is the model's id of the call; Turn and Step, from 1, place it.
	CallID     string
	Turn, Step int
	// Arguments is a JSON object that the tool's schema accepts.
	Arguments json.RawMessage
	// Progress tells what a long call is doing, in a line of text. It may be nil.
	Progress func(string)
}

// Result is the outcome of a call.
type Result struct {
	Content []sdkproto.Block
	// IsError marks a call that did not do what was asked; Content says why, for
	// the model.
	IsError bool
	// Error classifies a failure for programs; nil without one.
	Error *sdkproto.ToolError
	// Meta is a JSON value for presentation only, nil for none.
	Meta json.RawMessage
}

// TextResult is a good outcome in plain text.
func TextResult(text string) Result {
	return Result{Content: []sdkproto.Block{sdkproto.Text(text)}}
}

// ErrorResult is a bad outcome: the text tells the model what to do about it,
// name and code tell programs what it was.
func ErrorResult(name, code, text string) Result {
	return Result{Content: []sdkproto.Block{sdkproto.Text(text)}, IsError: true, Error: &sdkproto.ToolError{Name: name, Code: code}}
}

// Typed makes a Tool from a function over a struct of parameters. The schema
// comes from the struct: json tags name the members, omitzero makes one
// optional, a jsonschema tag describes it, and an enum tag lists the words a
// text may be, parted by commas. spec.Parameters is filled in.
func Typed[P any](spec ToolSpec, call func(ctx context.Context, c Call, p P) (Result, error)) Tool {
	return &typed[P]{spec: spec, schema: sync.OnceValues(schema.For[P]), call: call}
}

type typed[P any] struct {
	spec   ToolSpec
	schema func() (json.RawMessage, error)
	call   func(context.Context, Call, P) (Result, error)
}

func (t *typed[P]) Spec() ToolSpec {
	spec := t.spec
	// What a struct without a schema leaves is refused by ListTools.
	spec.Parameters, _ = t.schema()
	return spec
}

func (t *typed[P]) Call(ctx context.Context, c Call) (Result, error) {
	var p P
	if err := wirejson.Unmarshal(c.Arguments, &p); err != nil {
		return ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", "Error: the arguments cannot be used: "+err.Error()), nil
	}
	return t.call(ctx, c, p)
}

func (t *typed[P]) check() error {
	if _, err := t.schema(); err != nil {
		return fmt.Errorf("tool %s: %w", t.spec.Name, err)
	}
	return nil
}
