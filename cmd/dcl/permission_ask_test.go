package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A command that changes something is asked about, one that only reads runs
// (checklist 55, S064, S010; peers/claude 07): the request has what spec stream-json
// 5.1 asks for, every suggestion is one that a host can take apart, and the call is
// on the wire before the question about it. Without --permission-prompt-tool it is
// the same (decision D8).
func TestAskForTouchNotForEcho(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"stdio": {"--permission-prompt-tool", "stdio"}, "by itself": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("echo one"), {"Bash", object{"command": "touch made", "description": "Make a file"}}})
			h := r.start(flags...).approving(allow())
			result := h.prompt(1)
			asked := h.asks("can_use_tool")
			if len(asked) != 1 {
				t.Fatalf("asked %d times: %v", len(asked), asked)
			}
			request, _ := asked[0]["request"].(object)
			want := object{"tool_name": "Bash", "tool_use_id": "call_1_1_2", "input": object{"command": "touch made", "description": "Make a file"}}
			for key, value := range want {
				if diff := cmp.Diff(value, request[key]); diff != "" {
					t.Errorf("%s: %s", key, diff)
				}
			}
			suggestions, _ := request["permission_suggestions"].([]any)
			if len(suggestions) == 0 {
				t.Error("no suggestions")
			}
			for _, s := range suggestions {
				checkUpdate(t, s)
			}
			id, _ := asked[0]["request_id"].(string)
			if !uuidForm.MatchString(id) {
				t.Errorf("request_id %q", id)
			}
			call := h.at(func(l object) bool { return l["type"] == "assistant" && block(l)["id"] == "call_1_1_2" })
			if question := h.at(isType("control_request")); call < 0 || call > question {
				t.Errorf("the call is line %d, the question line %d", call, question)
			}
			if !r.exists("made") || result["subtype"] != "success" || len(denials(result)) != 0 {
				t.Errorf("result %v", result)
			}
			if got := contentText(h.toolResults()[0]); got != "one" {
				t.Errorf("echo gave %q", got)
			}
		})
	}
}

// checkUpdate checks a PermissionUpdate as the Python SDK takes it apart.
func checkUpdate(t *testing.T, v any) {
	t.Helper()
	u, _ := v.(object)
	kind, _ := u["type"].(string)
	if !slices.Contains([]string{"addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"}, kind) {
		t.Errorf("type of %v", u)
	}
	if !slices.Contains([]any{"userSettings", "projectSettings", "localSettings", "session", "cliArg"}, u["destination"]) {
		t.Errorf("destination of %v", u)
	}
	if kind == "addRules" {
		rules, _ := u["rules"].([]any)
		if len(rules) == 0 || !slices.Contains([]any{"allow", "deny", "ask"}, u["behavior"]) {
			t.Errorf("rules of %v", u)
		}
		for _, rule := range rules {
			if o, _ := rule.(object); !is(o["toolName"], "text") || o["ruleContent"] != nil && !is(o["ruleContent"], "text") {
				t.Errorf("rule %v", rule)
			}
		}
	}
}

// Each kind of call is asked about with suggestions of its own (spec stream-json
// 7.6), with the path that led to the question (blocked_path), and with the rule
// that did (decision_reason_type rule).
func TestSuggestions(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, tt := range []struct {
		name  string
		call  use
		flags []string
		want  func(request object) string
	}{
		{"command", bash("npm test --watch"), nil, func(q object) string {
			return fmt.Sprint(dig(suggested(q, "addRules"), "destination"), " ", firstRule(suggested(q, "addRules"))["toolName"])
		}},
		{"edit", writes("new.txt"), nil, func(q object) string {
			u := suggested(q, "setMode")
			return fmt.Sprint(u["destination"], " ", u["mode"])
		}},
		{"outside", use{"Read", object{"file_path": outside + "/x.txt"}}, nil, func(q object) string {
			u := suggested(q, "addDirectories")
			dirs, _ := u["directories"].([]any)
			blocked, _ := q["blocked_path"].(string)
			return fmt.Sprint(u["destination"], " ", len(dirs), " ", strings.HasSuffix(blocked, "/x.txt"))
		}},
		{"ask rule", bash("echo quiet"), []string{"--settings", `{"permissions":{"ask":["Bash(echo:*)"]}}`}, func(q object) string {
			return fmt.Sprint(q["decision_reason_type"], " ", dig(q, "matched_ask_rule", "tool_name"), " ", dig(q, "matched_ask_rule", "rule_content"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{"command": "localSettings Bash", "edit": "session acceptEdits", "outside": "session 1 true", "ask rule": "rule Bash echo:*"}[tt.name]
			h := newRoom(t).rounds([]use{tt.call}).start(tt.flags...).approving(deny("no"))
			h.prompt(1)
			_, request := h.ask("can_use_tool", 1)
			if got := tt.want(request); got != want {
				t.Errorf("got %q, want %q in %v", got, want, request)
			}
		})
	}
}

func suggested(request object, kind string) object {
	list, _ := request["permission_suggestions"].([]any)
	for _, v := range list {
		if u, _ := v.(object); u["type"] == kind {
			return u
		}
	}
	return nil
}

func firstRule(u object) object {
	list, _ := u["rules"].([]any)
	if len(list) == 0 {
		return nil
	}
	rule, _ := list[0].(object)
	return rule
}

// Only what is exactly consent runs a call (checklist 56, 57, 59; cases B21, B23;
// S065; column can_use_tool of spec stream-json 5.6, error and malformed answers;
// peers/claude 07, 08, 09, 12). Refusals are results that say why and entries of
// permission_denials with what the model asked for; the turn goes on.
func TestApprovalAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer any
		// runs is the file that there is afterwards.
		runs string
		// says is in the result of the call; noted is on standard error.
		says, noted string
		// denied: the call is in permission_denials.
		denied bool
	}{
		{name: "allow", answer: object{"behavior": "allow"}, runs: "made"},
		{name: "allow, more than is known", answer: object{"behavior": "allow", "toolUseID": "x", "decisionClassification": "user_temporary"}, runs: "made"},
		{name: "null as input", answer: object{"behavior": "allow", "updatedInput": nil}, runs: "made"},
		{name: "another input", answer: object{"behavior": "allow", "updatedInput": object{"command": "touch other"}}, runs: "other"},
		{name: "an empty input", answer: object{"behavior": "allow", "updatedInput": object{}}, says: "command"},
		{name: "text as input", answer: object{"behavior": "allow", "updatedInput": "text"}, says: "invalid", noted: "updatedInput", denied: true},
		{name: "a list as input", answer: object{"behavior": "allow", "updatedInput": []int{}}, says: "invalid", noted: "updatedInput", denied: true},
		{name: "capitals", answer: object{"behavior": "ALLOW"}, says: "invalid", noted: "behavior", denied: true},
		{name: "capital key", answer: object{"Behavior": "allow"}, says: "invalid", noted: "behavior", denied: true},
		{name: "another word", answer: object{"behavior": "maybe"}, says: "invalid", noted: "behavior", denied: true},
		{name: "british", answer: object{"behaviour": "allow"}, says: "invalid", noted: "behavior", denied: true},
		{name: "nothing", answer: object{}, says: "invalid", noted: "behavior", denied: true},
		{name: "null", answer: nullAnswer, says: "invalid", denied: true},
		{name: "a list", answer: []any{}, says: "invalid", denied: true},
		{name: "true", answer: true, says: "invalid", denied: true},
		{name: "deny", answer: object{"behavior": "deny", "message": "not today"}, says: "not today", denied: true},
		{name: "deny without words", answer: object{"behavior": "deny"}, says: "", denied: true},
		{name: "deny, interrupt null", answer: object{"behavior": "deny", "message": "no", "interrupt": nil}, says: "no", denied: true},
		{name: "error", answer: failure("canUseTool callback is not provided"), says: "canUseTool callback is not provided", denied: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start().approving(tt.answer)
			result := h.prompt(1)
			results := h.toolResults()
			if len(results) != 1 {
				t.Fatalf("results %v", results)
			}
			text := contentText(results[0])
			if failed := results[0]["is_error"] == true; failed != (tt.runs == "") || !strings.Contains(text, tt.says) || failed && text == "" {
				t.Errorf("the result is %v", results[0])
			}
			if tt.name == "deny" && results[0]["content"] != "not today" {
				t.Errorf("content %v, want the message alone", results[0]["content"])
			}
			for _, file := range []string{"made", "other"} {
				if r.exists(file) != (file == tt.runs) {
					t.Errorf("%s is there: %v", file, r.exists(file))
				}
			}
			want := []any{}
			if tt.denied {
				want = []any{object{"tool_name": "Bash", "tool_use_id": "call_1_1_1", "tool_input": object{"command": "touch made"}}}
			}
			if diff := cmp.Diff(want, result["permission_denials"]); diff != "" {
				t.Error(diff)
			}
			if result["subtype"] != "success" || result["is_error"] != false || result["result"] != "done" || result["num_turns"] != 2.0 {
				t.Errorf("result %v", result)
			}
			h.says(tt.noted)
		})
	}
}

// nullAnswer is the JSON null as an answer.
var nullAnswer any = (*struct{})(nil)

// Input that the host has changed is checked again: deny rules hold for it, and the
// tool's schema (spec stream-json 5.1). permission_denials tells what the model
// asked for (7.8).
func TestChangedInputIsCheckedAgain(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	h := r.start("--disallowedTools", "Bash(rm:*)").approving(allow(object{"updatedInput": object{"command": "rm -f keep"}}))
	r.write("keep", "x")
	result := h.prompt(1)
	if !r.exists("keep") || r.exists("made") {
		t.Error("a denied command ran")
	}
	want := []any{object{"tool_name": "Bash", "tool_use_id": "call_1_1_1", "tool_input": object{"command": "touch made"}}}
	if diff := cmp.Diff(want, result["permission_denials"]); diff != "" {
		t.Error(diff)
	}
	if got := contentText(h.toolResults()[0]); got != "Permission to use Bash has been denied." && !strings.Contains(got, "denied") {
		t.Errorf("got %q", got)
	}
}

// A denial with interrupt ends the turn as an interrupt does (checklist 58; spec
// stream-json 5.1; peers/claude 10): no request to the model follows, and the next
// message runs.
func TestDenyWithInterrupt(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	h := r.start().approving(deny("stop now", object{"interrupt": true}))
	result := h.prompt(1)
	if result["subtype"] != "error_during_execution" || result["terminal_reason"] != "aborted_tools" || result["num_turns"] != 1.0 {
		t.Errorf("result %v", result)
	}
	if got := h.toolResults(); len(got) != 1 || got[0]["is_error"] != true || got[0]["content"] != "stop now" {
		t.Errorf("results %v", got)
	}
	if diff := cmp.Diff([]string{"Bash call_1_1_1"}, denials(result)); diff != "" || r.exists("made") {
		t.Error(diff)
	}
	h.approving(deny("no"))
	if result := h.prompt(2); result["subtype"] != "success" || result["result"] != "done" {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Calls of one answer are asked about each by itself, and answers may come in any
// order (case B22; spec stream-json 5.1): a denial of one stops none of the others,
// results come in the order of the calls.
func TestParallelAsks(t *testing.T) {
	t.Parallel()
	three := []use{bash("touch a"), bash("touch b"), bash("touch c")}
	t.Run("one denied", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds(three)
		h := r.start()
		h.user("go")
		byCommand := map[any]string{}
		for n := range three {
			id, request := h.ask("can_use_tool", n+1)
			byCommand[dig(request, "input", "command")] = id
			if len(byCommand) < n+1 {
				// Calls that may not run side by side are asked about one after the other.
				t.Fatalf("asked twice about %v", request)
			}
			if n == 0 && len(h.asks("can_use_tool")) == 1 {
				break
			}
		}
		answer := map[string]any{"touch a": allow(), "touch b": deny("not b"), "touch c": allow()}
		// The last is answered first where all are open.
		for n := 1; n <= 3; n++ {
			h.ask("can_use_tool", n)
			open := h.asks("can_use_tool")
			for _, l := range slices.Backward(open) {
				id, _ := l["request_id"].(string)
				command, _ := dig(l, "request", "input", "command").(string)
				if a, left := answer[command]; left {
					h.respond(id, a)
					delete(answer, command)
				}
			}
		}
		result := h.result(1)
		if !r.exists("a") || r.exists("b") || !r.exists("c") {
			t.Errorf("a %v, b %v, c %v", r.exists("a"), r.exists("b"), r.exists("c"))
		}
		var order []any
		for _, b := range h.toolResults() {
			order = append(order, b["tool_use_id"], b["is_error"] == true)
		}
		if diff := cmp.Diff([]any{"call_1_1_1", false, "call_1_1_2", true, "call_1_1_3", false}, order); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"Bash call_1_1_2"}, denials(result)); diff != "" || result["result"] != "done" {
			t.Error(diff, result)
		}
	})
	t.Run("one denied with interrupt", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds(three)
		h := r.start()
		h.answering(map[string]func(object) any{"can_use_tool": func(request object) any {
			switch dig(request, "input", "command") {
			case "touch a":
				return allow()
			case "touch b":
				return deny("not b", object{"interrupt": true})
			}
			return nil
		}})
		result := h.prompt(1)
		if result["subtype"] != "error_during_execution" || result["terminal_reason"] != "aborted_tools" {
			t.Errorf("result %v", result)
		}
		texts := map[any]string{}
		for _, b := range h.toolResults() {
			texts[b["tool_use_id"]] = contentText(b)
			if b["is_error"] != (b["tool_use_id"] != "call_1_1_1" || !r.exists("a")) && b["tool_use_id"] != "call_1_1_1" {
				t.Errorf("result %v", b)
			}
		}
		if len(texts) != 3 || texts["call_1_1_2"] != "not b" || strings.Contains(texts["call_1_1_3"], "not b") || r.exists("b") || r.exists("c") {
			t.Errorf("results %v", texts)
		}
		for _, l := range h.asks("can_use_tool") {
			id, _ := l["request_id"].(string)
			if open := dig(l, "request", "input", "command") == "touch c"; open && h.cancels(id) != 1 || !open && h.cancels(id) != 0 {
				t.Errorf("%d withdrawals of %v", h.cancels(id), l)
			}
		}
		if diff := cmp.Diff([]string{"Bash call_1_1_2"}, denials(result)); diff != "" {
			t.Error(diff)
		}
	})
}

// A question that an interrupt makes needless is withdrawn once, before the result;
// a late answer, and one more of another, change nothing (S070, checklist 23; column
// can_use_tool of spec stream-json 5.6; peers/claude 26).
func TestInterruptWithdrawsTheQuestion(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	h := r.start()
	h.user("go")
	id, _ := h.ask("can_use_tool", 1)
	if got := h.control("stop", "interrupt", nil); got["subtype"] != "success" {
		t.Errorf("interrupt: %v", got)
	}
	result := h.result(1)
	if result["subtype"] != "error_during_execution" || result["terminal_reason"] != "aborted_tools" || len(denials(result)) != 0 {
		t.Errorf("result %v", result)
	}
	if h.cancels(id) != 1 || h.at(isType("control_cancel_request")) > h.at(isType("result")) {
		t.Error("the question is not withdrawn before the result")
	}
	if got := h.toolResults(); len(got) != 1 || got[0]["content"] != "[Request interrupted by user for tool use]" || got[0]["is_error"] != true {
		t.Errorf("results %v", got)
	}
	h.respond(id, allow())
	h.respond("nobody", allow())
	h.approving(deny("no"))
	if result := h.prompt(2); result["subtype"] != "success" || r.exists("made") {
		t.Errorf("result %v", result)
	}
	h.end()
	if h.cancels(id) != 1 {
		t.Errorf("%d withdrawals", h.cancels(id))
	}
}

// When the input ends, what waits for the host fails at once and what comes later
// is not asked (checklist 60; column can_use_tool of spec stream-json 5.6, 1.8;
// case B20): both calls are denied and the turn goes on to its end.
func TestClosedInputDenies(t *testing.T) {
	t.Parallel()
	t.Run("while a question waits", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch one")}, []use{bash("touch two")})
		h := r.start()
		h.user("go")
		h.ask("can_use_tool", 1)
		if code := h.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		result := h.result(1)
		results := h.toolResults()
		if len(results) != 2 || !strings.Contains(contentText(results[0]), "Stream closed") || results[1]["is_error"] != true {
			t.Fatalf("results %v", results)
		}
		if len(h.asks("can_use_tool")) != 1 || r.exists("one") || r.exists("two") {
			t.Errorf("asked %v", h.asks("can_use_tool"))
		}
		if diff := cmp.Diff([]string{"Bash call_1_1_1", "Bash call_1_2_1"}, denials(result)); diff != "" || result["result"] != "done" {
			t.Error(diff, result)
		}
	})
	t.Run("before the turn", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("echo fine"), bash("touch one")})
		h := r.start()
		h.user("go")
		if code := h.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		result := h.result(1)
		if results := h.toolResults(); len(results) != 2 || results[0]["is_error"] == true || results[1]["is_error"] != true || r.exists("one") {
			t.Errorf("results %v", results)
		}
		if diff := cmp.Diff([]string{"Bash call_1_1_2"}, denials(result)); diff != "" {
			t.Error(diff)
		}
	})
}

// With nobody to ask, a question is a denial at once that says what it lacks (case
// B20, spec stream-json 7.3 rule 10), and the model is asked twice, not more.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"no prompts":   {"--permission-prompts", "none"},
		"mode dontAsk": {"--permission-mode", "dontAsk"},
		"ask rule":     {"--permission-prompts", "none", "--settings", `{"permissions":{"ask":["Bash(touch:*)"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start(flags...)
			result := h.prompt(1)
			got := h.toolResults()
			if len(h.asks("can_use_tool")) != 0 || len(got) != 1 || got[0]["is_error"] != true || r.exists("made") {
				t.Errorf("results %v", got)
			}
			if text := contentText(got[0]); name == "ask rule" && !strings.Contains(text, "Bash(touch:*)") {
				t.Errorf("%q does not name the rule", text)
			}
			want := []any{object{"tool_name": "Bash", "tool_use_id": "call_1_1_1", "tool_input": object{"command": "touch made"}}}
			if diff := cmp.Diff(want, result["permission_denials"]); diff != "" || result["num_turns"] != 2.0 {
				t.Error(diff, result)
			}
		})
	}
	t.Run("a host that takes too long", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--set", "permissions.answerLimitMs=300")
		h.user("go")
		id, _ := h.ask("can_use_tool", 1)
		result := h.result(1)
		if h.cancels(id) != 1 || r.exists("made") || len(denials(result)) != 1 || result["num_turns"] != 2.0 {
			t.Errorf("%d withdrawals, result %v", h.cancels(id), result)
		}
	})
}
