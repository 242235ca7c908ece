package streamjson_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The seed's own pipeline (S071 to S074; checklist 64, 11, 39; spec stream-json
// 11.11): plan mode refuses a tool that the session does not have.
func TestSeedPipeline(t *testing.T) {
	c := start(t, "permissions.mode=plan")
	c.send(
		`{"type":"control_request","request_id":"i1","request":{"subtype":"initialize"}}`,
		`{"type":"user","message":{"role":"user","content":"time is it"}}`)
	lines, code := c.rest()
	want := []string{"control_response/success", "system/init", "assistant/tool_use", "user/tool_result", "assistant/text", "result/success"}
	if diff := cmp.Diff(want, kinds(lines)); diff != "" || code != 0 {
		t.Fatalf("code %d (-want +got):\n%s\n%s\n%s", code, diff, c.show(), c.log.String())
	}
	const denied = "Permission denied: Plan mode: write operations are not allowed"
	result := lines[5]
	for what, got := range map[string]any{
		"answer":  lines[0].str("response", "request_id") == "i1",
		"mode":    lines[1].str("permissionMode") == "plan",
		"refusal": lines[3].str("message", "content", "0", "content") == denied,
		"error":   lines[3].at("message", "content", "0", "is_error") == true,
		"text":    lines[4].str("message", "content", "0", "text") == "Tool said: "+denied,
		"result":  result.str("result") == "Tool said: "+denied,
		"turns":   result.at("num_turns") == 2.0,
		"cost":    result.at("total_cost_usd") == 0.0,
		"good":    result.at("is_error") == false,
		"denials": cmp.Equal(result.at("permission_denials"), []any{map[string]any{"tool_name": "mcp__app__server_time", "tool_use_id": "time-1", "tool_input": map[string]any{}}}),
	} {
		if got != true {
			t.Errorf("%s: %s", what, c.show())
		}
	}
	for _, l := range lines[1:] {
		if l.str("session_id") != lines[1].str("session_id") || l.str("uuid") == "" {
			t.Errorf("ids (checklist 41): %v", l)
		}
	}
	if c.log.String() != "" {
		t.Errorf("standard error of a clean run (checklist 9): %s", c.log.String())
	}
}
