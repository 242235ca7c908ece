package streamjson

import "encoding/json"

// Subtypes of a Result (spec stream-json 3.7).
const (
	ResultSuccess   = "success"
	ResultMaxTurns  = "error_max_turns"
	ResultExecution = "error_during_execution"
	ResultMaxBudget = "error_max_budget_usd"
	// ResultStructured: an output that has to match a schema never did.
	ResultStructured = "error_max_structured_output_retries"
)

// Terminal reasons of a Result.
const (
	ReasonCompleted        = "completed"
	ReasonMaxTurns         = "max_turns"
	ReasonAbortedStreaming = "aborted_streaming"
	ReasonAbortedTools     = "aborted_tools"
	ReasonAPIError         = "api_error"
	ReasonPromptTooLong    = "prompt_too_long"
	ReasonBudget           = "budget_exhausted"
	ReasonHookStopped      = "hook_stopped"
	ReasonStopHook         = "stop_hook_prevented"
	ReasonDeferred         = "tool_deferred"
	ReasonStructured       = "structured_output_retry_exhausted"
	ReasonModelError       = "model_error"
)

// Words for why an answer ended.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	// StopDeferred: a hook has put off the call (spec stream-json 6.6).
	StopDeferred = "tool_deferred"
)

// Result is the line that ends a turn (spec stream-json 3.7). All members
// without omitzero are on every line: the published clients fail without them
// (F1), and one that is an error has Errors, too (F7).
type Result struct {
	Head
	IsError bool `json:"is_error"`
	// DurationMs is the time since the message was taken from the queue,
	// DurationAPIMs that of it which the model requests took, in milliseconds.
	DurationMs    int64 `json:"duration_ms"`
	DurationAPIMs int64 `json:"duration_api_ms"`
	// NumTurns counts the answers of the model in the main thread.
	NumTurns int `json:"num_turns"`
	// Result is the last text of the main thread that is not blank, or the JSON text
	// of StructuredOutput, or the text of the error.
	Result string `json:"result"`
	// StopReason is why the last answer ended, null without one.
	StopReason *string `json:"stop_reason"`
	// TotalCostUSD is that of the session so far, in US dollars: 0 where no price
	// is known. Usage is the turn's, the main thread's only. ModelUsage is that of
	// the process so far, by model id, with all that was asked beside the main
	// thread (cases B86, B87).
	TotalCostUSD      float64               `json:"total_cost_usd"`
	Usage             TurnUsage             `json:"usage"`
	ModelUsage        map[string]ModelUsage `json:"modelUsage"`
	PermissionDenials []Denial              `json:"permission_denials"`
	StructuredOutput  json.RawMessage       `json:"structured_output,omitzero"`
	TerminalReason    string                `json:"terminal_reason,omitzero"`
	// Errors are there when Subtype is an error.
	Errors []string `json:"errors,omitzero"`
	// APIErrorStatus is the HTTP status of a failed model request, null without
	// one; absent when the turn did not fail on one.
	APIErrorStatus  json.RawMessage `json:"api_error_status,omitzero"`
	DeferredToolUse *DeferredTool   `json:"deferred_tool_use,omitzero"`
	// LocalCommand names the built-in slash command that made the result without a
	// turn of the model.
	LocalCommand string `json:"local_command,omitzero"`
	// Origin is that of the user message.
	Origin          json.RawMessage `json:"origin,omitzero"`
	UserMessageUUID string          `json:"user_message_uuid,omitzero"`
	// QueuedTurnCount is how many user messages wait.
	QueuedTurnCount *int `json:"queued_turn_count,omitzero"`
}

// TurnUsage is the Usage of a Result.
type TurnUsage struct {
	Usage
	ServerToolUse ServerToolUse `json:"server_tool_use"`
	// ServiceTier is standard.
	ServiceTier string `json:"service_tier"`
}

// ServerToolUse counts calls that the provider made itself.
type ServerToolUse struct {
	WebSearchRequests int64 `json:"web_search_requests"`
}

// ModelUsage is what one model has done for a process.
type ModelUsage struct {
	InputTokens              int64 `json:"inputTokens"`
	OutputTokens             int64 `json:"outputTokens"`
	CacheReadInputTokens     int64 `json:"cacheReadInputTokens"`
	CacheCreationInputTokens int64 `json:"cacheCreationInputTokens"`
	WebSearchRequests        int64 `json:"webSearchRequests"`
	// CostUSD is 0 where the model's price is not known.
	CostUSD float64 `json:"costUSD"`
	// ContextWindow and MaxOutputTokens are in tokens, 0 where unknown.
	ContextWindow   int64 `json:"contextWindow"`
	MaxOutputTokens int64 `json:"maxOutputTokens"`
}

// Denial is a call that was refused (spec stream-json 7.8).
type Denial struct {
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	ToolInput json.RawMessage `json:"tool_input"`
}

// DeferredTool is a call that waits for the session to be resumed (spec
// stream-json 6.6).
type DeferredTool struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}
