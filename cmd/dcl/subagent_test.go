package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every task_started has one terminal line, however the subagent ends, and its
// lines carry the id of the call: calls and results always, text only when the host
// wants it (checklist 54, 84; S021; F13; case B80; spec stream-json 11.7;
// peers/claude 62, which runs the subagent in the background).
func TestSubagentLines(t *testing.T) {
	t.Parallel()
	sub := func(reply ...any) string {
		rules := append(steps(object{"text": "delegate"}, []use{{"Agent", object{"description": "Look around", "prompt": "sub task", "subagent_type": "general-purpose"}}}),
			steps(object{"text": "sub task"}, []use{bash("echo inner")})...)
		return encode(object{"rules": append(rules, object{"when": object{"text": "sub task"}, "reply": reply}, object{"reply": "done"})})
	}
	for _, tc := range []struct {
		name, script string
		flags        []string
		interrupt    bool
		status       string
		lines        []string
	}{
		{name: "ends", script: sub(object{"text": "the finding"}), status: "completed", lines: []string{"tool_use", "tool_result"}},
		{name: "text wanted", script: sub(object{"text": "the finding"}), flags: []string{"--forward-subagent-text"}, status: "completed", lines: []string{"tool_use", "tool_result", "text"}},
		{name: "fails", script: sub(object{"error": object{"code": "INVALID_REQUEST", "status": 400, "message": "no"}}), status: "failed", lines: []string{"tool_use", "tool_result"}},
		{name: "is interrupted", script: sub(object{"text": "some"}, object{"delay": "60s"}), interrupt: true, status: "stopped", lines: []string{"tool_use", "tool_result"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(tc.script).start(append(tc.flags, "--include-partial-messages")...)
			h.user("delegate")
			if tc.interrupt {
				h.wait("the inner result", func(l object) bool { return l["type"] == "user" && l["parent_tool_use_id"] != nil })
				h.control("x", "interrupt", nil)
			}
			result := h.result(1)
			if tc.interrupt != (result["subtype"] != "success") {
				t.Errorf("result %v", result)
			}
			started, ended := h.of("system/task_started"), h.of("system/task_notification")
			if len(started) != 1 || len(ended) != 1 || started[0]["task_id"] != ended[0]["task_id"] || ended[0]["status"] != tc.status {
				t.Fatalf("started %v, ended %v", started, ended)
			}
			if started[0]["task_type"] != "local_agent" || started[0]["tool_use_id"] != "call_1_1_1" || started[0]["description"] != "Look around" {
				t.Errorf("started %v", started[0])
			}
			var lines []string
			for _, l := range h.all() {
				if l["parent_tool_use_id"] == nil {
					continue
				}
				if l["parent_tool_use_id"] != "call_1_1_1" {
					t.Errorf("parent of %v", l)
				}
				lines = append(lines, fmt.Sprint(block(l)["type"]))
			}
			if diff := cmp.Diff(tc.lines, lines); diff != "" {
				t.Error(diff)
			}
			results := h.toolResults()
			if len(results) != 1 {
				t.Fatalf("%d results on the main thread", len(results))
			}
			// The notification comes in front of the call's result.
			note, own := h.at(isType("system/task_notification")), h.at(func(l object) bool { return l["type"] == "user" && l["parent_tool_use_id"] == nil })
			if note > own {
				t.Errorf("the notification is line %d, the result line %d", note, own)
			}
			if _, isList := results[0]["content"].([]any); isList != (tc.status == "completed") {
				t.Errorf("content %v", results[0]["content"])
			}
			brackets(t, h, 0)
			h.end()
		})
	}
}
