package streamjson

import "encoding/json"

// Subtypes of control requests of the harness, which the host answers (spec
// stream-json 5); MCPMessage goes both ways.
const (
	SubtypeCanUseTool   = "can_use_tool"
	SubtypeHookCallback = "hook_callback"
	SubtypeElicitation  = "elicitation"
)

// CanUseTool asks whether a tool call may run (spec stream-json 5.1).
type CanUseTool struct {
	// ToolName is the whole name, mcp__server__tool for a tool of an MCP server.
	ToolName    string `json:"tool_name"`
	DisplayName string `json:"display_name,omitzero"`
	// Input is an object.
	Input json.RawMessage `json:"input"`
	// Description is what a person wants to see of Input first.
	Description string `json:"description,omitzero"`
	ToolUseID   string `json:"tool_use_id"`
	// Suggestions are changes after which such a call would not be asked about.
	Suggestions []PermissionUpdate `json:"permission_suggestions,omitzero"`
	// BlockedPath is the path outside the allowed folders that caused the question.
	BlockedPath        string `json:"blocked_path,omitzero"`
	DecisionReason     string `json:"decision_reason,omitzero"`
	DecisionReasonType string `json:"decision_reason_type,omitzero"`
	// AgentID is the subagent that asks, "" for the main thread.
	AgentID string `json:"agent_id,omitzero"`
}

// Behaviors of a Permission.
const (
	BehaviorAllow = "allow"
	BehaviorDeny  = "deny"
)

// Permission answers CanUseTool.
type Permission struct {
	// Behavior is one of the constants; anything else denies.
	Behavior string `json:"behavior"`
	// UpdatedInput, an object, takes the place of the call's whole input; nil leaves
	// that as it is.
	UpdatedInput json.RawMessage `json:"updatedInput,omitzero"`
	// UpdatedPermissions are applied before the call runs.
	UpdatedPermissions []PermissionUpdate `json:"updatedPermissions,omitzero"`
	// Message is why it is denied; the model reads it.
	Message string `json:"message,omitzero"`
	// Interrupt, when it is denied, ends the turn, too.
	Interrupt bool `json:"interrupt,omitzero"`
}

// PermissionUpdate changes what is asked about (spec stream-json 7.6).
type PermissionUpdate struct {
	// Type is addRules, replaceRules, removeRules, setMode, addDirectories or
	// removeDirectories; the other members go with it.
	Type  string           `json:"type"`
	Rules []PermissionRule `json:"rules,omitzero"`
	// Behavior is allow, deny or ask.
	Behavior    string   `json:"behavior,omitzero"`
	Mode        string   `json:"mode,omitzero"`
	Directories []string `json:"directories,omitzero"`
	// Destination is session, localSettings, projectSettings or userSettings.
	Destination string `json:"destination,omitzero"`
}

// PermissionRule is one rule of a PermissionUpdate; without RuleContent it is about
// all calls of the tool.
type PermissionRule struct {
	ToolName    string `json:"toolName"`
	RuleContent string `json:"ruleContent,omitzero"`
}

// HookCallback runs a hook of the host (spec stream-json 5.2).
type HookCallback struct {
	CallbackID string `json:"callback_id"`
	// Input is an object; what it has depends on the event (spec stream-json 6.2).
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id,omitzero"`
}

// HookOutput answers HookCallback (spec stream-json 6.3). The zero value has no
// opinion.
type HookOutput struct {
	// Continue false ends the turn; StopReason says why.
	Continue       *bool  `json:"continue,omitzero"`
	StopReason     string `json:"stopReason,omitzero"`
	SuppressOutput bool   `json:"suppressOutput,omitzero"`
	SystemMessage  string `json:"systemMessage,omitzero"`
	// Decision is block, with a Reason, or approve.
	Decision string        `json:"decision,omitzero"`
	Reason   string        `json:"reason,omitzero"`
	Specific *HookSpecific `json:"hookSpecificOutput,omitzero"`
}

// HookSpecific is the part of a HookOutput that depends on the event.
type HookSpecific struct {
	// HookEventName is the event.
	HookEventName string `json:"hookEventName"`
	// PermissionDecision, of PreToolUse, is allow, deny, ask or defer.
	PermissionDecision       string          `json:"permissionDecision,omitzero"`
	PermissionDecisionReason string          `json:"permissionDecisionReason,omitzero"`
	UpdatedInput             json.RawMessage `json:"updatedInput,omitzero"`
	// AdditionalContext is for the model.
	AdditionalContext string `json:"additionalContext,omitzero"`
	// UpdatedToolOutput, of PostToolUse, is what the model gets for the result.
	UpdatedToolOutput json.RawMessage `json:"updatedToolOutput,omitzero"`
}

// Elicitation is a question of an MCP server to the user (spec stream-json 5.4).
type Elicitation struct {
	MCPServerName string `json:"mcp_server_name"`
	Message       string `json:"message"`
	// Mode is form, with a RequestedSchema, or url, with a URL and ElicitationID.
	Mode            string          `json:"mode"`
	URL             string          `json:"url,omitzero"`
	ElicitationID   string          `json:"elicitation_id,omitzero"`
	RequestedSchema json.RawMessage `json:"requested_schema,omitzero"`
}

// Actions of an ElicitationResult.
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// ElicitationResult answers Elicitation. Content is an object and goes with
// ActionAccept.
type ElicitationResult struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitzero"`
}

// MCPMessage is a JSON-RPC message to a server of the host, or from one (spec
// stream-json 5.3).
type MCPMessage struct {
	ServerName string          `json:"server_name"`
	Message    json.RawMessage `json:"message"`
}

// MCPResponse answers an MCPMessage of the harness.
type MCPResponse struct {
	Message json.RawMessage `json:"mcp_response"`
}
