// Package mcp holds the contract between whoever runs MCP servers and whoever
// shows or steers them.
package mcp

import "context"

// States of a server (S050).
const (
	Connected = "connected"
	Pending   = "pending"
	Failed    = "failed"
	Disabled  = "disabled"
	NeedsAuth = "needs-auth"
)

// Server is how one server stands.
type Server struct {
	// Name is as configured.
	Name string `json:"name"`
	// State is one of the constants; Error is the reason of Failed and NeedsAuth.
	State string `json:"state"`
	Error string `json:"error,omitzero"`
	// Transport is stdio, http or sse; Scope says where it is configured: profile,
	// user, project or local.
	Transport string `json:"transport"`
	Scope     string `json:"scope"`
	// Tools are the names that the model sees, in order.
	Tools []string `json:"tools,omitzero"`
	// Version is what the server calls itself.
	Version string `json:"version,omitzero"`
}

// Servers shows and steers the servers of a process. All methods may be called
// from any goroutine.
type Servers interface {
	// List gives all configured servers, in the order of configuration.
	List() []Server
	// Reconnect ends a server's connection and makes a new one; it returns when
	// that is up or has failed. An unknown name is an error.
	Reconnect(ctx context.Context, name string) error
	// Enable starts or stops a server. An unknown name is an error.
	Enable(ctx context.Context, name string, enabled bool) error
}
