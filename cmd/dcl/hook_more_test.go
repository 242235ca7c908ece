package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Hooks hear of the start of a session, of questions that wait and of refusals
// (spec stream-json 6.2): SessionStart in front of everything else.
func TestHooksAroundAQuestion(t *testing.T) {
	t.Parallel()
	a := &answers{permission: func(object) any { return deny("the host says no") }}
	h := newRoom(t).rounds([]use{bash("touch made")}).start().with(a)
	h.initialize(hooksOf(nil, "SessionStart", "UserPromptSubmit", "Notification", "PermissionDenied"))
	h.prompt(1)
	eventually(t, "all events", func() bool { return len(a.events()) == 4 })
	if got := a.events(); got[0] != "SessionStart" || got[1] != "UserPromptSubmit" {
		t.Errorf("events %v", got)
	}
	if in := a.inputs("SessionStart")[0]; in["source"] != "startup" {
		t.Errorf("input %v", in)
	}
	if in := a.inputs("Notification")[0]; in["notification_type"] != "permission_prompt" || !is(in["message"], "text") {
		t.Errorf("input %v", in)
	}
	in := a.inputs("PermissionDenied")[0]
	if in["tool_name"] != "Bash" || in["tool_use_id"] != "call_1_1_1" || in["reason"] != "the host says no" || dig(in, "tool_input", "command") != "touch made" {
		t.Errorf("input %v", in)
	}
}

// Calls that are mistakes reach no hook (spec stream-json 7.3 rules 1 to 3).
func TestMistakesReachNoHook(t *testing.T) {
	t.Parallel()
	a := &answers{}
	h := newRoom(t).rounds([]use{{"Bash", object{"cmd": "x"}}, {"Nonsense", object{}}, bash("echo fine")}).start().with(a)
	h.initialize(hooksOf(nil, "PreToolUse"))
	h.prompt(1)
	var got []any
	for _, in := range a.inputs("PreToolUse") {
		got = append(got, in["tool_use_id"])
	}
	if diff := cmp.Diff([]any{"call_1_1_3"}, got); diff != "" {
		t.Error(diff)
	}
}

// A hook in the background blocks nothing (spec stream-json 6.3).
func TestAsyncHook(t *testing.T) {
	t.Parallel()
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--allowedTools", "Bash", "--settings", commands("PreToolUse", nil, `echo '{"async":true}'; while [ ! -e made ]; do sleep 0.02; done; echo x > went-on; exit 2`))
		if result := h.prompt(1); !r.exists("made") || len(denials(result)) != 0 {
			t.Errorf("result %v", result)
		}
		r.awaitFile("went-on")
	})
	t.Run("callback", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--allowedTools", "Bash").with(&answers{hook: func(string, object) any { return object{"async": true, "asyncTimeout": 5000} }})
		h.initialize(hooksOf(nil, "PreToolUse"))
		if h.prompt(1); !r.exists("made") || len(h.of("system/informational")) != 0 {
			t.Errorf("told %v", h.of("system/informational"))
		}
	})
}

// Elicitation hooks answer before the host is asked (spec stream-json 5.4, 6.2).
func TestElicitationHook(t *testing.T) {
	t.Parallel()
	a := &answers{
		hook: func(_ string, in object) any {
			return object{"hookSpecificOutput": object{"hookEventName": "Elicitation", "action": "accept", "content": object{"pick": "by hook"}}}
		},
		elicit: func(object) any { return nil },
	}
	h := newRoom(t).rounds([]use{{"mcp__desk__ask", object{}}}).start(append(serving(map[string]string{"desk": "good"}), "--allowedTools", "mcp__desk")...).with(a)
	h.initialize(hooksOf(object{"matcher": "desk"}, "Elicitation"))
	h.prompt(1)
	if got := contentText(h.toolResults()[0]); got != "accept by hook" {
		t.Errorf("got %q", got)
	}
	if in := a.inputs("Elicitation")[0]; in["mcp_server_name"] != "desk" || in["message"] != "Which one?" {
		t.Errorf("input %v", in)
	}
}

// What one hook says to the model is capped at 10,000 characters; the rest is in a
// file that is named (spec stream-json 6.3).
func TestLongContext(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 2000)
	r := newRoom(t).script(encode(object{"rules": append(steps(nil, []use{bash("echo original")}), object{"reply": "{{result}}"})}))
	h := r.start().with(&answers{hook: func(string, object) any { return adds("PostToolUse", long) }})
	h.initialize(hooksOf(nil, "PostToolUse"))
	got, _ := h.prompt(1)["result"].(string)
	if len(got) > 10_500 || !strings.Contains(got, "0123456789") {
		t.Fatalf("%d characters", len(got))
	}
	_, path, _ := strings.Cut(got, "all of it is in ")
	path, _, _ = strings.Cut(path, "]")
	if kept := r.read(path); kept != long {
		t.Errorf("%d characters in %q", len(kept), path)
	}
}

// systemMessage is told, beside whatever else a hook says (spec stream-json 6.3;
// peers/claude 18).
func TestSystemMessage(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	h := r.start().with(&answers{hook: func(string, object) any {
		out := decides("allow")
		out["systemMessage"] = "from the hook"
		return out
	}})
	h.initialize(hooksOf(nil, "PreToolUse"))
	h.prompt(1)
	told := h.of("system/informational")
	if len(told) != 1 || told[0]["level"] != "warning" || !strings.Contains(fmt.Sprint(told[0]["content"]), "from the hook") || !r.exists("made") {
		t.Errorf("told %v", told)
	}
}

// Lines come in the order of events (spec stream-json 0.2 rule 9): a host has seen
// the call that its hook or its server is asked about.
func TestCallsAreShownFirst(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]string{"server": nil, "hook": {"PreToolUse"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := aTool("echo")
			tool["annotations"] = object{"readOnlyHint": true}
			app := &sdkServer{tools: []object{tool}}
			h := newRoom(t).rounds([]use{{"mcp__app__echo", object{"text": "a"}}, {"mcp__app__echo", object{"text": "b"}}}).start().with(&answers{mcp: app.answer})
			in := hooksOf(nil, events...)
			in["sdkMcpServers"] = []string{"app"}
			h.initialize(in)
			h.prompt(1)
			shown := map[any]bool{}
			for i, l := range h.all() {
				if l["type"] == "assistant" {
					shown[block(l)["id"]] = true
				}
				for _, id := range []any{dig(l, "request", "tool_use_id"), dig(l, "request", "message", "params", "_meta", "claudecode/toolUseId")} {
					if id != nil && !shown[id] {
						t.Errorf("line %d is about %v, which has not been shown", i, id)
					}
				}
			}
		})
	}
}
