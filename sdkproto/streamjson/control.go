package streamjson

import (
	"encoding/json"

	"dsh/sdkproto/wirejson"
)

// Subtypes of control requests of a host (spec stream-json 4).
const (
	SubtypeInitialize           = "initialize"
	SubtypeInterrupt            = "interrupt"
	SubtypeCancelAsyncMessage   = "cancel_async_message"
	SubtypeSetPermissionMode    = "set_permission_mode"
	SubtypeSetModel             = "set_model"
	SubtypeSetMaxThinkingTokens = "set_max_thinking_tokens"
	SubtypeApplyFlagSettings    = "apply_flag_settings"
	SubtypeGetSettings          = "get_settings"
	SubtypeGetContextUsage      = "get_context_usage"
	SubtypeSeedReadState        = "seed_read_state"
	SubtypeMCPMessage           = "mcp_message"
	SubtypeMCPStatus            = "mcp_status"
	SubtypeMCPToggle            = "mcp_toggle"
	SubtypeMCPReconnect         = "mcp_reconnect"
	SubtypeMCPSetServers        = "mcp_set_servers"
	SubtypeRenameSession        = "rename_session"
	SubtypeGetSessionCost       = "get_session_cost"
	SubtypeListModels           = "list_models"
	SubtypeGetBinaryVersion     = "get_binary_version"
	SubtypeReloadPlugins        = "reload_plugins"
	SubtypeReloadSkills         = "reload_skills"
	SubtypeReloadOutputStyles   = "reload_output_styles"
	SubtypeRewindFiles          = "rewind_files"
	SubtypeStopTask             = "stop_task"
	SubtypeBackgroundTasks      = "background_tasks"
	SubtypeGetTaskOutput        = "get_task_output"
	SubtypeReadFile             = "read_file"
	SubtypeFileSuggestions      = "file_suggestions"
	SubtypeSetColor             = "set_color"
	SubtypeSetHasSubscribers    = "set_has_subscribers"
	SubtypeGenerateSessionTitle = "generate_session_title"
	SubtypeSideQuestion         = "side_question"
)

// Codes beside the text of an error answer (spec stream-json 2.2, 4.0).
const (
	CodeUnsupportedRequest = "unsupported_request"
	CodeTurnRunning        = "turn_running"
	CodeReloadBusy         = "reload_plugins_busy"
)

// AnswerSuccess makes the control_response line of a request that was done, and
// AnswerError that of one that was not; code may be "".
func AnswerSuccess(requestID string, response any) ([]byte, error) {
	encoded, err := wirejson.Marshal(response)
	if err != nil {
		return nil, err
	}
	return appendAnswer("success", requestID, "response", encoded, nil), nil
}

// AnswerError is described at AnswerSuccess. pending, when not nil, is the list
// of whole control_request lines that wait for the host (spec stream-json 4.1).
func AnswerError(requestID, text, code string, pending []json.RawMessage) []byte {
	var more []byte
	if code != "" {
		more = wirejson.AppendString(append(more, `,"error_code":`...), code)
	}
	if pending != nil {
		more = append(more, `,"pending_permission_requests":[`...)
		for i, line := range pending {
			if i > 0 {
				more = append(more, ',')
			}
			more = append(more, line...)
		}
		more = append(more, ']')
	}
	return appendAnswer("error", requestID, "error", wirejson.AppendString(nil, text), more)
}

func appendAnswer(subtype, requestID, member string, value, more []byte) []byte {
	line := append(make([]byte, 0, 96+len(value)+len(more)), `{"type":"control_response","response":{"subtype":"`...)
	line = append(line, subtype...)
	line = wirejson.AppendString(append(line, `","request_id":`...), requestID)
	line = append(append(append(line, `,"`...), member...), `":`...)
	line = append(append(line, value...), more...)
	return append(line, `}}`...)
}

// Initialize is the request of the handshake (spec stream-json 4.1). A member
// that is not there, or null, says nothing.
type Initialize struct {
	// Hooks are lists of matchers by event.
	Hooks         map[string][]HookMatcher `json:"hooks,omitzero"`
	SDKMCPServers []string                 `json:"sdkMcpServers,omitzero"`
	// SDKMCPServerConfigs are an SDKServerConfig for each name, if it is any good.
	SDKMCPServerConfigs json.RawMessage `json:"sdkMcpServerConfigs,omitzero"`
	// Agents are the definitions by name, each an AgentDefinition if it is any good.
	Agents map[string]json.RawMessage `json:"agents,omitzero"`
	Agent  string                     `json:"agent,omitzero"`
	// SystemPrompt is a string or a list of strings.
	SystemPrompt           json.RawMessage `json:"systemPrompt,omitzero"`
	AppendSystemPrompt     string          `json:"appendSystemPrompt,omitzero"`
	JSONSchema             json.RawMessage `json:"jsonSchema,omitzero"`
	PromptSuggestions      bool            `json:"promptSuggestions,omitzero"`
	AgentProgressSummaries bool            `json:"agentProgressSummaries,omitzero"`
	ForwardSubagentText    bool            `json:"forwardSubagentText,omitzero"`
	// PerTaskStopAffordance: the client's users can stop a task by itself, so that an
	// interrupt leaves those in the background alone.
	PerTaskStopAffordance bool     `json:"perTaskStopAffordance,omitzero"`
	DisallowedTools       []string `json:"disallowedTools,omitzero"`
	// These are here to be confirmed or not.
	MCPServers      json.RawMessage `json:"mcpServers,omitzero"`
	Settings        json.RawMessage `json:"settings,omitzero"`
	ManagedSettings json.RawMessage `json:"managedSettings,omitzero"`
	Plugins         json.RawMessage `json:"plugins,omitzero"`
}

// SDKServerConfig says more of a server that the client hosts. Timeout is how long a
// call may go on without a sign of life, in milliseconds; below 1000 it says nothing
// (spec stream-json 8.7).
type SDKServerConfig struct {
	Timeout float64 `json:"timeout,omitzero"`
}

// HookMatcher registers callbacks. Timeout is in seconds, 0 for the usual;
// OnFailure is continue or block.
type HookMatcher struct {
	Matcher         string   `json:"matcher,omitzero"`
	HookCallbackIDs []string `json:"hookCallbackIds,omitzero"`
	Timeout         float64  `json:"timeout,omitzero"`
	OnFailure       string   `json:"onFailure,omitzero"`
}

// AgentDefinition is a kind of agent as a client defines it (spec stream-json
// 11.7).
type AgentDefinition struct {
	Description     string   `json:"description,omitzero"`
	Prompt          string   `json:"prompt,omitzero"`
	Tools           []string `json:"tools,omitzero"`
	DisallowedTools []string `json:"disallowedTools,omitzero"`
	Model           string   `json:"model,omitzero"`
	// Effort is a word or a number.
	Effort         json.RawMessage `json:"effort,omitzero"`
	MaxTurns       int             `json:"maxTurns,omitzero"`
	PermissionMode string          `json:"permissionMode,omitzero"`
	Background     bool            `json:"background,omitzero"`
	InitialPrompt  string          `json:"initialPrompt,omitzero"`
	Skills         []string        `json:"skills,omitzero"`
}

// Initialized is the answer to Initialize.
type Initialized struct {
	Commands              []CommandInfo `json:"commands"`
	Agents                []AgentInfo   `json:"agents"`
	OutputStyle           string        `json:"output_style"`
	AvailableOutputStyles []string      `json:"available_output_styles"`
	Models                []ModelInfo   `json:"models"`
	Account               Account       `json:"account"`
	Version               string        `json:"claude_code_version"`
	PID                   int           `json:"pid"`
	// The rest is there only when the request asked for it.
	HooksApplied           *bool `json:"hooks_applied,omitzero"`
	HookOnFailureSupported *bool `json:"hook_on_failure_supported,omitzero"`
	MCPServersApplied      *bool `json:"mcp_servers_applied,omitzero"`
	SettingsApplied        *bool `json:"settings_applied,omitzero"`
	ManagedSettingsApplied *bool `json:"managed_settings_applied,omitzero"`
	DisallowedToolsApplied *bool `json:"disallowed_tools_applied,omitzero"`
	PluginsApplied         *bool `json:"plugins_applied,omitzero"`
}

// CommandInfo is a slash command, named without its slash.
type CommandInfo struct {
	Name         string `json:"name"`
	Description  string `json:"description"`
	ArgumentHint string `json:"argumentHint"`
	// Builtin commands are answered by the harness itself.
	Builtin bool `json:"builtin,omitzero"`
}

// AgentInfo is a kind of agent.
type AgentInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Model       string `json:"model,omitzero"`
}

// ModelInfo is what a client may give to set_model.
type ModelInfo struct {
	Value                 string   `json:"value"`
	DisplayName           string   `json:"displayName"`
	Description           string   `json:"description"`
	ResolvedModel         string   `json:"resolvedModel,omitzero"`
	SupportsEffort        bool     `json:"supportsEffort,omitzero"`
	SupportedEffortLevels []string `json:"supportedEffortLevels,omitzero"`
}

// Account says where the credential of the model comes from; none without one.
type Account struct {
	TokenSource  string `json:"tokenSource"`
	APIKeySource string `json:"apiKeySource"`
}

// Interrupted is the answer to interrupt: uuids of messages. Cancelled is there
// only when the request asked for it.
type Interrupted struct {
	StillQueued []string `json:"still_queued"`
	Cancelled   []string `json:"cancelled,omitzero"`
}

// MCPStatus is the answer to mcp_status (spec stream-json 4.10).
type MCPStatus struct {
	Servers []MCPServer `json:"mcpServers"`
}

// MCPServer is one server of MCPStatus.
type MCPServer struct {
	Name string `json:"name"`
	// Status is connected, pending, failed, disabled or needs-auth.
	Status     string         `json:"status"`
	ServerInfo *MCPServerInfo `json:"serverInfo,omitzero"`
	Error      string         `json:"error,omitzero"`
	Config     *MCPConfig     `json:"config,omitzero"`
	Scope      string         `json:"scope,omitzero"`
	Tools      []MCPTool      `json:"tools,omitzero"`
}

// MCPServerInfo is what a server calls itself.
type MCPServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// MCPConfig says how a server is reached.
type MCPConfig struct {
	Type string `json:"type"`
	Name string `json:"name,omitzero"`
}

// MCPTool is a tool of a server, its name without any prefix.
type MCPTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Annotations MCPAnnotations `json:"annotations,omitzero"`
}

// MCPAnnotations are a server's hints about a tool.
type MCPAnnotations struct {
	ReadOnly    bool `json:"readOnly,omitzero"`
	Destructive bool `json:"destructive,omitzero"`
	OpenWorld   bool `json:"openWorld,omitzero"`
}
