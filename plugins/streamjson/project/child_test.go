package project_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

const childID, grandchildID = "a1b2c3d4-0000-4000-8000-000000000001", "a1b2c3d4-0000-4000-8000-000000000002"

// subagent is the run of one, from its first event to its end.
func subagent(s *script) {
	s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Version: 2, Label: "Explore repo"})
	s.add(childID, sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: 1})
	s.add(childID, sdkproto.TypeAssistantChunk, &sdkproto.AssistantChunk{Chunk: text(0, "I read.")})
	s.say(childID, "small", &sdkproto.Usage{InputTokens: 100, OutputTokens: 10, CacheReadTokens: 5}, thought("well", ""), sdkproto.Text("I read."), toolCall("r1", "Read", `{"file_path":"/x"}`))
	s.call(childID, "r1", "Read", `{"file_path":"/x"}`)
	s.result(childID, "r1", sdkproto.ToolResult{}, sdkproto.Text("x"))
	s.say(childID, "small", &sdkproto.Usage{InputTokens: 110, OutputTokens: 20}, sdkproto.Text("sub done"))
	s.add(childID, sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: 1, Reason: kind(sdkproto.EndCompleted)})
	s.settled(childID, sdkproto.StopCompleted, sdkproto.Text("sub done"))
}

func (s *script) settled(id, stop string, last ...sdkproto.Block) {
	s.entries = append(s.entries, session.Entry{SessionID: id, Settled: &session.Settled{Parent: root, AgentID: id, StopReason: stop, Last: last}})
}

// TestSubagent are the lines of spec stream-json 11.7 (checklist 54, 84): only
// calls and their results unless the client wants the text; no events, no lines
// for older scripts.
func TestSubagent(t *testing.T) {
	for forward, expected := range map[bool][]string{
		false: {"system task_started", "assistant tool_use", "system task_progress", "user tool_result", "system task_notification"},
		true: {"system task_started", "assistant thinking", "assistant text", "assistant tool_use", "system task_progress", "user tool_result",
			"assistant text", "system task_notification"},
	} {
		o := options()
		o.Partial, o.Legacy, o.ForwardSubagentText = true, true, forward
		p := project.New(o)
		p.Begin(theTurn)
		p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "toolu_1", Type: "Explore"})
		s := newScript().begin("m")
		s.entries = nil
		subagent(s)
		got := show(t, p, s.entries)
		if diff := cmp.Diff(expected, kinds(got)); diff != "" {
			t.Fatalf("lines (-want +got):\n%s", diff)
		}
		for _, l := range got {
			if k := l.str("type"); k != "system" && (l.str("parent_tool_use_id") != "toolu_1" || l.str("agent_id") != childID || l.str("subagent_type") != "Explore") {
				t.Errorf("a line of the subagent: %v", l)
			}
		}
		tasks := []line{got[0], got[len(got)-1]}
		for _, l := range tasks {
			delete(l, "uuid")
		}
		want(t, tasks,
			`{"type":"system","subtype":"task_started","session_id":"$S","task_id":"`+childID+`","tool_use_id":"toolu_1","description":"Explore repo","task_type":"local_agent","subagent_type":"Explore"}`,
			// From the descriptor to turn/end are seven events of a millisecond each.
			`{"type":"system","subtype":"task_notification","session_id":"$S","task_id":"`+childID+`","tool_use_id":"toolu_1","status":"completed","output_file":"","summary":"sub done",
				"usage":{"total_tokens":245,"tool_uses":1,"duration_ms":7}}`)
	}
}

// TestSubagentAnswer: the id of a subagent's answer follows from its own log.
func TestSubagentAnswer(t *testing.T) {
	p := project.New(options())
	p.Child(agent.Spec{ID: childID, ParentCall: "c"})
	s := newScript()
	s.commit(childID, sdkproto.AssistantMessage{Message: sdkproto.Message{Content: []sdkproto.Block{toolCall("x", "Read", "{}")}, Source: sdkproto.Source{Model: "m"}}}, 7, 8)
	if id := of(show(t, p, s.entries), "assistant tool_use")[0].str("message", "id"); id != streamjson.MessageID("", childID, 7) {
		t.Errorf("id %q", id)
	}
}

// TestSubagentEnds: every end has its word, and a run that said nothing its label.
func TestSubagentEnds(t *testing.T) {
	for stop, status := range map[string]string{
		sdkproto.StopCompleted: "completed", sdkproto.StopAborted: "stopped", sdkproto.StopError: "failed", sdkproto.StopRefusal: "failed", sdkproto.StopMaxTokens: "failed",
	} {
		p := project.New(options())
		p.Child(agent.Spec{ID: childID, ParentCall: "c"})
		s := newScript()
		s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "Look"})
		s.settled(childID, stop)
		s.settled(childID, stop)
		got := show(t, p, s.entries)
		if len(got) != 2 || got[1].str("status") != status || got[1].str("summary") != "Look" {
			t.Errorf("%s: %v", stop, got)
		}
	}
	// One that never began is not told of, and neither is a session of somebody else.
	p := project.New(options())
	p.Child(agent.Spec{ID: childID, ParentCall: "c"})
	s := newScript()
	s.settled(childID, sdkproto.StopAborted)
	s.add(grandchildID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "Look"})
	if got := show(t, p, s.entries); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestGrandchild: a subagent of a subagent is shown under the call that started
// it, and both end once when the process does.
func TestGrandchild(t *testing.T) {
	p := project.New(options())
	p.Child(agent.Spec{ID: childID, ParentCall: "c1"})
	p.Child(agent.Spec{ID: grandchildID, Parent: childID, ParentCall: "c2"})
	s := newScript()
	s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "outer"})
	s.add(grandchildID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "inner"})
	s.say(grandchildID, "m", nil, toolCall("x", "Read", "{}"))
	var c checker
	for _, e := range s.entries {
		lines, end := p.Entry(t.Context(), e)
		c.add(t, lines, end)
	}
	lines, end := p.Stop("over")
	c.add(t, lines, end)
	c.answered(t)
	if diff := cmp.Diff([]string{
		"system task_started", "system task_started", "assistant tool_use", "system task_notification", "user tool_result", "system task_notification",
	}, kinds(c.lines)); diff != "" || end != nil {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if l := of(c.lines, "assistant tool_use")[0]; l.str("parent_tool_use_id") != "c2" {
		t.Errorf("the grandchild's line is %v", l)
	}
	for _, l := range of(c.lines, "system task_notification") {
		if l.str("status") != "stopped" {
			t.Errorf("%v", l)
		}
	}
}
