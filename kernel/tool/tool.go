// Package tool holds the contract of tools: what a tool is, the registry that
// knows them, the filter that hides them, and the pipeline every call passes.
package tool

import (
	"context"
	"encoding/json"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// Spec says what a tool is, to the model and to the loop.
type Spec struct {
	// Name matches [A-Za-z0-9_-]{1,64}.
	Name string
	// Aliases are further names under which a call may come, such as an old one.
	// They are in no list and in no filter, and a tool of that name goes ahead.
	Aliases []string
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
	// AsksUser: a call is itself a question to the person, such as AskUserQuestion
	// and ExitPlanMode. It goes to whoever answers, in every mode and whatever rule
	// allows it (spec stream-json 7.1, D7 there).
	AsksUser bool
	// MaxText is how many characters of text a result may have where the tool bounds
	// its results itself, to more than what holds for all (OrderLimit); 0 otherwise.
	MaxText int
	// Subject says what permission rules see of a call.
	Subject Subject
}

// Subject says what of a call permission rules speak about (spec stream-json
// 7.2).
type Subject struct {
	// Rule is the name that rules use beside the tool's own, such as Bash, Edit or
	// Read; "" for none.
	Rule string
	// Kind is one of the Subject constants; "" means that the whole tool is the
	// subject.
	Kind string
	// Member is the argument that holds the subject. One that a call leaves out
	// stands for the working directory when Kind is SubjectPath, and for Default when
	// it is SubjectText.
	Member, Default string
	// Dir is the argument that names the folder in which a command runs, or to
	// which Member is relative, in place of the working directory; "" for none.
	Dir string
}

// Kinds of Subject.
const (
	// SubjectCommand: Member holds a shell command.
	SubjectCommand = "command"
	// SubjectPath: Member holds a path, relative to the working directory or
	// absolute. The call writes it unless the tool is ReadOnly.
	SubjectPath = "path"
	// SubjectPattern: Member holds a pattern of paths like src/**/*.go, which may
	// lead out of Dir; what stands in front of its wildcards is the subject.
	SubjectPattern = "pattern"
	// SubjectURL: Member holds a URL; rules name domains.
	SubjectURL = "url"
	// SubjectText: rules name the value of Member itself, as of an agent's or a
	// skill's name.
	SubjectText = "text"
)

// Invocation is one call of a tool.
type Invocation struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD string
	// CallID is the model's id of the call; Turn and Step place it.
	CallID     string
	Turn, Step int
	// Generation is that of the turn: what was live then is what the call sees.
	Generation kernel.Generation
	// Arguments is a JSON object that the tool's schema accepts.
	Arguments json.RawMessage
	// Requested is what the model asked for, whatever stages have made of Arguments
	// since: a JSON object, {} where the model's text is none.
	Requested json.RawMessage
	// Confinement is how programs that the call starts are confined; a gate sets
	// it. nil confines nothing.
	Confinement *process.Confinement
	// Hidden says which files, given by absolute paths, a call may not read although
	// they lie below what it is about; a gate sets it. nil hides none.
	Hidden func(path string) bool
	// Advice is what stages in front of the rules say of the call.
	Advice Advice
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
	// Meta is a JSON value for presentation only, nil for none. Under the dialect
	// claude it is the structured result of spec stream-json 9.
	Meta json.RawMessage
	// EndTurn, when not nil, ends the turn with this reason once the calls that run
	// beside this one have ended; no further call is started. Kind aborted cancels
	// those that run, too.
	EndTurn *sdkproto.TurnEndReason
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

// CodePermissionDenied is the code of a call that policy, a hook or a person has
// refused.
const CodePermissionDenied = "PERMISSION_DENIED"

// TextResult is a good outcome in plain text.
func TextResult(text string) Result {
	return Result{Content: []sdkproto.Block{sdkproto.Text(text)}}
}

// ErrorResult is a bad outcome: the text tells the model what to do about it,
// name and code tell programs what it was.
func ErrorResult(name, code, text string) Result {
	return Result{Content: []sdkproto.Block{sdkproto.Text(text)}, IsError: true, Error: &sdkproto.ToolError{Name: name, Code: code}}
}
