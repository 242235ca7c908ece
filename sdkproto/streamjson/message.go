// Package streamjson holds the types of the stream-json wire (spec stream-json):
// lines of JSON between a host program and the harness. Every type here is one
// line, or a part of one, in the order of its members on the wire; wirejson
// encodes it, so that no reader sees the end of a line inside a string (spec
// stream-json 0.2). Lines that come in thousands are written by hand: see Stream.
package streamjson

import "encoding/json"

// Types of lines that the harness writes, beside TypeUser (spec stream-json 3).
// error and end are none: a client takes them for its own (F6).
const (
	TypeSystem      = "system"
	TypeAssistant   = "assistant"
	TypeStreamEvent = "stream_event"
	TypeResult      = "result"
	// TypePromptSuggestion stands behind the result of a turn.
	TypePromptSuggestion = "prompt_suggestion"
	// TypeTranscriptMirror has what was added to a transcript.
	TypeTranscriptMirror = "transcript_mirror"
	// The lines for older scripts (spec stream-json 3.14).
	TypeText       = "text"
	TypeToolStart  = "tool_start"
	TypeToolResult = "tool_result"
	TypeUsage      = "usage"
)

// Subtypes of system lines (spec stream-json 3.10).
const (
	SystemStatus           = "status"
	SystemCompactBoundary  = "compact_boundary"
	SystemAPIRetry         = "api_retry"
	SystemTaskStarted      = "task_started"
	SystemTaskProgress     = "task_progress"
	SystemTaskUpdated      = "task_updated"
	SystemTaskNotification = "task_notification"
	SystemBackgroundTasks  = "background_tasks_changed"
	SystemPermissionDenied = "permission_denied"
	SystemInformational    = "informational"
)

// Head is what every line but the control envelopes begins with (spec
// stream-json 3.1).
type Head struct {
	Type string `json:"type"`
	// Subtype is set in system lines and results.
	Subtype   string `json:"subtype,omitzero"`
	SessionID string `json:"session_id"`
	// UUID is a version 4 UUID that no other line of the process has.
	UUID string `json:"uuid"`
}

// Origin places a line in the tree of agents.
type Origin struct {
	// ParentToolUseID is null for the main thread, else the id of the call that
	// started the subagent.
	ParentToolUseID *string `json:"parent_tool_use_id"`
	// AgentID and SubagentType name the subagent, "" in the main thread.
	AgentID      string `json:"agent_id,omitzero"`
	SubagentType string `json:"subagent_type,omitzero"`
}

// Assistant is one block of a model's answer (spec stream-json 3.3).
type Assistant struct {
	Head
	Origin
	Message Message `json:"message"`
	// Error is one of the Error constants when the harness made the text, because
	// the model did not answer.
	Error string `json:"error,omitzero"`
	// Aborted marks a block of an answer that was cut off.
	Aborted bool `json:"aborted,omitzero"`
}

// ModelSynthetic stands for the model in texts that the harness made.
const ModelSynthetic = "<synthetic>"

// Message is an answer as the Messages API has it. Lines cut from one answer
// share ID and Usage, which counts once for all of them (case B86).
type Message struct {
	ID string `json:"id"`
	// Type is message, Role assistant.
	Type  string `json:"type"`
	Role  string `json:"role"`
	Model string `json:"model"`
	// Content has one block in an assistant line and none in message_start.
	Content []Block `json:"content"`
	// StopReason and StopSequence are null: they are known in message_delta and in
	// the result.
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        Usage   `json:"usage"`
}

// Usage counts the tokens of a model request in the members of the Messages API.
type Usage struct {
	InputTokens              int64 `json:"input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
}

// Categories of an Assistant's Error (spec stream-json 3.3).
const (
	ErrorAuthentication  = "authentication_failed"
	ErrorBilling         = "billing_error"
	ErrorRateLimit       = "rate_limit"
	ErrorOverloaded      = "overloaded"
	ErrorInvalidRequest  = "invalid_request"
	ErrorModelNotFound   = "model_not_found"
	ErrorServer          = "server_error"
	ErrorMaxOutputTokens = "max_output_tokens"
	ErrorUnknown         = "unknown"
)

// User is the outcome of a tool call, or a note to the conversation (spec
// stream-json 3.4).
type User struct {
	Head
	Origin
	Message UserContent `json:"message"`
	// ToolUseResult is the tool's structured output (spec stream-json 9), or a
	// string for errors; absent when there is neither.
	ToolUseResult json.RawMessage `json:"tool_use_result,omitzero"`
}

// UserContent is the message of a User line.
type UserContent struct {
	// Role is user.
	Role    string  `json:"role"`
	Content []Block `json:"content"`
}

// The kinds of system lines that the projection of a session makes.
type (
	// Status tells of a compaction or a change of mode. Status is compacting, or
	// null when it is over.
	Status struct {
		Head
		Status         *string `json:"status"`
		PermissionMode string  `json:"permissionMode,omitzero"`
		// CompactResult is success or failed, CompactError says why it failed.
		CompactResult string `json:"compact_result,omitzero"`
		CompactError  string `json:"compact_error,omitzero"`
	}
	// CompactBoundary stands between a history and what is left of it.
	CompactBoundary struct {
		Head
		Metadata CompactMetadata `json:"compact_metadata"`
	}
	// CompactMetadata counts in tokens and milliseconds. Trigger is auto or manual.
	CompactMetadata struct {
		Trigger    string `json:"trigger"`
		PreTokens  int64  `json:"pre_tokens"`
		DurationMs int64  `json:"duration_ms"`
	}
	// APIRetry announces that a model request will be made again. Attempt counts
	// from 1, ErrorStatus is null without an HTTP status, Error is one of the Error
	// constants.
	APIRetry struct {
		Head
		Attempt      int    `json:"attempt"`
		MaxRetries   int    `json:"max_retries"`
		RetryDelayMs int64  `json:"retry_delay_ms"`
		ErrorStatus  *int   `json:"error_status"`
		Error        string `json:"error"`
	}
	// TaskStarted tells that a subagent works, or that a shell command goes on behind
	// its call. TaskType is one of the Task constants; SubagentType is that of an
	// agent.
	TaskStarted struct {
		Head
		TaskID       string `json:"task_id"`
		ToolUseID    string `json:"tool_use_id,omitzero"`
		Description  string `json:"description"`
		TaskType     string `json:"task_type,omitzero"`
		SubagentType string `json:"subagent_type,omitzero"`
		// IsBackgrounded: the call does not wait for it.
		IsBackgrounded bool `json:"is_backgrounded,omitzero"`
		// SpawnDepth is how many agents are above a subagent; ParentTaskID is the
		// subagent whose call started the task, "" for one of the main thread.
		SpawnDepth   int    `json:"spawn_depth,omitzero"`
		ParentTaskID string `json:"parent_task_id,omitzero"`
	}
	// TaskProgress tells what a subagent has done so far. Summary says in words what
	// it is doing, where a client asked for that and a model has said it (S038).
	TaskProgress struct {
		Head
		TaskID       string    `json:"task_id"`
		ToolUseID    string    `json:"tool_use_id,omitzero"`
		Description  string    `json:"description"`
		SubagentType string    `json:"subagent_type,omitzero"`
		Usage        TaskUsage `json:"usage"`
		LastToolName string    `json:"last_tool_name,omitzero"`
		Summary      string    `json:"summary,omitzero"`
	}
	// TaskUpdated tells of a change of a task.
	TaskUpdated struct {
		Head
		TaskID string    `json:"task_id"`
		Patch  TaskPatch `json:"patch"`
	}
	// TaskPatch is what has changed; what has not is left out.
	TaskPatch struct {
		IsBackgrounded bool `json:"is_backgrounded,omitzero"`
	}
	// BackgroundTasks lists all tasks whose calls do not wait for them, after a change
	// of the list.
	BackgroundTasks struct {
		Head
		Tasks []BackgroundTask `json:"tasks"`
	}
	// BackgroundTask is one of BackgroundTasks.
	BackgroundTask struct {
		TaskID       string `json:"task_id"`
		TaskType     string `json:"task_type"`
		Description  string `json:"description"`
		SubagentType string `json:"subagent_type,omitzero"`
	}
	// TaskNotification is the end of a task, one for each TaskStarted (F13).
	// Status is completed, failed or stopped.
	TaskNotification struct {
		Head
		TaskID     string     `json:"task_id"`
		ToolUseID  string     `json:"tool_use_id,omitzero"`
		Status     string     `json:"status"`
		OutputFile string     `json:"output_file"`
		Summary    string     `json:"summary"`
		Usage      *TaskUsage `json:"usage,omitzero"`
	}
	// TaskUsage is what a task has used.
	TaskUsage struct {
		TotalTokens int64 `json:"total_tokens"`
		ToolUses    int   `json:"tool_uses"`
		DurationMs  int64 `json:"duration_ms"`
	}
	// PermissionDenied tells of a call that was refused without anybody being
	// asked. AgentID is that of the subagent that made it, "" for the main thread.
	PermissionDenied struct {
		Head
		ToolName           string `json:"tool_name"`
		ToolUseID          string `json:"tool_use_id"`
		Message            string `json:"message"`
		AgentID            string `json:"agent_id,omitzero"`
		DecisionReasonType string `json:"decision_reason_type,omitzero"`
		DecisionReason     string `json:"decision_reason,omitzero"`
	}
	// Informational is a note for people. Level is info, notice, suggestion or
	// warning.
	Informational struct {
		Head
		Content string `json:"content"`
		Level   string `json:"level"`
	}
)

// Values of the system lines' members.
const (
	StatusCompacting = "compacting"
	CompactSuccess   = "success"
	CompactFailed    = "failed"
	TriggerAuto      = "auto"
	TriggerManual    = "manual"
	TaskLocalAgent   = "local_agent"
	TaskLocalShell   = "local_bash"
	TaskCompleted    = "completed"
	TaskFailed       = "failed"
	TaskStopped      = "stopped"
)

// The lines for older scripts (spec stream-json 3.14).
type (
	// LegacyText is the text of one block of an answer.
	LegacyText struct {
		Head
		Text string `json:"text"`
	}
	// LegacyToolStart tells that a call is taken up, before any decision on it.
	// Input is an object.
	LegacyToolStart struct {
		Head
		ToolUseID string          `json:"tool_use_id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	// LegacyToolResult is the outcome of a call as text.
	LegacyToolResult struct {
		Head
		ToolUseID string `json:"tool_use_id"`
		Name      string `json:"name"`
		Content   string `json:"content"`
		IsError   bool   `json:"is_error"`
	}
	// PromptSuggestion is what the user may say next (spec stream-json 3.9).
	PromptSuggestion struct {
		Head
		Suggestion string `json:"suggestion"`
	}
	// LegacyUsage is what a turn has used. CostUSD is that of the turn.
	LegacyUsage struct {
		Head
		InputTokens              int64   `json:"input_tokens"`
		OutputTokens             int64   `json:"output_tokens"`
		CacheReadInputTokens     int64   `json:"cache_read_input_tokens"`
		CacheCreationInputTokens int64   `json:"cache_creation_input_tokens"`
		CostUSD                  float64 `json:"cost_usd"`
	}
)
