// Package tool holds the contract of tools: what a tool is, the registry that
// knows them, the filter that hides them, and the pipeline every call passes.
package tool

import (
	"context"
	"encoding/json"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// Spec says what a tool is, to the model and to the loop.
type Spec struct {
	// Name matches [A-Za-z0-9_-]{1,64}.
	Name string
	// Description tells the model when and how to use the tool.
	Description string
	// Parameters is a JSON Schema of type object.
	Parameters json.RawMessage
	// ReadOnly: a call changes nothing outside the session. Nothing need be on
	// the disk before it runs.
	ReadOnly bool
	// Destructive: a call may destroy what cannot be restored.
	Destructive bool
	// Parallel: calls may run beside other parallel calls.
	Parallel bool
}

// Invocation is one call of a tool.
type Invocation struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD string
	// CallID is the model's id of the call; Turn and Step place it.
	CallID     string
	Turn, Step int
	// Arguments is a JSON object that the tool's schema accepts.
	Arguments json.RawMessage
	// Emit records facts between the call and its result, for example todo/write.
	// It may be called until Call returns.
	Emit func(...session.Draft) error
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

// Tool does something for the model.
type Tool interface {
	Spec() Spec
	// Call runs to its end or until ctx ends, and then leaves nothing running
	// that it does not own. What the model did wrong is a Result; an error is a
	// failure of the tool itself, and is shown to the model too. Call may run in
	// several goroutines at once.
	Call(ctx context.Context, in Invocation) (Result, error)
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

// Spiller keeps output that is too long for the model where the model can read
// it (decision D19). Its methods may be called from any goroutine.
type Spiller interface {
	// Spill starts a file for one call's output; path is absolute. The file goes
	// when the session is deleted.
	Spill(sessionID, callID string) (f SpillFile, err error)
}

// SpillFile takes the whole output of a call.
type SpillFile interface {
	Write(p []byte) (int, error)
	Close() error
	Path() string
}
