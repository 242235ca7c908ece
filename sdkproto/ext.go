package sdkproto

import (
	"encoding/json"

	"dsh/sdkproto/wirejson"
)

// The additive extensions of the protocol (spec jsonrpc 13.3). A client that
// asks for nothing gets nothing of them: notifications and answer members come
// only on request; the methods always answer (decision D21).

// ProtocolVersion is the version of the extensions, asked for in
// initialize.params.protocolVersion.
const ProtocolVersion = 1

// Methods beyond the plain protocol.
const (
	MethodSessionCancel = "session/cancel"
	MethodSessionClose  = "session/close"
	MethodSessionList   = "session/list"
	MethodSessionResume = "session/resume"
	MethodSessionEvents = "session/events"
	MethodSessionWait   = "session/wait"
	MethodSessionSteer  = "session/steer"
	MethodPing          = "ping"
	// MethodRuntimeStatus has no parameters and is answered with a RuntimeStatus.
	MethodRuntimeStatus = "runtime/status"
)

// MethodApprovalRequest is a request of the server to a client that has asked
// for it (ClientCapabilities.Approvals).
const MethodApprovalRequest = "approval/request"

// Notifications beyond the plain protocol, each on request.
const (
	NotifyPromptFinished = "session.prompt.finished"
	NotifyUsage          = "session.usage"
	NotifyTreeStatus     = "session.tree-status"
	NotifyHeartbeat      = "runtime.heartbeat"
	// NotifyApprovalCancelled takes an approval/request back. It goes with
	// approvals and is not asked for by name.
	NotifyApprovalCancelled = "approval/cancelled"
)

// InitializeExtensions are the members that a client adds to the parameters of
// initialize to ask for extensions.
type InitializeExtensions struct {
	// ProtocolVersion 1 or above asks for the members of InitializeAdditions in
	// the answer and for ErrorData in every error.
	ProtocolVersion int64               `json:"protocolVersion,omitzero"`
	Capabilities    *ClientCapabilities `json:"capabilities,omitzero"`
}

// ClientCapabilities is what a client can take. Members and names that a server
// does not know are ignored.
type ClientCapabilities struct {
	// Notifications asks for notifications beyond the plain protocol, by name.
	Notifications []string `json:"notifications,omitzero"`
	// Chunks, when false, leaves the assistant/chunk events out of session.event:
	// the sequence numbers then have gaps.
	Chunks *bool `json:"chunks,omitzero"`
	// HeartbeatSeconds asks for runtime.heartbeat that often, 1 to 3600 s. Asked
	// for by name alone it comes every 15 s.
	HeartbeatSeconds int `json:"heartbeatSeconds,omitzero"`
	// Approvals says that the client answers approval/request.
	Approvals bool `json:"approvals,omitzero"`
}

// InitializeAdditions are the further members of the answer to initialize.
type InitializeAdditions struct {
	// ProtocolVersion is the server's own.
	ProtocolVersion int64              `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	Runtime         RuntimeInfo        `json:"runtime"`
}

// ServerCapabilities lists all that a server answers and may send, sorted.
type ServerCapabilities struct {
	Methods       []string `json:"methods"`
	Notifications []string `json:"notifications"`
	// Requests are those that the server sends to a client that asks for them.
	Requests []string `json:"requests,omitzero"`
}

// RuntimeInfo says which program serves, in which process.
type RuntimeInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	PID     int    `json:"pid"`
}

// PromptExtensions are the members that a client may add to the parameters of
// session/prompt.
type PromptExtensions struct {
	// Options is honoured only when the prompt creates the session.
	Options *RouteOptions `json:"options,omitzero"`
	// IdempotencyKey, up to 200 bytes, makes a repeated prompt the same one: it
	// gives the same message id, whatever its content. A server remembers the last
	// 1,000 keys of a session, until the session is closed or the process ends.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
}

// RouteOptions is the route of one session; what is left out is that of
// initialize.
type RouteOptions struct {
	Provider        string `json:"provider,omitzero"`
	Model           string `json:"model,omitzero"`
	MaxTokens       int64  `json:"maxTokens,omitzero"`
	ReasoningEffort string `json:"reasoningEffort,omitzero"`
}

// CancelParams ends the turn that runs and drops the queue of a session; with a
// MessageID it drops that message from the queue, or ends the turn that runs
// for it (decision D23).
type CancelParams struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId,omitzero"`
}

// CancelResult answers session/cancel: whether there was anything to cancel.
type CancelResult struct {
	Cancelled bool `json:"cancelled"`
}

// CloseParams ends a session's turn, drops its queue and releases what the
// process holds of it. The next prompt resumes it. The answer is {}, also for a
// session that is not live.
type CloseParams struct {
	SessionID string `json:"sessionId"`
}

// ListParams asks for the stored sessions, newest first.
type ListParams struct {
	// CWD restricts the list to one working directory.
	CWD string `json:"cwd,omitzero"`
	// Limit is the most sessions in one answer, 1 to 1,000; 100 by default.
	Limit int `json:"limit,omitzero"`
	// Cursor is NextCursor of the answer before.
	Cursor string `json:"cursor,omitzero"`
}

// ListResult answers session/list.
type ListResult struct {
	Sessions []SessionInfo `json:"sessions"`
	// NextCursor is absent at the end of the list.
	NextCursor string `json:"nextCursor,omitzero"`
}

// SessionInfo describes one stored session.
type SessionInfo struct {
	SessionID string `json:"sessionId"`
	// CreatedAt is in epoch milliseconds.
	CreatedAt int64  `json:"createdAt"`
	CWD       string `json:"cwd,omitzero"`
	// ParentSessionID is the delegating session's.
	ParentSessionID string `json:"parentSessionId,omitzero"`
	// Status is set while the session is live in the process.
	Status Status `json:"status,omitzero"`
}

// ResumeParams makes a stored session live, with the route of initialize. Unlike
// a prompt it fails for one that is not stored.
type ResumeParams struct {
	SessionID string `json:"sessionId"`
}

// ResumeResult answers session/resume.
type ResumeResult struct {
	// LastSeq is that of the last event, -1 without one.
	LastSeq int64  `json:"lastSeq"`
	Status  Status `json:"status"`
}

// EventsParams asks for the stored events of a session, live or not.
type EventsParams struct {
	SessionID string `json:"sessionId"`
	FromSeq   int64  `json:"fromSeq"`
}

// EventsResult answers session/events: events in order, about 4 MiB of them at
// the most, but at least one if there is one.
type EventsResult struct {
	Events []Event `json:"events"`
	// NextSeq is FromSeq of the next request; no events means the end.
	NextSeq int64 `json:"nextSeq"`
}

// PromptFinished is the payload of session.prompt.finished: what became of one
// user message. It comes behind the turn/end of the turn that took the message,
// before any idle.
type PromptFinished struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	// Turn is absent for a message that was dropped from the queue; Reason is then
	// of kind canceled.
	Turn   int           `json:"turn,omitzero"`
	Reason TurnEndReason `json:"reason"`
	// FinalText is the text of the turn's last answer.
	FinalText string `json:"finalText"`
	// Usage is the sum over the turn; absent when the model reported none.
	Usage *Usage `json:"usage,omitzero"`
}

// EndCanceled is the kind of reason of a prompt that was dropped unseen.
const EndCanceled = "canceled"

// WaitParams waits until a message is finished.
type WaitParams struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	// TimeoutMs bounds the wait, in milliseconds; 0 does not wait at all. Without
	// it the wait ends with the process.
	TimeoutMs *int64 `json:"timeoutMs,omitzero"`
}

// WaitResult answers session/wait. The other members are there when Finished
// is true; {"finished":false} is the answer when the time is over.
type WaitResult struct {
	Finished bool `json:"finished"`
	PromptFinished
}

// SteerParams puts a message into the next step of the turn that runs, or into
// a turn of its own. The answer is a PromptResult.
type SteerParams struct {
	SessionID     string  `json:"sessionId"`
	ContentBlocks []Block `json:"contentBlocks"`
}

// UsageReport is the payload of session.usage, sent behind each
// assistant/message that has a usage.
type UsageReport struct {
	SessionID string `json:"sessionId"`
	Turn      int    `json:"turn"`
	Usage     Usage  `json:"usage"`
	// Totals sums up the whole session, as it is in its log.
	Totals Usage `json:"totals"`
}

// TreeStatus is the payload of session.tree-status: idle says that the root
// session and all local sessions below it are idle.
type TreeStatus struct {
	SessionID string `json:"sessionId"`
	Status    Status `json:"status"`
}

// Clock is the answer to ping and the payload of runtime.heartbeat, in epoch
// milliseconds.
type Clock struct {
	Time int64 `json:"time"`
}

// ApprovalRequest asks the client whether a tool call may run. The client need
// not hurry, but the server waits only so long.
type ApprovalRequest struct {
	// ID names the question, as in the events approval/asked and approval/decided.
	ID        string `json:"id"`
	SessionID string `json:"sessionId"`
	ToolName  string `json:"toolName"`
	CallID    string `json:"callId"`
	// Arguments is the JSON object that the tool is to be called with.
	Arguments json.RawMessage `json:"arguments"`
	// Reason says why the question is asked, in a sentence.
	Reason string `json:"reason"`
}

// ApprovalResult answers approval/request. Whatever is not exactly
// ApprovalAllowedOnce refuses the call (case B21).
type ApprovalResult struct {
	// Outcome is ApprovalAllowedOnce or ApprovalRejected.
	Outcome string `json:"outcome"`
	// Message tells the model why the call was rejected; it may be left out.
	Message string `json:"message,omitzero"`
}

// Outcomes of an ApprovalResult.
const (
	ApprovalAllowedOnce = "allowed-once"
	ApprovalRejected    = "rejected"
)

// ApprovalCancelled is the payload of approval/cancelled: nobody waits for the
// answer any more.
type ApprovalCancelled struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionId"`
}

// RuntimeStatus answers runtime/status: how the parts of the server stand. A
// part that is optional and has failed shows here and nowhere else on the wire.
type RuntimeStatus struct {
	// Tasks are the load tasks, in the order in which they were started.
	Tasks []TaskStatus `json:"tasks"`
	// MCP are the MCP servers in the order of their configuration; absent in a
	// composition that runs none.
	MCP []MCPStatus `json:"mcp,omitzero"`
	// Sandbox says how far programs can be confined; absent in a composition that
	// confines none.
	Sandbox *SandboxStatus `json:"sandbox,omitzero"`
}

// TaskStatus is one load task.
type TaskStatus struct {
	Name string `json:"name"`
	// Required: its failure fails initialize.
	Required bool `json:"required"`
	// State is one of the Task constants; Error is the reason of TaskFailed.
	State string `json:"state"`
	Error string `json:"error,omitzero"`
}

// States of a load task.
const (
	TaskRunning = "running"
	TaskDone    = "done"
	TaskFailed  = "failed"
)

// MCPStatus is one MCP server.
type MCPStatus struct {
	Name string `json:"name"`
	// State is connected, pending, failed, disabled or needs-auth; Error is the
	// reason of failed and needs-auth.
	State string `json:"state"`
	Error string `json:"error,omitzero"`
	// Transport is stdio, http or sse; Scope is profile, user, project or local.
	Transport string `json:"transport"`
	Scope     string `json:"scope"`
	// Tools are the names that models see.
	Tools   []string `json:"tools,omitzero"`
	Version string   `json:"version,omitzero"`
}

// SandboxStatus is what this machine can hold of a confinement to the workspace.
type SandboxStatus struct {
	// Level is full, partial or none; Missing says what does not hold.
	Level   string `json:"level"`
	Missing string `json:"missing,omitzero"`
}

// ErrorData is error.data of a failed answer.
type ErrorData struct {
	// Code is one of the Err constants, a model adapter's own, one of image
	// admission (spec jsonrpc 9.8), or INTERNAL.
	Code string `json:"code"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable"`
	// Field is the parameter that is wrong, as a path: options.maxTokens.
	Field string `json:"field,omitzero"`
}

// Codes of ErrorData.
const (
	ErrMethodNotFound    = "METHOD_NOT_FOUND"
	ErrInvalidParams     = "INVALID_PARAMS"
	ErrRequestTooLarge   = "REQUEST_TOO_LARGE"
	ErrNotInitialized    = "NOT_INITIALIZED"
	ErrShuttingDown      = "SHUTTING_DOWN"
	ErrNoAdapter         = "NO_ADAPTER"
	ErrAdapterFailed     = "ADAPTER_FAILED"
	ErrToolFilter        = "TOOL_FILTER"
	ErrInboxFull         = "INBOX_FULL"
	ErrNoAttachments     = "NO_ATTACHMENT_STORE"
	ErrSessionNotFound   = "SESSION_NOT_FOUND"
	ErrSessionDisposed   = "SESSION_DISPOSED"
	ErrSessionInUse      = "SESSION_IN_USE"
	ErrSessionOtherCWD   = "SESSION_OTHER_CWD"
	ErrSessionUnreadable = "SESSION_UNREADABLE"
	ErrInternal          = "INTERNAL"
)

// Details decodes Data; it is the zero value without any.
func (e *RPCError) Details() ErrorData {
	var d ErrorData
	if wirejson.Unmarshal(e.Data, &d) != nil {
		return ErrorData{}
	}
	return d
}
