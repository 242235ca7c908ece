package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// question is a call of AskUserQuestion, and its arguments.
func question() use {
	option := func(label string) object { return object{"label": label, "description": "It is " + label + "."} }
	return use{"AskUserQuestion", object{"questions": []any{
		object{"question": "Which database?", "header": "Database", "multiSelect": false, "options": []any{option("SQLite"), option("Postgres")}},
		object{"question": "Which parts?", "header": "Parts", "multiSelect": true, "options": []any{option("API"), option("UI"), option("CLI")}},
	}}}
}

// answered gives updatedInput as clients do: what came, with more beside it.
func answered(request, more object) object {
	input := object{}
	for k, v := range request["input"].(object) {
		input[k] = v
	}
	for k, v := range more {
		input[k] = v
	}
	return allow(object{"updatedInput": input})
}

// AskUserQuestion arrives as can_use_tool, in every mode that asks anybody, and the
// host's answers become the result (spec stream-json 5.1, 9, D7; S076).
func TestAskUserQuestion(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"default", "plan", "bypassPermissions"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).rounds([]use{question()}).start("--permission-mode", mode)
			var asked object
			h.with(&answers{permission: func(request object) any {
				asked = request
				return answered(request, object{"answers": object{"Which database?": "SQLite", "Which parts?": []any{"API", "CLI"}}})
			}})
			result := h.prompt(1)
			if result["subtype"] != "success" || len(denials(result)) != 0 {
				t.Errorf("result %v", result)
			}
			if asked["tool_name"] != "AskUserQuestion" || asked["permission_suggestions"] != nil || asked["tool_use_id"] != "call_1_1_1" {
				t.Errorf("asked %v", asked)
			}
			if diff := cmp.Diff(normal(question().args), asked["input"]); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			got := h.toolResults()
			want := "The user has answered:\n\"Which database?\" = \"SQLite\"\n\"Which parts?\" = \"API, CLI\""
			if len(got) != 1 || got[0]["is_error"] == true || contentText(got[0]) != want {
				t.Errorf("results %v", got)
			}
			structured := normal(question().args).(object)
			structured["answers"] = object{"Which database?": "SQLite", "Which parts?": "API, CLI"}
			for _, l := range h.of("user") {
				if diff := cmp.Diff(structured, l["tool_use_result"]); block(l)["type"] == "tool_result" && diff != "" {
					t.Errorf("structured result (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// normal is a value as it comes back from JSON.
func normal(v any) (back any) {
	if err := wirejson.Unmarshal([]byte(encode(v)), &back); err != nil {
		panic(err)
	}
	return back
}

// A question that is not answered is refused in the host's words, or with advice
// where no host can be asked (spec stream-json 5.1, 5.6, 7.1; case B20).
func TestQuestionRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags  []string
		answer any // of the host; nil is one whose input has ended
		says   string
	}{
		"denied":          {nil, deny("Decide by yourself."), "Decide by yourself."},
		"no callback":     {nil, failure("canUseTool callback is not provided"), "canUseTool callback is not provided"},
		"dontAsk":         {[]string{"--permission-mode", "dontAsk"}, allow(), "dontAsk mode"},
		"no prompts":      {[]string{"--permission-prompts", "none"}, allow(), "say in your reply what you have assumed"},
		"answers missing": {nil, allow(object{"updatedInput": object{"answers": object{"Which database?": "SQLite"}}}), "/questions"},
		"nobody there":    {nil, nil, "Stream closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).rounds([]use{question()}).start(tc.flags...)
			if tc.answer == nil {
				h.user("go")
				_ = h.stdin.Close()
			} else {
				h.approving(tc.answer).user("go")
			}
			result := h.result(1)
			got := h.toolResults()
			if len(got) != 1 || got[0]["is_error"] != true || !strings.Contains(contentText(got[0]), tc.says) {
				t.Errorf("results %v", got)
			}
			if result["subtype"] != "success" {
				t.Errorf("result %v", result)
			}
			want := []string{"AskUserQuestion call_1_1_1"}
			if name == "answers missing" {
				want = nil // what the host has sent is wrong; nobody has refused
			}
			if diff := cmp.Diff(want, denials(result)); diff != "" {
				t.Errorf("permission_denials (-want +got):\n%s", diff)
			}
		})
	}
}

// modes gives the modes that lines of status tell, in order.
func (h *host) modes() (list []any) {
	for _, l := range h.of("system/status") {
		list = append(list, l["permissionMode"])
	}
	return list
}

func exit(plan string) use { return use{"ExitPlanMode", object{"plan": plan}} }

// An approved plan ends plan mode: the host is told, and a Write asks as before
// (spec stream-json 3.10, 5.1; D7).
func TestPlanApproved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags  []string
		before string // a mode that is set before the turn
		answer object // about the plan
		told   []any  // modes
		asked  string // tools that the host was asked about
	}{
		"from the start":      {[]string{"--permission-mode", "plan"}, "", allow(), []any{"default"}, "ExitPlanMode Write"},
		"from acceptEdits":    {[]string{"--permission-mode", "acceptEdits"}, "plan", allow(), []any{"plan", "acceptEdits"}, "ExitPlanMode"},
		"into acceptEdits":    {[]string{"--permission-mode", "plan"}, "", allow(object{"updatedPermissions": []any{object{"type": "setMode", "mode": "acceptEdits", "destination": "session"}}}), []any{"acceptEdits"}, "ExitPlanMode"},
		"into plan once more": {[]string{"--permission-mode", "plan"}, "", allow(object{"updatedInput": object{"plan": "1. Write twice."}}), []any{"default"}, "ExitPlanMode Write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).rounds([]use{writes("early.txt")}, []use{exit("1. Write.")}, []use{writes("late.txt")}).start(tc.flags...)
			var asked []string
			h.with(&answers{permission: func(request object) any {
				name, _ := request["tool_name"].(string)
				asked = append(asked, name)
				if name == "ExitPlanMode" {
					if plan := dig(request, "input", "plan"); plan != "1. Write." {
						t.Errorf("plan %v", plan)
					}
					return tc.answer
				}
				return allow()
			}})
			h.initialize(nil)
			h.wait("system/init", isType("system/init"))
			if tc.before != "" {
				h.control("mode", "set_permission_mode", object{"mode": tc.before})
			}
			result := h.prompt(1)
			if diff := cmp.Diff(tc.told, h.modes()); diff != "" {
				t.Errorf("modes that were told (-want +got):\n%s", diff)
			}
			if got := strings.Join(asked, " "); got != tc.asked {
				t.Errorf("asked about %q, want %q", got, tc.asked)
			}
			if h.room.exists("early.txt") || !h.room.exists("late.txt") {
				t.Errorf("early: %v, late: %v", h.room.exists("early.txt"), h.room.exists("late.txt"))
			}
			if diff := cmp.Diff([]string{"Write call_1_1_1"}, denials(result)); diff != "" {
				t.Errorf("permission_denials (-want +got):\n%s", diff)
			}
			// The line stands behind the call's result and before that of the turn.
			last := h.at(func(l object) bool {
				return l["type"] == "system" && l["permissionMode"] == tc.told[len(tc.told)-1] && l["subtype"] == "status"
			})
			left := h.at(func(l object) bool { return block(l)["tool_use_id"] == "call_1_2_1" })
			if end := h.at(isType("result")); left < 0 || last < left || last > end {
				t.Errorf("the mode is told in line %d, the call ends in line %d and the turn in line %d", last, left, end)
			}
		})
	}
}

// A plan that is not approved keeps plan mode, and the host's words are the result
// (spec stream-json 5.1).
func TestPlanRefused(t *testing.T) {
	t.Parallel()
	h := newRoom(t).rounds([]use{exit("1. Write.")}, []use{writes("late.txt")}).start("--permission-mode", "plan").approving(deny("Look at the tests first."))
	result := h.prompt(1)
	got := h.toolResults()
	if len(got) != 2 || contentText(got[0]) != "Look at the tests first." || contentText(got[1]) != "Permission denied: Plan mode: write operations are not allowed" {
		t.Errorf("results %v", got)
	}
	if len(h.modes()) != 0 || len(h.asks("can_use_tool")) != 1 || h.room.exists("late.txt") {
		t.Errorf("modes %v, asked %v", h.modes(), h.asks("can_use_tool"))
	}
	if diff := cmp.Diff([]string{"ExitPlanMode call_1_1_1", "Write call_1_2_1"}, denials(result)); diff != "" {
		t.Errorf("permission_denials (-want +got):\n%s", diff)
	}
}

// The model may begin to plan by itself, and leaves plan mode for the mode that was
// in force; outside of it there is nothing to approve.
func TestEnterPlanMode(t *testing.T) {
	t.Parallel()
	h := newRoom(t).rounds([]use{exit("x")}, []use{{"EnterPlanMode", object{}}}, []use{writes("early.txt")}, []use{exit("1. Write.")}, []use{writes("late.txt")}).
		start("--permission-mode", "acceptEdits").approving(allow())
	h.prompt(1)
	if diff := cmp.Diff([]any{"plan", "acceptEdits"}, h.modes()); diff != "" {
		t.Errorf("modes that were told (-want +got):\n%s", diff)
	}
	if got := h.toolResults(); len(got) != 5 || !strings.Contains(contentText(got[0]), "not in plan mode") || got[0]["is_error"] != true || len(h.asks("can_use_tool")) != 1 {
		t.Errorf("results %v, asked %v", got, h.asks("can_use_tool"))
	}
	if h.room.exists("early.txt") || !h.room.exists("late.txt") {
		t.Errorf("early: %v, late: %v", h.room.exists("early.txt"), h.room.exists("late.txt"))
	}
}

// A subagent neither begins nor ends plan mode, which is the whole session's; what
// it asks comes with its id (spec stream-json 5.1).
func TestSubagentAsks(t *testing.T) {
	t.Parallel()
	delegates := []use{{"Agent", object{"description": "d", "prompt": "sub task", "subagent_type": "general-purpose"}}}
	for _, tc := range []struct {
		mode string
		call use
		code string // in the text of the result
	}{
		{"default", use{"EnterPlanMode", object{}}, "A subagent cannot switch to plan mode."},
		{"plan", exit("x"), "A subagent does not end plan mode."},
		{"default", question(), "The user has answered:"},
	} {
		t.Run(tc.call.tool, func(t *testing.T) {
			t.Parallel()
			rules := append(steps(object{"text": "delegate"}, delegates), steps(object{"text": "sub task"}, []use{tc.call})...)
			h := newRoom(t).script(encode(object{"rules": append(rules, object{"reply": "done"})})).start("--permission-mode", tc.mode)
			var agent any
			h.with(&answers{permission: func(request object) any {
				agent = request["agent_id"]
				return answered(request, object{"answers": object{"Which database?": "SQLite"}})
			}})
			h.user("delegate")
			h.result(1)
			var texts []string
			for _, l := range h.of("user") {
				if b := block(l); b["type"] == "tool_result" && l["parent_tool_use_id"] == "call_1_1_1" {
					texts = append(texts, contentText(b))
				}
			}
			if len(texts) != 1 || !strings.HasPrefix(texts[0], tc.code) || len(h.modes()) != 0 {
				t.Errorf("results %q, modes %v", texts, h.modes())
			}
			if id, _ := agent.(string); (id != "") != (tc.call.tool == "AskUserQuestion") {
				t.Errorf("asked for the agent %v", agent)
			}
		})
	}
}
