package project_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// plan is the turn of the example of spec stream-json 11.11, with a text in front
// of the call.
func plan() *script {
	s := newScript().begin("mock-model")
	s.say(root, "mock-model", &sdkproto.Usage{InputTokens: 812, OutputTokens: 20}, thought("hm", ""), sdkproto.Text(""), sdkproto.Text("I look."),
		toolCall("time-1", "mcp__app__server_time", "{}"))
	s.call(root, "time-1", "mcp__app__server_time", "{}")
	s.add(root, sdkproto.TypePermissionDecision, sdkproto.PermissionDecision{
		CallID: "time-1", ToolName: "mcp__app__server_time", Behavior: "deny", Reason: "Plan mode: write operations are not allowed",
	})
	s.result(root, "time-1", sdkproto.ToolResult{Error: &sdkproto.ToolError{Name: "PermissionError", Code: "PERMISSION_DENIED"}},
		sdkproto.Text("Permission denied: Plan mode: write operations are not allowed"))
	s.add(root, sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: 1, Step: 1}).next()
	s.later(30).say(root, "mock-model", &sdkproto.Usage{InputTokens: 898, OutputTokens: 22, CacheReadTokens: 4}, sdkproto.Text("It is late."), sdkproto.Text(" \n"))
	return s.end(kind(sdkproto.EndCompleted))
}

func denials(id string, turn int) []approval.Denial {
	if id != root || turn != 1 {
		return nil
	}
	return []approval.Denial{{ToolName: "mcp__app__server_time", ToolUseID: "time-1", ToolInput: json.RawMessage(`{}`)}}
}

// TestTurn is a whole turn against lines written by hand from spec stream-json
// 3.3, 3.4, 3.7, 3.10 and 3.14, with and without the lines for older scripts
// (S021, S022, S023, S026, S028, S030, S031, S074; checklist 41, 42, 43, 48).
func TestTurn(t *testing.T) {
	o := options()
	o.Legacy, o.Denials = true, denials
	p := project.New(o)
	p.Begin(theTurn)
	got := show(t, p, plan().entries)
	if id := got[0].str("message", "id"); len(id) != 36 || !strings.HasPrefix(id, "msg_") {
		t.Errorf("message id %q (S077)", id)
	}
	if a, b := got[0].str("message", "id"), got[len(got)-4].str("message", "id"); a == b {
		t.Errorf("two answers have the id %q", a)
	}
	for _, l := range got {
		delete(l, "uuid")
		delete(l, "session_id")
		if m, ok := l["message"].(map[string]any); ok {
			delete(m, "id")
		}
	}
	const first = `"type":"message","role":"assistant","model":"mock-model","stop_reason":null,"stop_sequence":null,` +
		`"usage":{"input_tokens":812,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}`
	const second = `"type":"message","role":"assistant","model":"mock-model","stop_reason":null,"stop_sequence":null,` +
		`"usage":{"input_tokens":898,"output_tokens":22,"cache_creation_input_tokens":0,"cache_read_input_tokens":4}`
	lines := []string{
		`{"type":"assistant","parent_tool_use_id":null,"message":{` + first + `,"content":[{"type":"thinking","thinking":"hm","signature":""}]}}`,
		`{"type":"assistant","parent_tool_use_id":null,"message":{` + first + `,"content":[{"type":"text","text":"I look."}]}}`,
		`{"type":"text","text":"I look."}`,
		`{"type":"assistant","parent_tool_use_id":null,"message":{` + first + `,"content":[{"type":"tool_use","id":"time-1","name":"mcp__app__server_time","input":{}}]}}`,
		`{"type":"tool_start","tool_use_id":"time-1","name":"mcp__app__server_time","input":{}}`,
		`{"type":"user","parent_tool_use_id":null,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"time-1",
			"content":"Permission denied: Plan mode: write operations are not allowed","is_error":true}]},
			"tool_use_result":"Error: Permission denied: Plan mode: write operations are not allowed"}`,
		`{"type":"tool_result","tool_use_id":"time-1","name":"mcp__app__server_time","content":"Permission denied: Plan mode: write operations are not allowed","is_error":true}`,
		`{"type":"assistant","parent_tool_use_id":null,"message":{` + second + `,"content":[{"type":"text","text":"It is late."}]}}`,
		`{"type":"text","text":"It is late."}`,
		`{"type":"assistant","parent_tool_use_id":null,"message":{` + second + `,"content":[{"type":"text","text":" \n"}]}}`,
		`{"type":"text","text":" \n"}`,
		`{"type":"usage","input_tokens":1710,"output_tokens":42,"cache_read_input_tokens":4,"cache_creation_input_tokens":0,"cost_usd":0}`,
		// Requests took from step/start at 4 to the answer at 6, and from 11 to 41.
		`{"type":"result","subtype":"success","is_error":false,"duration_ms":50,"duration_api_ms":32,"num_turns":2,"result":"It is late.","stop_reason":"end_turn",
			"total_cost_usd":0,"usage":{"input_tokens":1710,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":42,"server_tool_use":{"web_search_requests":0},"service_tier":"standard"},
			"modelUsage":{"mock-model":{"inputTokens":1710,"outputTokens":42,"cacheReadInputTokens":4,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0,"contextWindow":0,"maxOutputTokens":0}},
			"permission_denials":[{"tool_name":"mcp__app__server_time","tool_use_id":"time-1","tool_input":{}}],"terminal_reason":"completed",
			"user_message_uuid":"` + message + `"}`,
	}
	want(t, got, lines...)

	t.Run("without the older lines", func(t *testing.T) {
		o := options()
		o.Denials = denials
		p := project.New(o)
		p.Begin(theTurn)
		var expected []string
		for _, k := range kinds(got) {
			if !slices.Contains([]string{"text", "tool_start", "tool_result", "usage"}, k) {
				expected = append(expected, k)
			}
		}
		if diff := cmp.Diff(expected, kinds(show(t, p, plan().entries))); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// TestReadBack: a log that was read gives the lines that it gave while it was
// written, those without random uuids to the letter.
func TestReadBack(t *testing.T) {
	run := func(read bool) []line {
		o := options()
		o.Partial, o.Legacy = true, true
		p := project.New(o)
		p.Begin(theTurn)
		entries := everything().entries
		if read {
			entries = asRead(entries)
		}
		return show(t, p, entries)
	}
	if diff := cmp.Diff(run(false), run(true)); diff != "" {
		t.Errorf("written and read differ:\n%s", diff)
	}
}

// TestUUIDs: the uuid of a tool's result is its message's, that of an assistant
// line follows from the log alone.
func TestUUIDs(t *testing.T) {
	run := func() (ids []string) {
		o := options()
		o.UUID = nil
		p := project.New(o)
		p.Begin(theTurn)
		for _, l := range show(t, p, plan().entries) {
			if k := l.str("type"); k == "assistant" || k == "user" {
				ids = append(ids, l.str("uuid")+l.str("message", "id"))
			}
		}
		return ids
	}
	a, b := run(), run()
	if len(a) != 6 || !slices.Equal(a, b) {
		t.Errorf("the log gives\n%v\nand then\n%v", a, b)
	}
	if !slices.Contains(a, "11111111-1111-4111-8111-000000000002") {
		t.Errorf("no line has the uuid of the result's message: %v", a)
	}
}

// TestInput: arguments that are no object are shown wrapped in one, those with
// oddities as one that any client reads (cases B52, B91; spec stream-json 0.2).
func TestInput(t *testing.T) {
	for arguments, expected := range map[string]string{
		"":                           `{}`,
		" {\"a\": 1} ":               `{"a":1}`,
		`{"a":`:                      `{"invalid_arguments":"{\"a\":"}`,
		`[1]`:                        `{"invalid_arguments":"[1]"}`,
		`{"a":1,"a":2}`:              `{"a":2}`,
		"{\"a\":\"\\ud800 \u2028\"}": `{"a":"\ufffd \u2028"}`,
	} {
		s := newScript().begin("m").say(root, "m", nil, toolCall("c", "Read", arguments))
		s.result(root, "c", sdkproto.ToolResult{}, sdkproto.Text("x"))
		p := project.New(options())
		p.Begin(theTurn)
		got, err := json.Marshal(show(t, p, s.entries)[0].at("message", "content", "input"))
		var e any
		if err := json.Unmarshal([]byte(expected), &e); err != nil {
			t.Fatal(err)
		}
		canonical, _ := json.Marshal(e)
		if err != nil || string(got) != string(canonical) {
			t.Errorf("%s gives %s", arguments, got)
		}
	}
}

// TestRedacted: reasoning that only the provider reads is passed on.
func TestRedacted(t *testing.T) {
	s := newScript().begin("m").say(root, "m", nil, sdkproto.Block{Type: sdkproto.BlockRedacted, Data: "xyz"}, thought("t", "sig"))
	p := project.New(options())
	got := show(t, p, s.entries)
	want(t, []line{got[0].at("message", "content").([]any)[0].(map[string]any), got[1].at("message", "content").([]any)[0].(map[string]any)},
		`{"type":"redacted_thinking","data":"xyz"}`, `{"type":"thinking","thinking":"t","signature":"sig"}`)
}
