package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
)

// builtin are the commands that the program answers itself.
var builtin = []string{"clear", "compact", "context", "cost", "help", "model"}

// Spec stream-json 2.1, 3.4, 4.1, 11.9, peers/claude 60: built-in commands are listed,
// and answered without a request to the model: with a text as an answer, and a result
// that says the same, has no round trip and costs nothing. A command of a file under
// a name of theirs is not reached, others are; an unknown one is told.
func TestLocalCommands(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.room.write(filepath.Join(p.room.home, "commands", "cost.md"), "Never reached.")
	p.room.write(filepath.Join(p.room.home, "commands", "greet.md"), "---\ndescription: Greets\n---\nSay hello to $1.")
	p.server.Script(p.says("hi"))
	p.host = p.room.start("--model", "a", "--api-format", "anthropic", "--set", prices, "--replay-user-messages")
	answer := p.control("i", "initialize", nil)
	want := append(slices.Clone(builtin), "greet")
	var names []string
	commands, _ := dig(answer, "response", "commands").([]any)
	for _, c := range commands {
		c, _ := c.(object)
		names = append(names, fmt.Sprint(c["name"]))
		if own := c["name"] != "greet"; own != (c["builtin"] == true) || c["description"] == "" {
			t.Errorf("command %v", c)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	init := p.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
	says(t, "slash_commands", init["slash_commands"], wire(want))

	p.user("/greet Ada")
	near(t, "cost", p.result(1)["total_cost_usd"], costA)
	if !strings.Contains(p.body(0), "Say hello to Ada.") {
		t.Errorf("the request is %s", p.body(0))
	}
	for i, tc := range []struct {
		prompt string
		says   []string
	}{
		{"/cost", []string{"$0.0000", "a: 20 input, 5 output, 10 cache read, 7 cache write"}},
		{" /context ", []string{"Model: a", "37 of 200000", "Messages"}},
		{"/help", []string{"/clear", "/compact [", "/greet: Greets"}},
		{"/model", []string{"The model is a."}},
		{"/model long", []string{"The model is long from now on."}},
	} {
		p.user(tc.prompt)
		result := p.result(2 + i)
		if endOf(result) != "success ok completed" || result["num_turns"] != 0.0 || result["local_command"] != strings.Fields(tc.prompt)[0][1:] {
			t.Errorf("%s: result %v", tc.prompt, result)
		}
		near(t, tc.prompt, result["total_cost_usd"], costA)
		near(t, tc.prompt, dig(result, "usage", "input_tokens"), 0)
		text, _ := result["result"].(string)
		for _, s := range tc.says {
			if !strings.Contains(text, s) {
				t.Errorf("%s: %q is not in\n%s", tc.prompt, s, text)
			}
		}
		said := p.synthetic()
		if len(said) != i+1 || block(said[len(said)-1])["text"] != text {
			t.Errorf("%s: said %v", tc.prompt, said)
		}
	}
	p.user("/nonesuch")
	if result := p.result(7); result["result"] != "Unknown command: /nonesuch" || result["is_error"] != false {
		t.Errorf("result %v", result)
	}
	if n := p.attempts(); n != 1 {
		t.Errorf("%d requests to the model, want 1", n)
	}
	if n := len(p.of("user")); n != 7 {
		t.Errorf("%d replays, want 7", n)
	}
	p.prompt(8)
	if !strings.Contains(p.body(1), `"model":"long"`) {
		t.Errorf("the next request is %s", p.body(1))
	}
	if c := p.room.complete("", "-p", "/cost"); c.code != 0 || c.stdout != "Total cost: $0.0000\n" {
		t.Errorf("-p /cost: %+v", c)
	}
}

// heard is what the hooks of hearing have written, one input after the other.
func (r *room) heard(t *testing.T) (list []object) {
	t.Helper()
	for line := range strings.Lines(r.read("hooks")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		o, _ := decoded(t, line).(object)
		list = append(list, o)
	}
	return list
}

// hearing are settings with hooks that write what they are told into a file.
func hearing(events ...string) string {
	hooks := object{}
	for _, e := range events {
		hooks[e] = []any{object{"hooks": []any{object{"type": "command", "command": "cat >> hooks; echo >> hooks"}}}}
	}
	return wire(object{"hooks": hooks})
}

// Checklist 88, S020, spec stream-json 3.10, 3.11, 11.9: /clear ends the conversation:
// conversation_reset has the id of the one that ends, the result the one that begins,
// and the next turn tells of it. The model is shown nothing of the old one, which is
// stored and can go on; costs begin anew; the hooks hear of it; what waits in the
// queue, the mode and what is forbidden stay.
func TestClear(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.server.Script(p.says("fine"))
	flags := []string{"--model", "a", "--api-format", "anthropic", "--set", prices}
	p.host = p.room.start(append(flags, "--settings", hearing("SessionStart", "SessionEnd"), "--permission-mode", "acceptEdits")...)
	p.control("i", "initialize", object{"disallowedTools": []any{"Bash"}, "appendSystemPrompt": "Be kind."})
	p.control("m", "set_permission_mode", object{"mode": "plan"})
	p.user("the first words")
	first := p.result(1)
	p.user("/clear")
	p.user("the second words")
	p.user("the third words")
	cleared, second, third := p.result(2), p.result(3), p.result(4)
	old, id := first["session_id"], cleared["session_id"]
	if old == id || second["session_id"] != id || third["session_id"] != id || endOf(cleared) != "success ok completed" || cleared["num_turns"] != 0.0 {
		t.Errorf("results %v\n%v\n%v\n%v", first, cleared, second, third)
	}
	near(t, "first", first["total_cost_usd"], costA)
	near(t, "cleared", cleared["total_cost_usd"], 0)
	says(t, "modelUsage", cleared["modelUsage"], `{}`)
	near(t, "second", second["total_cost_usd"], costA)
	near(t, "third", third["total_cost_usd"], 2*costA)
	near(t, "of the model", dig(third, "modelUsage", "a", "costUSD"), 2*costA)
	resets := p.of("conversation_reset")
	if len(resets) != 1 || resets[0]["session_id"] != old || resets[0]["new_conversation_id"] != id || resets[0]["trigger"] != "clear" {
		t.Errorf("resets %v", resets)
	}
	var order []string
	for _, l := range p.all() {
		if kind := kinds([]object{l})[0]; slices.Contains([]string{"system/init", "result/success", "conversation_reset", "assistant"}, kind) {
			word := "old"
			if l["session_id"] == id {
				word = "new"
			}
			order = append(order, word+" "+kind)
		}
	}
	if diff := cmp.Diff([]string{
		"old system/init", "old assistant", "old result/success", "old conversation_reset", "new result/success",
		"new system/init", "new assistant", "new result/success", "new assistant", "new result/success",
	}, order); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	again := p.of("system/init")[1]
	if again["permissionMode"] != "plan" || strings.Contains(fmt.Sprint(again["tools"]), "Bash ") {
		t.Errorf("init %v", again)
	}
	if last := p.body(2); strings.Contains(last, "the first words") || !strings.Contains(last, "the second words") || !strings.Contains(last, "Be kind.") {
		t.Errorf("the last request is %s", last)
	}
	if code := p.end(); code != 0 || p.errorOutput() != "" {
		t.Errorf("exit code %d, %s", code, p.errorOutput())
	}
	var heard []string
	for _, o := range p.room.heard(t) {
		word := "old"
		if o["session_id"] == id {
			word = "new"
		}
		heard = append(heard, fmt.Sprint(word, " ", o["hook_event_name"], " ", o["source"], " ", o["reason"]))
	}
	if diff := cmp.Diff([]string{"old SessionStart startup <nil>", "old SessionEnd <nil> clear", "new SessionStart clear <nil>", "new SessionEnd <nil> other"}, heard); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	for session, words := range map[any][2]string{old: {"the first words", "the second words"}, id: {"the third words", "the first words"}} {
		p.host = p.room.start(append(flags, "--resume", session.(string))...)
		p.prompt(1)
		if last := p.body(p.attempts() - 1); !strings.Contains(last, words[0]) || strings.Contains(last, words[1]) {
			t.Errorf("session %v goes on with %s", session, last)
		}
		p.end()
	}
}

// Spec stream-json 11.3: the budget is that of the process, and no /clear gives it
// back. One turn costs 29.75 thousandths of a dollar here; a request whose answer costs
// nothing is one of some thousand tokens at most until somebody has counted.
func TestClearKeepsTheBudget(t *testing.T) {
	t.Parallel()
	const free = `anthropic.models={"a":{"contextWindow":200000,"price":{"currency":"USD","input":1,"output":0,"cacheRead":0.1,"cacheWrite":1.25}}}`
	p := provide(t, speeches()[2])
	p.server.Script(large(p.says("fine")))
	p.host = p.room.start("--model", "a", "--api-format", "anthropic", "--set", free, "--max-budget-usd", "0.03")
	if got := endOf(p.prompt(1)); got != "success ok completed" {
		t.Errorf("turn 1: %s", got)
	}
	p.user("/clear")
	near(t, "total", p.result(2)["total_cost_usd"], 0)
	for n := range 2 {
		if got := endOf(p.prompt(3 + n)); got != "error_max_budget_usd error budget_exhausted" {
			t.Errorf("turn %d: %s", 3+n, got)
		}
	}
	if n := p.attempts(); n > 2 {
		t.Errorf("%d requests, at most 2 can be paid", n)
	}
}

// Spec stream-json 2.1, 3.10, 6.2, 11.9, peers/claude 60: /compact puts a summary in
// the place of the conversation, as its words say; the host is told, and so are the
// hooks; its request is the only one, and paid for; the log has it all, also for a
// resume.
func TestCompact(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("many words of an old answer ", 500)
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(p.says(long))
		p.launch("--settings", hearing("PreCompact", "PostCompact"), "--set", "front.legacyLines=false")
		p.prompt(1)
		p.prompt(2)
		p.server.Script(p.says("GOALS AND STATE"), p.says("after"))
		p.user("/compact  keep the names ")
		result := p.result(3)
		if endOf(result) != "success ok completed" || result["num_turns"] != 0.0 || result["local_command"] != "compact" {
			t.Errorf("result %v", result)
		}
		if n := p.attempts(); n != 3 || !strings.Contains(p.body(2), "keep the names") || !strings.Contains(p.body(2), long) {
			t.Errorf("%d requests, the last %.2000s", n, p.body(n-1))
		}
		var told []string
		for _, l := range p.all() {
			if kind := kinds([]object{l})[0]; kind == "system/status" || kind == "system/compact_boundary" || l["type"] == "result" {
				told = append(told, fmt.Sprint(kind, " ", l["status"], " ", l["compact_result"], " ", dig(l, "compact_metadata", "trigger")))
			}
		}
		if diff := cmp.Diff([]string{
			"result/success <nil> <nil> <nil>", "result/success <nil> <nil> <nil>", "system/status compacting <nil> <nil>",
			"system/status <nil> success <nil>", "system/compact_boundary <nil> <nil> manual", "result/success <nil> <nil> <nil>",
		}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if n := len(p.of("assistant")); n != 2 {
			t.Errorf("%d answers", n)
		}
		heard := p.room.heard(t)
		if len(heard) != 2 {
			t.Fatalf("heard %v", heard)
		}
		if pre := heard[0]; pre["hook_event_name"] != "PreCompact" || pre["trigger"] != "manual" || pre["custom_instructions"] != "keep the names" {
			t.Errorf("PreCompact %v", pre)
		}
		if post := heard[1]; post["hook_event_name"] != "PostCompact" || post["trigger"] != "manual" || !strings.Contains(fmt.Sprint(post["compact_summary"]), "GOALS AND STATE") {
			t.Errorf("PostCompact %v", post)
		}
		p.user("/compact") // a summary alone has nothing that another could stand for
		if got := p.result(4); endOf(got) != "success ok completed" || got["result"] != "There is nothing to compact yet." {
			t.Errorf("result %v", got)
		}
		if got := p.prompt(5); got["result"] != "after" {
			t.Errorf("result %v", got)
		}
		if last := p.body(3); !strings.Contains(last, "GOALS AND STATE") || strings.Contains(last, long) {
			t.Errorf("the next request is %.2000s", last)
		}
		p.goesOn(6)
		session, _ := result["session_id"].(string)
		p.end()
		// The first thing in a process that goes on may be another one.
		p.server.Script(p.says("MORE GOALS"))
		p.launch("--resume", session)
		p.user("/compact")
		if got := p.result(1); endOf(got) != "success ok completed" {
			t.Errorf("result %v", got)
		}
		p.goesOn(2)
		if last := p.body(p.attempts() - 1); !strings.Contains(last, "MORE GOALS") {
			t.Errorf("the last request is %.2000s", last)
		}
	})
}

// Spec stream-json 3.10, 6.2, 11.2, case B61: a /compact that comes to nothing says
// why, costs the conversation nothing, and the next message is answered.
func TestCompactFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prompts  int
		settings string
		reply    func(p *provider) llmtest.Reply
		stop     bool
		end      string
		says     string
		failed   bool // in a line of status
	}{
		"nothing yet": {0, "", nil, false, "success ok completed", "nothing to compact", false},
		"a hook forbids it": {1, wire(object{"hooks": object{"PreCompact": []any{object{"matcher": "manual", "hooks": []any{object{"type": "command", "command": "echo not now >&2; exit 2"}}}}}}),
			nil, false, "error_during_execution error ", "not now", false},
		"the model fails": {1, "", func(*provider) llmtest.Reply {
			return llmtest.JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}`)
		}, false, "error_during_execution error ", "no such thing", true},
		"an empty summary": {1, "", func(p *provider) llmtest.Reply { return p.says("   ") }, false, "error_during_execution error ", "no summary", true},
		"an interrupt": {1, "", func(*provider) llmtest.Reply { return llmtest.Reply{Parts: []llmtest.Part{{Hang: true}}} }, true,
			"error_during_execution error aborted_streaming", "aborted", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()[0])
			p.server.Script(p.says("an old answer"))
			var flags []string
			if tc.settings != "" {
				flags = []string{"--settings", tc.settings}
			}
			p.launch(flags...)
			for n := range tc.prompts {
				p.prompt(n + 1)
			}
			if tc.reply != nil {
				p.server.Script(tc.reply(p))
			}
			p.user("/compact")
			if tc.stop {
				p.wait("the status", func(l object) bool { return l["status"] == "compacting" })
				if got := p.control("stop", "interrupt", nil); got["subtype"] != "success" {
					t.Errorf("interrupt: %v", got)
				}
			}
			result := p.result(tc.prompts + 1)
			if text, _ := result["result"].(string); endOf(result) != tc.end || !strings.Contains(text, tc.says) || result["num_turns"] != 0.0 {
				t.Errorf("result %v", result)
			}
			failed := slices.ContainsFunc(p.of("system/status"), func(l object) bool { return l["compact_result"] == "failed" && l["compact_error"] != "" })
			if failed != tc.failed || len(p.of("system/compact_boundary")) != 0 {
				t.Errorf("told %v", p.of("system"))
			}
			p.goesOn(tc.prompts + 2)
			if last := p.body(p.attempts() - 1); tc.prompts > 0 && !strings.Contains(last, "an old answer") {
				t.Errorf("the next request is %s", last)
			}
		})
	}
}
