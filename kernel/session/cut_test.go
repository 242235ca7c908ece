package session_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// Spec stream-json 10.4, case B41: a cut leaves the history up to a block of a
// message; calls that lose their results get some, and what waits is dropped. It
// costs nothing, and a session that was cut is in order when it is loaded.
func TestCut(t *testing.T) {
	call := func(id string) sdkproto.Block {
		return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: "t", Arguments: "{}"}
	}
	result := func(id string) session.Draft {
		return session.Draft{Type: sdkproto.TypeToolResult, Data: &sdkproto.ToolResult{Message: sdkproto.Message{
			Role: sdkproto.RoleUser, ID: "r" + id, Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: id},
			Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: id, Content: []sdkproto.Block{sdkproto.Text("out")}}},
		}}}
	}
	user := func(text string) sdkproto.Message {
		return sdkproto.Message{Role: sdkproto.RoleUser, ID: text, Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}}
	}
	drafts := []session.Draft{
		{Type: sdkproto.TypeUserMessage, Data: user("one")},
		{Type: sdkproto.TypeAssistantMessage, Data: &sdkproto.AssistantMessage{
			Usage:   &sdkproto.Usage{InputTokens: 7},
			Message: sdkproto.Message{Role: sdkproto.RoleAssistant, ID: "a", Content: []sdkproto.Block{sdkproto.Text("t"), call("x"), call("y")}},
		}},
		result("x"), result("y"),
		{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, Inserted: []sdkproto.Message{user("waits")}}},
	}
	for name, tc := range map[string]struct {
		seq    int64
		blocks int
		want   []string // ids, and the calls of results that were made up
	}{
		"all":              {3, 0, []string{"one", "a", "rx", "ry"}},
		"a result":         {2, 0, []string{"one", "a", "rx", "for y"}},
		"an answer":        {1, 0, []string{"one", "a", "for x", "for y"}},
		"one call of it":   {1, 2, []string{"one", "a", "for x"}},
		"its text":         {1, 1, []string{"one", "a"}},
		"more than it has": {1, 9, []string{"one", "a", "for x", "for y"}},
		"the prompt":       {0, 0, []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := &session.State{}
			log := session.NewLog(session.Header{ID: "s"}, &discard{}, 0, 0, state)
			if _, err := log.Append(drafts...); err != nil {
				t.Fatal(err)
			}
			cut, err := state.Cut(tc.seq, tc.blocks)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := log.Append(cut...); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range state.Surface.Messages() {
				id := m.ID
				if m.Source.Kind == sdkproto.SourceTool && !slices.Contains([]string{"rx", "ry"}, id) {
					id = "for " + m.Source.CallID
				}
				got = append(got, id)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if waits := state.Inbox.Pending(sdkproto.TargetNextTurn); len(waits) != 0 {
				t.Errorf("%d messages wait", len(waits))
			}
			if state.Usage.Totals.InputTokens != 7 {
				t.Errorf("the answer counts %d tokens", state.Usage.Totals.InputTokens)
			}
			if repairs := state.Repairs(log.LastTime()); len(repairs) != 0 {
				t.Errorf("it is to be repaired with %v", repairs)
			}
		})
	}
	state := &session.State{}
	if _, err := state.Cut(0, 0); err == nil {
		t.Error("an event that is not there was cut behind")
	}
}
