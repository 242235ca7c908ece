// Package hook holds the contract of hooks: programs of settings files and
// callbacks of a client that hear of what an agent does and may refuse, change or
// end it (spec stream-json 6). Whoever makes something happen asks the Engine;
// how matchers, limits and verdicts work is the engine's business alone.
package hook

import (
	"context"
	"encoding/json"
	"time"

	"dsh/kernel"
	"dsh/kernel/approval"
)

// Events that this product tells of (spec stream-json 6.2).
const (
	PreToolUse         = "PreToolUse"
	PostToolUse        = "PostToolUse"
	PostToolUseFailure = "PostToolUseFailure"
	PostToolBatch      = "PostToolBatch"
	PermissionRequest  = "PermissionRequest"
	PermissionDenied   = "PermissionDenied"
	UserPromptSubmit   = "UserPromptSubmit"
	SessionStart       = "SessionStart"
	SessionEnd         = "SessionEnd"
	Stop               = "Stop"
	StopFailure        = "StopFailure"
	SubagentStart      = "SubagentStart"
	SubagentStop       = "SubagentStop"
	PreCompact         = "PreCompact"
	PostCompact        = "PostCompact"
	Notification       = "Notification"
	Elicitation        = "Elicitation"
	ElicitationResult  = "ElicitationResult"
)

// Input is one occurrence of an event.
type Input struct {
	// Event is one of the constants.
	Event string
	// SessionID is the session in which it happens, a subagent's too; CWD is its
	// working directory.
	SessionID, CWD string
	// Match is what matchers are compared with (spec stream-json 6.1).
	Match string
	// ToolUseID is the id of the call, "" for events without one.
	ToolUseID string
	// Members are those of the event itself, beside the ones that every input has.
	// Values are encoded by wirejson.
	Members map[string]any
}

// Decisions of an Outcome.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
	// Defer puts a call off (spec stream-json 6.6).
	Defer = "defer"
	// Block refuses a prompt, a compaction or the end of a turn, or gives feedback
	// on a call that has run.
	Block = "block"
)

// Outcome is what all hooks on one occurrence have said, put together by the
// rules of spec stream-json 6.5. The zero value is no opinion.
type Outcome struct {
	// Decision is "" or one of the constants: allow, ask, deny and defer for
	// PreToolUse, block for the others. Reason goes with it.
	Decision, Reason string
	// Stopped says that a hook wants the turn to end after this event; StopReason is
	// for people.
	Stopped    bool
	StopReason string
	// UpdatedInput takes the place of a call's arguments, UpdatedOutput that of its
	// result for the model; nil when nothing is to change.
	UpdatedInput, UpdatedOutput json.RawMessage
	// Context are texts for the model.
	Context []string
	// Permission settles a PermissionRequest; nil is no opinion.
	Permission *approval.Answer
	// Retry lets the model try a denied call again (PermissionDenied).
	Retry bool
	// Elicited answers an Elicitation, or replaces its result; nil is no opinion.
	Elicited *approval.ElicitationAnswer
}

// Hook is one callback that somebody registers.
type Hook struct {
	// Event and Matcher say what it hears of; a Matcher of "" or "*" is everything.
	Event, Matcher string
	// Name is for notices and logs.
	Name string
	// Limit bounds one call; 0 is the event's usual limit (spec stream-json 5.2).
	Limit time.Duration
	// BlockOnFailure has a failure refuse what the hook was asked about.
	BlockOnFailure bool
	// Call gives the hook's output object for an input object. It returns soon after
	// ctx has ended.
	Call func(ctx context.Context, in Call) (json.RawMessage, error)
}

// Call is what a Hook is called with.
type Call struct {
	// Input is the whole input object.
	Input json.RawMessage
	// ToolUseID is the id of the call, "" for events without one.
	ToolUseID string
}

// Kinds of a Notice.
const (
	// NoticeStarted and NoticeResponded frame one run of one hook.
	NoticeStarted   = "hook_started"
	NoticeResponded = "hook_response"
	// NoticeInformational is a text for people: a hook's systemMessage, what is wrong
	// with its output, why it ended a turn.
	NoticeInformational = "informational"
)

// Notice tells a front end what hooks do (spec stream-json 6.7, 3.10).
type Notice struct {
	Kind string
	// SessionID is that of the Input.
	SessionID string
	// ID is the same for both notices of a run; Name is like PreToolUse:Bash.
	ID, Name, Event string
	// Output, Stdout, Stderr, ExitCode and Outcome (success, error or cancelled)
	// belong to a response. ExitCode is nil for a callback.
	Output, Stdout, Stderr string
	ExitCode               *int
	Outcome                string
	// Text and Level (info, notice, suggestion or warning) are an informational's.
	Text, Level string
}

// Engine runs the hooks. All methods may be called from any goroutine.
type Engine interface {
	// Any reports whether some hook hears of an event in a folder; it is quick, so
	// that what nobody hears of costs nothing.
	Any(cwd, event string) bool
	// Run tells all hooks that hear of the occurrence, side by side, and gives what
	// they say together. It never fails: a hook that does is told of and has said
	// nothing, unless it is one that blocks on failure or the limit of spec
	// stream-json 5.2 blocks. It returns soon after ctx has ended.
	//
	// What SessionStart hooks say to the model is kept and given to it with the
	// session's first prompt.
	Run(ctx context.Context, in Input) Outcome
	// Register adds callbacks, which hear of every session, until o is closed. The
	// order is that of their verdicts.
	Register(o *kernel.Owner, hooks []Hook) error
	// Watch calls fn with every notice until o is closed. fn must not block.
	Watch(o *kernel.Owner, fn func(Notice)) error
}
