package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// aborted checks the result of a turn that was interrupted (spec stream-json 11.2).
func aborted(t *testing.T, result object, reasons ...string) {
	t.Helper()
	errors, _ := result["errors"].([]any)
	if result["subtype"] != "error_during_execution" || result["is_error"] != true || len(errors) == 0 {
		t.Errorf("result %v", result)
	}
	if reason, _ := result["terminal_reason"].(string); !slices.Contains(reasons, reason) {
		t.Errorf("terminal_reason %v, want one of %q", result["terminal_reason"], reasons)
	}
}

// answeredBefore checks that a request's answer stands before the n-th result.
func (h *host) answeredBefore(id string, n int) {
	h.t.Helper()
	results := 0
	for _, l := range h.all() {
		if dig(l, "response", "request_id") == id && l["type"] == "control_response" {
			if results >= n {
				h.t.Errorf("the answer to %s comes behind result %d", id, n)
			}
			return
		}
		if l["type"] == "result" {
			results++
		}
	}
	h.t.Errorf("there is no answer to %s", id)
}

// Checklist 80, S041, spec stream-json 4.2, 11.2: an interrupt is answered before
// the result of the turn that it ends; what the turn was doing is withdrawn, and the
// next message is answered.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		model string
		// begun reports whether a line says that the turn is where it is to end.
		begun  func(object) bool
		reason string
		// open is whether a question waits.
		open bool
	}{
		"while the model streams": {slowModel, func(l object) bool { return dig(l, "event", "type") == "content_block_delta" }, "aborted_streaming", false},
		"in a tool": {
			`rules: [{when: {text: slow, step: 1}, reply: [{call: {tool: Bash, args: {command: "echo $$ > begun; sleep 300"}}}]}, {reply: "you said: {{user}}"}]`,
			nil, "aborted_tools", false,
		},
		"in a question": {
			`rules: [{when: {text: slow, step: 1}, reply: [{call: {tool: Bash, args: {command: "touch made"}}}]}, {reply: "you said: {{user}}"}]`,
			func(l object) bool { return dig(l, "request", "subtype") == "can_use_tool" }, "aborted_tools", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if !tc.open {
				flags = []string{"--permission-mode", "bypassPermissions"}
			}
			h := newRoom(t).script(tc.model).start(append(flags, "--include-partial-messages")...)
			h.control("i", "initialize", nil)
			h.user("slow")
			var question object
			if tc.begun != nil {
				question = h.wait("the beginning", tc.begun)
			} else {
				h.room.awaitFile("begun")
			}
			if got := h.control("stop", "interrupt", nil); got["subtype"] != "success" {
				t.Errorf("answer %v", got)
			}
			result := h.result(1)
			aborted(t, result, tc.reason)
			h.answeredBefore("stop", 1)
			if tc.open {
				id := question["request_id"].(string)
				cancelled, ended := -1, -1
				for i, l := range h.all() {
					if l["type"] == "control_cancel_request" && l["request_id"] == id {
						cancelled = i
					} else if l["type"] == "result" {
						ended = i
					}
				}
				if cancelled < 0 || cancelled > ended {
					t.Errorf("the question is withdrawn in line %d, and the result is line %d", cancelled, ended)
				}
				h.respond(id, object{"behavior": "allow"}) // too late
			}
			if tc.reason == "aborted_tools" {
				results := h.toolResults()
				if len(results) != 1 || results[0]["is_error"] != true || contentText(results[0]) != "[Request interrupted by user for tool use]" {
					t.Errorf("results %v", results)
				}
			}
			h.user("next")
			if next := h.result(2); next["subtype"] != "success" || next["result"] != "you said: next" {
				t.Errorf("the next one: %v", next)
			}
			if h.room.exists("made") {
				t.Error("the withdrawn call ran")
			}
			if code := h.end(); code != 0 || len(h.of("result")) != 2 {
				t.Errorf("exit code %d, %d results", code, len(h.of("result")))
			}
		})
	}
}

// Checklist 81, S041: an interrupt of nothing succeeds and does nothing.
func TestInterruptOfNothing(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(echoModel).start()
	idle := func(id string) {
		t.Helper()
		got := h.control(id, "interrupt", nil)
		if queued, ok := dig(got, "response", "still_queued").([]any); got["subtype"] != "success" || !ok || len(queued) != 0 {
			t.Errorf("answer %v", got)
		}
	}
	idle("before initialize")
	h.control("i", "initialize", nil)
	idle("before a message")
	h.user("go")
	h.result(1)
	idle("after a result")
	h.user("go on")
	if result := h.result(2); result["result"] != "you said: go on" {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 || len(h.of("result")) != 2 {
		t.Errorf("exit code %d, %d results", code, len(h.of("result")))
	}
}

// Case B11, spec stream-json 4.2: an interrupt that comes before the turn has begun
// stops it, however long the start takes; the prompt is not answered, and the next
// one is.
func TestInterruptBeforeTheTurn(t *testing.T) {
	t.Parallel()
	// Nothing but the interrupt ends its answer, however late that comes.
	endless := strings.Replace(slowModel, "20ms", "10s", 1)
	for name, tc := range map[string]struct {
		wait time.Duration
		slow bool // an MCP server holds the start up
	}{
		"at once":                         {0, false},
		"after 5 ms":                      {5 * time.Millisecond, false},
		"after 50 ms":                     {50 * time.Millisecond, false},
		"at once, behind a slow start":    {0, true},
		"after 50 ms, in a slow start":    {50 * time.Millisecond, true},
		"after 500 ms, behind the server": {500 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if tc.slow {
				flags = []string{"--mcp-config", `{"mcpServers":{"slow":{"command":"sleep","args":["0.4"]}}}`}
			}
			h := newRoom(t).script(endless).start(flags...)
			h.send(strings.TrimSuffix(requests("i", "initialize", nil)+asks("slow"), "\n"))
			if tc.wait > 0 {
				time.Sleep(tc.wait) // the moment of the interrupt is what is tried
			}
			if got := h.control("stop", "interrupt", nil); got["subtype"] != "success" {
				t.Errorf("answer %v", got)
			}
			aborted(t, h.result(1), "aborted_streaming")
			h.answeredBefore("stop", 1)
			h.user("next")
			if next := h.result(2); next["result"] != "you said: next" {
				t.Errorf("the next one: %v", next)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, l := range h.of("assistant") {
				if text, _ := block(l)["text"].(string); strings.Count(text, "word") == 50 {
					t.Error("the interrupted prompt was answered")
				}
			}
		})
	}
}

// Case B94, S002, S015, spec stream-json 4.2, 11.1, 11.2: messages that come during a
// turn are turns of their own, in order, each with its id, and an interrupt lists
// them and ends the running one only; with cancel_queued it takes them away.
func TestQueuedMessages(t *testing.T) {
	t.Parallel()
	const a, b, c, d = "aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-1111-4111-8111-111111111111", "cccccccc-1111-4111-8111-111111111111", "dddddddd-1111-4111-8111-111111111111"
	for name, tc := range map[string]struct {
		interrupt object // nil is none
		queued    []any
		cancelled any
		results   []string
		replayed  []any
	}{
		"without an interrupt":       {nil, nil, nil, []string{"slow", "B", "C", "D"}, []any{a, b, c, d}},
		"an interrupt":               {object{}, []any{b, c}, nil, []string{"", "B", "C", "D"}, []any{a, b, c, d}},
		"an interrupt of everything": {object{"cancel_queued": true}, []any{}, []any{b, c}, []string{"", "D"}, []any{a, d}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(`
rules:
  - when: {text: slow}
    reply: [{text: "word ", repeat: 20, every: 20ms}, {text: "slow"}]
  - reply: "{{user}}"
`).start("--replay-user-messages", "--include-partial-messages")
			h.send(strings.TrimSuffix(asksAs(a, "slow"), "\n"))
			h.wait("the first words", func(l object) bool { return l["type"] == "stream_event" })
			h.send(strings.TrimSuffix(asksAs(b, "B")+asksAs(c, "C"), "\n"))
			if tc.interrupt != nil {
				got := h.control("stop", "interrupt", tc.interrupt)
				if got["subtype"] != "success" || encode(dig(got, "response", "still_queued")) != encode(tc.queued) || encode(dig(got, "response", "cancelled")) != encode(tc.cancelled) {
					t.Errorf("answer %v", got)
				}
			}
			h.send(strings.TrimSuffix(asksAs(d, "D"), "\n"))
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			results := h.of("result")
			if len(results) != len(tc.results) {
				t.Fatalf("%d results, want %d", len(results), len(tc.results))
			}
			for i, want := range tc.results {
				if want == "" {
					aborted(t, results[i], "aborted_streaming")
				} else if got, _ := results[i]["result"].(string); !strings.HasSuffix(got, want) {
					t.Errorf("result %d is %v, want %s", i+1, got, want)
				}
				// The last message comes when the interrupt is answered: a turn may be over by then.
				left := float64(len(tc.results) - 1 - i)
				fine := results[i]["queued_turn_count"] == left || tc.interrupt != nil && results[i]["queued_turn_count"] == left-1
				if i > 0 && !fine {
					t.Errorf("result %d: %v messages are left, want %v", i+1, results[i]["queued_turn_count"], left)
				}
				if id := results[i]["user_message_uuid"]; id != nil && id != tc.replayed[i] {
					t.Errorf("result %d is of %v, want %v", i+1, id, tc.replayed[i])
				}
			}
			var replayed []any
			for _, l := range h.of("user") {
				if l["isReplay"] == true {
					replayed = append(replayed, l["uuid"])
				}
			}
			if !slices.Equal(replayed, tc.replayed) {
				t.Errorf("replayed are %v, want %v", replayed, tc.replayed)
			}
		})
	}
}

// Case B94: messages that come while a question is open wait for their turn.
func TestQueuedDuringAQuestion(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(`
rules:
  - when: {text: ask, step: 1}
    reply: [{call: {tool: Bash, args: {command: "touch made"}}}]
  - reply: "{{user}}"
`).start()
	h.user("ask")
	question := h.wait("a question", func(l object) bool { return l["type"] == "control_request" })
	for _, text := range []string{"B", "C", "D"} {
		h.user(text)
	}
	h.control("still", "mcp_status", nil)
	if n := len(h.of("result")); n != 0 {
		t.Errorf("%d results during the question", n)
	}
	h.respond(question["request_id"].(string), allow())
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var said []string
	for _, l := range h.of("result") {
		said = append(said, fmt.Sprint(l["result"]))
	}
	if !slices.Equal(said, []string{"ask", "B", "C", "D"}) {
		t.Errorf("results %q", said)
	}
}

// Spec stream-json 2.1, 11.1: the priority of a message is its place among those
// that wait, and a message without a query has no result and is known to the next.
func TestPriorityAndAside(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	slow, quick := llmtest.Stream(llmtest.DeepSeek().Whole(sdkproto.Text("ok"))), llmtest.Stream(llmtest.DeepSeek().Whole(sdkproto.Text("ok")))
	slow.Parts[0].Wait = 300 * time.Millisecond
	server.Script(slow, quick)
	h := r.start("--model", "deepseek-flash")
	h.user("one")
	eventually(t, "the first request", func() bool { return len(server.Received()) == 1 })
	for _, m := range []object{{"c": "later", "priority": "later"}, {"c": "next"}, {"c": "now", "priority": "now"}, {"c": "aside", "shouldQuery": false, "priority": "later"}, {"c": "last", "priority": "later"}} {
		line := object{"type": "user", "message": object{"role": "user", "content": m["c"]}}
		for _, key := range []string{"priority", "shouldQuery"} {
			if v, ok := m[key]; ok {
				line[key] = v
			}
		}
		h.send(line)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := len(h.of("result")); n != 5 {
		t.Errorf("%d results, want 5", n)
	}
	var heard []string
	for _, body := range requestBodies(t, server) {
		list, _ := body["messages"].([]any)
		last, _ := list[len(list)-1].(object)
		heard = append(heard, encode(last["content"]))
	}
	if len(heard) != 5 {
		t.Fatalf("the model heard %q", heard)
	}
	for i, want := range []string{"one", "now", "next", "later", "last"} {
		if !strings.Contains(heard[i], want) {
			t.Errorf("request %d is of %s, want %s", i+1, heard[i], want)
		}
	}
	if !strings.Contains(encode(requestBodies(t, server)[4]), "aside") {
		t.Error("the message without a query is not known to the last turn")
	}
}

// Checklist 82, spec stream-json 11.3: --max-turns bounds the model requests of a
// turn. The last one's calls run, and the next message begins anew.
func TestMaxTurns(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(`rules: [{reply: [{call: {tool: Bash, args: {command: "echo x >> ran"}}}]}]`).
		start("--max-turns", "3", "--permission-mode", "bypassPermissions")
	for n := 1; n <= 2; n++ {
		h.user("go")
		result := h.result(n)
		const text = "Reached maximum number of turns (3)"
		if result["subtype"] != "error_max_turns" || result["is_error"] != true || result["num_turns"] != 3.0 || result["result"] != text ||
			encode(result["errors"]) != encode([]any{text}) || result["stop_reason"] != "tool_use" || result["terminal_reason"] != "max_turns" {
			t.Errorf("result %v", result)
		}
		if ran := strings.Count(h.room.read("ran"), "x"); ran != 3*n {
			t.Errorf("%d calls ran, want %d", ran, 3*n)
		}
	}
	if code := h.end(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if n := len(h.toolResults()); n != 6 {
		t.Errorf("%d results of calls, want 6", n)
	}
}

// Checklist 89, spec stream-json 2.1: a blank prompt is told and costs nothing.
func TestBlankPrompt(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	var in strings.Builder
	blanks := []any{"", " ", "\n\t \r\n", "\u00a0\u2003", []any{}, []any{object{"type": "text", "text": "  "}}, []any{object{"type": "text", "text": ""}, object{"type": "text", "text": "\n"}}}
	for _, content := range blanks {
		in.WriteString(wire(object{"type": "user", "message": object{"role": "user", "content": content}}))
	}
	c, lines := r.speak(in.String()+asks("go"), "--model", "deepseek-flash")
	results := only(lines, "result/success")
	if c.code != 0 || len(results) != len(blanks)+1 {
		t.Fatalf("exit code %d, %d results, want %d", c.code, len(results), len(blanks)+1)
	}
	for _, result := range results[:len(blanks)] {
		if said, _ := result["result"].(string); result["num_turns"] != 0.0 || result["is_error"] != false || !strings.Contains(said, "blank") {
			t.Errorf("result %v", result)
		}
	}
	if n := len(only(lines, "system/informational")); n != len(blanks) {
		t.Errorf("%d lines say so, want %d", n, len(blanks))
	}
	if n := len(server.Received()); n != 1 || results[len(blanks)]["result"] != "ok" {
		t.Errorf("%d requests, want 1", n)
	}
}
