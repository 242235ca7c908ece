package streamjson

import (
	"encoding/json"
)

// Formats of input and output.
const (
	FormatText   = "text"
	FormatJSON   = "json"
	FormatStream = "stream-json"
)

// Config is the row's config. Most of it has a launch flag of the same meaning
// (spec stream-json 1.3); a profile gives what holds without the flag.
type Config struct {
	// InputFormat is text or stream-json. With text the prompt is Prompt, or
	// standard input to its end; there is one turn and no control channel.
	InputFormat string `json:"inputFormat"`
	// OutputFormat is text, json or stream-json; stream-json input needs the last.
	OutputFormat string `json:"outputFormat"`
	Prompt       string `json:"prompt"`
	// Model is a model id or an alias, "" for the default; APIFormat is anthropic,
	// openai, deepseek or mock, "" to let the model decide (S080).
	Model     string `json:"model"`
	APIFormat string `json:"apiFormat"`
	// FallbackModels answer where Model is overloaded.
	FallbackModels []string `json:"fallbackModels"`
	// StrictModels refuses set_model to models that are not listed.
	StrictModels bool `json:"strictModels"`
	// Effort is low, medium, high, xhigh or max; MaxThinkingTokens is mapped to one
	// (spec stream-json 4.7). Both empty is the model's default.
	Effort            string `json:"effort"`
	MaxThinkingTokens *int64 `json:"maxThinkingTokens,omitzero"`
	// SystemPrompt replaces the system prompt, nil keeps it; AppendSystemPrompt
	// comes behind.
	SystemPrompt       *string `json:"systemPrompt,omitzero"`
	AppendSystemPrompt string  `json:"appendSystemPrompt"`
	// MaxTurns bounds the model requests of a turn, 0 is no bound. MaxBudgetUSD is
	// what the process may cost, 0 is no cap.
	MaxTurns     int     `json:"maxTurns"`
	MaxBudgetUSD float64 `json:"maxBudgetUsd"`
	// SessionID is that of a new session, a UUID; "" makes one. Resume names a
	// stored session, Continue takes the newest of the folder; Fork gives what is
	// resumed a new id.
	SessionID string `json:"sessionId"`
	Resume    string `json:"resume"`
	Continue  bool   `json:"continue"`
	Fork      bool   `json:"forkSession"`
	// Tools restricts the built-in tools: nil is all of them, an empty list none.
	Tools *[]string `json:"tools,omitzero"`
	// Agent names the agent of the main thread; Agents defines further ones, an
	// object of name and definition (spec stream-json 11.7).
	Agent  string          `json:"agent"`
	Agents json.RawMessage `json:"agents,omitzero"`
	// SDKServers are the names of MCP servers that the client hosts.
	SDKServers []string `json:"sdkServers"`
	// JSONSchema is what the result of every turn has to match; nil is nothing.
	JSONSchema json.RawMessage `json:"jsonSchema,omitzero"`
	// The lines that are written beside the usual ones.
	PartialMessages     bool `json:"includePartialMessages"`
	HookEvents          bool `json:"includeHookEvents"`
	ReplayUserMessages  bool `json:"replayUserMessages"`
	ForwardSubagentText bool `json:"forwardSubagentText"`
	PromptSuggestions   bool `json:"promptSuggestions"`
	// LegacyLines writes the text, tool_start, tool_result and usage lines of older
	// scripts (S031).
	LegacyLines bool `json:"legacyLines"`
	// Version is what the client is told and -v prints first; the product's own
	// version stands behind it in parentheses.
	Version string `json:"version"`
	// MaxLine is the longest input line, in bytes; MaxQueued is how many user
	// messages may wait.
	MaxLine   int `json:"maxLine"`
	MaxQueued int `json:"maxQueued"`
}
