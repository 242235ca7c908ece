package host

import (
	"context"
	"encoding/json"
	"errors"

	"dsh/kernel/approval"
)

type elicitation struct {
	Subtype       string          `json:"subtype"`
	MCPServerName string          `json:"mcp_server_name"`
	Message       string          `json:"message"`
	Mode          string          `json:"mode"`
	URL           string          `json:"url,omitzero"`
	ElicitationID string          `json:"elicitation_id,omitzero"`
	Schema        json.RawMessage `json:"requested_schema,omitzero"`
}

// Elicit implements approval.Elicitor. Whatever is no proper answer cancels (S069,
// spec stream-json 5.6).
func (a *approver) Elicit(ctx context.Context, e approval.Elicitation) (approval.ElicitationAnswer, error) {
	cancel := approval.ElicitationAnswer{Action: approval.ActionCancel}
	q := elicitation{
		Subtype: "elicitation", MCPServerName: e.Server, Message: e.Message, Mode: "form", URL: e.URL, ElicitationID: e.ID, Schema: e.Schema,
	}
	if e.URL != "" {
		q.Mode = "url"
	}
	raw, err := a.h.Ask(ctx, q)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			a.h.log.Debug("the client does not answer the question of an mcp server", "server", e.Server, "error", err)
		}
		return cancel, nil
	}
	m, _ := object(raw)
	switch action, _ := text(m["action"]); action {
	case approval.ActionDecline:
		return approval.ElicitationAnswer{Action: action}, nil
	case approval.ActionAccept:
		content := m["content"]
		if absent(content) {
			return approval.ElicitationAnswer{Action: action}, nil
		}
		if _, ok := object(content); ok {
			return approval.ElicitationAnswer{Action: action, Content: content}, nil
		}
		a.h.log.Warn("the client's answer to the question of an mcp server is invalid and cancels it", "server", e.Server, "field", "content", "should", "an object")
	case approval.ActionCancel:
	default:
		a.h.log.Warn("the client's answer to the question of an mcp server is invalid and cancels it", "server", e.Server, "field", "action", "should", "accept, decline or cancel")
	}
	return cancel, nil
}
