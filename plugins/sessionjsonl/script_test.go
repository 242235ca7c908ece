package sessionjsonl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dsh/kernel/session"
	"dsh/plugins/sessionjsonl"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	scriptID  = "session/with ~ odd.id"
	scriptCWD = "/srv/space"
)

// quiet is a store below home that logs nothing.
func quiet(home string) *sessionjsonl.Store {
	return sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), filepath.Join(home, "spill"), slog.New(slog.DiscardHandler))
}

// file is where a store below home keeps a session.
func file(home, id string) string {
	return filepath.Join(home, "sessions.d", session.EncodeID(id)+".jsonl")
}

func userMessage(n int) sdkproto.Message {
	return sdkproto.Message{
		Content: []sdkproto.Block{sdkproto.Text(fmt.Sprintf("prompt %d", n))}, Source: sdkproto.Source{Kind: sdkproto.SourceUser},
		Role: sdkproto.RoleUser, ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
	}
}

func receipt(target string, at, n int) session.Draft {
	return session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{
		Target: target, Start: at, Inserted: []sdkproto.Message{userMessage(n)},
	}}
}

func claim(target string, count int) session.Draft {
	return session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{Target: target, RemovedCount: count}}
}

func user(n int) session.Draft {
	m := userMessage(n)
	return session.Draft{Type: sdkproto.TypeUserMessage, Data: &m}
}

func chunk(turn, step int, c sdkproto.Chunk) session.Draft {
	return session.Draft{Type: sdkproto.TypeAssistantChunk, Data: &sdkproto.AssistantChunk{Turn: turn, Step: step, Chunk: c}}
}

func text(turn, step, index int, pieces ...string) []session.Draft {
	var out []session.Draft
	for _, p := range pieces {
		out = append(out, chunk(turn, step, sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: index, Text: p}))
	}
	return out
}

func answer(turn, step, id int, blocks ...sdkproto.Block) session.Draft {
	return session.Draft{Type: sdkproto.TypeAssistantMessage, Data: &sdkproto.AssistantMessage{Turn: turn, Step: step, Message: sdkproto.Message{
		Role: sdkproto.RoleAssistant, Content: blocks, Source: sdkproto.Source{Kind: sdkproto.SourceModel, Provider: "p", Model: "m"},
		ID: fmt.Sprintf("10000000-0000-4000-8000-%012d", id),
	}}}
}

func callBlock(id string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: "bash", Arguments: "{}"}
}

func call(id string) session.Draft {
	return session.Draft{Type: sdkproto.TypeToolCall, Data: &sdkproto.ToolCall{Turn: 1, Step: 1, CallID: id, Name: "bash", Arguments: "{}"}}
}

func result(id, said string, n int, source int64) session.Draft {
	return session.Draft{Type: sdkproto.TypeToolResult, Sources: []int64{source}, Data: &sdkproto.ToolResult{Turn: 1, Step: 1, Message: sdkproto.Message{
		Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: id}, Role: sdkproto.RoleUser, ID: fmt.Sprintf("20000000-0000-4000-8000-%012d", n),
		Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: id, Content: []sdkproto.Block{sdkproto.Text(said)}}},
	}}}
}

// act is one thing the script does: an Append, or a Sync when there is nothing
// to append.
type act []session.Draft

// script is the life of a session with everything that can be cut in two: a
// prompt and steering in the queue, a claim, streamed text, a failed attempt,
// calls (two of one id, as models do) that are not started, running and done.
func script() []act {
	sync := act(nil)
	fixed := func(typ string, data any) session.Draft { return session.Draft{Type: typ, Data: data} }
	return []act{
		{receipt(sdkproto.TargetNextTurn, 0, 1)},
		sync,
		{receipt(sdkproto.TargetNextStep, 0, 2)},
		{ // seq 2
			fixed(sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: 1}),
			claim(sdkproto.TargetNextStep, 1),
			claim(sdkproto.TargetNextTurn, 1),
			fixed(sdkproto.TypeStepStart, &sdkproto.StepStart{Turn: 1, Step: 1}),
			user(1), user(2),
			fixed(sdkproto.TypeRequestHeader, &sdkproto.RequestHeader{Reason: sdkproto.HeaderInitial, Header: sdkproto.Header{
				Config: sdkproto.RequestConfig{Provider: "p", Model: "m"}, System: "system",
				Tools: []sdkproto.ToolSchema{{Name: "bash", Description: "d", Parameters: []byte(`{"type":"object"}`)}},
			}}),
			fixed(sdkproto.TypeRequestContext, &sdkproto.RequestContext{Provider: "p", Model: "m", ContextWindow: 1000}),
		},
		sync,
		text(1, 1, 0, "a failed ", "attempt ", "says ", "this"), // seq 10
		{ // seq 14
			fixed(sdkproto.TypeLLMRetry, &sdkproto.LLMRetry{RetryID: "r", Turn: 1, Step: 1, Provider: "p", Mode: "normal", PolicyKey: "SERVER", Retry: 1}),
			fixed(sdkproto.TypeLLMRetryStarted, &sdkproto.LLMRetryStarted{RetryID: "r", Turn: 1, Step: 1, Retry: 1}),
		},
		text(1, 1, 0, "one ", "two ", "three ", "four "), // seq 16
		{receipt(sdkproto.TargetNextTurn, 0, 3)},         // seq 20
		text(1, 1, 0, "five"),                            // seq 21
		{answer(1, 1, 1, sdkproto.Text("one two three four five"), callBlock("c1"), callBlock("c2"), callBlock("c2"), callBlock("c3"))},
		{call("c1")}, // seq 23
		sync,
		{call("c2")}, // seq 24
		{result("c1", "done", 1, 23)},
		{call("c2"), result("c2", "done", 2, 24)}, // seq 26
		{result("c2", "done again", 3, 26)},
		{call("c3")}, // seq 29
		{result("c3", "done", 4, 29), fixed(sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: 1, Step: 1})},
		{fixed(sdkproto.TypeStepStart, &sdkproto.StepStart{Turn: 1, Step: 2})},
		text(1, 2, 0, "x", "y", "z", "\n"),
		{answer(1, 2, 2, sdkproto.Text("xyz\n")), fixed(sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: 1, Step: 2}),
			fixed(sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: 1, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}})},
		sync,
		{
			fixed(sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: 2}), claim(sdkproto.TargetNextTurn, 1),
			fixed(sdkproto.TypeStepStart, &sdkproto.StepStart{Turn: 2, Step: 1}), user(3),
		},
		{chunk(2, 1, sdkproto.Chunk{Type: sdkproto.ChunkReasoningDelta, Text: "think"})},
		text(2, 1, 1, "last"),
		{answer(2, 1, 3, sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "think"}, sdkproto.Text("last")),
			fixed(sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: 2, Step: 1}),
			fixed(sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: 2, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}})},
		sync,
	}
}

// play runs the script on a new session; done hears of each act that was
// acknowledged, with the seq that follows.
func play(ctx context.Context, st session.Store, done func(synced bool, next int64)) error {
	h := session.Header{ID: scriptID, CreatedAt: 1, CWD: scriptCWD}
	w, err := st.Create(ctx, h)
	if err != nil {
		return err
	}
	var state session.State
	l := session.NewLog(h, w, 0, 0, &state)
	for _, a := range script() {
		if a == nil {
			err = l.Sync(ctx)
		} else {
			_, err = l.Append(a...)
		}
		if err != nil {
			return errors.Join(err, l.Close())
		}
		done(a == nil, l.Next())
	}
	return l.Close()
}

// ending is what checkRepaired found in a log that was cut.
type ending struct {
	next                      int64
	unknown, notStarted       int
	partial                   string
	turnInterrupted, repaired bool
}

// checkRepaired opens what is left of the scripted session, repairs it the way
// a loop does, and holds the result to spec jsonrpc 9.6 and cases B41, B42. It
// derives everything from the encoded records, not from the folds.
func checkRepaired(t *testing.T, home string) ending {
	t.Helper()
	st := quiet(home)
	ctx := t.Context()
	if _, err := os.Stat(file(home, scriptID)); errors.Is(err, os.ErrNotExist) {
		return ending{}
	}
	var state session.State
	l, err := session.Load(ctx, st, scriptID, scriptCWD, &state)
	if errors.Is(err, session.ErrNotFound) {
		return ending{}
	}
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	end := ending{next: l.Next()}
	if err := session.CheckHistory(ctx, st, scriptID, &state); err != nil {
		t.Errorf("before the repair: %v", err)
	}
	repairs := state.Repairs(l.LastTime())
	end.repaired = len(repairs) > 0
	if _, err := l.Append(repairs...); err != nil {
		t.Fatalf("append the repairs: %v", err)
	}
	if err := session.CheckHistory(ctx, st, scriptID, &state); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	if again := state.Repairs(l.LastTime()); len(again) > 0 {
		t.Errorf("a repaired session asks for repairs again: %+v", again)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	var events []sdkproto.Event
	if err := st.Read(ctx, scriptID, 0, func(r *session.Record) error {
		events = append(events, r.Event)
		return nil
	}); err != nil {
		t.Fatalf("Read: %v", err)
	}
	checkEvents(t, events, &end)
	return end
}

func checkEvents(t *testing.T, events []sdkproto.Event, end *ending) {
	t.Helper()
	started := map[string]int{}
	var expected []string // ids of calls of the last answer that lack a result, in order
	queues := map[string][]string{}
	var received, shown []string
	turnOpen, stepOpen := false, false
	for i, e := range events {
		if e.Seq != int64(i) {
			t.Fatalf("event %d has seq %d", i, e.Seq)
		}
		if i > 0 && e.Time < events[i-1].Time {
			t.Errorf("event %d is earlier than the one before", i)
		}
		repair := e.Seq >= end.next
		if repair && e.Time != events[end.next-1].Time {
			t.Errorf("repair event %d has time %d, want that of the last event, %d", i, e.Time, events[end.next-1].Time)
		}
		var d struct {
			Turn        int                 `json:"turn"`
			Step        int                 `json:"step"`
			CallID      string              `json:"callId"`
			Target      string              `json:"target"`
			Start       int                 `json:"start"`
			Removed     int                 `json:"removedCount"`
			Inserted    []sdkproto.Message  `json:"inserted"`
			ID          string              `json:"id"`
			Message     *sdkproto.Message   `json:"message"`
			Interrupted bool                `json:"interrupted"`
			Error       *sdkproto.ToolError `json:"error"`
			Reason      map[string]any      `json:"reason"`
			Chunk       map[string]any      `json:"chunk"`
			Header      map[string]any      `json:"header"`
		}
		if e.Type != sdkproto.TypeRequestHeader {
			if err := wirejson.Unmarshal(e.Data, &d); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		switch e.Type {
		case sdkproto.TypeAgentInboxSpliced:
			q := queues[d.Target]
			var ids []string
			for _, m := range d.Inserted {
				ids = append(ids, m.ID)
				if !repair {
					received = append(received, m.ID)
				}
			}
			queues[d.Target] = slices.Concat(q[:d.Start], ids, q[d.Start+d.Removed:])
			if repair && len(d.Inserted) == 0 {
				t.Errorf("repair event %d takes messages from the inbox", i)
			}
		case sdkproto.TypeTurnStart:
			turnOpen = true
		case sdkproto.TypeTurnEnd:
			if !turnOpen || stepOpen {
				t.Errorf("event %d ends a turn that is not open, or with a step open", i)
			}
			turnOpen = false
			if kind := d.Reason["kind"]; repair {
				end.turnInterrupted = true
				if kind != sdkproto.EndInterrupted {
					t.Errorf("the repaired turn ended as %v", kind)
				}
			}
		case sdkproto.TypeStepStart:
			stepOpen = true
		case sdkproto.TypeStepEnd:
			if len(expected) > 0 {
				t.Errorf("event %d ends a step in which %v have no result", i, expected)
			}
			stepOpen = false
		case sdkproto.TypeUserMessage:
			shown = append(shown, d.ID)
		case sdkproto.TypeAssistantMessage:
			if len(expected) > 0 {
				t.Errorf("event %d is an answer while %v have no result", i, expected)
			}
			if repair {
				end.partial = sdkproto.TextOf(d.Message.Content)
				if !d.Interrupted {
					t.Errorf("the repaired answer is not marked interrupted")
				}
				if p := d.Message.Source; p.Kind != sdkproto.SourceModel || p.Provider != "p" || p.Model != "m" {
					t.Errorf("the repaired answer comes from %+v", p)
				}
				for _, s := range e.SourceEventSeqs {
					if events[s].Type != sdkproto.TypeAssistantChunk {
						t.Errorf("the repaired answer cites event %d, a %s", s, events[s].Type)
					}
				}
			}
			for _, b := range d.Message.Content {
				if b.Type == sdkproto.BlockToolCall {
					expected = append(expected, b.ID)
					if repair {
						t.Errorf("the repaired answer has a call")
					}
				}
			}
		case sdkproto.TypeToolCall:
			started[d.CallID]++
		case sdkproto.TypeToolResult:
			id := d.Message.Source.CallID
			if len(expected) == 0 || expected[0] != id {
				t.Fatalf("event %d is a result of %q, expected are %v", i, id, expected)
			}
			expected = expected[1:]
			if !repair {
				started[id]--
				continue
			}
			want := sdkproto.CodeToolNotStarted
			if started[id] > 0 {
				started[id]--
				want = sdkproto.CodeToolOutcomeUnknown
				end.unknown++
				if len(e.SourceEventSeqs) != 1 || events[e.SourceEventSeqs[0]].Type != sdkproto.TypeToolCall {
					t.Errorf("event %d cites %v, want the call that was started", i, e.SourceEventSeqs)
				}
			} else {
				end.notStarted++
			}
			if d.Error == nil || d.Error.Code != want {
				t.Errorf("event %d, the result of %q, has error %+v, want code %s", i, id, d.Error, want)
			}
			if b := d.Message.Content[0]; !b.IsError || len(b.Content) != 1 || b.Content[0].Text == "" {
				t.Errorf("event %d, the result of %q, is %+v", i, id, b)
			}
		}
	}
	if turnOpen || stepOpen || len(expected) > 0 {
		t.Errorf("after the repair: turn open %v, step open %v, without result %v", turnOpen, stepOpen, expected)
	}
	// Every message that was received is shown to the model or still queued, once.
	have := slices.Concat(shown, queues[sdkproto.TargetNextTurn], queues[sdkproto.TargetNextStep])
	slices.Sort(have)
	slices.Sort(received)
	if !slices.Equal(have, received) {
		t.Errorf("received %v, but shown %v and queued %v", received, shown, queues)
	}
}
