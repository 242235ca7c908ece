package sdkproto

import "encoding/json"

// Methods a client may call (spec jsonrpc 2).
const (
	MethodInitialize    = "initialize"
	MethodSessionPrompt = "session/prompt"
	MethodShutdown      = "shutdown"
)

// Notifications a server sends (spec jsonrpc 2.4 to 2.7).
const (
	NotifySessionEvent     = "session.event"
	NotifySessionStatus    = "session.status"
	NotifySubagentStarted  = "subagent.started"
	NotifySubagentFinished = "subagent.finished"
)

// Error codes of a JSON-RPC answer (decision D21).
const (
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// ServerName is fixed by contract (S122); ServerVersion is what every known
// client has seen.
const (
	ServerName    = "deepseek-harness-sdk-runtime"
	ServerVersion = "0.0.1"
)

// InitializeParams fixes the route of the sessions created afterwards.
type InitializeParams struct {
	// CWD becomes the working directory of new sessions; a relative path is taken
	// from the server's own.
	CWD      string `json:"cwd"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// MaxTokens caps the output of one model request; 0 leaves it to the adapter.
	MaxTokens       int64  `json:"maxTokens,omitzero"`
	ReasoningEffort string `json:"reasoningEffort,omitzero"`
	InitializeExtensions
}

// InitializeResult answers initialize.
type InitializeResult struct {
	ServerInfo ServerInfo `json:"serverInfo"`
}

// ServerInfo names the server.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// PromptParams queues one user message on a session, which its first prompt
// creates.
type PromptParams struct {
	SessionID     string  `json:"sessionId"`
	ContentBlocks []Block `json:"contentBlocks"`
	PromptExtensions
}

// PromptResult answers session/prompt; the id is also in the receipt event and
// in the user/message event.
type PromptResult struct {
	MessageID string `json:"messageId"`
}

// Status is what an agent as a whole is doing.
type Status string

// Values of Status.
const (
	StatusIdle    Status = "idle"
	StatusRunning Status = "running"
)

// SessionEvent is the payload of session.event.
type SessionEvent struct {
	SessionID string `json:"sessionId"`
	Event     Event  `json:"event"`
}

// SessionStatus is the payload of session.status.
type SessionStatus struct {
	SessionID string `json:"sessionId"`
	Status    Status `json:"status"`
}

// SubagentStarted is the payload of subagent.started.
type SubagentStarted struct {
	ParentSessionID string `json:"parentSessionId"`
	ChildSessionID  string `json:"childSessionId"`
}

// SubagentFinished is the payload of subagent.finished.
type SubagentFinished struct {
	Provider        string `json:"provider"`
	AgentID         string `json:"agentId"`
	ParentSessionID string `json:"parentSessionId"`
	ChildSessionID  string `json:"childSessionId"`
	// Status is FinishedOK or FinishedError.
	Status string `json:"status"`
	// StopReason is one of the Stop constants.
	StopReason           string  `json:"stopReason"`
	LastAssistantMessage []Block `json:"lastAssistantMessage,omitzero"`
}

// Values of SubagentFinished.Status.
const (
	FinishedOK    = "ok"
	FinishedError = "error"
)

// RPCError is the error member of a failed answer.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitzero"`
}

func (e *RPCError) Error() string { return e.Message }
