package streamjson

import "encoding/json"

// Subtypes of system lines that tell of the session itself and of its hooks.
const (
	SystemInit         = "init"
	SystemHookStarted  = "hook_started"
	SystemHookResponse = "hook_response"
)

// Init describes the session, once for each session id (spec stream-json 3.2).
type Init struct {
	Head
	CWD            string `json:"cwd"`
	Model          string `json:"model"`
	PermissionMode string `json:"permissionMode"`
	// Tools are the names that the model sees.
	Tools      []string    `json:"tools"`
	MCPServers []InitMCP   `json:"mcp_servers"`
	Commands   []string    `json:"slash_commands"`
	Agents     []string    `json:"agents"`
	Skills     []string    `json:"skills"`
	Plugins    []InitEntry `json:"plugins"`
	// PluginErrors are the plugins that cannot be used.
	PluginErrors []PluginError `json:"plugin_errors,omitzero"`
	// OutputStyle is default unless the settings name another.
	OutputStyle string `json:"output_style"`
	// APIKeySource is where the credential comes from, none without one.
	APIKeySource string `json:"apiKeySource"`
	Version      string `json:"claude_code_version"`
	// Capabilities are optional parts of the wire that this side has.
	Capabilities []string `json:"capabilities"`
}

// Capabilities of Init: interrupt answers with the messages that wait, and can
// cancel them.
const (
	CapabilityInterruptReceipt      = "interrupt_receipt_v1"
	CapabilityInterruptCancelQueued = "interrupt_cancel_queued_v1"
)

// InitMCP is one MCP server; Status is connected, failed, needs-auth, pending or
// disabled.
type InitMCP struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// InitEntry is a plugin of the session: its folder, where that is named, and the
// version that it gives itself.
type InitEntry struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Source  string `json:"source,omitzero"`
	Version string `json:"version,omitzero"`
}

// PluginError says why a plugin cannot be used. Type is PluginErrorLoad.
type PluginError struct {
	Plugin  string `json:"plugin"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

// PluginErrorLoad is the Type of a plugin that cannot be read.
const PluginErrorLoad = "load-error"

// HookStarted tells that a hook runs, HookResponse that it has run (spec
// stream-json 6.7).
type (
	HookStarted struct {
		Head
		HookID string `json:"hook_id"`
		Name   string `json:"hook_name"`
		Event  string `json:"hook_event"`
	}
	HookResponse struct {
		HookStarted
		Output string `json:"output"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
		// ExitCode is that of a program, absent for a callback.
		ExitCode *int `json:"exit_code,omitzero"`
		// Outcome is success, error or cancelled.
		Outcome string `json:"outcome"`
	}
)

// Replay is a user message of the client that is taken for processing (spec
// stream-json 3.5). Its UUID is the message's own.
type Replay struct {
	Head
	ParentToolUseID json.RawMessage `json:"parent_tool_use_id"`
	Message         json.RawMessage `json:"message"`
	// IsReplay is true.
	IsReplay bool `json:"isReplay"`
}
