package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/mcp"
)

// Asking is what an Approver knows beside the questions themselves. The zero
// value works.
type Asking struct {
	// Agents tells subagents, whose questions carry agent_id; nil when there are
	// none.
	Agents agent.Registry
	// Servers tells whose tool an MCP tool is; nil when there are none.
	Servers mcp.Servers
	// Passed returns when the lines of what a session has done so far are on the
	// wire, soon after ctx has ended at the latest: so a client has seen the call
	// that it is asked about. nil does not wait.
	Passed func(ctx context.Context, sessionID string)
}

// Approver asks the client whether calls may run (can_use_tool, spec stream-json
// 5.1) and puts the questions of MCP servers to it (elicitation, 5.4). It serves
// every session of the process while h is open, and waits as long as the client
// takes: a person may be deciding.
func Approver(h *Host, a Asking) approval.Elicitor { return &approver{h, a} }

type approver struct {
	h *Host
	Asking
}

// Serves implements approval.Approver.
func (a *approver) Serves(string) bool { return a.h.Open() }

type canUseTool struct {
	Subtype            string            `json:"subtype"`
	ToolName           string            `json:"tool_name"`
	DisplayName        string            `json:"display_name,omitzero"`
	MCPServer          *mcpServer        `json:"mcp_server,omitzero"`
	Input              json.RawMessage   `json:"input"`
	Description        string            `json:"description,omitzero"`
	Suggestions        []approval.Update `json:"permission_suggestions,omitzero"`
	BlockedPath        string            `json:"blocked_path,omitzero"`
	DecisionReason     string            `json:"decision_reason,omitzero"`
	DecisionReasonType string            `json:"decision_reason_type,omitzero"`
	MatchedAskRule     *askRule          `json:"matched_ask_rule,omitzero"`
	ToolUseID          string            `json:"tool_use_id"`
	AgentID            string            `json:"agent_id,omitzero"`
}

type mcpServer struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

type askRule struct {
	Source      string `json:"source"`
	ToolName    string `json:"tool_name"`
	RuleContent string `json:"rule_content,omitzero"`
}

// Approve implements approval.Approver. An error is the context's, or the
// question was not put to the client.
func (a *approver) Approve(ctx context.Context, r approval.Request) (approval.Answer, error) {
	if a.Passed != nil {
		a.Passed(ctx, r.SessionID)
	}
	raw, err := a.h.Ask(ctx, a.question(r))
	var refused *RefusedError
	switch {
	case err == nil:
		return a.judge(r, raw), nil
	case errors.As(err, &refused):
		a.h.log.Info("the client refused to say whether a call may run", "session", r.SessionID, "tool", r.ToolName, "call", r.CallID, "message", refused.Message)
		return approval.Answer{Outcome: approval.Rejected, Message: failed(refused)}, nil
	case errors.Is(err, ErrClosed):
		return approval.Answer{Outcome: approval.Unavailable, Message: failed(ErrClosed)}, nil
	case ctx.Err() != nil:
		return approval.Answer{Outcome: approval.Cancelled}, err
	}
	return approval.Answer{Outcome: approval.Unavailable, Message: failed(err)}, err
}

func failed(err error) string { return "Tool permission request failed: " + err.Error() }

// question makes the request of an approval.Request. There is no title: it would
// take the place of the words that a client has for its tools.
func (a *approver) question(r approval.Request) *canUseTool {
	q := &canUseTool{
		Subtype: "can_use_tool", ToolName: r.ToolName, DisplayName: r.ToolName, Input: r.Arguments, ToolUseID: r.CallID,
		BlockedPath: r.BlockedPath, DecisionReason: r.Reason, DecisionReasonType: r.ReasonType,
	}
	arguments, ok := object(r.Arguments)
	if !ok {
		q.Input = json.RawMessage("{}")
	}
	q.Description = about(arguments)
	for _, u := range r.Suggestions {
		if u.Destination == "" {
			u.Destination = approval.DestinationSession
		}
		q.Suggestions = append(q.Suggestions, u)
	}
	if r.ReasonType == approval.ReasonRule && r.Rule != "" {
		name, content := splitRule(r.Rule)
		q.MatchedAskRule = &askRule{source(r.Scope), name, content}
	}
	if a.Agents != nil {
		if asks, ok := a.Agents.Get(r.SessionID); ok && asks.Spec().Parent != "" {
			q.AgentID = r.SessionID
		}
	}
	if a.Servers != nil && strings.HasPrefix(r.ToolName, "mcp__") {
		a.server(q)
	}
	return q
}

// server fills in whose tool it is that is asked about.
func (a *approver) server(q *canUseTool) {
	for _, s := range a.Servers.List() {
		for i, name := range s.Tools {
			if name != q.ToolName {
				continue
			}
			q.MCPServer = &mcpServer{s.Name, source(s.Scope)}
			if i < len(s.Offers) && s.Offers[i].Name != "" {
				q.DisplayName = s.Offers[i].Name
			}
			return
		}
	}
}

// about is what a person wants to see of arguments first, "" when they say
// nothing of the kind.
func about(arguments map[string]json.RawMessage) string {
	const most = 500
	for _, member := range []string{"description", "command", "file_path", "notebook_path", "path", "url", "query", "pattern", "skill"} {
		if s, ok := text(arguments[member]); ok && strings.TrimSpace(s) != "" {
			if len(s) > most {
				s = strings.ToValidUTF8(s[:most], "") + "…"
			}
			return s
		}
	}
	return ""
}

// source is the wire's word for where a rule or a server is configured (spec
// stream-json 7.6).
func source(scope string) string {
	switch scope {
	case "user":
		return approval.DestinationUser
	case "project":
		return approval.DestinationProject
	case "local":
		return approval.DestinationLocal
	case "flag":
		return approval.DestinationFlags
	case "client":
		return "sdk"
	}
	return scope
}

// splitRule takes the text of a rule apart (spec stream-json 7.6).
func splitRule(rule string) (name, content string) {
	name, rest, ok := strings.Cut(rule, "(")
	if !ok || !strings.HasSuffix(rest, ")") {
		return rule, ""
	}
	return name, strings.NewReplacer(`\\`, `\`, `\(`, `(`, `\)`, `)`).Replace(strings.TrimSuffix(rest, ")"))
}

// judge understands an answer. Only the exact word allows (case B21), and what
// is wrong with the answer is told to both sides.
func (a *approver) judge(r approval.Request, raw json.RawMessage) approval.Answer {
	log := a.h.log.With("session", r.SessionID, "tool", r.ToolName, "call", r.CallID)
	invalid := func(field, should string) approval.Answer {
		log.Warn("the client's answer about a call is invalid and refuses it", "field", field, "should", should)
		return approval.Answer{Outcome: approval.Rejected, Message: fmt.Sprintf(
			"The client's answer to the permission request for %s is invalid, so the call was not made: %s should be %s.", r.ToolName, field, should)}
	}
	m, ok := object(raw)
	if !ok {
		return invalid("the answer", "an object")
	}
	answer := approval.Answer{}
	switch behavior, _ := text(m["behavior"]); behavior {
	case approval.Allow:
		answer.Outcome = approval.AllowedOnce
		if input := m["updatedInput"]; !absent(input) {
			if _, ok := object(input); !ok {
				return invalid("updatedInput", "an object")
			}
			answer.Arguments = input
		}
	case approval.Deny:
		answer.Outcome = approval.Rejected
		answer.Message, _ = text(m["message"])
		answer.Interrupt = string(m["interrupt"]) == "true"
	default:
		return invalid("behavior", `"allow" or "deny"`)
	}
	answer.Updates = updates(m["updatedPermissions"], log)
	return answer
}

// updates reads updatedPermissions. An element that is wrong is left out; the
// decision stands (spec stream-json 5.1).
func updates(raw json.RawMessage, log *slog.Logger) (good []approval.Update) {
	if absent(raw) {
		return nil
	}
	elements, ok := list(raw)
	if !ok {
		log.Debug("updatedPermissions is no list and is left out")
		return nil
	}
	for i, element := range elements {
		u, err := update(element)
		if err != nil {
			log.Debug("an element of updatedPermissions is left out", "element", i, "error", err)
			continue
		}
		good = append(good, u)
	}
	return good
}

// update reads a PermissionUpdate (spec stream-json 7.6).
func update(raw json.RawMessage) (u approval.Update, err error) {
	m, ok := object(raw)
	if !ok {
		return u, errors.New("it is no object")
	}
	word := func(member string, words ...string) (s string) {
		s, _ = text(m[member])
		for _, w := range words {
			if s == w {
				return s
			}
		}
		if err == nil {
			err = fmt.Errorf("%s should be one of %s", member, strings.Join(words, ", "))
		}
		return s
	}
	u.Type = word("type", approval.AddRules, approval.ReplaceRules, approval.RemoveRules, approval.SetMode, approval.AddDirectories, approval.RemoveDirectories)
	if !absent(m["destination"]) {
		u.Destination = word("destination", approval.DestinationSession, approval.DestinationLocal, approval.DestinationProject, approval.DestinationUser, approval.DestinationFlags)
	}
	if err != nil {
		return u, err
	}
	switch u.Type {
	case approval.SetMode:
		if u.Mode, _ = text(m["mode"]); u.Mode == "" {
			return u, errors.New("mode should be a mode")
		}
	case approval.AddDirectories, approval.RemoveDirectories:
		elements, _ := list(m["directories"])
		for _, e := range elements {
			dir, _ := text(e)
			if dir == "" {
				return u, errors.New("directories should be a list of paths")
			}
			u.Directories = append(u.Directories, dir)
		}
		if len(u.Directories) == 0 {
			return u, errors.New("directories should name a path")
		}
	default:
		u.Behavior = word("behavior", approval.Allow, approval.Deny, approval.Ask)
		elements, ok := list(m["rules"])
		if !ok {
			return u, errors.New("rules should be a list")
		}
		for _, e := range elements {
			rule, _ := object(e)
			var one approval.Rule
			if one.ToolName, _ = text(rule["toolName"]); one.ToolName == "" {
				return u, errors.New("a rule should have a toolName")
			}
			if content := rule["ruleContent"]; !absent(content) {
				if one.RuleContent, ok = text(content); !ok {
					return u, errors.New("ruleContent should be text")
				}
			}
			u.Rules = append(u.Rules, one)
		}
	}
	return u, err
}
