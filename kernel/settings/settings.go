// Package settings holds the contract of user settings: JSON files of a user
// and of a workspace, merged (spec stream-json 7.4). They are not profiles: a
// profile says what the process is made of, settings what a user wants of it.
package settings

import (
	"encoding/json"

	"dsh/kernel"
)

// Scopes of settings files, from low to high.
const (
	ScopeUser    = "user"
	ScopeProject = "project"
	ScopeLocal   = "local"
	ScopeFlag    = "flag"
)

// Permissions are the rules of one layer or of all of them.
type Permissions struct {
	Allow []string `json:"allow,omitzero"`
	Ask   []string `json:"ask,omitzero"`
	Deny  []string `json:"deny,omitzero"`
	// DefaultMode is a mode of spec stream-json 7.1, "" when no layer says.
	DefaultMode string `json:"defaultMode,omitzero"`
	// AdditionalDirectories are folders beside the working directory.
	AdditionalDirectories []string `json:"additionalDirectories,omitzero"`
	// DisableBypassPermissionsMode, when "disable", forbids that mode.
	DisableBypassPermissionsMode string `json:"disableBypassPermissionsMode,omitzero"`
}

// MCPServer is one entry of mcpServers.
type MCPServer struct {
	// Type is stdio (also when empty and Command is set), http or sse.
	Type    string   `json:"type,omitzero"`
	Command string   `json:"command,omitzero"`
	Args    []string `json:"args,omitzero"`
	// Env is on top of the environment that children get. Values, like those of
	// URL and Headers, may hold ${env:NAME} and ${NAME}.
	Env     map[string]string `json:"env,omitzero"`
	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitzero"`
	// TimeoutMs bounds one call, in milliseconds; 0 is the default.
	TimeoutMs int64 `json:"timeout,omitzero"`
	// Disabled keeps the server in the list without starting it.
	Disabled bool `json:"disabled,omitzero"`
}

// Layer is one settings file.
type Layer struct {
	// Scope is one of the Scope constants.
	Scope string
	// File is the absolute path, "" for flags. Root is the folder that rules of
	// the form /path are relative to.
	File, Root string
	// Exists says that the file is there; Err why it is left out as a whole.
	Exists bool
	Err    error
	// Trusted: what widens rights (allow and ask rules, modes, directories, MCP
	// servers, hooks) counts only in a trusted layer; deny rules always count.
	Trusted     bool
	Permissions Permissions
	MCPServers  map[string]MCPServer
	// Raw is the whole file as JSON, nil when there is none.
	Raw json.RawMessage
	// Unread: the files of this scope are not wanted (--setting-sources), nor is what
	// stands beside them.
	Unread bool
	// ServersOnly marks a file of MCP servers alone, such as .mcp.json: it holds no
	// rules, so that an Err of it takes nothing but servers away.
	ServersOnly bool
}

// Flags is the layer above all files, which a client may change (spec stream-json
// 4.8).
type Flags interface {
	// SetFlags replaces the layer by an object like that of a settings file; nil
	// empties it. Watchers of the Source hear of it. An error changes nothing.
	SetFlags(raw json.RawMessage) error
}

// Source gives the settings that hold in a folder. Its methods may be called
// from any goroutine.
type Source interface {
	// For gives the layers of a working directory, low to high; it always gives
	// all of them, in the same order. Files are read anew when they have changed.
	For(cwd string) []Layer
	// Watch calls fn after a settings file that somebody asked For has been seen
	// to change, until o is closed.
	Watch(o *kernel.Owner, fn func()) error
}
