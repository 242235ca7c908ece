package plugin

import (
	"context"
	"encoding/json"

	"dsh/sdkproto"
)

// Events of hooks.
const (
	HookToolBefore = "tool.before"
	HookToolAfter  = "tool.after"
	HookPrompt     = "prompt"
)

// Hooks look at what happens, and may object. Those that are nil are not
// called. An error counts as a refusal when the row is required, and is passed
// over when it is not (unless the row's config.host.hookFailure says otherwise).
type Hooks struct {
	// BeforeTool looks at a call before it is judged and run.
	BeforeTool func(ctx context.Context, c ToolCall) (Before, error)
	// AfterTool looks at the result before the model sees it.
	AfterTool func(ctx context.Context, c ToolCall, r Result) (After, error)
	// Prompt looks at a prompt before it enters its turn.
	Prompt func(ctx context.Context, p Prompt) (Verdict, error)
}

// ToolCall is a call of any tool of the harness.
type ToolCall struct {
	SessionID string `json:"sessionId"`
	// CWD is the session's absolute working directory.
	CWD    string `json:"cwd"`
	CallID string `json:"callId"`
	// Turn and Step, from 1, place the call.
	Turn int    `json:"turn"`
	Step int    `json:"step"`
	Tool string `json:"tool"`
	// Arguments is a JSON object that the tool's schema accepts.
	Arguments json.RawMessage `json:"arguments"`
}

// Before is what BeforeTool says. The zero value lets the call pass.
type Before struct {
	// Deny refuses the call; Reason tells the model why.
	Deny   bool
	Reason string
	// Arguments, unless nil, takes the place of the call's arguments.
	Arguments json.RawMessage
}

// After is what AfterTool says. The zero value lets the result pass.
type After struct {
	// Deny withholds the result; Reason tells the model why.
	Deny   bool
	Reason string
	// Result, unless nil, takes the place of the call's result.
	Result *Result
}

// Outcome is the result of a call in the data of a hook.
type Outcome struct {
	Content []sdkproto.Block `json:"content"`
	IsError bool             `json:"isError"`
}

// ToolEvent is the data of HookToolBefore, without a result, and of
// HookToolAfter.
type ToolEvent struct {
	ToolCall
	Result *Outcome `json:"result,omitzero"`
}

// Prompt is a message that asks to enter a turn; it is the data of HookPrompt.
type Prompt struct {
	SessionID string `json:"sessionId"`
	// CWD is the session's absolute working directory.
	CWD string `json:"cwd"`
	// Depth is 0 for a session that nobody delegated to.
	Depth int `json:"depth"`
	// First says that the session has had no turn yet.
	First    bool             `json:"first"`
	Provider string           `json:"provider"`
	Model    string           `json:"model"`
	Message  sdkproto.Message `json:"message"`
}

// Verdict is what a Prompt hook says. The zero value lets the prompt pass.
type Verdict struct {
	// Block keeps the prompt from the model; Reason is for people.
	Block  bool
	Reason string
	// Context are texts that the model is given behind the prompt.
	Context []string
}

func (h *Hooks) names() []string {
	var names []string
	if h == nil {
		return nil
	}
	if h.BeforeTool != nil {
		names = append(names, HookToolBefore)
	}
	if h.AfterTool != nil {
		names = append(names, HookToolAfter)
	}
	if h.Prompt != nil {
		names = append(names, HookPrompt)
	}
	return names
}
