// Package host is the side of the stream-json wire on which the harness asks and
// the client answers: can_use_tool, hook_callback, mcp_message and elicitation
// (spec stream-json 5). Every question gets exactly one answer of some kind, and
// nothing waits for a client that cannot answer any more (5.6).
package host

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
)

// ErrClosed: the client has closed its end, so nobody answers (case B09).
var ErrClosed = errors.New("Stream closed")

// RefusedError is an error answer of the client.
type RefusedError struct {
	// Subtype is that of the request; Message is the client's text.
	Subtype, Message string
}

func (e *RefusedError) Error() string { return e.Message }

// Write puts one line onto the wire, without its newline.
type Write func(ctx context.Context, line []byte) error

// Host keeps the requests to the client. Its methods may be called from any
// goroutine.
type Host struct {
	write Write
	log   *slog.Logger
}

// New makes a host whose requests are written with write.
func New(write Write, log *slog.Logger) *Host { return &Host{write: write, log: log} }

// Ask writes a control request whose request object is request, and gives the
// answer's inner response. A ctx that ends withdraws the request with a
// control_cancel_request, once. Errors: ErrClosed, *RefusedError, ctx's.
func (h *Host) Ask(ctx context.Context, request any) (json.RawMessage, error) {
	return nil, ErrClosed
}

// Answer takes the response object of a control_response of the client. One that
// nobody waits for is ignored.
func (h *Host) Answer(response json.RawMessage) {}

// Close says that the client sends no more: what is pending fails with ErrClosed,
// and what comes later is not written.
func (h *Host) Close() {}

// Open reports whether the client can still answer.
func (h *Host) Open() bool { return false }

// Pending gives the whole control_request lines of one subtype that wait for an
// answer, oldest first (spec stream-json 4.1).
func (h *Host) Pending(subtype string) []json.RawMessage { return nil }
