package host

import (
	"context"
	"encoding/json"
	"errors"

	"dsh/kernel/hook"
)

type hookCallback struct {
	Subtype    string          `json:"subtype"`
	CallbackID string          `json:"callback_id"`
	Input      json.RawMessage `json:"input"`
	ToolUseID  string          `json:"tool_use_id,omitzero"`
}

// Callback gives the Call of a hook that a client has registered under an id: a
// hook_callback (spec stream-json 5.2). Errors: those of Ask, and an answer that
// is no object.
func Callback(h *Host, id string) func(ctx context.Context, in hook.Call) (json.RawMessage, error) {
	return func(ctx context.Context, in hook.Call) (json.RawMessage, error) {
		input := in.Input
		if absent(input) {
			input = json.RawMessage("{}")
		}
		out, err := h.Ask(ctx, hookCallback{"hook_callback", id, input, in.ToolUseID})
		if err != nil {
			return nil, err
		}
		if _, ok := object(out); !ok {
			return nil, errors.New("the client's answer to a hook is no object")
		}
		return out, nil
	}
}
