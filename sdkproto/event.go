package sdkproto

import (
	"encoding/json"

	"dsh/sdkproto/wirejson"
)

// Event is the envelope of one session fact, format 0 (spec jsonrpc 5.1).
// Identity is the pair of session id and Seq.
type Event struct {
	// Type is family/name, one of the Type constants or a plugin's own.
	Type string `json:"type"`
	// Seq counts from 0 without gaps within one session.
	Seq int64 `json:"seq"`
	// Time is in epoch milliseconds and never decreases within one session.
	Time int64 `json:"time"`
	// Data is the payload as it stands in the log.
	Data json.RawMessage `json:"data"`
	// Ignorable lets a reader that does not know Type skip the event; without
	// it an unknown type makes a log unreadable.
	Ignorable bool `json:"ignorable,omitzero"`
	// SourceEventSeqs names earlier events this one was derived from.
	SourceEventSeqs []int64 `json:"sourceEventSeqs,omitzero"`
	// SurfaceOp says how a surface event changes the model-visible history: it is
	// SurfaceAppend or an object {"op":"replace","start":S,"end":E}. Mandatory
	// for user/message, assistant/message and tool/result, absent elsewhere.
	SurfaceOp json.RawMessage `json:"surfaceOp,omitzero"`
}

// SurfaceAppend is the surface operation that adds a message to the history.
const SurfaceAppend = `"append"`

// AppendJSON appends the envelope as one JSON object in the key order of the
// wire.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = e.AppendHead(dst)
	dst = append(dst, e.Data...)
	return e.AppendTail(dst)
}

// AppendHead appends the part of the envelope before the value of data. With
// AppendTail it lets an encoder write a payload in its place, without a copy.
func (e *Event) AppendHead(dst []byte) []byte {
	dst = append(dst, `{"type":`...)
	dst = wirejson.AppendString(dst, e.Type)
	dst = append(dst, `,"seq":`...)
	dst = wirejson.AppendInt(dst, e.Seq)
	dst = append(dst, `,"time":`...)
	dst = wirejson.AppendInt(dst, e.Time)
	return append(dst, `,"data":`...)
}

// AppendTail appends the part of the envelope behind the value of data.
func (e *Event) AppendTail(dst []byte) []byte {
	if e.Ignorable {
		dst = append(dst, `,"ignorable":true`...)
	}
	if len(e.SourceEventSeqs) > 0 {
		dst = append(dst, `,"sourceEventSeqs":[`...)
		for i, s := range e.SourceEventSeqs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = wirejson.AppendInt(dst, s)
		}
		dst = append(dst, ']')
	}
	if len(e.SurfaceOp) > 0 {
		dst = append(dst, `,"surfaceOp":`...)
		dst = append(dst, e.SurfaceOp...)
	}
	return append(dst, '}')
}

// Replaces reports whether the event takes the place of others in the history,
// as a tool's result does that was cut to make room: it is no new fact.
func (e *Event) Replaces() bool { return len(e.SurfaceOp) > 0 && string(e.SurfaceOp) != SurfaceAppend }

// IsSurface reports whether events of this type carry a surface operation.
func IsSurface(eventType string) bool {
	switch eventType {
	case TypeUserMessage, TypeAssistantMessage, TypeToolResult:
		return true
	}
	return false
}

// Event types of spec jsonrpc 5.3 and those of 5.6 that this product writes.
const (
	TypeAgentInboxSpliced = "agent/inbox/spliced"
	TypeTurnStart         = "turn/start"
	TypeTurnEnd           = "turn/end"
	TypeStepStart         = "step/start"
	TypeStepEnd           = "step/end"
	TypeUserMessage       = "user/message"
	TypeAssistantChunk    = "assistant/chunk"
	TypeAssistantMessage  = "assistant/message"
	TypeToolCall          = "tool/call"
	TypeToolResult        = "tool/result"
	TypeRequestHeader     = "request/header"
	TypeRequestContext    = "request/context"
	TypeTodoWrite         = "todo/write"
	TypeSessionEndSeed    = "session/end-seed"
	TypeSessionTitle      = "session/title"
	TypeLLMRetry          = "llm/retry"
	TypeLLMRetryStarted   = "llm/retry-started"
)

// Inbox lists of one agent (spec jsonrpc 7.2).
const (
	// TargetNextTurn holds prompts; each gets a turn of its own.
	TargetNextTurn = "next-turn"
	// TargetNextStep holds steering and injected context; all of it enters the
	// next step of the running turn.
	TargetNextStep = "next-step"
)

// OutcomeCanceled marks a splice that dropped messages unseen by the model.
const OutcomeCanceled = "canceled"

// AgentInboxSpliced records a change of one inbox list: RemovedCount messages
// from Start on are replaced by Inserted. A splice that inserts a prompt is its
// receipt.
type AgentInboxSpliced struct {
	Target       string    `json:"target"`
	Start        int       `json:"start"`
	RemovedCount int       `json:"removedCount,omitzero"`
	Inserted     []Message `json:"inserted"`
	Outcome      string    `json:"outcome,omitzero"`
}

// TurnStart opens a turn; Turn is 1-based and increases over the whole session.
type TurnStart struct {
	Turn int `json:"turn"`
}

// TurnEnd closes a turn.
type TurnEnd struct {
	Turn   int           `json:"turn"`
	Reason TurnEndReason `json:"reason"`
}

// TurnEndReason says why a turn ended (spec jsonrpc 5.4). The set of kinds is
// open.
type TurnEndReason struct {
	Kind string `json:"kind"`
	// Error is set for kind error.
	Error *Failure `json:"error,omitzero"`
	// Reason is set for kind aborted, and for blocked where a hook says why.
	Reason *AbortReason `json:"reason,omitzero"`
}

// Kinds of TurnEndReason.
const (
	EndCompleted = "completed"
	EndMaxTokens = "max-tokens"
	EndMaxSteps  = "max-steps"
	EndError     = "error"
	EndAborted   = "aborted"
	EndBlocked   = "blocked"
	// EndDeferred: a hook put a call off; the turn ended without running it.
	EndDeferred    = "deferred"
	EndInterrupted = "interrupted"
)

// AbortReason says who cancelled.
type AbortReason struct {
	// Kind is user, parent, hook or disposed.
	Kind string `json:"kind"`
	// Reason is a hook's text.
	Reason string `json:"reason,omitzero"`
}

// Kinds of AbortReason.
const (
	AbortUser     = "user"
	AbortParent   = "parent"
	AbortHook     = "hook"
	AbortDisposed = "disposed"
)

// Failure describes a failed model request or loop stage.
type Failure struct {
	Message string `json:"message"`
	// Code is upper case, for example SERVER or RATE_LIMIT (spec jsonrpc 10.6).
	Code string `json:"code"`
	// Status is the HTTP status, when there was one.
	Status int `json:"status,omitzero"`
	// ProviderRetryAfterMs is what the provider asked for, in milliseconds.
	ProviderRetryAfterMs int64  `json:"providerRetryAfterMs,omitzero"`
	RequestID            string `json:"requestId,omitzero"`
}

// StepStart opens a step: one model call and the tools it asked for. Step is
// 1-based and restarts with each turn.
type StepStart struct {
	Turn int `json:"turn"`
	Step int `json:"step"`
}

// StepEnd closes a step.
type StepEnd struct {
	Turn int `json:"turn"`
	Step int `json:"step"`
}

// AssistantChunk is one piece of a model's streamed answer.
type AssistantChunk struct {
	Turn  int   `json:"turn"`
	Step  int   `json:"step"`
	Chunk Chunk `json:"chunk"`
}

// AppendJSON appends the payload; chunks are the one event worth encoding by
// hand.
func (c *AssistantChunk) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"turn":`...)
	dst = wirejson.AppendInt(dst, int64(c.Turn))
	dst = append(dst, `,"step":`...)
	dst = wirejson.AppendInt(dst, int64(c.Step))
	dst = append(dst, `,"chunk":`...)
	dst, err := c.Chunk.AppendJSON(dst)
	if err != nil {
		return dst, err
	}
	return append(dst, '}'), nil
}

// AssistantMessage is a model's whole answer of one step.
type AssistantMessage struct {
	Turn    int     `json:"turn"`
	Step    int     `json:"step"`
	Message Message `json:"message"`
	Usage   *Usage  `json:"usage,omitzero"`
	// Interrupted marks an answer that was cut off by a cancellation.
	Interrupted bool `json:"interrupted,omitzero"`
	// MessageID is the provider's id of the answer, Native and Sequence are those
	// of its FinishReason; all "" where the provider does not tell.
	MessageID string `json:"messageId,omitzero"`
	Native    string `json:"native,omitzero"`
	Sequence  string `json:"sequence,omitzero"`
}

// ToolCall records that a call is taken up.
type ToolCall struct {
	Turn   int    `json:"turn"`
	Step   int    `json:"step"`
	CallID string `json:"callId"`
	Name   string `json:"name"`
	// Arguments is the text exactly as the model produced it.
	Arguments string `json:"arguments"`
}

// ToolResult records the outcome of a call. Its message holds one tool-result
// block.
type ToolResult struct {
	Turn    int        `json:"turn"`
	Step    int        `json:"step"`
	Message Message    `json:"message"`
	Error   *ToolError `json:"error,omitzero"`
	// Meta is for presentation only and never reaches the model.
	Meta json.RawMessage `json:"meta,omitzero"`
}

// ToolError classifies a failed call for programs; the text for the model is in
// the result block.
type ToolError struct {
	Name string `json:"name"`
	Code string `json:"code"`
}

// Codes of ToolError that the loop itself sets.
const (
	CodeUnknownTool           = "UNKNOWN_TOOL"
	CodeAbortedBeforeDispatch = "ABORTED_BEFORE_DISPATCH"
	CodeToolNotStarted        = "TOOL_NOT_STARTED"
	CodeToolOutcomeUnknown    = "TOOL_OUTCOME_UNKNOWN"
)

// RequestHeader records what all following model requests of the session have
// in common, whenever it changed.
type RequestHeader struct {
	Header Header `json:"header"`
	// Reason is initial, resume or change.
	Reason string `json:"reason"`
}

// Reasons of RequestHeader.
const (
	HeaderInitial = "initial"
	HeaderResume  = "resume"
	HeaderChange  = "change"
)

// Header is the part of a model request that is not history.
type Header struct {
	Config          RequestConfig    `json:"config"`
	AdapterDefaults *AdapterDefaults `json:"adapterDefaults,omitzero"`
	// System is the system prompt; without it the request has no system message.
	System string `json:"system,omitzero"`
	// Tools are in the order of the request.
	Tools []ToolSchema `json:"tools,omitzero"`

	text json.RawMessage // the encoding, once frozen
}

// Freeze encodes the header once; from then on it, and every copy of it, is
// written as those bytes, and must not be changed. A header with a long list of
// tools is written for every session that has it.
func (h *Header) Freeze() (text json.RawMessage, err error) {
	if h.text == nil {
		if h.text, err = wirejson.Marshal(h); err != nil {
			return nil, err
		}
	}
	return h.text, nil
}

// MarshalJSON writes the members, or what Freeze has kept of them.
func (h Header) MarshalJSON() ([]byte, error) {
	if h.text != nil {
		return h.text, nil
	}
	type members Header
	return wirejson.Marshal(members(h))
}

// AppendJSON appends the payload.
func (r *RequestHeader) AppendJSON(dst []byte) ([]byte, error) {
	text, err := r.Header.MarshalJSON()
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, `{"header":`...), text...)
	dst = wirejson.AppendString(append(dst, `,"reason":`...), r.Reason)
	return append(dst, '}'), nil
}

// RequestConfig is the resolved route and sampling of a model request.
type RequestConfig struct {
	Provider        string   `json:"provider"`
	Model           string   `json:"model"`
	ReasoningEffort string   `json:"reasoningEffort,omitzero"`
	Temperature     *float64 `json:"temperature,omitzero"`
	// MaxTokens caps the output of one request, in tokens.
	MaxTokens int64    `json:"maxTokens,omitzero"`
	Stop      []string `json:"stop,omitzero"`
}

// AdapterDefaults marks the members of RequestConfig that the adapter chose.
type AdapterDefaults struct {
	ReasoningEffort bool `json:"reasoningEffort,omitzero"`
	MaxTokens       bool `json:"maxTokens,omitzero"`
}

// ToolSchema is a tool as the model sees it.
type ToolSchema struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// RequestContext records the route and window in force, whenever it changed.
type RequestContext struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// ContextWindow is in tokens.
	ContextWindow int64 `json:"contextWindow,omitzero"`
}

// TodoWrite is the whole to-do list after a change.
type TodoWrite struct {
	Todos []Todo `json:"todos"`
}

// Todo is one entry of a to-do list.
type Todo struct {
	Content string `json:"content"`
	// Status is pending, in_progress or completed.
	Status string `json:"status"`
	// ActiveForm says it as something that is being done; "" under the tools' dialect
	// dsh.
	ActiveForm string `json:"activeForm,omitzero"`
}

// SessionEndSeed separates inherited history (resumed or forked) from live
// history.
type SessionEndSeed struct{}

// SessionTitle names the session for people.
type SessionTitle struct {
	Title       string      `json:"title"`
	MessageSeqs []int64     `json:"messageSeqs"`
	Source      TitleSource `json:"source"`
}

// TitleSource says where a title comes from; kind fallback is the first words
// of the first prompt.
type TitleSource struct {
	Kind string `json:"kind"`
}

// LLMRetry announces that a failed model request will be tried again.
type LLMRetry struct {
	RetryID  string `json:"retryId"`
	Turn     int    `json:"turn"`
	Step     int    `json:"step"`
	Provider string `json:"provider"`
	// Mode is normal (limited) or always.
	Mode string `json:"mode"`
	// PolicyKey names the rule that allowed the retry: the failure's code.
	PolicyKey string `json:"policyKey"`
	// Retry counts from 1.
	Retry      int     `json:"retry"`
	MaxRetries int     `json:"maxRetries,omitzero"`
	DelayMs    int64   `json:"delayMs"`
	Failure    Failure `json:"failure"`
}

// LLMRetryStarted marks the start of the new attempt.
type LLMRetryStarted struct {
	RetryID string `json:"retryId"`
	Turn    int    `json:"turn"`
	Step    int    `json:"step"`
	Retry   int    `json:"retry"`
}
