package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"dsh/kernel/approval"
	"dsh/kernel/hook"
)

// arbiter lets hooks settle questions (spec stream-json 6.5 rule 3).
type arbiter struct{ *Engine }

var (
	_ approval.Elicitor = arbiter{}
	_ approval.Reviewer = arbiter{}
)

// folder is the working directory of a session, or of the process for a question
// that no session's call led to.
func (e *Engine) folder(sessionID string) string {
	if e.with.Agents != nil {
		if a, ok := e.with.Agents.Get(sessionID); ok {
			return a.Spec().CWD
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return e.with.Self.Home
	}
	return dir
}

// Serves implements approval.Approver.
func (a arbiter) Serves(sessionID string) bool {
	cwd := a.folder(sessionID)
	for _, event := range []string{hook.PermissionRequest, hook.Notification, hook.Elicitation, hook.ElicitationResult} {
		if a.Any(cwd, event) {
			return true
		}
	}
	return false
}

// Approve implements approval.Approver. Without an opinion the answer has no
// outcome.
func (a arbiter) Approve(ctx context.Context, r approval.Request) (approval.Answer, error) {
	cwd := a.folder(r.SessionID)
	if a.Any(cwd, hook.Notification) {
		in := hook.Input{Event: hook.Notification, SessionID: r.SessionID, CWD: cwd, Match: "permission_prompt", Members: map[string]any{
			"message": fmt.Sprintf("Permission is needed to use %s", r.ToolName), "title": "Permission needed", "notification_type": "permission_prompt",
		}}
		a.owner.Go("notification", func(ctx context.Context) { a.Run(ctx, in) })
	}
	if !a.Any(cwd, hook.PermissionRequest) {
		return approval.Answer{}, nil
	}
	in := hook.Input{Event: hook.PermissionRequest, SessionID: r.SessionID, CWD: cwd, Match: r.ToolName, ToolUseID: r.CallID, Members: map[string]any{
		"tool_name": r.ToolName, "tool_input": r.Arguments,
	}}
	if len(r.Suggestions) > 0 {
		in.Members["permission_suggestions"] = r.Suggestions
	}
	out := a.Run(ctx, in)
	switch {
	case ctx.Err() != nil:
		return approval.Answer{}, context.Cause(ctx)
	case out.Permission != nil:
		return *out.Permission, nil
	case out.Stopped:
		return approval.Answer{Outcome: approval.Rejected, Message: out.StopReason, Interrupt: true}, nil
	}
	return approval.Answer{}, nil
}

// Elicit implements approval.Elicitor. Without an opinion the answer has no
// action.
func (a arbiter) Elicit(ctx context.Context, e approval.Elicitation) (approval.ElicitationAnswer, error) {
	in := hook.Input{Event: hook.Elicitation, SessionID: e.SessionID, CWD: a.folder(e.SessionID), Match: e.Server, Members: map[string]any{
		"mcp_server_name": e.Server, "message": e.Message,
	}}
	switch {
	case e.URL != "":
		in.Members["mode"], in.Members["url"] = "url", e.URL
	default:
		in.Members["mode"] = "form"
	}
	if e.Schema != nil {
		in.Members["requested_schema"] = e.Schema
	}
	if out := a.Run(ctx, in); out.Elicited != nil {
		return *out.Elicited, nil
	}
	return approval.ElicitationAnswer{}, nil
}

// Review implements approval.Reviewer.
func (a arbiter) Review(ctx context.Context, e approval.Elicitation, answer approval.ElicitationAnswer) approval.ElicitationAnswer {
	members := map[string]any{"mcp_server_name": e.Server, "action": answer.Action}
	if answer.Content != nil {
		members["content"] = json.RawMessage(answer.Content)
	}
	out := a.Run(ctx, hook.Input{Event: hook.ElicitationResult, SessionID: e.SessionID, CWD: a.folder(e.SessionID), Match: e.Server, Members: members})
	if out.Elicited != nil {
		return *out.Elicited
	}
	return answer
}
