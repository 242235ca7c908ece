package permissions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"dsh/kernel/approval"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// promptTool answers the question about one call by calling a tool (spec
// stream-json 7.3, S010). That call passes no gate: it would have to be asked
// about itself.
type promptTool struct {
	g    *Gate
	name string
	call *call
}

// Serves implements approval.Approver.
func (p *promptTool) Serves(string) bool { return true }

// Approve implements approval.Approver.
func (p *promptTool) Approve(ctx context.Context, q approval.Request) (approval.Answer, error) {
	t, ok := p.g.params.Tools.View(nil).Lookup(p.name)
	if !ok {
		return approval.Answer{}, fmt.Errorf("the permission prompt tool %s is not there; check its server, or the value of promptTool", p.name)
	}
	arguments, err := wirejson.Marshal(struct {
		ToolName  string          `json:"tool_name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
	}{q.ToolName, q.Arguments, q.CallID})
	if err != nil {
		return approval.Answer{}, fmt.Errorf("encode the question for %s: %w", p.name, err)
	}
	if err := tool.CheckArguments(t, arguments); err != nil {
		return approval.Answer{}, fmt.Errorf("the permission prompt tool %s does not take the question: %w", p.name, err)
	}
	in := p.call.in
	in.Arguments, in.Requested, in.Advice, in.Progress = arguments, arguments, tool.Advice{}, nil
	in.Emit = func(...session.Draft) error { return nil } // its facts are none of the call's
	res, err := t.Call(ctx, in)
	if err != nil {
		return approval.Answer{}, fmt.Errorf("the permission prompt tool %s failed: %w", p.name, err)
	}
	text := sdkproto.TextOf(res.Content)
	if res.IsError {
		return approval.Answer{}, fmt.Errorf("the permission prompt tool %s failed: %s", p.name, shorten(text))
	}
	answer, err := readAnswer(text)
	if err != nil {
		return approval.Answer{}, fmt.Errorf("the answer of the permission prompt tool %s is not valid: %w", p.name, err)
	}
	return answer, nil
}

// readAnswer reads the text of an answer (spec stream-json 5.1). Whatever is no
// plain consent is an error or a refusal (case B21).
func readAnswer(text string) (approval.Answer, error) {
	var a struct {
		Behavior     string            `json:"behavior"`
		UpdatedInput json.RawMessage   `json:"updatedInput"`
		Updates      []json.RawMessage `json:"updatedPermissions"`
		Message      string            `json:"message"`
		Interrupt    bool              `json:"interrupt"`
	}
	// A member that comes twice may say two things (case B23).
	var members map[string]json.RawMessage
	if err := wirejson.UnmarshalStrict([]byte(text), &members); err != nil {
		return approval.Answer{}, err
	}
	if err := wirejson.Unmarshal([]byte(text), &a); err != nil {
		return approval.Answer{}, err
	}
	answer := approval.Answer{Message: a.Message, Interrupt: a.Interrupt}
	for _, raw := range a.Updates {
		var u approval.Update
		if err := wirejson.Unmarshal(raw, &u); err != nil {
			u = approval.Update{} // it makes no sense, and is told of as such
		}
		answer.Updates = append(answer.Updates, u)
	}
	switch a.Behavior {
	case approval.Allow:
		answer.Outcome = approval.AllowedOnce
		if input := bytes.TrimSpace(a.UpdatedInput); len(input) > 0 && string(input) != "null" {
			if input[0] != '{' {
				return approval.Answer{}, fmt.Errorf("updatedInput is no object")
			}
			answer.Arguments = input
		}
		return answer, nil
	case approval.Deny:
		answer.Outcome = approval.Rejected
		return answer, nil
	}
	return approval.Answer{}, fmt.Errorf("behavior is %q; it must be allow or deny", a.Behavior)
}
