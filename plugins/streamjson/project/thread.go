package project

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// thread is what the main thread and a subagent have in common: calls and their
// outcomes.
type thread struct {
	// id is the session's.
	id     string
	origin streamjson.Origin
	// calls are those that were shown and have no result yet, in order.
	calls []call
	// asked are the calls about which somebody was asked.
	asked []string
}

func (t *thread) isMain() bool { return t.origin.ParentToolUseID == nil }

// call is a tool call of the model.
type call struct {
	id, name string
	input    json.RawMessage
}

// take removes the oldest call of an id; the zero call stands for one that was
// not shown.
func (t *thread) take(id string) call {
	i := slices.IndexFunc(t.calls, func(c call) bool { return c.id == id })
	if i < 0 {
		return call{id: id}
	}
	c := t.calls[i]
	t.calls = slices.Delete(t.calls, i, i+1)
	t.asked = slices.DeleteFunc(t.asked, func(x string) bool { return x == id })
	return c
}

// input is what a call asks for, as an object: arguments that are none are
// wrapped, as they are for the model (llm.Project).
func input(arguments string) json.RawMessage {
	trimmed := strings.TrimSpace(arguments)
	if trimmed == "" {
		return json.RawMessage(`{}`)
	}
	if object := normal(json.RawMessage(trimmed)); trimmed[0] == '{' && object != nil {
		return object
	}
	return append(wirejson.AppendString([]byte(`{"invalid_arguments":`), arguments), '}')
}

// normal is a JSON value as it can stand in a line: of a member that is named
// twice the last one counts, and half a surrogate pair becomes U+FFFD (spec
// stream-json 0.2). nil stands for what is no JSON value.
func normal(value json.RawMessage) json.RawMessage {
	if !wirejson.Valid(value) {
		return nil
	}
	if encoded, err := wirejson.Marshal(value); err == nil {
		return encoded
	}
	var v any
	if wirejson.Unmarshal(value, &v) != nil {
		return nil
	}
	encoded, err := wirejson.Marshal(v)
	if err != nil {
		return nil
	}
	return encoded
}

// block is a block of an answer on the wire; ok is false for one that is not
// shown.
func block(b *sdkproto.Block) (out streamjson.Block, ok bool) {
	switch b.Type {
	case sdkproto.BlockText:
		return streamjson.Block{Type: streamjson.BlockText, Text: b.Text}, b.Text != ""
	case sdkproto.BlockReasoning:
		return streamjson.Block{Type: streamjson.BlockThinking, Text: b.Text, Signature: b.Signature}, b.Text != "" || b.Signature != ""
	case sdkproto.BlockRedacted:
		return streamjson.Block{Type: streamjson.BlockRedacted, Data: b.Data}, true
	case sdkproto.BlockToolCall:
		return streamjson.Block{Type: streamjson.BlockToolUse, ID: b.ID, Name: b.Name, Input: input(b.Arguments)}, true
	}
	return out, false
}

// answer shows a committed answer, a line for each block that show takes (S021,
// S022).
func (t *thread) answer(p *Projector, m *sdkproto.AssistantMessage, id string, show func(blockType string) bool) {
	account := usage(m.Usage)
	for i := range m.Message.Content {
		b, ok := block(&m.Message.Content[i])
		if !ok || !show(b.Type) {
			continue
		}
		head := p.head(streamjson.TypeAssistant, "")
		if m.Message.ID != "" {
			head.UUID = streamjson.BlockUUID(m.Message.ID, i)
		}
		p.emit(&streamjson.Assistant{
			Head: head, Origin: t.origin, Aborted: m.Interrupted,
			Message: streamjson.Message{
				ID: id, Type: "message", Role: "assistant", Model: m.Message.Source.Model, Content: []streamjson.Block{b}, Usage: account,
			},
		})
		switch {
		case b.Type == streamjson.BlockToolUse:
			t.calls = append(t.calls, call{b.ID, b.Name, b.Input})
		case b.Type == streamjson.BlockText && t.isMain() && p.options.Legacy:
			p.emit(&streamjson.LegacyText{Head: p.head(streamjson.TypeText, ""), Text: b.Text})
		}
	}
}

// answerID is the id of a committed answer.
func (t *thread) answerID(e *sdkproto.Event, m *sdkproto.AssistantMessage) string {
	return AnswerID(t.id, e, m)
}

// result shows the outcome of a call (S023, S024), and gives the call. The
// results that take the place of others are no new fact.
func (t *thread) result(ctx context.Context, p *Projector, e *sdkproto.Event, r *sdkproto.ToolResult) (c call, shown bool) {
	if e.Replaces() {
		return call{}, false
	}
	for i := range r.Message.Content {
		b := &r.Message.Content[i]
		if b.Type != sdkproto.BlockToolResult {
			continue
		}
		c, shown = t.take(b.ToolCallID), true
		o := outcomeOf(r, b)
		if i > 0 {
			o.uuid = "" // a line of its own
		}
		t.show(ctx, p, c, o)
	}
	return c, shown
}

// errorMCP is the name of the errors that an MCP server gave, or its connection.
const errorMCP = "McpError"

// interrupted reports whether a call did not come to its end because the turn was
// cut off.
func interrupted(e *sdkproto.ToolError) bool {
	switch e.Code {
	case llm.CodeAborted, sdkproto.CodeAbortedBeforeDispatch, sdkproto.CodeToolNotStarted, sdkproto.CodeToolOutcomeUnknown:
		return true
	}
	return false
}

// What stands in the place of what an interrupt kept from coming (spec
// stream-json 3.4).
const (
	textInterruptedCall = "[Request interrupted by user for tool use]"
	textInterrupted     = "[Request interrupted by user]"
)

// interrupt gives every call that was shown its result, and forgets them.
func (t *thread) interrupt(p *Projector) {
	for _, c := range t.calls {
		t.show(context.Background(), p, c, outcome{content: []sdkproto.Block{sdkproto.Text(textInterruptedCall)}, isError: true})
	}
	t.calls, t.asked = nil, nil
}

// silentMode is the mode whose refusals are told by their results alone: the
// example of spec stream-json 11.11 has no other line.
const silentMode = "plan"

// decided tells of a call that a rule or a mode refused without anybody being
// asked.
func (t *thread) decided(p *Projector, r *session.Record) {
	switch r.Event.Type {
	case sdkproto.TypeApprovalAsked:
		if d, err := session.Decode[sdkproto.ApprovalAsked](r); err == nil {
			t.asked = append(t.asked, d.CallID)
		}
	case sdkproto.TypePermissionDecision:
		d, err := session.Decode[sdkproto.PermissionDecision](r)
		if err != nil || d.Behavior != "deny" || slices.Contains(t.asked, d.CallID) {
			return
		}
		why := "rule"
		switch {
		case d.Rule != "":
		case d.Mode != "" && d.Mode != silentMode:
			why = "mode"
		default:
			return
		}
		p.emit(&streamjson.PermissionDenied{
			Head: p.system(streamjson.SystemPermissionDenied), ToolName: d.ToolName, ToolUseID: d.CallID, Message: d.Reason,
			AgentID: t.origin.AgentID, DecisionReasonType: why, DecisionReason: d.Reason,
		})
	}
}
