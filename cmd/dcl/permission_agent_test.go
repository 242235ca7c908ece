package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// delegating is a script whose first turn gives a subagent of a kind work to do,
// which makes these calls.
func delegating(kind string, calls ...use) string {
	args := object{"description": "d", "prompt": "child-work", "run_in_background": false}
	if kind != "" {
		args["subagent_type"] = kind
	}
	rules := append(steps(object{"text": "child-work"}, calls), object{"when": object{"text": "child-work"}, "reply": "child: {{range results}}{{.}};{{end}}"})
	rules = append(rules, steps(object{"text": "go"}, []use{{"Agent", args}})...)
	return encode(object{"rules": append(rules, object{"reply": "{{result}}"})})
}

// The call of a subagent is asked about with the agent's id, and a denial is one of
// the turn (S064, S028; spec stream-json 5.1, 7.3, 7.8).
func TestAskForASubagent(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(delegating("", bash("touch one"), bash("touch two")))
	h := r.start().with(&answers{permission: func(request object) any {
		if dig(request, "input", "command") == "touch one" {
			return allow()
		}
		return deny("not two")
	}})
	h.initialize(hooksOf(nil, "PreToolUse"))
	result := h.prompt(1)
	asked := h.asks("can_use_tool")
	if len(asked) != 2 || !r.exists("one") || r.exists("two") {
		t.Fatalf("asked %v", asked)
	}
	var inside object
	for _, l := range h.asks("hook_callback") {
		if in, _ := dig(l, "request", "input").(object); in["tool_name"] == "Bash" {
			inside = in
		}
	}
	for _, l := range asked {
		if id := dig(l, "request", "agent_id"); !is(id, "text") || id != inside["agent_id"] {
			t.Errorf("agent_id %v, the hook was told %v", id, inside["agent_id"])
		}
	}
	want := []any{object{"tool_name": "Bash", "tool_use_id": dig(asked[1], "request", "tool_use_id"), "tool_input": object{"command": "touch two"}}}
	if diff := cmp.Diff(want, result["permission_denials"]); diff != "" {
		t.Error(diff)
	}
}

// A subagent has no tools that its definition does not name, and none that the
// parent does not have (case B24 d and f).
func TestToolsOfASubagent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind string
		flags      []string
		gone       use
	}{
		{"definition", "reader", nil, bash("touch made")},
		{"definition, another tool", "reader", nil, writes("made")},
		{"parent", "", []string{"--disallowedTools", "Write"}, writes("made")},
		{"parent's list", "", []string{"--tools", "Read,Agent"}, bash("touch made")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(delegating(tt.kind, use{"Read", object{"file_path": "in.txt"}}, tt.gone))
			r.write("in.txt", "what is in it\n")
			h := r.start(append(tt.flags, "--permission-mode", "bypassPermissions")...)
			h.initialize(object{"agents": object{"reader": object{"description": "reads", "prompt": "You read.", "tools": []string{"Read"}}}})
			result := h.prompt(1)
			text, _ := result["result"].(string)
			if r.exists("made") || !strings.Contains(text, "what is in it") || !strings.Contains(text, "No such tool available: "+tt.gone.tool) {
				t.Errorf("the agent said %q", text)
			}
		})
	}
}
