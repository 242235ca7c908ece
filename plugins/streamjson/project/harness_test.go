package project_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const root = "4472dafa-acf8-4c0a-a281-2f9f0f03398c"

// message is the id of the user message of most tests.
const message = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"

// began is when time begins in the tests, in epoch milliseconds.
const began = 1_800_000_000_000

// script is a list of what a subscription hears.
type script struct {
	entries []session.Entry
	seqs    map[string]int64
	clock   int64
	ids     int
	turn    int
	step    int
}

func newScript() *script { return &script{seqs: map[string]int64{}, clock: began} }

// add appends an event of a session, one millisecond after the one before it.
func (s *script) add(id, kind string, data any, sources ...int64) *script {
	s.clock++
	e := sdkproto.Event{Type: kind, Seq: s.seqs[id], Time: s.clock, SourceEventSeqs: sources}
	if sdkproto.IsSurface(kind) {
		e.SurfaceOp = json.RawMessage(sdkproto.SurfaceAppend)
	}
	raw, err := wirejson.Marshal(data)
	if err != nil {
		panic(err)
	}
	e.Data = raw
	s.seqs[id]++
	s.entries = append(s.entries, session.Entry{SessionID: id, Record: &session.Record{Event: e, Data: data}})
	return s
}

// later lets time pass.
func (s *script) later(ms int64) *script { s.clock += ms - 1; return s }

func (s *script) id() string {
	s.ids++
	return fmt.Sprintf("11111111-1111-4111-8111-%012d", s.ids)
}

// begin is a turn for the user message, up to its first request.
func (s *script) begin(model string) *script {
	return s.post(message).open(model)
}

func (s *script) post(id string) *script {
	return s.add(root, sdkproto.TypeAgentInboxSpliced, &sdkproto.AgentInboxSpliced{
		Target: sdkproto.TargetNextTurn, Inserted: []sdkproto.Message{{ID: id, Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceUser}}},
	})
}

func (s *script) open(model string) *script {
	s.turn++
	s.step = 0
	s.add(root, sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: s.turn})
	s.add(root, sdkproto.TypeAgentInboxSpliced, &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, RemovedCount: 1})
	s.next()
	return s.add(root, sdkproto.TypeRequestHeader, &sdkproto.RequestHeader{
		Header: sdkproto.Header{Config: sdkproto.RequestConfig{Provider: "p", Model: model}}, Reason: sdkproto.HeaderInitial,
	})
}

// next opens the next step.
func (s *script) next() *script {
	s.step++
	return s.add(root, sdkproto.TypeStepStart, &sdkproto.StepStart{Turn: s.turn, Step: s.step})
}

func (s *script) chunks(chunks ...sdkproto.Chunk) *script {
	for _, c := range chunks {
		s.add(root, sdkproto.TypeAssistantChunk, &sdkproto.AssistantChunk{Turn: s.turn, Step: s.step, Chunk: c})
	}
	return s
}

// say commits an answer of a session.
func (s *script) say(id, model string, u *sdkproto.Usage, blocks ...sdkproto.Block) *script {
	return s.commit(id, sdkproto.AssistantMessage{
		Usage:   u,
		Message: sdkproto.Message{Content: blocks, Source: sdkproto.Source{Kind: sdkproto.SourceModel, Provider: "p", Model: model}},
	})
}

func (s *script) commit(id string, m sdkproto.AssistantMessage, sources ...int64) *script {
	m.Turn, m.Step = s.turn, s.step
	m.Message.Role, m.Message.ID = sdkproto.RoleAssistant, s.id()
	return s.add(id, sdkproto.TypeAssistantMessage, &m, sources...)
}

func (s *script) call(id, callID, name, arguments string) *script {
	return s.add(id, sdkproto.TypeToolCall, &sdkproto.ToolCall{Turn: s.turn, Step: s.step, CallID: callID, Name: name, Arguments: arguments})
}

func (s *script) result(id, callID string, r sdkproto.ToolResult, content ...sdkproto.Block) *script {
	r.Turn, r.Step = s.turn, s.step
	r.Message = sdkproto.Message{
		ID: s.id(), Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: callID},
		Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: callID, Content: content, IsError: r.Error != nil}},
	}
	return s.add(id, sdkproto.TypeToolResult, &r)
}

func (s *script) end(reason sdkproto.TurnEndReason) *script {
	s.add(root, sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: s.turn, Step: s.step})
	return s.add(root, sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: s.turn, Reason: reason})
}

func kind(k string) sdkproto.TurnEndReason { return sdkproto.TurnEndReason{Kind: k} }

func failure(code string, status int, text string) sdkproto.TurnEndReason {
	return sdkproto.TurnEndReason{Kind: sdkproto.EndError, Error: &sdkproto.Failure{Code: code, Status: status, Message: text}}
}

func toolCall(id, name, arguments string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: arguments}
}

func thought(text, signature string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockReasoning, Text: text, Signature: signature}
}

// options are those of most tests: numbered uuids and a clock that stands 50 ms
// behind the beginning.
func options() project.Options {
	n := 0
	return project.Options{
		SessionID: root,
		UUID:      func() string { n++; return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) },
		Now:       func() time.Time { return time.UnixMilli(began + 50) },
	}
}

var theTurn = project.Turn{UUID: message, Began: time.UnixMilli(began)}

// line is one line of output.
type line map[string]any

func (l line) str(path ...string) string {
	s, _ := l.at(path...).(string)
	return s
}

func (l line) at(path ...string) any {
	var v any = map[string]any(l)
	for _, name := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			v = nil
			if len(x) > 0 {
				v, _ = x[0].(map[string]any)[name]
			}
		default:
			return nil
		}
	}
	return v
}

// kindOf is a line's type with what tells it from others of the type.
func (l line) kind() string {
	k := l.str("type")
	switch k {
	case "system", "result":
		return k + " " + l.str("subtype")
	case "stream_event":
		e := l.str("event", "type")
		if e == "content_block_start" {
			e += " " + l.str("event", "content_block", "type")
		}
		return e
	case "assistant", "user":
		return k + " " + l.str("message", "content", "type")
	}
	return k
}

// show projects entries and gives the lines with the results in their places,
// each checked against what holds for all of them.
func show(t *testing.T, p *project.Projector, entries []session.Entry) []line {
	t.Helper()
	var c checker
	for _, e := range entries {
		lines, end := p.Entry(t.Context(), e)
		c.add(t, lines, end)
	}
	c.balanced(t)
	return c.lines
}

// checker looks at every line of a run.
type checker struct {
	lines []line
	uuids map[string]bool
	// open are the blocks of the answer whose events come, nil without one.
	open  map[any]bool
	calls map[string]int
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func (c *checker) add(t *testing.T, lines [][]byte, end *project.End) {
	t.Helper()
	for _, raw := range lines {
		c.one(t, raw)
	}
	if end == nil {
		return
	}
	for _, raw := range end.Lines {
		c.one(t, raw)
	}
	if c.open != nil {
		t.Error("an answer's events are not at their end before the result")
	}
	raw, err := wirejson.Marshal(end.Result)
	if err != nil {
		t.Fatal(err)
	}
	c.one(t, raw)
}

// one proves what spec stream-json 0.2, 0.3 and 3.1 ask of every line.
func (c *checker) one(t *testing.T, raw []byte) {
	t.Helper()
	if n := utf8.RuneCount(raw); n >= 1_000_000 {
		t.Errorf("a line of %d characters: %.200s", n, raw)
	}
	for _, sign := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029", "\ufeff"} {
		if !utf8.Valid(raw) || bytes.Contains(raw, []byte(sign)) {
			t.Errorf("a line that some readers cut: %.200q", raw)
		}
	}
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		t.Fatalf("%v: %.300s", err, raw)
	}
	c.lines = append(c.lines, l)
	if k := l.str("type"); k == "" || k == "error" || k == "end" {
		t.Errorf("type %q (F5, F6)", k)
	}
	if l.str("session_id") != root {
		t.Errorf("session_id %q of a %s line", l.str("session_id"), l.kind())
	}
	id := l.str("uuid")
	if !uuidForm.MatchString(id) {
		t.Errorf("uuid %q of a %s line", id, l.kind())
	}
	if c.uuids[id] {
		t.Errorf("uuid %q twice (case B98)", id)
	}
	if c.uuids == nil {
		c.uuids, c.calls = map[string]bool{}, map[string]int{}
	}
	c.uuids[id] = true
	switch l.str("type") {
	case "assistant", "user", "stream_event":
		if _, there := l["parent_tool_use_id"]; !there {
			t.Errorf("a %s line without parent_tool_use_id", l.kind())
		}
	}
	switch l.str("type") {
	case "assistant":
		blocks, isList := l.at("message", "content").([]any)
		if l.str("message", "model") == "" || !isList || len(blocks) != 1 {
			t.Errorf("model or content (F2): %v", l)
		}
		if l.str("message", "content", "type") == "thinking" {
			if _, ok := l.at("message", "content", "signature").(string); !ok {
				t.Errorf("thinking without signature (F3): %v", l)
			}
		}
		if l.str("message", "content", "type") == "tool_use" {
			if _, ok := l.at("message", "content", "input").(map[string]any); !ok {
				t.Errorf("input is no object: %v", l)
			}
			c.calls[l.str("message", "content", "id")]++
		}
		if c.open != nil && l["parent_tool_use_id"] == nil {
			t.Error("an assistant line inside the events of an answer")
		}
	case "user":
		if l.str("message", "content", "type") == "tool_result" {
			c.calls[l.str("message", "content", "tool_use_id")]--
		}
	case "stream_event":
		c.event(t, l)
	case "result":
		for _, key := range []string{"subtype", "is_error", "duration_ms", "duration_api_ms", "num_turns", "result", "stop_reason", "total_cost_usd", "modelUsage"} {
			if _, there := l[key]; !there {
				t.Errorf("a result without %s (F1)", key)
			}
		}
		for _, key := range []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "server_tool_use", "service_tier"} {
			if l.at("usage", key) == nil {
				t.Errorf("a result's usage without %s", key)
			}
		}
		if _, ok := l["permission_denials"].([]any); !ok {
			t.Error("permission_denials is no array")
		}
		errors, _ := l["errors"].([]any)
		if l.str("subtype") != "success" && (len(errors) == 0 || l["is_error"] != true || errors[0] != l["result"]) {
			t.Errorf("an error without errors (F7): %v", l)
		}
		if l.str("subtype") == "success" && errors != nil {
			t.Errorf("a success with errors: %v", l)
		}
	case "system":
		switch l.str("subtype") {
		case "task_started":
			if _, ok := l["description"].(string); !ok || l.str("task_id") == "" {
				t.Errorf("%v (F4)", l)
			}
		case "task_notification":
			_, file := l["output_file"].(string)
			_, summary := l["summary"].(string)
			if !file || !summary || l.str("task_id") == "" || l.str("status") == "" {
				t.Errorf("%v (F4)", l)
			}
		}
	}
}

// event keeps the brackets of an answer (spec stream-json 3.6).
func (c *checker) event(t *testing.T, l line) {
	t.Helper()
	index, kind := l.at("event", "index"), l.str("event", "type")
	if kind != "message_start" && c.open == nil {
		t.Errorf("%s outside of an answer", kind)
		return
	}
	switch kind {
	case "message_start":
		if c.open != nil {
			t.Error("message_start inside an answer")
		}
		c.open = map[any]bool{}
	case "content_block_start":
		if len(c.open) > 0 || index == nil {
			t.Errorf("block %v begins inside %v", index, c.open)
		}
		c.open[index] = true
	case "content_block_delta":
		if !c.open[index] {
			t.Errorf("a delta of block %v, which is not open", index)
		}
	case "content_block_stop":
		if !c.open[index] {
			t.Errorf("block %v ends and is not open", index)
		}
		delete(c.open, index)
	case "message_stop":
		if len(c.open) > 0 {
			t.Errorf("the answer ends with open blocks %v", c.open)
		}
		c.open = nil
	case "message_delta":
	default:
		t.Errorf("event %q", kind)
	}
}

// balanced proves that no answer's events were left open.
func (c *checker) balanced(t *testing.T) {
	t.Helper()
	if c.open != nil {
		t.Error("the events of an answer have no end")
	}
}

// answered proves that every call has its one result (checklist 44).
func (c *checker) answered(t *testing.T) {
	t.Helper()
	for id, n := range c.calls {
		if n != 0 {
			t.Errorf("call %s: %d more tool_use than tool_result", id, n)
		}
	}
}

func kinds(lines []line) (k []string) {
	for _, l := range lines {
		k = append(k, l.kind())
	}
	return k
}

// of gives the lines of one kind.
func of(lines []line, kind string) (found []line) {
	for _, l := range lines {
		if l.kind() == kind {
			found = append(found, l)
		}
	}
	return found
}

// want compares lines with lines in JSON.
func want(t *testing.T, got []line, lines ...string) {
	t.Helper()
	var expected []line
	for _, text := range lines {
		var l line
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "$S", root)), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		expected = append(expected, l)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// asRead gives entries as they are when a log was read back from its rows.
func asRead(entries []session.Entry) []session.Entry {
	out := make([]session.Entry, len(entries))
	for i, e := range entries {
		out[i] = e
		if e.Record != nil {
			out[i].Record = &session.Record{Event: e.Record.Event}
		}
	}
	return out
}
