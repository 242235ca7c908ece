package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
)

// Checklist 11, 12, 13 and 15, S012, S071, spec stream-json 1.7, 1.8: after the end
// of input everything that was read is done, and the exit code is that of the last
// result.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - when: {text: fail}
    reply: [{error: {code: INVALID_REQUEST, status: 400, message: no}}]
  - when: {text: call, step: 1}
    reply: [{call: {tool: Bash, args: {command: "echo called"}}}]
  - reply: "you said: {{user}}"
`
	initialize := requests("i", "initialize", nil)
	for name, tc := range map[string]struct {
		in      string
		code    int
		results int
		answers int
	}{
		"nothing":                      {"", 0, 0, 0},
		"a blank line":                 {"\n", 0, 0, 0},
		"keep_alive":                   {`{"type":"keep_alive"}` + "\n", 0, 0, 0},
		"initialize":                   {initialize, 0, 0, 1},
		"requests":                     {initialize + requests("m", "set_model", object{"model": "x"}) + requests("s", "mcp_status", nil) + requests("x", "warp_drive", nil), 0, 0, 4},
		"a message":                    {asks("one"), 0, 1, 0},
		"initialize and a message":     {initialize + asks("one"), 0, 1, 1},
		"three messages":               {asks("one") + asks("two") + asks("three"), 0, 3, 0},
		"a call":                       {asks("call"), 0, 1, 0},
		"a failure":                    {asks("fail"), 1, 1, 0},
		"a failure first":              {asks("fail") + asks("one"), 0, 2, 0},
		"a failure last":               {asks("one") + asks("fail"), 1, 2, 0},
		"a message that is none":       {`{"type":"user"}` + "\n", 1, 1, 0},
		"an unknown command":           {asks("/nonesuch"), 0, 1, 0},
		"a message and then a request": {asks("one") + initialize, 0, 1, 1},
		"a request behind a message":   {asks("one") + requests("m", "set_permission_mode", object{"mode": "plan"}) + asks("two"), 0, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, lines := newRoom(t).script(model).speak(tc.in)
			results := only(lines, "result")
			if c.code != tc.code || len(results) != tc.results || len(only(lines, "control_response")) != tc.answers {
				t.Errorf("exit code %d, want %d; %d results, want %d; %d answers, want %d\n%s", c.code, tc.code, len(results), tc.results,
					len(only(lines, "control_response")), tc.answers, c.stderr)
			}
			// S020: whoever initializes is told of the session, as is whoever has a turn.
			inits := 0
			if strings.Contains(tc.in, "initialize") || strings.Contains(tc.in, `"user"`) {
				inits = 1
			}
			if got := len(only(lines, "system/init")); got != inits {
				t.Errorf("%d system/init, want %d", got, inits)
			}
			// Checklist 52, F15: nothing comes behind an error.
			if n := len(lines); tc.code == 1 && lines[n-1]["type"] != "result" {
				t.Errorf("behind the error comes %v", lines[n-1]["type"])
			}
		})
	}
}

// Checklist 12, spec stream-json 1.7, peers/claude 25: a last turn that was
// interrupted is an error.
func TestExitCodeOfAnInterruptedTurn(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(slowModel).start("--include-partial-messages")
	h.user("slow")
	h.wait("the first words", func(l object) bool { return l["type"] == "stream_event" })
	h.control("stop", "interrupt", nil)
	h.result(1)
	if code := h.end(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if all := h.all(); all[len(all)-1]["type"] != "result" {
		t.Errorf("behind the error comes %v", all[len(all)-1])
	}
}

// Spec stream-json 1.8, S012, peers/claude 43: the turn that runs when the input
// ends goes on to its end.
func TestEndDuringATurn(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(slowModel).start("--include-partial-messages")
	h.user("slow")
	h.user("next")
	h.wait("the first words", func(l object) bool { return l["type"] == "stream_event" })
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if said, _ := h.result(1)["result"].(string); strings.Count(said, "word") != 50 {
		t.Errorf("the turn was cut short: %q", said)
	}
	if n := len(h.of("result")); n != 2 {
		t.Errorf("%d results, want 2", n)
	}
}

// Case B09, S012, spec stream-json 1.8, F14: after the end of input nobody is asked,
// what needed an answer is refused and does not run, and a model that goes on asking
// gets at most three more requests; the result says why.
func TestRefusalsAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string]object{
		"questions":           nil,
		"questions and hooks": {"hooks": object{"PreToolUse": []any{object{"hookCallbackIds": []any{"h"}}}, "PostToolUse": []any{object{"hookCallbackIds": []any{"h"}}}}},
		"hooks that must be":  {"hooks": object{"PreToolUse": []any{object{"hookCallbackIds": []any{"h"}, "onFailure": "block"}}}},
	} {
		for _, when := range []string{"before the turn", "at the first question"} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				r, server := withProvider(t)
				dialect := llmtest.DeepSeek()
				var replies []llmtest.Reply
				for i := range 50 {
					replies = append(replies, llmtest.Stream(dialect.Whole(called(fmt.Sprint("c", i), "Bash", object{"command": "touch made"}))))
				}
				server.Script(replies...)
				h := r.start("--model", "deepseek-flash")
				h.control("i", "initialize", hooks)
				h.user("go")
				before := 0
				if when == "at the first question" {
					h.wait("a question", func(l object) bool { return l["type"] == "control_request" })
					before = len(server.Received())
				}
				if code := h.end(); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				// The first request of a turn leads to the first refusal.
				if n := len(server.Received()) - max(before, 1); n > 3 {
					t.Errorf("%d more requests, at most 3 are right", n)
				}
				result := h.result(1)
				said, _ := result["result"].(string)
				if result["subtype"] != "error_during_execution" || result["is_error"] != true || !strings.Contains(said, "Stream closed") {
					t.Errorf("result %v", result)
				}
				if len(h.of("result")) != 1 || r.exists("made") {
					t.Errorf("%d results, the refused call ran: %v", len(h.of("result")), r.exists("made"))
				}
				uses, ends := 0, len(h.toolResults())
				for _, l := range h.of("assistant") {
					if block(l)["type"] == "tool_use" {
						uses++
					}
				}
				if uses != ends || uses == 0 {
					t.Errorf("%d calls, %d results", uses, ends)
				}
			})
		}
	}
}

// Case B09: work that needs nobody goes on after the end of input, for as long as it
// takes.
func TestWorkAfterTheEnd(t *testing.T) {
	t.Parallel()
	var rounds [][]use
	for range 6 {
		rounds = append(rounds, []use{bash("echo x"), {"Read", object{"file_path": "a.txt"}}})
	}
	r := newRoom(t).rounds(rounds...)
	r.write("a.txt", "a\n")
	c, lines := r.speak(asks("go"))
	results := only(lines, "result/success")
	if c.code != 0 || len(results) != 1 || results[0]["num_turns"] != 7.0 || len(only(lines, "control_request")) != 0 {
		t.Errorf("exit code %d, %q", c.code, kinds(lines))
	}
}

// Case B80, checklist 48: every message that is accepted has one result, however its
// turn ends, in the order of the messages.
func TestOneResultEach(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - {when: {text: blank first}, reply: [{chunks: ["\n\n"]}, {reasoning: hm}, {text: after}]}
  - {when: {text: a call, step: 1}, reply: [{text: I try}, {call: {tool: Bash, args: {command: "echo x"}}}]}
  - {when: {text: a call}, reply: [{chunks: ["\n\n"]}]}
  - {when: {text: code 400}, reply: [{error: {code: INVALID_REQUEST, status: 400, message: bad}}]}
  - {when: {text: code 401}, reply: [{error: {code: AUTH, status: 401, message: bad}}]}
  - {when: {text: forever}, reply: [{call: {tool: Bash, args: {command: "echo x"}}}]}
  - {when: {text: unknown tool, step: 1}, reply: [{call: {tool: Nonesuch, args: {}}}]}
  - {when: {text: subagent, step: 1}, reply: [{call: {tool: Agent, args: {description: d, prompt: code 400, subagent_type: general-purpose}}}]}
  - reply: "{{user}}"
`
	prompts := []string{"text", "blank first", "a call", "code 400", "code 401", "forever", "unknown tool", "subagent", "/nonesuch", " ", "last"}
	var in strings.Builder
	for i, p := range prompts {
		in.WriteString(asksAs(fmt.Sprintf("aaaaaaaa-1111-4111-8111-%012d", i), p))
	}
	c, lines := newRoom(t).script(model).speak(in.String(), "--max-turns", "4")
	results := only(lines, "result")
	if c.code != 0 || len(results) != len(prompts) {
		t.Fatalf("exit code %d, %d results, want %d\n%s", c.code, len(results), len(prompts), c.stderr)
	}
	for i, want := range []struct {
		subtype string
		isError bool
		result  string
	}{
		{"success", false, "text"}, {"success", false, "after"}, {"success", false, "I try"}, {"success", true, ""}, {"success", true, ""},
		{"error_max_turns", true, "Reached maximum number of turns (4)"}, {"success", false, "unknown tool"}, {"success", false, "subagent"},
		{"success", false, "Unknown command: /nonesuch"}, {"success", false, ""}, {"success", false, "last"},
	} {
		got := results[i]
		if got["subtype"] != want.subtype || got["is_error"] != want.isError || want.result != "" && got["result"] != want.result {
			t.Errorf("%s: %v", prompts[i], got)
		}
		if id := got["user_message_uuid"]; id != fmt.Sprintf("aaaaaaaa-1111-4111-8111-%012d", i) {
			t.Errorf("%s: it is the result of %v", prompts[i], id)
		}
	}
	for i, status := range map[int]any{3: 400.0, 4: 401.0} {
		if results[i]["api_error_status"] != status {
			t.Errorf("%s: api_error_status %v", prompts[i], results[i]["api_error_status"])
		}
	}
}

// Spec stream-json 1.1, S071: -p answers one prompt, in three formats; only the
// result counts for the exit code.
func TestOnePrompt(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - when: {text: fail}
    reply: [{error: {code: INVALID_REQUEST, status: 400, message: no such luck}}]
  - when: {text: make, step: 1}
    reply: [{text: First.}, {call: {tool: Bash, args: {command: "touch made"}}}]
  - when: {text: make}
    reply: "{{if failed}}refused{{else}}made{{end}}"
  - when: {text: two lines}
    reply: "one\ntwo\n"
  - reply: "you said: {{user}}"
`
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		text  string // of the result
		made  bool
	}{
		"a prompt":                  {"", []string{"-p", "hello"}, 0, "you said: hello", false},
		"a prompt, long flag":       {"", []string{"--print", "hello"}, 0, "you said: hello", false},
		"a prompt behind flags":     {"", []string{"-p", "--model", "mock-model", "hello"}, 0, "you said: hello", false},
		"a prompt before flags":     {"", []string{"hello", "--print", "--verbose"}, 0, "you said: hello", false},
		"a prompt on stdin":         {"hello\n", []string{"-p"}, 0, "you said: hello", false},
		"lines on stdin":            {"a\nb\n", []string{"--print"}, 0, "you said: a\nb", false},
		"lines in the answer":       {"", []string{"-p", "two lines"}, 0, "one\ntwo", false},
		"a failure":                 {"", []string{"-p", "fail"}, 1, "no such luck", false},
		"nobody to ask":             {"", []string{"-p", "make"}, 0, "refused", false},
		"everything is allowed":     {"", []string{"-p", "make", "--dangerously-skip-permissions"}, 0, "made", true},
		"a rule allows":             {"", []string{"-p", "make", "--allowedTools", "Bash(touch:*)"}, 0, "made", true},
		"input that is nobody's":    {`{"type":"control_request","request_id":"i","request":{"subtype":"initialize"}}` + "\n", []string{"-p", "hello"}, 0, "you said: hello", false},
		"too few turns":             {"", []string{"-p", "make", "--max-turns", "1", "--dangerously-skip-permissions"}, 1, "Reached maximum number of turns (1)", true},
		"an unknown command":        {"", []string{"-p", "/nonesuch"}, 0, "Unknown command: /nonesuch", false},
		"a prompt with a separator": {"", []string{"-p", "a\u2028b"}, 0, "you said: a\u2028b", false},
	} {
		for _, format := range []string{"", "text", "json", "stream-json"} {
			t.Run(name+", "+format, func(t *testing.T) {
				t.Parallel()
				r := newRoom(t).script(model)
				args := slices.Clone(tc.args)
				if format != "" {
					args = append(args, "--output-format", format)
				}
				c := r.complete(tc.stdin, args...)
				if c.code != tc.code || r.exists("made") != tc.made {
					t.Errorf("exit code %d, want %d, made %v, want %v\n%s", c.code, tc.code, r.exists("made"), tc.made, c.stderr)
				}
				switch format {
				case "", "text":
					where, other := c.stdout, c.stderr
					if tc.code != 0 {
						where, other = c.stderr, c.stdout
					}
					if !strings.Contains(where, tc.text) || tc.code == 0 && where != tc.text+"\n" || other != "" {
						t.Errorf("output %q, standard error %q, want %q", c.stdout, c.stderr, tc.text)
					}
					return
				}
				lines := r.judged(c.stdout)
				if results := only(lines, "result"); len(results) != 1 || !strings.Contains(strings.TrimSpace(fmt.Sprint(results[0]["result"])), tc.text) {
					t.Errorf("%v", results)
				}
				if got := kinds(lines); format == "json" && len(got) != 1 || format == "stream-json" && got[0] != "system/init" || slices.Contains(got, "control_response") || slices.Contains(got, "control_request") {
					t.Errorf("lines %q", got)
				}
			})
		}
	}
}

// Spec stream-json 1.7: a prompt that is not there is a mistake.
func TestNoPrompt(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-p"}, {"-p", "--output-format", "json"}, {"-p", "--output-format", "stream-json"}, {}} {
		if c := newRoom(t).complete(" \n", args...); c.code != 1 || !strings.Contains(c.stderr, "prompt") || strings.Contains(c.stdout, `"success"`) {
			t.Errorf("%q: %+v", args, c)
		}
	}
}
