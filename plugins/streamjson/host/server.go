package host

import (
	"context"
	"encoding/json"
	"errors"

	"dsh/kernel/mcp"
)

type mcpMessage struct {
	Subtype    string          `json:"subtype"`
	ServerName string          `json:"server_name"`
	Message    json.RawMessage `json:"message"`
}

// Server carries messages to an MCP server that the client hosts under a name:
// mcp_message (spec stream-json 5.3). Errors of its Call: those of Ask, with
// mcp.ErrHostClosed in place of ErrClosed, and a request's answer without an
// mcp_response.
func Server(h *Host, name string) mcp.Host { return &server{h, name} }

type server struct {
	h    *Host
	name string
}

// Call implements mcp.Host.
func (s *server) Call(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	answer, err := s.h.Ask(ctx, mcpMessage{"mcp_message", s.name, message})
	if errors.Is(err, ErrClosed) {
		return nil, mcp.ErrHostClosed
	}
	if err != nil {
		return nil, err
	}
	if m, _ := object(message); absent(m["id"]) || absent(m["method"]) {
		return nil, nil // clients give a dummy for what wants no answer
	}
	m, _ := object(answer)
	if _, ok := object(m["mcp_response"]); !ok {
		return nil, errors.New("the client's answer has no mcp_response")
	}
	return m["mcp_response"], nil
}
