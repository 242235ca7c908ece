package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// An answer of the API that fails for good is a success that is an error, with a
// synthetic answer whose error names the kind, and the process lives on
// (checklist 86, 12, 52; cases B57, B80; spec stream-json 12.1; peers/claude 48 to
// 52, of which 50 retries what we retry).
func TestAPIFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status   int
		body     string
		kind     string
		attempts int
	}{
		{400, "bad request", "invalid_request", 1},
		{401, "bad key", "authentication_failed", 1},
		{402, "insufficient balance", "billing_error", 1},
		{403, "not yours", "authentication_failed", 1},
		{404, "no such model", "model_not_found", 1},
		{429, "slow down", "rate_limit", 4},
		{500, "broken", "server_error", 4},
		{503, "busy", "server_error", 4},
		{529, "Overloaded", "overloaded", 4},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			t.Parallel()
			eachSpeech(t, func(t *testing.T, p *provider) {
				p.server.Script(llmtest.JSON(tc.status, `{"type":"error","error":{"type":"x","message":"`+tc.body+`"}}`))
				p.launch()
				result := p.prompt(1)
				if got := endOf(result); got != "success error api_error" {
					t.Errorf("the end is %s", got)
				}
				if result["api_error_status"] != float64(tc.status) {
					t.Errorf("api_error_status %v", result["api_error_status"])
				}
				text, _ := result["result"].(string)
				if !strings.HasPrefix(text, "API Error: ") || !strings.Contains(text, tc.body) || !strings.Contains(text, fmt.Sprint(tc.status)) {
					t.Errorf("result %q", text)
				}
				if errors, _ := result["errors"].([]any); len(errors) != 0 {
					t.Errorf("errors %v", errors)
				}
				made := p.synthetic()
				if len(made) != 1 || made[0]["error"] != tc.kind || block(made[0])["text"] != text {
					t.Errorf("synthetic answers %v, want one of %s", made, tc.kind)
				}
				if n := len(p.server.Received()); n != tc.attempts {
					t.Errorf("%d attempts, want %d", n, tc.attempts)
				}
				if n := len(p.of("system/api_retry")); n != tc.attempts-1 {
					t.Errorf("%d retries are told", n)
				}
				if code := p.end(); code != 1 {
					t.Errorf("exit code %d", code)
				}
				if last := p.all()[len(p.all())-1]; last["type"] != "result" {
					t.Errorf("behind the result stands %v", last)
				}
			})
		})
	}
}

// A retry is announced before it is made, with what failed, and then succeeds
// (checklist 87; spec stream-json 3.10, 12.2; peers/claude 48, 49).
func TestRetryIsTold(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		overloaded := llmtest.JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		p.server.Script(overloaded, overloaded, p.says("at last"))
		p.launch()
		result := p.prompt(1)
		if endOf(result) != "success ok completed" || result["result"] != "at last" || result["num_turns"] != 1.0 {
			t.Errorf("result %v", result)
		}
		told := p.of("system/api_retry")
		if len(told) != 2 {
			t.Fatalf("%d retries are told", len(told))
		}
		for i, l := range told {
			if l["attempt"] != float64(i+1) || l["max_retries"] != 3.0 || l["error_status"] != 529.0 || l["error"] != "overloaded" {
				t.Errorf("%v", l)
			}
		}
		if retry, answer := p.at(isType("system/api_retry")), p.at(isType("assistant")); answer < retry {
			t.Error("the answer is in front of the retry")
		}
		if n := p.attempts(); n != 3 {
			t.Errorf("%d attempts", n)
		}
		if code := p.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// CLAUDE_CODE_MAX_RETRIES bounds the retries, which are ten without it (spec
// stream-json 1.4, 12.2).
func TestMaxRetries(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{"": 10, "2": 2, "0": 0} {
		t.Run("set to "+name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()[2])
			if name != "" {
				p.room.set("CLAUDE_CODE_MAX_RETRIES", name)
			}
			p.server.Script(llmtest.JSON(529, `{}`))
			h := p.room.start("--model", "claude-x", "--set", "loop.retries.delay=1ms", "--set", "loop.retries.maxDelay=1ms")
			h.prompt(1)
			told := h.of("system/api_retry")
			if float64(len(told)) != want || want > 0 && told[0]["max_retries"] != want {
				t.Errorf("%d retries, first %v", len(told), told)
			}
		})
	}
}

// The wait that a provider asks for is kept, up to a ceiling above which the turn
// fails at once and says when to come back; an interrupt ends it (case B57).
func TestB57(t *testing.T) {
	t.Parallel()
	wait := func(after string) llmtest.Reply {
		r := llmtest.JSON(429, `{"error":{"message":"slow down"}}`)
		r.Header["retry-after"] = after
		return r
	}
	for name, tc := range map[string]struct {
		after func() string
		least time.Duration
	}{
		"seconds": {func() string { return "1" }, time.Second},
		"date":    {func() string { return time.Now().Add(2 * time.Second).UTC().Format(time.RFC1123) }, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachSpeech(t, func(t *testing.T, p *provider) {
				p.launch()
				p.server.Script(wait(strings.Replace(tc.after(), "UTC", "GMT", 1)), p.says("good"))
				if result := p.prompt(1); result["result"] != "good" {
					t.Errorf("result %v", result)
				}
				all := p.server.Received()
				if len(all) != 2 || all[1].At.Sub(all[0].At) < tc.least {
					t.Errorf("%d attempts, gap %v, want at least %v", len(all), all[len(all)-1].At.Sub(all[0].At), tc.least)
				}
				if told := p.of("system/api_retry"); len(told) != 1 || told[0]["retry_delay_ms"].(float64) < float64(tc.least.Milliseconds()) {
					t.Errorf("told %v", told)
				}
			})
		})
	}
	t.Run("above the ceiling", func(t *testing.T) {
		t.Parallel()
		eachSpeech(t, func(t *testing.T, p *provider) {
			p.server.Script(wait("86400"))
			p.launch()
			result := p.prompt(1)
			text, _ := result["result"].(string)
			if endOf(result) != "success error api_error" || !strings.Contains(text, "24h") && !strings.Contains(text, "86400") {
				t.Errorf("result %v", result)
			}
			if n := p.attempts(); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	})
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		eachSpeech(t, func(t *testing.T, p *provider) {
			p.server.Script(wait("4"), p.says("too late"))
			p.launch()
			p.user("go")
			p.wait("the retry", isType("system/api_retry"))
			p.control("x", "interrupt", nil)
			if got := endOf(p.result(1)); got != "error_during_execution error aborted_streaming" {
				t.Errorf("the end is %s", got)
			}
			if n := p.attempts(); n != 1 {
				t.Errorf("%d attempts", n)
			}
			p.goesOn(2)
		})
	})
}

// A key that is missing fails the turn, not the start, and the text names the
// variable (spec stream-json 12.3).
func TestMissingKey(t *testing.T) {
	t.Parallel()
	for format, variable := range map[string]string{"deepseek": "DEEPSEEK_API_KEY", "openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).start("--api-format", format, "--model", "m")
			result := h.prompt(1)
			text, _ := result["result"].(string)
			if endOf(result) != "success error api_error" || !strings.Contains(text, variable) || result["api_error_status"] != nil {
				t.Errorf("result %v", result)
			}
			if made := h.synthetic(); len(made) != 1 || made[0]["error"] != "authentication_failed" {
				t.Errorf("synthetic answers %v", made)
			}
			if h.of("system/init")[0]["apiKeySource"] != "none" || h.of("system/init")[0]["model"] != "m" {
				t.Errorf("init %v", h.of("system/init")[0])
			}
			if code := h.end(); code != 1 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// endings gives, for one dialect, how an answer may end that begins with these
// blocks: with a reason, with none, cut off.
func (p *provider) ending(reason string, blocks ...sdkproto.Block) llmtest.Reply {
	begun := p.dialect.Begun(blocks...)
	if p.dialect.Messages {
		if reason == "" {
			return llmtest.Stream(begun, llmtest.MessageStop)
		}
		return llmtest.Stream(begun, llmtest.MessageDelta(reason, 5), llmtest.MessageStop)
	}
	if reason == "" {
		return llmtest.Stream(begun, llmtest.Done)
	}
	return llmtest.Stream(begun, llmtest.Finish(reason), llmtest.Done)
}

// half is a call whose arguments stop in the middle.
func (p *provider) half() string {
	if p.dialect.Messages {
		return llmtest.MessageStart() + llmtest.BlockStart(0, `"type":"tool_use","id":"c","name":"Bash","input":{}`) +
			llmtest.BlockDelta(0, `"type":"input_json_delta","partial_json":`+quoted(`{"command":"touch mark`))
	}
	return llmtest.Call(0, "c", "Bash") + llmtest.Arguments(0, `{"command":"touch mark`)
}

// Only an answer that says it is complete is one, and only its calls run (case
// B54; spec stream-json 12.1, 12.3).
func TestB54(t *testing.T) {
	t.Parallel()
	call := llmtest.Called("c", "Bash", `{"command":"touch marker"}`)
	some := sdkproto.Text("half an answer")
	eachSpeech(t, func(t *testing.T, p *provider) {
		type ending struct {
			name  string
			reply llmtest.Reply
			end   string // of the result
			stop  any    // its stop_reason
			said  string // its result, in part
			tries int
		}
		const ok, bad = "success ok completed", "success error api_error"
		var cases []ending
		if p.dialect.Messages {
			cases = []ending{
				{"refusal", p.ending("refusal", some), ok, "refusal", "half an answer", 1},
				{"max tokens", p.ending("max_tokens", some), ok, "max_tokens", "half an answer", 1},
				{"stop sequence", p.ending("stop_sequence", some), ok, "stop_sequence", "half an answer", 1},
				{"made up", p.ending("moon phase", call), bad, nil, "moon phase", 1},
				{"error event", llmtest.Stream(p.dialect.Begun(some), "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"), ok, "end_turn", "good", 2},
				{"max tokens in a call", llmtest.Stream(p.half(), llmtest.BlockStop(0), llmtest.MessageDelta("max_tokens", 5), llmtest.MessageStop), ok, "max_tokens", "", 1},
			}
		} else {
			cases = []ending{
				{"no resources", p.ending("insufficient_system_resource", some), ok, "end_turn", "good", 2},
				{"no resources in a call", llmtest.Stream(p.half(), llmtest.Finish("insufficient_system_resource"), llmtest.Done), ok, "end_turn", "good", 2},
				{"filter", p.ending("content_filter", some), bad, nil, "content_filter", 1},
				{"length", p.ending("length", some), ok, "max_tokens", "half an answer", 1},
				{"length in a call", llmtest.Stream(p.half(), llmtest.Finish("length"), llmtest.Done), ok, "max_tokens", "", 1},
				{"none", p.ending("", some), ok, "end_turn", "half an answer", 1},
				{"none and a call", p.ending("", call), ok, "end_turn", "good", 2},
				{"function_call", p.ending("function_call", some), bad, nil, "function_call", 1},
				{"made up", p.ending("moon phase", call), bad, nil, "moon phase", 1},
				{"error event", llmtest.Stream(p.dialect.Begun(some), llmtest.Event(`{"error":{"message":"Overloaded"}}`), llmtest.Done), ok, "end_turn", "good", 2},
			}
		}
		p.launch("--permission-mode", "bypassPermissions")
		for i, tc := range cases {
			before := len(p.server.Received())
			p.server.Script(tc.reply, p.says("good"))
			result := p.prompt(2*i + 1)
			text, _ := result["result"].(string)
			if endOf(result) != tc.end || result["stop_reason"] != tc.stop || !strings.Contains(text, tc.said) || tc.said == "" && text != "" {
				t.Errorf("%s: %s, stop_reason %v, %q", tc.name, endOf(result), result["stop_reason"], text)
			}
			if n := len(p.server.Received()) - before; n != tc.tries {
				t.Errorf("%s: %d attempts, want %d", tc.name, n, tc.tries)
			}
			p.goesOn(2*i + 2)
		}
		p.attempts()
		if n := len(p.toolResults()); n != 0 || p.room.exists("marker") || p.room.exists("mark") {
			t.Errorf("a half call ran: %d results", n)
		}
	})
}

// Only an answer with its proper end is shown as one; with partial messages the
// dropped attempt is closed, and the retry begins with a message_start of its own
// (case B56; spec stream-json 3.6; decision R7; peers/claude 53, 56).
func TestB56(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		begun := p.dialect.Begun(sdkproto.Text("bad "), sdkproto.Text("start"))
		called := p.dialect.Begun(llmtest.Called("c", "Bash", `{"command":"touch bad"}`))
		cut := func(text string) llmtest.Reply {
			return llmtest.Reply{Parts: []llmtest.Part{{Text: text, Cut: true}}}
		}
		good := p.calls("c", "Bash", `{"command":"echo x >> good"}`)
		cases := map[string]llmtest.Reply{
			"before headers": {Parts: []llmtest.Part{{Cut: true}}},
			"in text":        cut(begun), "in arguments": cut(p.half()), "behind arguments": cut(called),
			"no terminator": llmtest.Stream(begun),
		}
		p.launch("--permission-mode", "bypassPermissions", "--include-partial-messages")
		n := 0
		for name, reply := range cases {
			p.server.Script(reply, good, p.says("good"))
			n++
			if result := p.prompt(n); endOf(result) != "success ok completed" || result["result"] != "good" || result["num_turns"] != 2.0 {
				t.Errorf("%s: %v", name, result)
			}
			if lines := strings.Count(p.room.read("good"), "x"); lines != n || p.room.exists("bad") {
				t.Errorf("%s: the good call ran %d times in %d turns", name, lines, n)
			}
		}
		for _, text := range p.texts() {
			if text != "good" {
				t.Errorf("an answer %q", text)
			}
		}
		brackets(t, p.host, 0)
		// Past the budget: one result with an error, and the text of nobody.
		p.server.Script(cut(begun))
		n++
		if result := p.prompt(n); endOf(result) != "success error api_error" || strings.Contains(fmt.Sprint(result["result"]), "bad") {
			t.Errorf("past the budget: %v", result)
		}
		if said := p.texts(); len(said) != len(cases) {
			t.Errorf("answers %q", said)
		}
		brackets(t, p.host, 0)
	})
}

// What keeps a connection alive is life and nothing else (case B50).
func TestB50(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		whole := p.dialect.Whole(sdkproto.Text("one two three"))
		var parts []llmtest.Part
		fill := func(text string) {
			for range 3 {
				parts = append(parts, llmtest.Part{Wait: 200 * time.Millisecond, Text: text})
			}
		}
		events := strings.SplitAfter(whole, "\n\n")
		parts = append(parts, llmtest.Part{Text: "\ufeff"})
		fill(llmtest.Comment)
		fill(llmtest.Comment)
		for i, e := range events {
			switch i {
			case 1:
				fill("\r\n")
				parts = append(parts, llmtest.Part{Text: "data:\n\n"})
				e = strings.ReplaceAll(e, "\n", "\r\n")
			case 2:
				fill(": ping\n\n")
				e = strings.Replace(e, "data: ", "data:", 1)
			}
			parts = append(parts, llmtest.Part{Text: e})
		}
		p.server.Script(llmtest.Reply{Parts: parts})
		p.launch("--set", p.row()+".idle=1s")
		if result := p.prompt(1); result["result"] != "one two three" {
			t.Errorf("result %v", result)
		}
		if n := p.attempts(); n != 1 || len(p.of("system/api_retry")) != 0 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A provider that says nothing is given up and asked again (case B58).
func TestB58(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		for name, silent := range map[string]llmtest.Reply{
			"no headers":  {Parts: []llmtest.Part{{Hang: true}}},
			"headers":     {Parts: []llmtest.Part{{Text: "\n"}, {Hang: true}}},
			"half a line": {Parts: []llmtest.Part{{Text: "data: {"}, {Hang: true}}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := provide(t, p.speech).launch("--set", p.row()+".idle=1s")
				p.server.Script(silent, p.says("good"))
				if result := p.prompt(1); result["result"] != "good" {
					t.Errorf("result %v", result)
				}
				if all := p.server.Received(); len(all) != 2 || all[1].At.Sub(all[0].At) < 900*time.Millisecond { // the limit, less what the request took to come
					t.Errorf("%d attempts", len(all))
				}
				if told := p.of("system/api_retry"); len(told) != 1 || told[0]["error"] != "server_error" {
					t.Errorf("retries %v", told)
				}
				p.attempts()
			})
		}
	})
}

// An interrupt ends a request that is not answered, at once (case B58, S023).
func TestSilentProviderAndInterrupt(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(llmtest.Reply{Parts: []llmtest.Part{{Hang: true}}})
		p.launch()
		p.user("go")
		eventually(t, "the request", func() bool { return len(p.server.Received()) == 1 })
		p.control("x", "interrupt", nil)
		if got := endOf(p.result(1)); got != "error_during_execution error aborted_streaming" {
			t.Errorf("the end is %s", got)
		}
		eventually(t, "the connection's end", func() bool { return p.server.Gone() == 1 })
		p.goesOn(2)
	})
}

// So does SIGTERM end the program meanwhile, without a result (case B58; spec
// stream-json 1.7).
func TestSilentProviderAndSIGTERM(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[0])
	p.server.Script(llmtest.Reply{Parts: []llmtest.Part{{Text: "\n"}, {Hang: true}}})
	p.launch()
	p.user("go")
	eventually(t, "the request", func() bool { return len(p.server.Received()) == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 143 || len(p.of("result")) != 0 {
		t.Errorf("exit code %d, results %v", code, p.of("result"))
	}
}
