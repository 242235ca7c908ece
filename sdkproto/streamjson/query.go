package streamjson

import "encoding/json"

// Settings is the answer to get_settings (spec stream-json 4.9).
type Settings struct {
	// Effective is what all sources come to, as far as they count.
	Effective json.RawMessage `json:"effective"`
	// Sources are user, project, local and flag, always and in this order.
	Sources []SettingsSource `json:"sources"`
	Applied AppliedSettings  `json:"applied"`
}

// SettingsSource is one kind of settings as it was found; Error is why one that is
// there is left out.
type SettingsSource struct {
	Source   string          `json:"source"`
	Settings json.RawMessage `json:"settings"`
	Error    string          `json:"error,omitzero"`
}

// AppliedSettings are what the next model request is made with (S049). Effort is
// off, low, medium, high, max, or null for the model's own; EffectiveEffort is what
// the model's adapter makes of it, in its own words.
type AppliedSettings struct {
	Model           string  `json:"model"`
	Effort          *string `json:"effort"`
	EffectiveEffort string  `json:"effectiveEffort,omitzero"`
}

// ContextUsage is the answer to get_context_usage (spec stream-json 4.11): what the
// last model request of the main thread held, in tokens.
type ContextUsage struct {
	// Categories of kind used sum up to TotalTokens, all of them to MaxTokens where
	// that is known.
	Categories  []ContextCategory `json:"categories"`
	TotalTokens int64             `json:"totalTokens"`
	// EstimatedTokens is the part of TotalTokens that no provider has counted.
	EstimatedTokens int64 `json:"estimatedTokens"`
	// MaxTokens and RawMaxTokens are the model's window, 0 where it is not known.
	MaxTokens    int64 `json:"maxTokens"`
	RawMaxTokens int64 `json:"rawMaxTokens"`
	// Percentage is TotalTokens of MaxTokens, 0 to 100.
	Percentage float64 `json:"percentage"`
	Model      string  `json:"model"`
	// GridRows is empty: a client draws its own picture.
	GridRows    []json.RawMessage   `json:"gridRows"`
	MemoryFiles []ContextMemoryFile `json:"memoryFiles"`
	MCPTools    []ContextMCPTool    `json:"mcpTools"`
	Agents      []ContextAgent      `json:"agents"`
	// IsAutoCompactEnabled says that room is made by itself when a request would hold
	// more than AutoCompactThreshold.
	IsAutoCompactEnabled bool  `json:"isAutoCompactEnabled"`
	AutoCompactThreshold int64 `json:"autoCompactThreshold,omitzero"`
	// APIUsage is what the provider said of the last answer, null before the first.
	APIUsage *Usage `json:"apiUsage"`
}

// Kinds of a ContextCategory.
const (
	ContextUsed   = "used"
	ContextFree   = "free"
	ContextBuffer = "buffer"
)

// Parts of ContextUsage. Tokens of MemoryFiles, MCPTools and Agents are in those of
// the categories.
type (
	// ContextCategory is a part of the window; Color is a name for clients that draw.
	ContextCategory struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Tokens int64  `json:"tokens"`
		Color  string `json:"color"`
		Kind   string `json:"kind"`
	}
	// ContextMemoryFile is a file of instructions in the history.
	ContextMemoryFile struct {
		Path   string `json:"path"`
		Type   string `json:"type"`
		Tokens int64  `json:"tokens"`
	}
	// ContextMCPTool is a tool of an MCP server, under the name that the model sees.
	ContextMCPTool struct {
		Name       string `json:"name"`
		ServerName string `json:"serverName"`
		Tokens     int64  `json:"tokens"`
		IsLoaded   bool   `json:"isLoaded"`
	}
	// ContextAgent is a kind of agent that the model is told of.
	ContextAgent struct {
		AgentType string `json:"agentType"`
		Source    string `json:"source"`
		Tokens    int64  `json:"tokens"`
	}
)

// TypeConversationReset is the type of a ConversationReset.
const TypeConversationReset = "conversation_reset"

// ConversationReset tells that a conversation has ended and another begins in the
// same process (spec stream-json 3.11); its SessionID is that of the one that ended.
type ConversationReset struct {
	Head
	NewConversationID string `json:"new_conversation_id"`
	// Trigger is clear.
	Trigger string `json:"trigger"`
}
