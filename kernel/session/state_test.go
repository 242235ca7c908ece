package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Short forms of the events of one turn.
var (
	turnStart = func() session.Draft { return turn(1) }
	stepStart = func() session.Draft {
		return session.Draft{Type: sdkproto.TypeStepStart, Data: &sdkproto.StepStart{Turn: 1, Step: 1}}
	}
	stepEnd = func() session.Draft {
		return session.Draft{Type: sdkproto.TypeStepEnd, Data: &sdkproto.StepEnd{Turn: 1, Step: 1}}
	}
	requestHeader = func() session.Draft {
		return session.Draft{Type: sdkproto.TypeRequestHeader, Data: &sdkproto.RequestHeader{Header: *header("s"), Reason: "initial"}}
	}
	retry = func() session.Draft {
		return session.Draft{Type: sdkproto.TypeLLMRetry, Data: &sdkproto.LLMRetry{RetryID: "r", Turn: 1, Step: 1}}
	}
)

func turnEnd(kind string) session.Draft {
	return session.Draft{Type: sdkproto.TypeTurnEnd, Data: &sdkproto.TurnEnd{Turn: 1, Reason: sdkproto.TurnEndReason{Kind: kind}}}
}

func userMessage(id string) session.Draft {
	m := message(id)
	return session.Draft{Type: sdkproto.TypeUserMessage, Data: &m}
}

func chunk(c sdkproto.Chunk) session.Draft {
	return session.Draft{Type: sdkproto.TypeAssistantChunk, Data: &sdkproto.AssistantChunk{Turn: 1, Step: 1, Chunk: c}}
}

func textDelta(index int, text string) session.Draft {
	return chunk(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: index, Text: text})
}

func reasoningDelta(index int, text string) session.Draft {
	return chunk(sdkproto.Chunk{Type: sdkproto.ChunkReasoningDelta, Index: index, Text: text})
}

func assistant(blocks ...sdkproto.Block) session.Draft {
	return session.Draft{Type: sdkproto.TypeAssistantMessage, Data: &sdkproto.AssistantMessage{Turn: 1, Step: 1, Message: sdkproto.Message{
		Role: sdkproto.RoleAssistant, Content: blocks,
	}}}
}

func toolCall(id string) session.Draft {
	return session.Draft{Type: sdkproto.TypeToolCall, Data: &sdkproto.ToolCall{Turn: 1, Step: 1, CallID: id}}
}

func compactionStart() session.Draft {
	n := 1
	return session.Draft{Type: sdkproto.TypeCompactionStart, Data: &sdkproto.CompactionStart{CompactionID: "c", Turn: &n}}
}

// TestRepairs is spec jsonrpc 9.6 rules 4 and 5, and case B42. Repairs are shown
// as their type and what matters of them.
func TestRepairs(t *testing.T) {
	const next, step = sdkproto.TargetNextTurn, sdkproto.TargetNextStep
	canceled := func() session.Draft {
		return session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{Target: next, RemovedCount: 1, Outcome: sdkproto.OutcomeCanceled}}
	}
	const interrupted = `turn/end {"kind":"interrupted"}`
	for _, tc := range []struct {
		name   string
		events []session.Draft
		want   []string
	}{
		{"nothing", nil, nil},
		{"a finished turn", []session.Draft{turnStart(), stepStart(), textDelta(0, "x"), assistant(sdkproto.Text("x")), stepEnd(), turnEnd("completed")}, nil},
		{"a prompt waits", []session.Draft{splice(next, 0, 0, message("a"))}, nil},
		{"the turn has just begun", []session.Draft{turnStart()}, []string{interrupted}},
		{"before the request", []session.Draft{turnStart(), stepStart(), userMessage("a"), requestHeader()}, []string{"step/end", interrupted}},
		{"between two steps", []session.Draft{turnStart(), stepStart(), assistant(), stepEnd()}, []string{interrupted}},

		{"text has streamed", []session.Draft{turnStart(), stepStart(), requestHeader(), textDelta(0, "one "), textDelta(0, "two")},
			[]string{`assistant/message [3 4] text:one two`, "step/end", interrupted}},
		{"all kinds have streamed, in mixed order", []session.Draft{
			turnStart(), stepStart(), requestHeader(),
			chunk(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, Index: 1, BlockType: sdkproto.BlockText}), textDelta(1, "say"),
			reasoningDelta(0, "think"), chunk(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: 2, ID: "c", Name: "bash", ArgumentsDelta: "{"}),
			splice(next, 0, 0, message("b")),
			textDelta(1, "ing"), chunk(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{OutputTokens: 7}}),
		}, []string{`assistant/message [3 4 5 6 8 9] reasoning:think text:saying usage:7`, "step/end", interrupted}},
		{"a finished block counts as the model gave it", []session.Draft{
			turnStart(), stepStart(), textDelta(0, "par"),
			chunk(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: 0, Block: &sdkproto.Block{Type: sdkproto.BlockText, Text: "partial"}}),
			chunk(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: 1, Block: &sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c", Name: "n", Arguments: "{}"}}),
		}, []string{`assistant/message [2 3 4] text:partial`, "step/end", interrupted}},
		{"only a call has streamed", []session.Draft{
			turnStart(), stepStart(), chunk(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, ID: "c", Name: "bash", ArgumentsDelta: "{"}), textDelta(1, ""),
		}, []string{"step/end", interrupted}},
		{"a failed attempt says nothing", []session.Draft{turnStart(), stepStart(), textDelta(0, "failed"), retry()}, []string{"step/end", interrupted}},
		{"of two attempts the last counts", []session.Draft{turnStart(), stepStart(), textDelta(0, "failed"), retry(), textDelta(0, "good")},
			[]string{`assistant/message [4] text:good`, "step/end", interrupted}},
		{"of two steps the last counts", []session.Draft{
			turnStart(), stepStart(), textDelta(0, "x"), assistant(sdkproto.Text("x")), stepEnd(), stepStart(), textDelta(0, "y"),
		}, []string{`assistant/message [6] text:y`, "step/end", interrupted}},

		{"calls in every state", []session.Draft{
			turnStart(), stepStart(), assistant(callBlock("a", "x"), callBlock("b", "x"), callBlock("c", "x"), callBlock("d", "x")),
			toolCall("a"), toolCall("b"), toolCall("c"), resultOf("a", 3),
		}, []string{"tool/result [4] b TOOL_OUTCOME_UNKNOWN", "tool/result [5] c TOOL_OUTCOME_UNKNOWN", "tool/result d TOOL_NOT_STARTED", "step/end", interrupted}},
		{"one id twice, the first is running", []session.Draft{turnStart(), stepStart(), assistant(callBlock("a", "x"), callBlock("a", "x")), toolCall("a")},
			[]string{"tool/result [3] a TOOL_OUTCOME_UNKNOWN", "tool/result a TOOL_NOT_STARTED", "step/end", interrupted}},

		{"a compaction was running", []session.Draft{turnStart(), stepStart(), userMessage("a"), compactionStart()},
			[]string{"compaction/end c", "step/end", interrupted}},
		{"a compaction was over", []session.Draft{turnStart(), compactionStart(), {Type: sdkproto.TypeCompactionEnd, Data: &sdkproto.CompactionEnd{CompactionID: "c"}}, turnEnd("completed")}, nil},

		{"a prompt was claimed and not shown", []session.Draft{splice(next, 0, 0, message("a")), splice(next, 1, 0, message("b")), turnStart(), splice(next, 0, 1)},
			[]string{interrupted, "agent/inbox/spliced next-turn 0 a"}},
		{"steering goes back to where it came from", []session.Draft{
			splice(next, 0, 0, message("a")), splice(step, 0, 0, message("s"), message("u")), turnStart(), splice(step, 0, 2), splice(next, 0, 1), stepStart(), userMessage("a"), userMessage("s"),
		}, []string{"step/end", interrupted, "agent/inbox/spliced next-step 0 u"}},
		{"what was cancelled stays away", []session.Draft{splice(next, 0, 0, message("a")), canceled()}, nil},
		{"what a hook refused stays away", []session.Draft{splice(next, 0, 0, message("a")), turnStart(), splice(next, 0, 1), turnEnd("blocked")}, nil},
		{"the repair itself was cut off", []session.Draft{splice(next, 0, 0, message("a")), turnStart(), splice(next, 0, 1), turnEnd("interrupted")},
			[]string{"agent/inbox/spliced next-turn 0 a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &memory{header: session.Header{ID: "s", CWD: "/w"}}
			var live session.State
			l := session.NewLog(w.header, w, 0, 0, &live)
			mustAppend(t, l, tc.events...)
			for name, state := range map[string]*session.State{"live": &live, "loaded": {}} {
				last := int64(77)
				if name == "loaded" {
					loaded, err := session.Load(t.Context(), w, "s", "/w", state)
					if err != nil {
						t.Fatal(err)
					}
					if loaded.Next() != int64(len(tc.events)) || loaded.LastTime() != l.LastTime() || loaded.Header() != w.header {
						t.Errorf("the loaded log continues at %d, time %d, header %+v", loaded.Next(), loaded.LastTime(), loaded.Header())
					}
					last = loaded.LastTime()
				}
				drafts := state.Repairs(last)
				var got []string
				for _, d := range drafts {
					got = append(got, show(t, d))
					if d.Time != last {
						t.Errorf("%s: %s has time %d, want %d", name, d.Type, d.Time, last)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s state (-want +got):\n%s", name, diff)
				}
			}
			mustAppend(t, l, live.Repairs(l.LastTime())...)
			if again := live.Repairs(0); len(again) > 0 {
				t.Errorf("repairs of the repaired: %+v", again)
			}
			if err := session.CheckHistory(t.Context(), w, "s", &live); err != nil {
				t.Error(err)
			}
		})
	}
}

// show gives a repair's type and what matters of it, and checks what all of its
// kind have.
func show(t *testing.T, d session.Draft) string {
	t.Helper()
	out := d.Type
	if len(d.Sources) > 0 {
		out += fmt.Sprint(" ", d.Sources)
	}
	switch v := d.Data.(type) {
	case *sdkproto.AssistantMessage:
		if !v.Interrupted || v.Turn != 1 || v.Step != 1 || v.Message.Role != sdkproto.RoleAssistant || v.Message.Source.Kind != sdkproto.SourceModel || len(v.Message.ID) != 36 {
			t.Errorf("the interrupted answer is %+v", v)
		}
		for _, b := range v.Message.Content {
			out += " " + b.Type + ":" + b.Text
		}
		if v.Usage != nil {
			out += fmt.Sprint(" usage:", v.Usage.OutputTokens)
		}
	case *sdkproto.ToolResult:
		out += " " + v.Message.Source.CallID + " " + v.Error.Code
		b := v.Message.Content[0]
		if v.Turn != 1 || v.Step != 1 || v.Message.Role != sdkproto.RoleUser || len(v.Message.ID) != 36 || v.Error.Name == "" ||
			len(v.Message.Content) != 1 || b.Type != sdkproto.BlockToolResult || b.ToolCallID != v.Message.Source.CallID || !b.IsError {
			t.Errorf("the result is %+v", v)
		}
		advice := "was not run"
		if v.Error.Code == sdkproto.CodeToolOutcomeUnknown {
			advice = "before you repeat it"
		}
		if text := sdkproto.TextOf(b.Content); !strings.Contains(text, advice) {
			t.Errorf("the text of %s does not say %q: %s", v.Error.Code, advice, text)
		}
	case *sdkproto.CompactionEnd:
		if v.Turn == nil || *v.Turn != 1 || v.Error == "" {
			t.Errorf("the compaction ends with %+v", v)
		}
		out += " " + v.CompactionID
	case *sdkproto.TurnEnd:
		reason, err := wirejson.Marshal(v.Reason)
		if err != nil || v.Turn != 1 {
			t.Errorf("turn %d ends, error %v", v.Turn, err)
		}
		out += " " + string(reason)
	case *sdkproto.AgentInboxSpliced:
		out += fmt.Sprint(" ", v.Target, " ", v.Start, " ", strings.Join(idsOf(v.Inserted), ","))
	}
	return out
}

func TestLoadOfOnlyAHeader(t *testing.T) {
	w := &memory{header: session.Header{ID: "s", CWD: "/w"}}
	var state session.State
	l, err := session.Load(t.Context(), w, "s", "/w", &state)
	if err != nil {
		t.Fatal(err)
	}
	if l.Next() != 0 || l.Header() != w.header {
		t.Errorf("it continues at %d with header %+v", l.Next(), l.Header())
	}
}

func TestLoadRefuses(t *testing.T) {
	w := &memory{}
	mustAppend(t, newLog(w), splice(sdkproto.TargetNextTurn, 3, 1))
	if _, err := session.Load(t.Context(), w, "s", "", &session.State{}); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("a log that cannot be folded: got error %v, want %v", err, session.ErrCorrupt)
	}
}

// TestCheckHistory: the check is worth something only if it sees differences.
func TestCheckHistory(t *testing.T) {
	events := []session.Draft{
		turnStart(), stepStart(), userMessage("a"), requestHeader(),
		{Type: sdkproto.TypeRequestContext, Data: &sdkproto.RequestContext{Provider: "p", Model: "m"}},
		assistant(sdkproto.Text("x"), callBlock("c", "n")), toolCall("c"), resultOf("c", 6),
	}
	for name, tc := range map[string]struct {
		extra func(apply func(session.Draft)) // what only the live state sees
		say   string
	}{
		"equal": {func(func(session.Draft)) {}, ""},
		"a message more": {func(apply func(session.Draft)) { apply(userMessage("b")) },
			`message 3 of the history differs`},
		"a message changed": {func(apply func(session.Draft)) {
			d := userMessage("b")
			d.Surface = []byte(`{"op":"replace","start":2,"end":2}`)
			apply(d)
		}, `message 0 of the history differs`},
		"a message less": {func(apply func(session.Draft)) {
			d := userMessage("a")
			d.Surface = []byte(`{"op":"replace","start":2,"end":5}`)
			apply(d)
		}, `message 1 of the history differs`},
		"another header": {func(apply func(session.Draft)) {
			apply(session.Draft{Type: sdkproto.TypeRequestHeader, Data: &sdkproto.RequestHeader{Header: *header("other")}})
		}, `request header differs`},
		"another context": {func(apply func(session.Draft)) {
			apply(session.Draft{Type: sdkproto.TypeRequestContext, Data: &sdkproto.RequestContext{Provider: "q"}})
		}, `request context differs`},
	} {
		t.Run(name, func(t *testing.T) {
			w := &memory{}
			var live session.State
			mustAppend(t, newLog(w, &live), events...)
			tc.extra(func(d session.Draft) {
				if err := live.Apply(record(t, 99, d)); err != nil {
					t.Fatal(err)
				}
			})
			err := session.CheckHistory(t.Context(), w, "s", &live)
			if (err == nil) != (tc.say == "") || err != nil && !strings.Contains(err.Error(), tc.say) {
				t.Errorf("got error %v, want one that says %q", err, tc.say)
			}
		})
	}
}
