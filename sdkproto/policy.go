package sdkproto

import "encoding/json"

// Events of permissions, confinement, delegation, compaction and commands (spec
// jsonrpc 5.6), and two of our own, which are ignorable.
const (
	TypePermissionPreset   = "permission/preset"
	TypeSandboxMode        = "sandbox/mode"
	TypeApprovalPolicy     = "approval/policy"
	TypeApprovalAsked      = "approval/asked"
	TypeApprovalDecided    = "approval/decided"
	TypeCompactionStart    = "compaction/start"
	TypeCompactionSummary  = "compaction/summary"
	TypeCompactionPrune    = "compaction/prune"
	TypeCompactionEnd      = "compaction/end"
	TypeSubagentDescriptor = "subagent/descriptor"
	TypeCommandRun         = "command/run"
	TypeCommandDone        = "command/done"
	// TypePermissionDecision is ours: what policy said of a call, and why.
	TypePermissionDecision = "permission/decision"
	// TypeRequestPrefix is ours: why a request does not extend the one before it.
	TypeRequestPrefix = "request/prefix"
)

// SourceDelegation marks a policy that a child got from its parent.
const SourceDelegation = "delegation"

// PermissionPreset records the preset a session runs under.
type PermissionPreset struct {
	Preset string `json:"preset"`
}

// SandboxMode records how the programs of a session are confined.
type SandboxMode struct {
	Mode   string `json:"mode"`
	Source string `json:"source,omitzero"`
}

// ApprovalPolicy is ask or never.
type ApprovalPolicy struct {
	Policy string `json:"policy"`
	Source string `json:"source,omitzero"`
}

// ApprovalAsked records that a call was put to somebody.
type ApprovalAsked struct {
	ID       string `json:"id"`
	ToolName string `json:"toolName"`
	CallID   string `json:"callId,omitzero"`
	Reason   string `json:"reason,omitzero"`
}

// ApprovalDecided records the answer: allowed-once, rejected, cancelled or
// unavailable.
type ApprovalDecided struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
}

// PermissionDecision records what policy said of a call.
type PermissionDecision struct {
	CallID   string `json:"callId"`
	ToolName string `json:"toolName"`
	// Behavior is allow, ask or deny.
	Behavior string `json:"behavior"`
	// Reason says why, in a sentence; Rule and Scope name the rule that decided
	// and where it comes from, "" when none did.
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitzero"`
	Scope  string `json:"scope,omitzero"`
	// Mode is the permission mode that refused the call, "" when none did.
	Mode string `json:"mode,omitzero"`
	// Confinement is the mode that programs of the call run under, and Reached the
	// level this machine can hold; "" when the call starts none.
	Confinement string `json:"confinement,omitzero"`
	Reached     string `json:"reached,omitzero"`
	// Arguments run in the place of the call's own, because an answer replaced
	// them; absent when none did.
	Arguments json.RawMessage `json:"arguments,omitzero"`
}

// RequestPrefix records why the request of a step does not extend the one
// before it, so that a provider's cache of the prefix is of no use.
type RequestPrefix struct {
	Turn    int            `json:"turn"`
	Step    int            `json:"step"`
	Changes []PrefixChange `json:"changes"`
}

// PrefixChange is one part of a request that changed.
type PrefixChange struct {
	// Part is provider, model, config, system, tools or messages.
	Part string `json:"part"`
	// Detail says what of it, such as "added mcp__github__search".
	Detail string `json:"detail,omitzero"`
	// By names the row or plugin that changed it, "" when that is not known.
	By string `json:"by,omitzero"`
}

// SubagentDescriptor heads the log of a delegated session.
type SubagentDescriptor struct {
	// Version is 2; Mode is one-shot or continuable.
	Version       int    `json:"version"`
	Mode          string `json:"mode"`
	Provider      string `json:"provider"`
	Label         string `json:"label,omitzero"`
	AgentProvider string `json:"agentProvider,omitzero"`
	AgentModel    string `json:"agentModel,omitzero"`
	// What follows is ours. With AgentProvider and AgentModel it says what the child
	// was not given by its parent, so that a later run of it is the same:
	// AgentEffort is its word for effort, AgentType the name of its kind, System the
	// system prompt of that kind, MaxSteps the bound of its turns, 0 for none.
	AgentEffort string `json:"agentEffort,omitzero"`
	AgentType   string `json:"agentType,omitzero"`
	System      string `json:"system,omitzero"`
	MaxSteps    int    `json:"maxSteps,omitzero"`
	// Tools restricts its tools, nil for no further than the parent's.
	Tools *ToolLimits `json:"tools,omitzero"`
}

// ToolLimits are the tools of a child: those of Allow, if there are any, without
// those of Deny; None leaves nothing.
type ToolLimits struct {
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
	None  bool     `json:"none,omitzero"`
}

// Stop reasons of a delegated run (spec jsonrpc 8.2).
const (
	StopCompleted = "completed"
	StopAborted   = "aborted"
	StopError     = "error"
	StopMaxTokens = "max-tokens"
	StopRefusal   = "refusal"
)

// SourceSubagentSettled is the kind of a message that reports the end of a
// background child to its parent.
const SourceSubagentSettled = "subagent-settled"

// CompactionStart opens the bracket of a compaction.
type CompactionStart struct {
	CompactionID    string `json:"compactionId"`
	SourceCommandID string `json:"sourceCommandId,omitzero"`
	// Turn is nil outside of turns.
	Turn *int `json:"turn"`
}

// ShadowedRange are the seqs of the first and last node that a replacement
// takes the place of.
type ShadowedRange struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// CompactionSummary is followed at once by the user/message that replaces the
// range.
type CompactionSummary struct {
	CompactionID       string        `json:"compactionId"`
	Summary            []Block       `json:"summary"`
	ShadowedRange      ShadowedRange `json:"shadowedRange"`
	ShadowedSeqs       []int64       `json:"shadowedSeqs"`
	ShadowedTokenCount int64         `json:"shadowedTokenCount"`
	Provider           string        `json:"provider"`
	Model              string        `json:"model"`
	MaxTokens          int64         `json:"maxTokens,omitzero"`
	Usage              *Usage        `json:"usage,omitzero"`
	// Requests are the parts of Usage where several requests make it up: a price
	// may depend on how long one is.
	Requests  []Usage         `json:"requests,omitzero"`
	RawOutput json.RawMessage `json:"rawOutput,omitzero"`
}

// CompactionPrune is followed at once by the event that replaces the range.
type CompactionPrune struct {
	ShadowedRange      ShadowedRange `json:"shadowedRange"`
	ShadowedSeqs       []int64       `json:"shadowedSeqs"`
	ShadowedTokenCount int64         `json:"shadowedTokenCount"`
}

// CompactionEnd closes the bracket; Error says why nothing was gained.
type CompactionEnd struct {
	CompactionID string `json:"compactionId"`
	Turn         *int   `json:"turn"`
	Error        string `json:"error,omitzero"`
}

// CommandRun records the use of a slash command.
type CommandRun struct {
	CommandID string `json:"commandId"`
	Name      string `json:"name"`
	Args      string `json:"args,omitzero"`
	Source    string `json:"source"`
}

// CommandDone records its outcome: Kind is prompt, text or error.
type CommandDone struct {
	CommandID      string `json:"commandId"`
	Kind           string `json:"kind"`
	Text           string `json:"text,omitzero"`
	SourceEventSeq *int64 `json:"sourceEventSeq,omitzero"`
}
