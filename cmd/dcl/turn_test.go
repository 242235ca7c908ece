package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// However a turn ends, there is one result, it is the last line, it has the text of
// the last answer that is not blank, an error says so in errors, and nothing follows
// an error (checklist 48, 50, 52, 82; S026, S027, S074; case B80; spec stream-json
// 3.7, 11.3 to 11.5; peers/claude 36, 37, 41, 57, 58).
func TestEndOfTurns(t *testing.T) {
	t.Parallel()
	loop := func(extra ...any) string { // calls a tool in every step
		return encode(object{"rules": []any{object{"reply": append([]any{object{"text": "Again."}, object{"call": object{"tool": "Bash", "args": object{"command": "true"}}}}, extra...)}}})
	}
	for _, tc := range []struct {
		name, script string
		flags        []string
		line         any // the user line, where it is not a plain one
		end          string
		result       string
		stop         any
		turns        float64
		code         int
	}{
		{name: "text", script: "rules: [{reply: hello}]", end: "success ok completed", result: "hello", stop: "end_turn", turns: 1},
		{name: "blank first", script: `rules: [{reply: [{text: "\n\n"}, {reasoning: hm}, {text: words}]}]`, end: "success ok completed", result: "words", stop: "end_turn", turns: 1},
		{name: "blank last", script: `rules: [{reply: [{text: words}, {reasoning: hm}, {text: " \n"}]}]`, end: "success ok completed", result: "words", stop: "end_turn", turns: 1},
		{name: "text before a call only", script: `rules: [{when: {step: 1}, reply: [{text: before}, {call: {tool: Bash, args: {command: "true"}}}]}, {reply: [{reasoning: done}]}]`, end: "success ok completed", result: "before", stop: "end_turn", turns: 2},
		{name: "length", script: "rules: [{reply: [{text: cut}, {finish: max-tokens}]}]", end: "success ok completed", result: "cut", stop: "max_tokens", turns: 1},
		{name: "turn limit", script: loop(), flags: []string{"--max-turns", "3"}, end: "error_max_turns error max_turns", result: "Reached maximum number of turns (3)", stop: "tool_use", turns: 3, code: 1},
		{name: "API error", script: "rules: [{reply: [{error: {code: INVALID_REQUEST, status: 400, message: no}}]}]", end: "success error api_error", result: "API Error: 400 no", turns: 1, code: 1},
		{name: "API error behind a call", script: "rules: [{when: {step: 1}, reply: [{text: before}, {call: {tool: Bash, args: {command: echo}}}]}, {reply: [{error: {code: AUTH, status: 401, message: no}}]}]", end: "success error api_error", result: "API Error: 401 no", stop: "tool_use", turns: 2, code: 1},
		{name: "blank prompt", script: "rules: [{reply: no}]", line: object{"type": "user", "message": object{"role": "user", "content": " \n"}}, end: "success ok completed", turns: 0},
		{name: "failed start", script: "rules: [{reply: [words]}]", end: "error_during_execution error ", result: "", turns: 0, code: 1},
		{name: "no message", line: object{"type": "user"}, end: "error_during_execution error ", result: "Invalid user message", turns: 0, code: 1},
		{name: "wrong role", line: object{"type": "user", "message": object{"role": "assistant", "content": "x"}}, end: "error_during_execution error ", result: "Invalid user message", turns: 0, code: 1},
		{name: "unknown block", line: object{"type": "user", "message": object{"role": "user", "content": []object{{"type": "hologram"}}}}, end: "error_during_execution error ", result: "Invalid user message", turns: 0, code: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			if tc.script != "" {
				r.script(tc.script)
			}
			h := r.start(append(tc.flags, "--include-partial-messages")...)
			if tc.line == nil {
				h.user("go")
			} else {
				h.send(tc.line)
			}
			result := h.result(1)
			text, _ := result["result"].(string)
			if got := endOf(result); strings.TrimSuffix(got, "turn_setup_failed") != tc.end {
				t.Errorf("the end is %q, want %q", got, tc.end)
			}
			if same := text == tc.result; !same && (tc.result == "" && tc.name != "blank prompt" && tc.name != "failed start" || !strings.HasPrefix(text, tc.result)) {
				t.Errorf("result %q, want %q", text, tc.result)
			}
			if result["stop_reason"] != tc.stop || result["num_turns"] != tc.turns {
				t.Errorf("stop_reason %v, num_turns %v, want %v and %v", result["stop_reason"], result["num_turns"], tc.stop, tc.turns)
			}
			if subtype, _ := result["subtype"].(string); subtype != "success" && !cmp.Equal(result["errors"], any([]any{text})) {
				t.Errorf("errors %v, result %q", result["errors"], text)
			}
			if code := h.end(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if n := len(h.of("result")); n != 1 {
				t.Errorf("%d results", n)
			}
			if last := h.all()[len(h.all())-1]; last["type"] != "result" {
				t.Errorf("behind the result stands %v", last)
			}
			brackets(t, h, 0)
		})
	}
}

// The limit of turns is one for each message, and what is refused as too much does
// not cost the session (checklist 82; spec stream-json 11.3; peers/claude 36).
func TestMaxTurnsBeginsAgain(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(encode(object{"rules": append(steps(object{"turn": 1}, []use{bash("echo 1")}, []use{bash("echo 2")}), append(steps(object{"turn": 2}, []use{bash("echo 3")}), object{"reply": "done"})...)})).
		start("--max-turns", "2")
	if got := endOf(h.prompt(1)); got != "error_max_turns error max_turns" {
		t.Errorf("the end is %s", got)
	}
	if n := len(h.toolResults()); n != 2 {
		t.Errorf("%d calls ran of the first turn", n) // also those of the last round
	}
	if result := h.prompt(2); endOf(result) != "success ok completed" || result["num_turns"] != 2.0 {
		t.Errorf("the second turn: %v", result)
	}
}

// Whatever stops a turn, every call has exactly one result, in order, on the wire
// and in the next request, live and after a resume, and each text says what
// happened (checklist 44; S023; case B41; spec stream-json 3.4, 11.2; peers/claude 22,
// 24, 26, 66).
func TestB41(t *testing.T) {
	t.Parallel()
	const interrupted = "[Request interrupted by user for tool use]"
	for name, tc := range map[string]struct {
		flags []string
		calls []use
		until func(p *provider) // then comes the interrupt; nil is none
		want  []string          // by call, in part
	}{
		"before the first": {nil, []use{bash("touch a"), bash("touch b")}, func(p *provider) { p.ask("can_use_tool", 1) }, []string{interrupted, interrupted}},
		"while the first runs": {[]string{"--allowedTools", "Bash"}, []use{bash("touch first; sleep 60"), bash("touch second")},
			func(p *provider) { eventually(p.t, "the call", func() bool { return p.room.exists("first") }) }, []string{interrupted, interrupted}},
		"between the two": {[]string{"--allowedTools", "Bash(echo:*)"}, []use{bash("echo done"), bash("touch second")},
			func(p *provider) { p.ask("can_use_tool", 1) }, []string{"done", interrupted}},
		"failures": {[]string{"--allowedTools", "Bash"}, []use{bash("exit 4"), {"NoSuchTool", object{}}, {"Bash", `{"command`}, {"Read", object{"file_path": "no"}}, bash("echo good")}, nil,
			[]string{"!Exit code 4", "!No such tool available: NoSuchTool", "!", "!", "good"}},
		"denied": {[]string{"--disallowedTools", "Write", "Bash(rm:*)"}, []use{bash("rm x"), bash("echo good")}, nil, []string{"!", "good"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachSpeech(t, func(t *testing.T, p *provider) {
				var blocks []sdkproto.Block
				for i, c := range tc.calls {
					args, isText := c.args.(string)
					if !isText {
						args = encode(c.args)
					}
					blocks = append(blocks, llmtest.Called(fmt.Sprint("c", i+1), c.tool, args))
				}
				p.server.Script(llmtest.Stream(p.dialect.Whole(blocks...)), p.says("done"))
				p.launch(tc.flags...)
				p.user("go")
				if tc.until != nil {
					tc.until(p)
					p.control("x", "interrupt", nil)
				}
				result := p.result(1)
				if got := endOf(result); (got != "success ok completed") != (tc.until != nil) {
					t.Errorf("the end is %s", got)
				}
				results := p.toolResults()
				if len(results) != len(tc.want) {
					t.Fatalf("%d results", len(results))
				}
				for i, b := range results {
					text := contentText(b)
					if b["is_error"] == true && tc.want[i] != interrupted {
						text = "!" + text
					}
					if b["tool_use_id"] != fmt.Sprint("c", i+1) || !strings.HasPrefix(text, tc.want[i]) || text == "" {
						t.Errorf("result %d is %v, want %q", i+1, b, tc.want[i])
					}
				}
				p.goesOn(2)
				session, _ := result["session_id"].(string)
				if p.end() != 0 || p.room.exists("second") || p.room.exists("a") {
					t.Error("it did not end well")
				}
				p.launch("--resume", session)
				p.goesOn(1)
				p.attempts()
			})
		})
	}
}

// An interrupt while a tool runs: the tool is ended, the call gets its result, a
// user line says so, and the result is error_during_execution; the answer to the
// request comes first (checklist 80; spec stream-json 4.2, 11.2; peers/claude 24).
func TestInterruptInATool(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch begun; sleep 61")})
	h := r.start("--allowedTools", "Bash")
	h.user("go")
	eventually(t, "the call", func() bool { return r.exists("begun") })
	began := time.Now()
	h.control("x", "interrupt", nil)
	if got := endOf(h.result(1)); got != "error_during_execution error aborted_tools" {
		t.Errorf("the end is %s", got)
	}
	if time.Since(began) > patience/2 {
		t.Error("the command was waited for")
	}
	var order []string
	for _, l := range h.all()[h.at(isType("control_response")):] {
		word, _ := l["type"].(string)
		if l["type"] == "user" {
			word += " " + fmt.Sprint(block(l)["type"], " ", block(l)["text"], block(l)["content"])
		}
		order = append(order, word)
	}
	if diff := cmp.Diff([]string{
		"control_response", "user tool_result <nil>[Request interrupted by user for tool use]", "tool_result", "user text [Request interrupted by user]<nil>", "usage", "result",
	}, order); diff != "" {
		t.Error(diff)
	}
	if code := h.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// The transcript is on the disk before the result is written (spec stream-json 1.8
// point 6): kill -9 right behind it loses nothing.
func TestTranscriptPrecedesResult(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script("rules: [{reply: 'remember {{turn}}'}]")
	h := r.start()
	session, _ := h.prompt(1)["session_id"].(string)
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.exit()
	stored, err := filepath.Glob(filepath.Join(r.home, "sessions.d", "*"+session+"*"))
	if err != nil || len(stored) == 0 {
		t.Fatalf("no log of %s: %v", session, err)
	}
	text, err := os.ReadFile(stored[0])
	if err != nil || !strings.Contains(string(text), "remember 1") || !strings.Contains(string(text), `"turn/end"`) {
		t.Errorf("the log is %s", text)
	}
	h = r.start("--resume", session)
	if result := h.prompt(1); result["result"] != "remember 2" || result["session_id"] != session {
		t.Errorf("resumed: %v", result)
	}
}
