package project_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

func blockStart(i int, kind string) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, Index: i, BlockType: kind}
}

func text(i int, s string) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: i, Text: s}
}

func reasoning(i int, s string) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkReasoningDelta, Index: i, Text: s}
}

func arguments(i int, id, name, s string) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: i, ID: id, Name: name, ArgumentsDelta: s}
}

func blockEnd(i int, b sdkproto.Block) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: i, Block: &b}
}

func usageChunk(id string, u sdkproto.Usage) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkUsage, MessageID: id, Usage: &u}
}

func finish(kind string) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: kind}}
}

// partial projects with stream_event lines.
func partial(t *testing.T, s *script) []line {
	t.Helper()
	o := options()
	o.Partial = true
	p := project.New(o)
	p.Begin(theTurn)
	return show(t, p, s.entries)
}

// said joins the deltas of every block of the events, by message and index.
func said(lines []line) (blocks []string) {
	at := -1
	for _, l := range lines {
		switch l.str("event", "type") {
		case "content_block_start":
			blocks = append(blocks, "")
			at = len(blocks) - 1
		case "content_block_delta":
			blocks[at] += l.str("event", "delta", "text") + l.str("event", "delta", "thinking") + l.str("event", "delta", "partial_json")
		}
	}
	return blocks
}

// TestStream is the order of spec stream-json 3.6, for providers that tell the
// end of a block at once and for those that tell all of them last (checklist 46).
func TestStream(t *testing.T) {
	blocks := []sdkproto.Block{thought("let me see", "c2ln"), sdkproto.Text("I will run it."), toolCall("t1", "Bash", `{"command":"ls"}`), toolCall("t2", "Read", "")}
	account := sdkproto.Usage{InputTokens: 7, OutputTokens: 11, CacheReadTokens: 5, CacheWriteTokens: 3}
	deltas := [][]sdkproto.Chunk{
		{blockStart(0, "reasoning"), reasoning(0, "let "), reasoning(0, "me see")},
		{blockStart(1, "text"), text(1, "I will "), text(1, ""), text(1, "run it.")},
		{blockStart(2, "tool-call"), arguments(2, "t1", "Bash", `{"comm`), arguments(2, "t1", "", `and":"ls"}`)},
		{blockStart(3, "tool-call")},
	}
	for name, late := range map[string]bool{"ends at once": false, "ends at last": true} {
		t.Run(name, func(t *testing.T) {
			s := newScript().begin("claude-x").chunks(usageChunk("msg_abc", sdkproto.Usage{InputTokens: 7, CacheReadTokens: 5, CacheWriteTokens: 3}))
			var ends []sdkproto.Chunk
			for i := range blocks {
				s.chunks(deltas[i]...)
				if ends = append(ends, blockEnd(i, blocks[i])); !late {
					s.chunks(ends[i])
				}
			}
			if late {
				s.chunks(ends...)
			}
			s.chunks(usageChunk("", account), finish(sdkproto.FinishToolCalls))
			s.commit(root, sdkproto.AssistantMessage{MessageID: "msg_abc", Usage: &account, Message: sdkproto.Message{
				Content: blocks, Source: sdkproto.Source{Provider: "p", Model: "claude-x"},
			}})
			got := partial(t, s)
			signature := []string{"content_block_delta"}
			if late {
				signature = nil // the thinking is over before its signature is known
			}
			if diff := cmp.Diff(slices.Concat([]string{
				"message_start",
				"content_block_start thinking", "content_block_delta", "content_block_delta",
			}, signature, []string{
				"content_block_stop",
				"content_block_start text", "content_block_delta", "content_block_delta", "content_block_stop",
				"content_block_start tool_use", "content_block_delta", "content_block_delta", "content_block_stop",
				"content_block_start tool_use", "content_block_stop",
				"message_delta", "message_stop",
				"assistant thinking", "assistant text", "assistant tool_use", "assistant tool_use",
			}), kinds(got)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"let me see", "I will run it.", `{"command":"ls"}`, ""}, said(got)); diff != "" {
				t.Errorf("deltas (-want +got):\n%s", diff)
			}
			events := of(got, "message_start")
			for _, k := range []string{"content_block_start thinking", "content_block_start tool_use", "message_delta", "message_stop"} {
				events = append(events, of(got, k)[0])
			}
			for i := range events {
				events[i] = events[i]["event"].(map[string]any)
			}
			want(t, events,
				`{"type":"message_start","message":{"id":"msg_abc","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,
					"usage":{"input_tokens":7,"output_tokens":0,"cache_creation_input_tokens":3,"cache_read_input_tokens":5}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
				`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"Bash","input":{}}}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":7,"output_tokens":11,"cache_creation_input_tokens":3,"cache_read_input_tokens":5}}`,
				`{"type":"message_stop"}`)
			for _, l := range of(got, "assistant text") {
				if l.str("message", "id") != "msg_abc" {
					t.Errorf("message id %q", l.str("message", "id"))
				}
			}
		})
	}
}

// TestDelta is one line to the letter.
func TestDelta(t *testing.T) {
	o := options()
	o.Partial = true
	p := project.New(o)
	p.Begin(theTurn)
	s := newScript().begin("m").chunks(text(0, "a"))
	for _, e := range s.entries {
		p.Entry(t.Context(), e)
	}
	s.entries = nil
	lines, _ := p.Entry(t.Context(), s.chunks(text(0, "Hel\u2028\"\n\xff")).entries[0])
	const want = `{"type":"stream_event","session_id":"` + root + `","uuid":"00000000-0000-4000-8000-000000000004","parent_tool_use_id":null,` +
		`"event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel\u2028\"\n` + "\ufffd" + `"}}}`
	if len(lines) != 1 || string(lines[0]) != want {
		t.Errorf("got  %s\nwant %s", lines, want)
	}
}

// TestAlternatingCalls: pieces of calls that come in turns are shown one call
// after the other.
func TestAlternatingCalls(t *testing.T) {
	s := newScript().begin("m").chunks(
		arguments(0, "a", "A", `{"x"`), arguments(1, "b", "B", `{"y"`), arguments(0, "a", "", `:1}`), arguments(1, "b", "", `:2}`),
		blockEnd(0, toolCall("a", "A", `{"x":1}`)), blockEnd(1, toolCall("b", "B", `{"y":2}`)), finish(sdkproto.FinishToolCalls))
	if diff := cmp.Diff([]string{`{"x":1}`, `{"y":2}`}, said(partial(t, s))); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

// TestWholeAnswer: an answer that came in one piece has its events, too.
func TestWholeAnswer(t *testing.T) {
	blocks := []sdkproto.Block{thought("t", "sig"), sdkproto.Text(""), sdkproto.Text("word"), toolCall("c", "Read", `{"a":1}`)}
	expected := []string{
		"message_start", "content_block_start thinking", "content_block_delta", "content_block_delta", "content_block_stop",
		"content_block_start text", "content_block_delta", "content_block_stop",
		"content_block_start tool_use", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
		"assistant thinking", "assistant text", "assistant tool_use",
	}
	for name, s := range map[string]*script{
		"no chunks": newScript().begin("m").say(root, "m", nil, blocks...),
		"only ends": newScript().begin("m").chunks(blockEnd(0, blocks[0]), blockEnd(1, blocks[1]), blockEnd(2, blocks[2]), blockEnd(3, blocks[3]), finish(sdkproto.FinishToolCalls)).say(root, "m", nil, blocks...),
	} {
		got := partial(t, s)
		if diff := cmp.Diff(expected, kinds(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]string{"t", "word", `{"a":1}`}, said(got)); diff != "" {
			t.Errorf("%s: deltas (-want +got):\n%s", name, diff)
		}
		if of(got, "message_start")[0].str("event", "message", "id") != of(got, "assistant text")[0].str("message", "id") && name == "no chunks" {
			t.Errorf("%s: two ids", name)
		}
	}
}

// failing is an attempt that breaks in the middle of a call, and the retry that
// is answered.
func failing() *script {
	s := newScript().begin("m").chunks(text(0, "half"), arguments(1, "x", "Bash", `{"comm`))
	f := sdkproto.Failure{Code: llm.CodeServer, Status: 529, Message: "Overloaded"}
	s.later(10).chunks(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishError, Failure: &f}})
	s.add(root, sdkproto.TypeLLMRetry, &sdkproto.LLMRetry{Turn: 1, Step: 1, Retry: 1, MaxRetries: 10, DelayMs: 512, Failure: f})
	s.later(512).add(root, sdkproto.TypeLLMRetryStarted, &sdkproto.LLMRetryStarted{Turn: 1, Step: 1, Retry: 1})
	first := s.seqs[root]
	s.later(5).chunks(text(0, "who"), text(0, "le"), blockEnd(0, sdkproto.Text("whole")), finish(sdkproto.FinishStop))
	s.commit(root, sdkproto.AssistantMessage{Message: sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text("whole")}, Source: sdkproto.Source{Model: "m"}}},
		first, first+1, first+2, first+3)
	return s.end(kind(sdkproto.EndCompleted))
}

// TestRetry: an attempt that failed is closed and is in no assistant line; the
// next one begins anew under another id (case B56; checklist 87).
func TestRetry(t *testing.T) {
	got := partial(t, failing())
	if diff := cmp.Diff([]string{
		"message_start", "content_block_start text", "content_block_delta", "content_block_stop",
		"content_block_start tool_use", "content_block_delta", "content_block_stop", "message_stop",
		"system api_retry",
		"message_start", "content_block_start text", "content_block_delta", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
		"assistant text", "result success",
	}, kinds(got)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	starts, answers := of(got, "message_start"), of(got, "assistant text")
	if a, b := starts[0].str("event", "message", "id"), starts[1].str("event", "message", "id"); a == b || b != answers[0].str("message", "id") {
		t.Errorf("ids %q, %q and %q", a, b, answers[0].str("message", "id"))
	}
	retry := of(got, "system api_retry")
	delete(retry[0], "uuid")
	want(t, retry, `{"type":"system","subtype":"api_retry","session_id":"$S","attempt":1,"max_retries":10,"retry_delay_ms":512,"error_status":529,"error":"overloaded"}`)
	// The requests took from step/start at 4 to the failure at 17, and from the
	// retry at 530 to the answer at 539; the wait between them does not count.
	if r := got[len(got)-1]; r["duration_api_ms"] != 22.0 || r["num_turns"] != 1.0 || r.str("result") != "whole" {
		t.Errorf("result %v", r)
	}

	// Without the events the id is the same, and follows from the log alone.
	p := project.New(options())
	p.Begin(theTurn)
	if plain := of(show(t, p, failing().entries), "assistant text"); len(plain) != 1 || plain[0].str("message", "id") != answers[0].str("message", "id") {
		t.Errorf("without the events: %v", plain)
	}
}

// TestNothingTwice: an answer that was whole and not taken, because it was empty,
// is not the one that comes next.
func TestNothingTwice(t *testing.T) {
	s := newScript().begin("m").chunks(finish(sdkproto.FinishStop))
	s.add(root, sdkproto.TypeLLMRetry, &sdkproto.LLMRetry{Retry: 1, Failure: sdkproto.Failure{Code: llm.CodeEmptyResponse}})
	s.add(root, sdkproto.TypeLLMRetryStarted, &sdkproto.LLMRetryStarted{Retry: 1})
	s.chunks(text(0, "x"), finish(sdkproto.FinishMaxTokens)).say(root, "m", nil, sdkproto.Text("x"))
	got := partial(t, s.end(kind(sdkproto.EndMaxTokens)))
	starts := of(got, "message_start")
	if len(starts) != 2 || starts[0].str("event", "message", "id") == starts[1].str("event", "message", "id") {
		t.Errorf("starts %v", starts)
	}
	if d := of(got, "message_delta"); d[1].str("event", "delta", "stop_reason") != "max_tokens" {
		t.Errorf("message_delta %v", d)
	}
}

// TestCutOff: an interrupt closes what is open, and then shows what came (spec
// stream-json 3.3, 3.4, 3.6; checklist 80).
func TestCutOff(t *testing.T) {
	s := newScript().begin("m").chunks(text(0, "w0 "), text(0, "w1"))
	s.commit(root, sdkproto.AssistantMessage{Interrupted: true, Message: sdkproto.Message{
		Content: []sdkproto.Block{sdkproto.Text("w0 w1")}, Source: sdkproto.Source{Model: "m"},
	}}, 4, 5)
	s.end(sdkproto.TurnEndReason{Kind: sdkproto.EndAborted, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortUser}})
	got := partial(t, s)
	if diff := cmp.Diff([]string{
		"message_start", "content_block_start text", "content_block_delta", "content_block_delta", "content_block_stop", "message_stop",
		"assistant text", "user text", "result error_during_execution",
	}, kinds(got)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if l := of(got, "assistant text")[0]; l["aborted"] != true || l.str("message", "id") != got[0].str("event", "message", "id") {
		t.Errorf("the answer is %v", l)
	}
	if l := of(got, "user text")[0]; l.str("message", "content", "text") != "[Request interrupted by user]" {
		t.Errorf("the note is %v", l)
	}
}

// everything is a long list of all that may happen, in three turns.
func everything() *script {
	s := failing()
	s.post(message).open("m")
	s.chunks(usageChunk("msg_1", sdkproto.Usage{InputTokens: 3}), blockStart(0, "reasoning"), reasoning(0, "hm"), blockStart(1, "text"), text(1, "I delegate."),
		arguments(2, "c1", "Agent", `{"prompt"`), arguments(3, "c2", "mcp__a__b", `{`), arguments(2, "c1", "", `:"x"}`), arguments(3, "c2", "", `}`),
		blockEnd(0, thought("hm", "s")), blockEnd(1, sdkproto.Text("I delegate.")), blockEnd(2, toolCall("c1", "Agent", `{"prompt":"x"}`)),
		blockEnd(3, toolCall("c2", "mcp__a__b", `{}`)), finish(sdkproto.FinishToolCalls))
	s.commit(root, sdkproto.AssistantMessage{MessageID: "msg_1", Usage: &sdkproto.Usage{InputTokens: 3, OutputTokens: 4}, Message: sdkproto.Message{
		Content: []sdkproto.Block{thought("hm", "s"), sdkproto.Text("I delegate."), toolCall("c1", "Agent", `{"prompt":"x"}`), toolCall("c2", "mcp__a__b", `{}`)},
		Source:  sdkproto.Source{Provider: "p", Model: "m"},
	}})
	s.call(root, "c1", "Agent", `{"prompt":"x"}`)
	subagent(s)
	s.result(root, "c1", sdkproto.ToolResult{Meta: json.RawMessage(`{"status":"completed"}`)}, sdkproto.Text("done"))
	s.call(root, "c2", "mcp__a__b", `{}`).result(root, "c2", sdkproto.ToolResult{}, sdkproto.Text("x"))
	s.add(root, sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: 2, Step: 1}).next()
	s.add(root, sdkproto.TypeCompactionStart, &sdkproto.CompactionStart{CompactionID: "k"})
	s.add(root, sdkproto.TypeCompactionSummary, &sdkproto.CompactionSummary{CompactionID: "k", Provider: "p", Model: "m", Usage: &sdkproto.Usage{InputTokens: 1}})
	s.add(root, sdkproto.TypeCompactionEnd, &sdkproto.CompactionEnd{CompactionID: "k"})
	s.chunks(text(0, "done")).commit(root, sdkproto.AssistantMessage{Interrupted: true, Message: sdkproto.Message{
		Content: []sdkproto.Block{sdkproto.Text("done")}, Source: sdkproto.Source{Model: "m"},
	}})
	s.end(sdkproto.TurnEndReason{Kind: sdkproto.EndAborted, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortUser}})
	s.post(message).open("m")
	return s.end(failure(llm.CodeAuth, 401, "no"))
}

// TestPrefixes: wherever the log stops, what was begun is ended: answers, blocks,
// calls, tasks, and the turn that runs has its one result (S025, cases B80, B98;
// checklist 44, 48, 54).
func TestPrefixes(t *testing.T) {
	whole := everything()
	cuts := make([]int, 0, len(whole.entries)+1)
	for n := range len(whole.entries) + 1 {
		cuts = append(cuts, n)
	}
	for _, n := range cuts {
		for _, partial := range []bool{false, true} {
			o := options()
			o.Partial, o.Legacy = partial, true
			p := project.New(o)
			p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c1"})
			var c checker
			results, began := 0, 0
			for _, e := range whole.entries[:n] {
				if e.SessionID == root && e.Record.Event.Type == sdkproto.TypeAgentInboxSpliced && strings.Contains(string(e.Record.Event.Data), message) {
					p.Begin(theTurn)
					began++
				}
				lines, end := p.Entry(t.Context(), e)
				c.add(t, lines, end)
				if end != nil {
					results++
				}
			}
			lines, end := p.Stop("the process ends")
			c.add(t, lines, end)
			if end != nil {
				results++
			}
			c.balanced(t)
			c.answered(t)
			if results != began {
				t.Errorf("after %d events: %d results for %d messages", n, results, began)
			}
			if a, b := len(of(c.lines, "system task_started")), len(of(c.lines, "system task_notification")); a != b {
				t.Errorf("after %d events: %d tasks began and %d ended", n, a, b)
			}
			if lines, end := p.Stop("again"); len(lines) > 0 || end != nil {
				t.Errorf("after %d events, a second end gives %d lines", n, len(lines))
			}
		}
	}
}

// TestRandomChunks: whatever order an adapter gives its chunks in, the brackets
// are whole.
func TestRandomChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := newScript().begin("m")
		for range r.IntN(14) {
			i := r.IntN(3)
			blocks := []sdkproto.Block{sdkproto.Text("t"), thought("r", "s"), toolCall("c", "C", "{}"), {Type: sdkproto.BlockRedacted, Data: "d"}, {Type: "new"}}
			s.chunks([]sdkproto.Chunk{
				blockStart(i, "text"), blockStart(i, "new"), text(i, "x"), reasoning(i, "y"), arguments(i, "c", "C", "{}"), arguments(i, "", "", ""),
				blockEnd(i, blocks[r.IntN(len(blocks))]), usageChunk("", sdkproto.Usage{}), finish(sdkproto.FinishStop), finish(sdkproto.FinishError), finish("new"),
			}[r.IntN(11)])
		}
		partial(t, s.end(kind(sdkproto.EndCompleted)))
		if t.Failed() {
			for _, e := range s.entries {
				t.Logf("%s %s", e.Record.Event.Type, e.Record.Event.Data)
			}
			return
		}
	}
}

func BenchmarkDeltas(b *testing.B) {
	for _, partial := range []bool{true, false} {
		b.Run(fmt.Sprintf("partial=%v", partial), func(b *testing.B) {
			s := newScript().begin("m")
			opening := s.entries
			s.entries = nil
			for range 20_000 {
				s.chunks(text(0, "word and "))
			}
			b.ReportAllocs()
			for b.Loop() {
				p := project.New(project.Options{SessionID: root, Partial: partial})
				p.Begin(theTurn)
				for _, list := range [][]session.Entry{opening, s.entries} {
					for _, e := range list {
						p.Entry(b.Context(), e)
					}
				}
			}
		})
	}
}
