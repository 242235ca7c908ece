package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func decides(decision string, more ...object) object {
	o := object{"hookEventName": "PreToolUse", "permissionDecision": decision}
	for _, m := range more {
		for k, v := range m {
			o[k] = v
		}
	}
	return object{"hookSpecificOutput": o}
}

func adds(event, context string) object {
	return object{"hookSpecificOutput": object{"hookEventName": event, "additionalContext": context}}
}

// Callbacks are called for the events of a turn, in order, each with the fields of
// spec stream-json 6.2 and 5.2 (checklist 66, 67, S032, S067; peers/claude 16).
func TestHookInputs(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("echo hooked")}, []use{bash("exit 2")})
	a := &answers{}
	h := r.start("--allowedTools", "Bash").with(a)
	h.initialize(hooksOf(nil, "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied", "Stop", "SubagentStop", "PreCompact", "Notification"))
	result := h.prompt(1)
	want := []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure", "Stop"}
	if diff := cmp.Diff(want, a.events()); diff != "" {
		t.Fatal(diff)
	}
	for _, l := range h.asks("hook_callback") {
		request, _ := l["request"].(object)
		input, _ := request["input"].(object)
		event := input["hook_event_name"]
		if request["callback_id"] != event || input["session_id"] != result["session_id"] || input["cwd"] != r.work || input["permission_mode"] != "default" {
			t.Errorf("%v", l)
		}
		path, _ := input["transcript_path"].(string)
		if !strings.HasPrefix(path, filepath.Join(r.settings, "projects")+"/") || filepath.Base(path) != fmt.Sprint(result["session_id"], ".jsonl") {
			t.Errorf("transcript_path %q", path)
		}
		if id := request["tool_use_id"]; strings.Contains(fmt.Sprint(event), "Tool") && id != input["tool_use_id"] || !strings.Contains(fmt.Sprint(event), "Tool") && id != nil {
			t.Errorf("tool_use_id %v of %v", id, event)
		}
	}
	part := func(event string, n int, names ...string) object {
		got, in := object{}, a.inputs(event)[n]
		for _, name := range names {
			got[name] = in[name]
		}
		return got
	}
	tool := []string{"tool_name", "tool_input", "tool_use_id"}
	for what, diff := range map[string]string{
		"prompt": cmp.Diff(object{"prompt": "go 1"}, part("UserPromptSubmit", 0, "prompt")),
		"before": cmp.Diff(object{"tool_name": "Bash", "tool_input": object{"command": "echo hooked"}, "tool_use_id": "call_1_1_1"}, part("PreToolUse", 0, tool...)),
		"after":  cmp.Diff(object{"tool_name": "Bash", "tool_input": object{"command": "echo hooked"}, "tool_use_id": "call_1_1_1"}, part("PostToolUse", 0, tool...)),
		"failed": cmp.Diff(object{"tool_name": "Bash", "tool_input": object{"command": "exit 2"}, "tool_use_id": "call_1_2_1"}, part("PostToolUseFailure", 0, tool...)),
		"stop":   cmp.Diff(object{"stop_hook_active": false, "last_assistant_message": "done"}, part("Stop", 0, "stop_hook_active", "last_assistant_message")),
	} {
		if diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if response := a.inputs("PostToolUse")[0]["tool_response"]; !strings.Contains(encode(response), "hooked") {
		t.Errorf("tool_response %v", response)
	}
	if text, _ := a.inputs("PostToolUseFailure")[0]["error"].(string); text == "" {
		t.Error("no error")
	}
	for _, l := range h.of("system") {
		if l["subtype"] == "hook_started" || l["subtype"] == "hook_response" {
			t.Errorf("not asked for: %v", l)
		}
	}
}

// A matcher is a list of exact names, or a regular expression when it has other
// characters (checklist 66, spec stream-json 6.1); renamed tools have both names.
func TestHookMatchers(t *testing.T) {
	t.Parallel()
	calls := []use{bash("true"), writes("a.txt"), {"Edit", object{"file_path": "a.txt", "old_string": "x", "new_string": "y"}}, {"TodoWrite", object{"todos": []any{}}}}
	matchers := map[string]any{
		"absent": "absent", "null": nil, "empty": "", "star": "*", "list": "Edit|Write", "commas": "Edit, Write", "part": "Writ", "case": "bash",
		"expression": "^(Todo|B)", "dots": "W.ite", "mcp": "mcp__.*",
	}
	want := map[string]string{
		"absent": "Bash Write Edit TodoWrite", "null": "Bash Write Edit TodoWrite", "empty": "Bash Write Edit TodoWrite", "star": "Bash Write Edit TodoWrite",
		"list": "Write Edit", "commas": "Write Edit", "part": "", "case": "", "expression": "Bash TodoWrite", "dots": "Write TodoWrite", "mcp": "",
	}
	var hooks []object
	for id, m := range matchers {
		hook := object{"matcher": m, "hookCallbackIds": []string{id}}
		if m == "absent" {
			delete(hook, "matcher")
		}
		hooks = append(hooks, hook)
	}
	h := newRoom(t).rounds(calls).start("--permission-mode", "bypassPermissions").with(&answers{})
	h.initialize(object{"hooks": object{"PreToolUse": hooks}})
	h.prompt(1)
	got := map[string]string{}
	for id := range matchers {
		got[id] = ""
	}
	for _, l := range h.asks("hook_callback") {
		id, _ := dig(l, "request", "callback_id").(string)
		got[id] = strings.TrimSpace(got[id] + " " + fmt.Sprint(dig(l, "request", "input", "tool_name")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a PreToolUse callback decides, in every documented form (checklist 66, case
// B26; spec stream-json 6.3, 6.5, 6.6; peers/claude 17, 18): the call is touch made.
func TestPreToolUseVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		output any
		flags  []string
		// asked: the host is. It allows.
		asked bool
		// made is the file that there is afterwards.
		made string
		says string
	}{
		{"no opinion", object{}, nil, true, "made", ""},
		{"continue", object{"continue": true}, nil, true, "made", ""},
		{"allow", decides("allow"), nil, false, "made", ""},
		{"approve", object{"decision": "approve"}, nil, false, "made", ""},
		{"deny", decides("deny", object{"permissionDecisionReason": "the reason"}), nil, false, "", "the reason"},
		{"deny without a reason", decides("deny"), nil, false, "", "hook"},
		{"block", object{"decision": "block", "reason": "the reason"}, nil, false, "", "the reason"},
		{"deny under bypass", decides("deny", object{"permissionDecisionReason": "the reason"}), []string{"--permission-mode", "bypassPermissions"}, false, "", "the reason"},
		{"deny under an allow rule", decides("deny", object{"permissionDecisionReason": "the reason"}), []string{"--allowedTools", "Bash"}, false, "", "the reason"},
		{"ask under an allow rule", decides("ask", object{"permissionDecisionReason": "look at this"}), []string{"--allowedTools", "Bash"}, true, "made", ""},
		{"ask under bypass", decides("ask"), []string{"--permission-mode", "bypassPermissions"}, true, "made", ""},
		{"another input", decides("allow", object{"updatedInput": object{"command": "touch other"}}), nil, false, "other", ""},
		{"another input, asked about", object{"hookSpecificOutput": object{"hookEventName": "PreToolUse", "updatedInput": object{"command": "touch other"}}}, nil, true, "other", ""},
		{"another input that is denied", decides("allow", object{"updatedInput": object{"command": "touch other"}}), []string{"--disallowedTools", "Bash(touch other)"}, false, "", "denied"},
		{"an input that is wrong", decides("allow", object{"updatedInput": object{"file": 1}}), nil, false, "", "command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start(tt.flags...).with(&answers{hook: func(string, object) any { return tt.output }})
			h.initialize(hooksOf(nil, "PreToolUse"))
			result := h.prompt(1)
			asked := h.asks("can_use_tool")
			if (len(asked) == 1) != tt.asked {
				t.Errorf("asked %v", asked)
			}
			if tt.asked {
				if got := dig(asked[0], "request", "input", "command"); tt.made != "" && got != "touch "+tt.made {
					t.Errorf("asked about %v", got)
				}
				if tt.name == "ask under an allow rule" && (dig(asked[0], "request", "decision_reason_type") != "hook" || dig(asked[0], "request", "decision_reason") != "look at this") {
					t.Errorf("asked %v", asked[0])
				}
			}
			for _, file := range []string{"made", "other"} {
				if r.exists(file) != (file == tt.made) {
					t.Errorf("%s is there: %v", file, r.exists(file))
				}
			}
			b := h.toolResults()[0]
			if (b["is_error"] == true) != (tt.made == "") || !strings.Contains(contentText(b), tt.says) {
				t.Errorf("result %v", b)
			}
			want := []any{}
			if tt.made == "" && tt.name != "an input that is wrong" {
				want = []any{object{"tool_name": "Bash", "tool_use_id": "call_1_1_1", "tool_input": object{"command": "touch made"}}}
			}
			if diff := cmp.Diff(want, result["permission_denials"]); diff != "" || result["subtype"] != "success" {
				t.Error(diff)
			}
		})
	}
}

// Of several hooks the strictest holds, and the later of two inputs in the order of
// the configuration, whoever answers first (spec stream-json 6.5 rule 1).
func TestHooksTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		outputs []object
		want    string
	}{
		{"deny over all", []object{decides("allow"), decides("ask"), decides("deny", object{"permissionDecisionReason": "no"}), decides("defer")}, "denied"},
		{"defer over ask", []object{decides("ask"), decides("defer"), decides("allow")}, "deferred"},
		{"ask over allow", []object{decides("allow"), decides("ask"), {}}, "asked"},
		{"allow", []object{{}, decides("allow")}, "ran"},
		{"inputs in order", []object{decides("allow", object{"updatedInput": object{"command": "touch first"}}), decides("allow", object{"updatedInput": object{"command": "touch made"}})}, "ran"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start()
			var ids []string
			for i := range tt.outputs {
				ids = append(ids, fmt.Sprint(i))
			}
			h.initialize(object{"hooks": object{"PreToolUse": []object{{"hookCallbackIds": ids}}}})
			h.user("go")
			h.ask("hook_callback", len(ids)) // all run side by side
			for i := len(ids); i > 0; i-- {
				id, request := h.ask("hook_callback", i)
				var n int
				_, _ = fmt.Sscan(fmt.Sprint(request["callback_id"]), &n)
				h.respond(id, tt.outputs[n])
			}
			if tt.want == "asked" {
				id, _ := h.ask("can_use_tool", 1)
				h.respond(id, allow())
			}
			result := h.result(1)
			got := "ran"
			switch {
			case result["stop_reason"] == "tool_deferred":
				got = "deferred"
			case len(denials(result)) > 0:
				got = "denied"
			case len(h.asks("can_use_tool")) > 0:
				got = "asked"
			}
			if got != tt.want || r.exists("made") != (got == "ran" || got == "asked") || r.exists("first") {
				t.Errorf("%s, want %s; %v", got, tt.want, result)
			}
		})
	}
}

// A deferred call does not run and ends the turn as a success that names it (spec
// stream-json 6.6).
func TestDeferredCall(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	h := r.start().with(&answers{hook: func(string, object) any { return decides("defer") }})
	h.initialize(hooksOf(nil, "PreToolUse"))
	result := h.prompt(1)
	want := object{"id": "call_1_1_1", "name": "Bash", "input": object{"command": "touch made"}}
	if diff := cmp.Diff(want, result["deferred_tool_use"]); diff != "" || result["subtype"] != "success" || result["stop_reason"] != "tool_deferred" || result["num_turns"] != 1.0 {
		t.Error(diff, result)
	}
	if r.exists("made") || len(denials(result)) != 0 {
		t.Errorf("result %v", result)
	}
}

// Context and blocks of UserPromptSubmit (checklist 67; spec stream-json 6.5 rule 6;
// peers/claude 20): a blocked prompt is a success without a model request whose
// reason is told, and the next prompt runs.
func TestBlockedPrompt(t *testing.T) {
	t.Parallel()
	h := newRoom(t).rounds().start().with(&answers{hook: func(_ string, in object) any {
		if in["prompt"] == "go 1" {
			return object{"decision": "block", "reason": "not this one"}
		}
		return object{}
	}})
	h.initialize(hooksOf(nil, "UserPromptSubmit"))
	result := h.prompt(1)
	if result["subtype"] != "success" || result["is_error"] != false || result["num_turns"] != 0.0 || len(h.of("assistant")) != 0 {
		t.Errorf("result %v", result)
	}
	told := h.of("system/informational")
	if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0]["content"]), "not this one") {
		t.Errorf("told %v", told)
	}
	if result := h.prompt(2); result["result"] != "done" || result["num_turns"] != 1.0 {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What hooks say after a call (checklist 67; spec stream-json 6.3, 6.5 rule 4;
// peers/claude 19): the model gets it beside the result, or in its place; the call
// has run in any case. What the model got it says in the scripted answer.
func TestPostToolUse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		output  object
		command string
		// has and lacks are texts of what the model got.
		has, lacks string
		stopped    bool
	}{
		{name: "context", output: adds("PostToolUse", "mind the gap"), has: "mind the gap"},
		{name: "block", output: object{"decision": "block", "reason": "do it again"}, has: "do it again"},
		{name: "another output", output: object{"hookSpecificOutput": object{"hookEventName": "PostToolUse", "updatedToolOutput": "something else"}}, has: "something else", lacks: "original"},
		{name: "stop", output: object{"continue": false, "stopReason": "enough"}, stopped: true},
		{name: "a failure", output: adds("PostToolUseFailure", "it failed"), command: "echo original; exit 3", has: "it failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := tt.command
			if command == "" {
				command = "echo original"
			}
			r := newRoom(t).script(encode(object{"rules": append(steps(nil, []use{bash(command)}), object{"reply": "{{result}}"})}))
			h := r.start("--allowedTools", "Bash").with(&answers{hook: func(string, object) any { return tt.output }})
			h.initialize(hooksOf(nil, "PostToolUse", "PostToolUseFailure"))
			result := h.prompt(1)
			got, _ := result["result"].(string)
			if !strings.Contains(got, tt.has) || tt.lacks != "" && strings.Contains(got, tt.lacks) || tt.has != "" && tt.lacks == "" && !strings.Contains(got, "original") {
				t.Errorf("the model got %q", got)
			}
			if tt.stopped {
				if result["subtype"] != "success" || result["is_error"] != false || result["terminal_reason"] != "hook_stopped" || result["num_turns"] != 1.0 {
					t.Errorf("result %v", result)
				}
				if told := h.of("system/informational"); len(told) == 0 || !strings.Contains(encode(told), "enough") {
					t.Errorf("told %v", told)
				}
			}
		})
	}
}

// One callback hears of all calls of an answer, whatever became of them; one that
// says continue:false ends the turn (spec stream-json 6.2, 6.3).
func TestPostToolBatch(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"goes on": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &answers{permission: func(object) any { return deny("no") }, hook: func(string, object) any { return object{"continue": !stop, "stopReason": "enough"} }}
			r := newRoom(t).script(encode(object{"rules": append(steps(nil, []use{bash("echo one"), writes("w.txt"), bash("exit 3")}), object{"reply": "done"})}))
			h := r.start("--allowedTools", "Bash").with(a)
			h.initialize(hooksOf(nil, "PostToolBatch"))
			result := h.prompt(1)
			inputs := a.inputs("PostToolBatch")
			if len(inputs) != 1 {
				t.Fatalf("heard %d times: %v", len(inputs), inputs)
			}
			var names []string
			calls, _ := inputs[0]["tool_calls"].([]any)
			for _, c := range calls {
				names = append(names, fmt.Sprint(dig(c.(object), "tool_name"), " ", dig(c.(object), "tool_use_id"), " ", dig(c.(object), "tool_input", "command")))
				if text, _ := dig(c.(object), "tool_response").(string); text == "" {
					t.Errorf("a call without a response: %v", c)
				}
			}
			if diff := cmp.Diff([]string{"Bash call_1_1_1 echo one", "Write call_1_1_2 <nil>", "Bash call_1_1_3 exit 3"}, names); diff != "" {
				t.Error(diff)
			}
			want := "success false completed done"
			if stop {
				want = "success false hook_stopped "
			}
			if got := fmt.Sprint(result["subtype"], " ", result["is_error"], " ", result["terminal_reason"], " ", result["result"]); got != want {
				t.Errorf("result %q, want %q", got, want)
			}
		})
	}
}

// A Stop hook that blocks makes the turn go on with its reason, at most eight times
// in a row; one that says continue:false ends it (checklist 67; spec stream-json 6.5
// rule 5).
func TestStopHooks(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, stop func(n int) object) (*host, *answers) {
		a := &answers{}
		a.hook = func(string, object) any { return stop(len(a.inputs("Stop"))) }
		h := newRoom(t).script(encode(object{"rules": []object{{"reply": "said {{user}}"}}})).start().with(a)
		h.initialize(hooksOf(nil, "Stop"))
		return h, a
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		h, a := start(t, func(n int) object {
			if n == 1 {
				return object{"decision": "block", "reason": "one more thing"}
			}
			return object{}
		})
		result := h.prompt(1)
		if result["subtype"] != "success" || result["num_turns"] != 2.0 {
			t.Errorf("result %v", result)
		}
		var active []any
		for _, in := range a.inputs("Stop") {
			active = append(active, in["stop_hook_active"])
		}
		if diff := cmp.Diff([]any{false, true}, active); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("for ever", func(t *testing.T) {
		t.Parallel()
		h, _ := start(t, func(int) object { return object{"decision": "block", "reason": "again"} })
		if result := h.prompt(1); result["num_turns"] != 9.0 || result["subtype"] != "success" {
			t.Errorf("result %v", result)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		h, _ := start(t, func(int) object {
			return object{"continue": false, "stopReason": "that will do", "decision": "block", "reason": "x"}
		})
		if result := h.prompt(1); result["num_turns"] != 1.0 || result["terminal_reason"] != "stop_hook_prevented" || result["is_error"] != false {
			t.Errorf("result %v", result)
		}
	})
}

// Hooks that fail do not fail the turn, unless the matcher says so (checklist 68;
// column hook_callback of spec stream-json 5.6; 6.3, 6.5 rule 7): error answers,
// answers that are none, wrong types, shapes that there are not (case B26). Each is
// told in a line that names the member. Unknown events and null are no mistakes
// (S032).
func TestHooksThatFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		output any
		names  string
	}{
		{"error answer", failure("callback is gone"), "callback is gone"},
		{"null", nullAnswer, ""},
		{"text", "yes", ""},
		{"a list", []int{1}, ""},
		{"another shape", object{"permission": "deny"}, "permission"},
		{"another shape, deeper", object{"hookSpecificOutput": object{"hookEventName": "PreToolUse", "decision": "deny"}}, "decision"},
		{"another word", decides("refuse"), "permissionDecision"},
		{"another event", object{"hookSpecificOutput": object{"hookEventName": "PostToolUse", "permissionDecision": "deny"}}, "hookEventName"},
		{"wrong type", object{"hookSpecificOutput": object{"hookEventName": "PreToolUse", "permissionDecision": true}}, "permissionDecision"},
		{"wrong type of continue", object{"continue": "no"}, "continue"},
	} {
		for _, onFailure := range []string{"", "continue", "block"} {
			t.Run(tt.name+" "+onFailure, func(t *testing.T) {
				t.Parallel()
				r := newRoom(t).rounds([]use{bash("touch made")})
				h := r.start("--allowedTools", "Bash").with(&answers{hook: func(string, object) any { return tt.output }})
				more := object{"matcher": nil}
				if onFailure != "" {
					more["onFailure"] = onFailure
				}
				in := hooksOf(more, "PreToolUse", "NoSuchEvent")
				in["hooks"].(object)["WorktreeCreate"] = nil
				answer := h.initialize(in)
				if answer["hooks_applied"] != true || (answer["hook_on_failure_supported"] == true) != (onFailure == "block") {
					t.Errorf("hooks_applied %v, hook_on_failure_supported %v", answer["hooks_applied"], answer["hook_on_failure_supported"])
				}
				result := h.prompt(1)
				if blocked := onFailure == "block"; r.exists("made") == blocked || len(denials(result)) == 1 != blocked || result["result"] != "done" {
					t.Errorf("made %v, result %v", r.exists("made"), result)
				}
				told := h.of("system/informational")
				if len(told) != 1 || told[0]["level"] != "warning" || !strings.Contains(fmt.Sprint(told[0]["content"]), tt.names) {
					t.Errorf("told %v", told)
				}
				h.says(tt.names)
			})
		}
	}
	t.Run("null hooks", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).rounds().start()
		if answer := h.initialize(object{"hooks": nil}); answer["hooks_applied"] != nil {
			t.Errorf("hooks_applied %v", answer["hooks_applied"])
		}
		h.prompt(1)
	})
	t.Run("unknown members beside known ones", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start().with(&answers{hook: func(string, object) any {
			return object{"continue": true, "mood": "good", "hookSpecificOutput": object{"hookEventName": "PreToolUse", "permissionDecision": "allow", "colour": "red"}}
		}})
		h.initialize(hooksOf(nil, "PreToolUse"))
		if h.prompt(1); !r.exists("made") || len(h.of("system/informational")) != 0 {
			t.Errorf("told %v", h.of("system/informational"))
		}
	})
}

// A callback that does not answer is withdrawn when its limit, in seconds, is over
// (checklist 69, case B27; spec stream-json 5.2): a call or a prompt is blocked,
// everything else goes on. A late answer changes nothing.
func TestHookLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		event string
		check func(r *room, h *host, result object) bool
	}{
		{"PreToolUse", func(r *room, h *host, result object) bool {
			return !r.exists("made") && len(denials(result)) == 1 && result["result"] == "done"
		}},
		{"UserPromptSubmit", func(r *room, h *host, result object) bool { return !r.exists("made") && result["num_turns"] == 0.0 }},
		{"PostToolUse", func(r *room, h *host, result object) bool { return r.exists("made") && result["result"] == "done" }},
		{"Stop", func(r *room, h *host, result object) bool {
			return r.exists("made") && result["result"] == "done" && result["num_turns"] == 2.0
		}},
	} {
		t.Run(tt.event, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start("--allowedTools", "Bash").with(&answers{hook: func(string, object) any { return nil }})
			h.initialize(hooksOf(object{"timeout": 0.2}, tt.event))
			result := h.prompt(1)
			id, _ := h.ask("hook_callback", 1)
			if h.cancels(id) != 1 || h.at(isType("control_cancel_request")) > h.at(isType("result")) || result["subtype"] != "success" || !tt.check(r, h, result) {
				t.Errorf("%d withdrawals, result %v", h.cancels(id), result)
			}
			if told := encode(h.of("system/informational")); !strings.Contains(told, tt.event) {
				t.Errorf("told %s", told)
			}
			h.respond(id, decides("allow"))
		})
	}
	t.Run("seconds", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--allowedTools", "Bash")
		h.initialize(hooksOf(object{"timeout": 20}, "PreToolUse"))
		h.user("go")
		id, _ := h.ask("hook_callback", 1)
		time.Sleep(100 * time.Millisecond) // longer than 20 ms
		h.respond(id, object{})
		h.result(1)
		if h.cancels(id) != 0 || !r.exists("made") {
			t.Error("the limit was taken for milliseconds")
		}
	})
}

// A PermissionRequest hook and the host are asked side by side; the first settles
// it, and the other is withdrawn (spec stream-json 6.5 rule 3; peers/claude 16).
func TestPermissionRequestHook(t *testing.T) {
	t.Parallel()
	says := func(decision object) object {
		return object{"hookSpecificOutput": object{"hookEventName": "PermissionRequest", "decision": decision}}
	}
	for _, tt := range []struct {
		name   string
		hook   any // nil does not answer
		host   any
		second string // who answers only after the other was asked
		made   string
		text   string
	}{
		{name: "the hook allows", hook: says(object{"behavior": "allow"}), made: "made"},
		{name: "the hook allows with another input", hook: says(object{"behavior": "allow", "updatedInput": object{"command": "touch other"}}), made: "other"},
		{name: "the hook denies", hook: says(object{"behavior": "deny", "message": "the hook says no"}), text: "the hook says no"},
		{name: "the host allows", host: allow(), made: "made"},
		{name: "the hook has no opinion", hook: object{}, host: deny("the host says no"), text: "the host says no"},
		{name: "the hook fails", hook: failure("oh"), host: allow(), made: "made"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start()
			h.initialize(hooksOf(nil, "PermissionRequest"))
			h.user("go")
			question, _ := h.ask("can_use_tool", 1)
			hook, request := h.ask("hook_callback", 1)
			if in, _ := request["input"].(object); in["tool_name"] != "Bash" || dig(in, "tool_input", "command") != "touch made" || in["tool_use_id"] != nil {
				t.Errorf("input %v", in)
			}
			if tt.hook != nil {
				h.respond(hook, tt.hook)
			}
			if tt.host != nil {
				h.respond(question, tt.host)
			}
			result := h.result(1)
			if r.exists("made") != (tt.made == "made") || r.exists("other") != (tt.made == "other") || len(denials(result)) == 1 != (tt.made == "") {
				t.Errorf("result %v", result)
			}
			if b := h.toolResults()[0]; tt.text != "" && contentText(b) != tt.text {
				t.Errorf("result %v", b)
			}
			if got, want := h.cancels(question) == 1, tt.host == nil; got != want {
				t.Errorf("question withdrawn: %v", got)
			}
			if got, want := h.cancels(hook) == 1, tt.hook == nil; got != want {
				t.Errorf("hook withdrawn: %v", got)
			}
		})
	}
}

// Hooks that the host cannot answer any more (column hook_callback of spec
// stream-json 5.6): a hook that waits fails when the input ends and the action goes
// on, unless the matcher blocks; later ones are not sent. An interrupt withdraws it.
func TestHooksWithoutAHost(t *testing.T) {
	t.Parallel()
	for _, onFailure := range []string{"continue", "block"} {
		t.Run("end of input, "+onFailure, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch one")}, []use{bash("touch two")})
			h := r.start("--allowedTools", "Bash")
			h.initialize(hooksOf(object{"onFailure": onFailure}, "PreToolUse"))
			h.user("go")
			h.ask("hook_callback", 1)
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			result := h.result(1)
			blocked := onFailure == "block"
			if r.exists("one") == blocked || r.exists("two") == blocked || len(denials(result)) == 2 != blocked || result["result"] != "done" {
				t.Errorf("result %v", result)
			}
			if len(h.asks("hook_callback")) != 1 {
				t.Errorf("called %v", h.asks("hook_callback"))
			}
		})
	}
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch one")})
		h := r.start("--allowedTools", "Bash")
		h.initialize(hooksOf(object{"onFailure": "block"}, "PreToolUse"))
		h.user("go")
		id, _ := h.ask("hook_callback", 1)
		h.control("stop", "interrupt", nil)
		result := h.result(1)
		if h.cancels(id) != 1 || h.at(isType("control_cancel_request")) > h.at(isType("result")) || r.exists("one") || result["subtype"] != "error_during_execution" || len(denials(result)) != 0 {
			t.Errorf("%d withdrawals, result %v", h.cancels(id), result)
		}
	})
}
