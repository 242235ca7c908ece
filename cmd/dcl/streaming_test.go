package main

import (
	"fmt"
	"strings"
	"testing"
)

// Checklist 25 and 26, S061, spec stream-json 4.0: while the model speaks every
// query has its answer, and what changes servers, plugins and files is refused with
// a code and has no effect.
func TestRequestsWhileTheModelSpeaks(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(strings.Replace(slowModel, "20ms", "10s", 1))
	h := r.start(append(serving(map[string]string{"book": "good"}), "--include-partial-messages")...)
	h.initialize(nil)
	h.send(strings.TrimSuffix(asksAs(unknownID, "slow"), "\n"))
	h.wait("the first word", func(l object) bool { return dig(l, "event", "type") == "content_block_delta" })
	for i, tc := range []struct {
		subtype string
		fields  object
		has     string
	}{
		{"mcp_status", nil, "mcpServers:objects"}, {"get_settings", nil, "effective:object sources:objects applied:object"},
		{"get_context_usage", nil, "categories:objects totalTokens:int"}, {"get_session_cost", nil, "text:text"}, {"list_models", nil, "models:objects"},
		{"get_binary_version", nil, "version:text"}, {"file_suggestions", object{"query": "x"}, "suggestions:array"}, {"seed_read_state", object{"path": "a", "mtime": 1}, ""},
	} {
		got := h.control(fmt.Sprint("q", i), tc.subtype, tc.fields)
		answer, _ := got["response"].(object)
		if faults := missing(answer, tc.subtype, tc.has); got["subtype"] != "success" || len(faults) > 0 {
			t.Errorf("%s: %v %q", tc.subtype, got, faults)
		}
	}
	for i, tc := range []struct {
		subtype string
		fields  object
	}{
		{"mcp_toggle", object{"serverName": "book", "enabled": false}}, {"mcp_reconnect", object{"serverName": "book"}}, {"reload_plugins", nil},
		{"rewind_files", object{"user_message_id": unknownID}},
	} {
		got := h.control(fmt.Sprint("r", i), tc.subtype, tc.fields)
		if text, _ := got["error"].(string); got["subtype"] != "error" || got["error_code"] != "turn_running" || !strings.Contains(text, tc.subtype) {
			t.Errorf("%s: %v", tc.subtype, got)
		}
	}
	if got := h.status(1, "book"); got["status"] != "connected" {
		t.Errorf("the server that was not to be switched off: %v", got)
	}
	if results := h.of("result"); len(results) != 0 {
		t.Errorf("the turn has ended: %v", results)
	}
	h.control("stop", "interrupt", nil)
	aborted(t, h.result(1), "aborted_streaming")
	if got := h.control("off", "mcp_toggle", object{"serverName": "book", "enabled": false}); got["subtype"] != "success" {
		t.Errorf("behind the result: %v", got)
	}
}
