// Package mcp holds the contract between whoever runs MCP servers and whoever
// shows or steers them.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"dsh/kernel"
)

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
	// Transport is stdio, http, sse or sdk; Scope says where it is configured:
	// profile, user, project, local, plugin or client.
	Transport string `json:"transport"`
	Scope     string `json:"scope"`
	// Tools are the names that the model sees, in order.
	Tools []string `json:"tools,omitzero"`
	// Offers are the same tools as the server describes them.
	Offers []Offer `json:"-"`
	// Version is what the server calls itself, name and version in one text;
	// Program and Release are the two apart.
	Version string `json:"version,omitzero"`
	Program string `json:"-"`
	Release string `json:"-"`
}

// Offer is a tool as its server describes it.
type Offer struct {
	// Name is without any prefix.
	Name, Description string
	// ReadOnly, Destructive and OpenWorld are the server's hints.
	ReadOnly, Destructive, OpenWorld bool
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
	// Attach adds a server that a client hosts, until o is closed, and begins to
	// connect; it does not wait. One that is configured under the same name gives
	// way (spec stream-json 8.1). A name that is attached already is an error.
	Attach(o *kernel.Owner, name string, h Host) (Deliver, error)
	// Settled returns when every server has been connected or has failed once, each
	// within its own limit, or ctx has ended.
	Settled(ctx context.Context) error
}

// ErrHostClosed is the error of a Host whose client has gone for good: no further
// Call can succeed (spec stream-json 5.6).
//
//lint:ignore ST1005 these are the words of the wire (spec stream-json 5.6)
var ErrHostClosed = errors.New("Stream closed")

// Host carries JSON-RPC messages to a server that lives in the client of a front
// end (spec stream-json 8).
type Host interface {
	// Call takes one message to the server and gives what it answers; the answer to
	// a notification means nothing. It returns soon after ctx has ended, and the
	// client is told then.
	Call(ctx context.Context, message json.RawMessage) (reply json.RawMessage, err error)
}

// Limited is a Host whose client says how long a call may go on without a sign of
// life (spec stream-json 8.7); 0 is the usual.
type Limited interface {
	Host
	Limit() time.Duration
}

// Deliver takes a message that a hosted server sends by itself: a notification,
// or a request, whose answer goes back through Host.Call. It does not wait for
// either.
type Deliver func(message json.RawMessage) error
