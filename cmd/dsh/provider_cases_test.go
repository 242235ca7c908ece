package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// TestB49 sends DeepSeek's reasoning back byte for byte, or empty where there was
// none, for as long as the session lives; and none of it as text.
func TestB49(t *testing.T) {
	t.Parallel()
	for name, sp := range map[string]speech{
		"llm-deepseek": speeches()["deepseek"],
		"llm-openai": {
			provider: "openai", server: llmtest.DeepSeek(),
			row: "openai: {use: llm-openai, config: {preset: deepseek, baseUrl: %s, apiKeyEnv: TEST_KEY%s}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testB49(t, sp)
		})
	}
}

func testB49(t *testing.T, sp speech) {
	const odd, plain = "😀 <b> & \u2028\u2029 \"\\ \x7f end  \n ", "plain thought"
	call := func(id string, before ...string) llmtest.Reply {
		texts := append(before, llmtest.Call(0, id, "bash"), llmtest.Arguments(0, `{"command":"true"}`), llmtest.Finish("tool_calls"), llmtest.Done)
		return llmtest.Stream(texts...)
	}
	p := provide(t, sp, settings{})
	p.server.Script(
		call("c1", sp.server.ReasoningDelta(odd[:7]), sp.server.ReasoningDelta(odd[7:])),
		call("c2"),
		call("c3", sp.server.ReasoningDelta("")),
		llmtest.Stream(sp.server.ReasoningDelta(plain), llmtest.Text("done"), llmtest.Finish("stop"), llmtest.Done),
		says("more"),
	)
	p.turn("s", "go")
	p.turn("s", "again")
	p.end("s")
	p.launch()
	p.turn("s", "resumed")
	p.end("s")
	p.launch(`,"reasoningEffort":"off"`)
	p.turn("s", "without thinking")
	p.end("s")

	// What each answer carries in every request that has it.
	want := []any{odd, "", "", plain, nil, nil}
	if n := p.attempts(); n != 7 {
		t.Fatalf("%d attempts, want 7", n)
	}
	for i, messages := range p.asked() {
		answer := 0
		for _, m := range messages {
			if member(m, "role") != "assistant" {
				continue
			}
			if got := member(m, "reasoning_content"); got != want[answer] {
				t.Errorf("request %d, answer %d: reasoning_content is %s, want %s", i+1, answer+1, show(got), show(want[answer]))
			}
			answer++
		}
		for _, m := range messages {
			if content := text(member(m, "content")); strings.Contains(content, "thought") || strings.Contains(content, "😀") {
				t.Errorf("request %d has reasoning as text: %s", i+1, show(m))
			}
		}
	}
	if diff := cmp.Diff([]string{"", "", "", "done", "more", "more", "more"}, p.answers("s")); diff != "" {
		t.Error(diff)
	}
	last := p.server.Received()[6].Body
	if !strings.Contains(string(last), `"thinking":{"type":"disabled"}`) {
		t.Errorf("the last request does not switch thinking off: %s", last)
	}
}

// TestB50: what keeps a connection alive is life and nothing else, before the
// first chunk and in the middle; the text is what the chunks hold.
func TestB50(t *testing.T) {
	t.Parallel()
	eachSpeech(t, settings{adapter: ", idle: 1s"}, func(t *testing.T, p *provided) {
		alive := func(filler string) []llmtest.Part {
			return slices.Repeat([]llmtest.Part{{Wait: 100 * time.Millisecond, Text: filler}}, 15)
		}
		var parts []llmtest.Part
		add := func(texts ...string) {
			for _, text := range texts {
				parts = append(parts, llmtest.Part{Text: text})
			}
		}
		add("\ufeff")
		parts = append(parts, alive(llmtest.Comment)...)
		add(llmtest.Text("one "), "data:\n\n", "event: ping\ndata: {}\n\n")
		parts = append(parts, alive("\r\n")...)
		add(strings.ReplaceAll(llmtest.Text("two "), "\n", "\r\n"), strings.Replace(llmtest.Text("three "), "data: ", "data:", 1),
			"data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"four\"}}]}\n\n")
		parts = append(parts, alive(": ")...)
		add("\n", llmtest.Finish("stop"), llmtest.Usage(3, 0, 2, 0), llmtest.Done, llmtest.Text("behind"), "data: {\n\n")
		p.server.Script(llmtest.Reply{Parts: parts},
			llmtest.JSON(200, strings.Repeat("\n", 50)+`{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}`))
		p.turn("s", "go")
		p.turn("s", "in one piece")
		p.end("s")
		if diff := cmp.Diff([]string{"one two three four", "whole"}, p.answers("s")); diff != "" {
			t.Error(diff)
		}
		if n := p.attempts(); n != 2 {
			t.Errorf("%d attempts, want one for each prompt", n)
		}
	})
}

// TestB52: a tool never runs on arguments that are no object; the model is told
// where they are broken; no provider refuses the history for them.
func TestB52(t *testing.T) {
	t.Parallel()
	long := `{"command":"` + strings.Repeat("x", 2<<20)
	eachSpeech(t, settings{loop: "{verifyRequests: true, maxFailedCalls: 3}"}, func(t *testing.T, p *provided) {
		for name, tc := range map[string]struct {
			arguments string
			// result is what the model is told, in part.
			result string
		}{
			"a quote is missing":   {`{"command: "touch marker"}`, "byte 12"},
			"a raw newline":        {"{\"command\":\"touch marker\n\"}", "byte 24"},
			"two objects":          {`{"command":"touch marker"}{"command":"touch marker"}`, "byte 26"},
			"null":                 {`null`, "object"},
			"a list":               {`[]`, "object"},
			"encoded twice":        {`"{\"command\":\"touch marker\"}"`, "object"},
			"in another object":    {`{"arguments":{"command":"touch marker"}}`, "/command: missing"},
			"nothing":              {``, "/command: missing"},
			"cut in the middle":    {`{"command":"touch mark`, "byte 22"},
			"cut, and very long":   {long, fmt.Sprint("byte ", len(long))},
			"another letter case":  {`{"Command":"touch marker"}`, "/command: missing"},
			"more than is known":   {`{"command":"true","Command":"touch marker"}`, "/Command: unknown"},
			"a name twice":         {`{"command":"touch marker","command":"true"}`, "byte 26: /command: duplicate"},
			"a name twice, deeper": {`{"command":"true","x":{"a":1,"a":2}}`, "/x"},
		} {
			p.server.Script(calls("c", "bash", tc.arguments), says("I see."))
			session := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			p.turn(session, "go")
			// What was refused would be refused in every later turn.
			p.turn(session, "go on")
			if got := p.results(session); len(got) != 1 || !strings.HasPrefix(got[0], "!") || !strings.Contains(got[0], tc.result) || len(got[0]) > 5000 {
				t.Errorf("%s: the results are %.300q, want an error with %q", name, got, tc.result)
			}
			p.check(session)
		}
		// Whatever a model sends, the loop ends.
		p.server.Script(calls("c", "bash", `{"command`))
		p.ask("stubborn", "go")
		p.ended("stubborn", `{"kind":"error","error":{"code":"TOO_MANY_FAILED_CALLS"}}`)
		if got := p.results("stubborn"); len(got) != 3 {
			t.Errorf("%d results, want the limit", len(got))
		}
		p.end("stubborn")
		p.attempts()
		for _, messages := range p.asked() {
			for _, m := range messages {
				for _, c := range list(member(m, "tool_calls")) {
					var object map[string]any
					if err := json.Unmarshal([]byte(text(member(c, "function", "arguments"))), &object); err != nil {
						t.Errorf("a call went back whose arguments are no object: %.200s", show(m))
					}
				}
			}
		}
		if entries := p.files(); len(entries) != 0 {
			t.Errorf("a tool ran: %v", entries)
		}
	})
}

// TestB54: only an answer that says it is complete is one, and only its calls
// run.
func TestB54(t *testing.T) {
	t.Parallel()
	half := llmtest.Call(0, "c", "bash") + llmtest.Arguments(0, `{"command":"touch marker`)
	whole := half + llmtest.Arguments(0, `"}`)
	some := llmtest.Text("half an answer ")
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		for name, tc := range map[string]struct {
			reply llmtest.Reply
			end   string
			tries int
			said  []string
		}{
			"resources in text":    {llmtest.Stream(some, llmtest.Finish("insufficient_system_resource"), llmtest.Done), completed, 2, []string{"good"}},
			"resources in a call":  {llmtest.Stream(half, llmtest.Finish("insufficient_system_resource"), llmtest.Done), completed, 2, []string{"good"}},
			"resources and a call": {llmtest.Stream(whole, llmtest.Finish("insufficient_system_resource"), llmtest.Done), completed, 2, []string{"good"}},
			"filter":               {llmtest.Stream(some, llmtest.Finish("content_filter"), llmtest.Done), `{"kind":"error","error":{"code":"CONTENT_FILTER","message":"/content_filter/"}}`, 1, nil},
			"filter and a call":    {llmtest.Stream(whole, llmtest.Finish("content_filter"), llmtest.Done), `{"kind":"error","error":{"code":"CONTENT_FILTER"}}`, 1, nil},
			"length":               {llmtest.Stream(some, llmtest.Finish("length"), llmtest.Done), `{"kind":"max-tokens"}`, 1, []string{"half an answer "}},
			"length in a call":     {llmtest.Stream(some, half, llmtest.Finish("length"), llmtest.Done), `{"kind":"max-tokens"}`, 1, []string{"half an answer "}},
			"length and a call":    {llmtest.Stream(some, whole, llmtest.Finish("length"), llmtest.Done), `{"kind":"max-tokens"}`, 1, []string{"half an answer "}},
			"none":                 {llmtest.Stream(some, llmtest.Done), completed, 1, []string{"half an answer "}},
			"none and a call":      {llmtest.Stream(whole, llmtest.Done), completed, 2, []string{"good"}},
			"function_call":        {llmtest.Stream(some, llmtest.Finish("function_call"), llmtest.Done), `{"kind":"error","error":{"message":"/function_call/"}}`, 1, nil},
			"made up":              {llmtest.Stream(whole, llmtest.Finish("moon phase"), llmtest.Done), `{"kind":"error","error":{"message":"/moon phase/"}}`, 1, nil},
			"an error event":       {llmtest.Stream(some, llmtest.Event(`{"error":{"message":"Overloaded"}}`), llmtest.Done), completed, 2, []string{"good"}},
		} {
			before := p.attempts()
			p.server.Script(tc.reply, says("good"))
			session := strings.ReplaceAll(name, " ", "-")
			p.ask(session, "go")
			p.ended(session, tc.end)
			if n := p.attempts() - before; n != tc.tries {
				t.Errorf("%s: %d attempts, want %d", name, n, tc.tries)
			}
			if diff := cmp.Diff(tc.said, p.answers(session)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if n := len(p.events(session, sdkproto.TypeLLMRetry)); n != tc.tries-1 {
				t.Errorf("%s: %d retries are told, want %d", name, n, tc.tries-1)
			}
			for _, e := range p.events(session, sdkproto.TypeAssistantMessage, sdkproto.TypeToolCall, sdkproto.TypeToolResult) {
				if member(e, "type") != sdkproto.TypeAssistantMessage || strings.Contains(show(e), sdkproto.BlockToolCall) {
					t.Errorf("%s: a call was kept: %s", name, show(e))
				}
			}
			p.check(session)
			// The session is as good as before.
			p.server.Script(says("fine"))
			p.turn(session, "next")
		}
		p.end()
		if entries := p.files(); len(entries) != 0 {
			t.Errorf("a tool ran: %v", entries)
		}
	})
}

// TestB56: a stream that breaks leaves nothing behind: the text is that of the
// attempt that came to its end, and its calls run once.
func TestB56(t *testing.T) {
	t.Parallel()
	words := []llmtest.Part{{Text: llmtest.Text("bad ")}, {Text: llmtest.Text("bad ")}, {Text: llmtest.Text("bad ")}}
	call := llmtest.Call(0, "c", "bash") + llmtest.Arguments(0, `{"command":"echo ran >> marker`)
	cut := func(parts ...llmtest.Part) llmtest.Reply {
		parts[len(parts)-1].Cut = true
		return llmtest.Reply{Parts: parts}
	}
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		ran := 0
		for name, broken := range map[string]llmtest.Reply{
			"before the headers":       cut(llmtest.Part{}),
			"behind the headers":       cut(llmtest.Part{Text: llmtest.Comment}),
			"behind some text":         cut(slices.Clone(words)...),
			"in the arguments":         cut(append(slices.Clone(words), llmtest.Part{Text: call})...),
			"behind the arguments":     cut(llmtest.Part{Text: call + llmtest.Arguments(0, `"}`)}),
			"behind the finish":        cut(llmtest.Part{Text: call + llmtest.Arguments(0, `"}`) + llmtest.Finish("tool_calls")}),
			"without its terminator":   llmtest.Stream(llmtest.Text("bad "), llmtest.Finish("stop")),
			"with an error inside":     llmtest.Stream(llmtest.Text("bad "), llmtest.Event(`{"error":{"message":"Overloaded","type":"server_error"}}`)),
			"with an event of error":   llmtest.Stream(llmtest.Text("bad "), "event: error\ndata: {\"message\":\"Overloaded\"}\n\n"),
			"with a half event at end": llmtest.Stream(llmtest.Text("bad "), `data: {"choices":[{"index":0,"delta":{"con`),
		} {
			before := p.attempts()
			good := llmtest.Stream(llmtest.Text("good"), llmtest.Call(0, "c", "bash"), llmtest.Arguments(0, `{"command":"echo ran >> marker"}`), llmtest.Finish("tool_calls"), llmtest.Done)
			p.server.Script(broken, good, says("done"))
			session := strings.ReplaceAll(name, " ", "-")
			p.ask(session, "go")
			// Who shows the stream is told that the attempt gives no more, and why.
			p.event(session, sdkproto.TypeAssistantChunk, `{"chunk":{"type":"finish","reason":{"kind":"error"}}}`)
			p.event(session, sdkproto.TypeLLMRetry, `{"turn":1,"step":1,"retry":1}`)
			p.event(session, sdkproto.TypeLLMRetryStarted, `{"retry":1}`)
			p.ended(session, completed)
			if n := p.attempts() - before; n != 3 {
				t.Errorf("%s: %d attempts, want 3", name, n)
			}
			if diff := cmp.Diff([]string{"good", "done"}, p.answers(session)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			ran++
			if got := strings.Count(p.read("marker"), "ran"); got != ran {
				t.Fatalf("%s: the tool has run %d times, want %d", name, got, ran)
			}
			p.check(session)
		}
		// All attempts fail: one failure, in the provider's words.
		before := p.attempts()
		p.server.Script(llmtest.Stream(llmtest.Text("bad "), llmtest.Event(`{"error":{"message":"all engines are down","type":"server_error"}}`)))
		p.ask("down", "go")
		p.ended("down", `{"kind":"error","error":{"code":"SERVER","message":"/all engines are down/"}}`)
		if n := p.attempts() - before; n != 4 {
			t.Errorf("%d attempts, want 4", n)
		}
		if n := len(p.events("down", sdkproto.TypeTurnEnd)); n != 1 {
			t.Errorf("%d ends of the turn", n)
		}
		p.end("down")
	})
}

// TestB57: the wait that a server asks for is kept, told, and can be ended.
func TestB57(t *testing.T) {
	t.Parallel()
	refused := func(status int, body string, header ...string) llmtest.Reply {
		r := llmtest.JSON(status, body)
		for i := 0; i < len(header); i += 2 {
			r.Header[header[i]] = header[i+1]
		}
		return r
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const words = `{"error":{"message":"the words of the provider"}}`
	loop := "{verifyRequests: true, retries: {max: 2, delay: 1ms, maxDelay: 5s, jitter: 0}}"
	eachSpeech(t, settings{loop: loop}, func(t *testing.T, p *provided) {
		for name, tc := range map[string]struct {
			reply llmtest.Reply
			end   string
			tries int
			least time.Duration
		}{
			"seconds":   {refused(429, words, "retry-after", "1"), completed, 2, time.Second},
			"date":      {refused(429, words, "retry-after", now.Add(2*time.Second).Format(http.TimeFormat), "date", now.Format(http.TimeFormat)), completed, 2, 2 * time.Second},
			"busy":      {refused(503, words, "retry-after", "1"), completed, 2, time.Second},
			"none":      {refused(429, words), completed, 2, time.Millisecond},
			"529":       {refused(529, words), completed, 2, time.Millisecond},
			"503":       {refused(503, words), completed, 2, time.Millisecond},
			"in a day":  {refused(429, words, "retry-after", "86400"), `{"kind":"error","error":{"code":"RATE_LIMIT","providerRetryAfterMs":86400000,"message":"/the words of the provider.*24h/"}}`, 1, 0},
			"400":       {refused(400, words), `{"kind":"error","error":{"code":"INVALID_REQUEST","status":400,"message":"/the words/"}}`, 1, 0},
			"401":       {refused(401, words, "retry-after", "1"), `{"kind":"error","error":{"code":"AUTH","status":401,"message":"/the words.*TEST_KEY/"}}`, 1, 0},
			"402":       {refused(402, `{"error":{"message":"Insufficient Balance"}}`), `{"kind":"error","error":{"code":"QUOTA","message":"/Insufficient Balance/"}}`, 1, 0},
			"429 quota": {refused(429, `{"error":{"message":"no","code":"insufficient_quota"}}`), `{"kind":"error","error":{"code":"QUOTA"}}`, 1, 0},
		} {
			before := p.attempts()
			p.server.Script(tc.reply, says("good"))
			session := strings.ReplaceAll(name, " ", "-")
			p.ask(session, "go")
			if tc.tries > 1 {
				p.event(session, sdkproto.TypeLLMRetry, fmt.Sprintf(`{"delayMs":%d}`, tc.least.Milliseconds()))
			}
			p.ended(session, tc.end)
			all := p.server.Received()[before:]
			if len(all) != tc.tries {
				t.Fatalf("%s: %d attempts, want %d", name, len(all), tc.tries)
			}
			if tc.tries > 1 {
				if gap := all[1].At.Sub(all[0].At); gap < tc.least {
					t.Errorf("%s: the second attempt came after %v, want %v", name, gap, tc.least)
				}
			}
			p.check(session)
		}
		// An interrupt in the wait: patience is less than it.
		before := p.attempts()
		p.server.Script(refused(429, words, "retry-after", "5"), says("good"))
		p.ask("cancelled", "go")
		p.event("cancelled", sdkproto.TypeLLMRetry, `{"delayMs":5000}`)
		p.must(p.send([]byte(`{"id":"stop","method":"session/cancel","params":{"sessionId":"cancelled"}}` + "\n")))
		p.ended("cancelled", `{"kind":"aborted"}`)
		begin, end := p.events("cancelled", sdkproto.TypeLLMRetry)[0], p.events("cancelled", sdkproto.TypeTurnEnd)[0]
		if took := number(member(end, "time")) - number(member(begin, "time")); took >= 5000 {
			t.Errorf("the interrupt ended the wait after %d ms", took)
		}
		if n := p.attempts() - before; n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
		// The end of the process in the wait.
		p.server.Script(refused(429, words, "retry-after", "5"), says("good"))
		p.ask("ended", "go")
		p.event("ended", sdkproto.TypeLLMRetry, `{"delayMs":5000}`)
		p.end("ended", "cancelled")
	})
}

// TestB58: a server that says nothing is given up after the idle limit and tried
// again; meanwhile other sessions run, and the process can be ended.
func TestB58(t *testing.T) {
	t.Parallel()
	slow := slices.Repeat([]llmtest.Part{{Wait: 400 * time.Millisecond, Text: "x"}}, 40)
	silent := map[string]llmtest.Reply{
		"no headers":         {Parts: []llmtest.Part{{Hang: true}}},
		"headers only":       {Parts: []llmtest.Part{{Text: llmtest.Comment, Hang: true}}},
		"some text":          {Parts: []llmtest.Part{{Text: llmtest.Text("bad "), Hang: true}}},
		"within an event":    {Parts: []llmtest.Part{{Text: `data: {"choices":[`, Hang: true}}},
		"one byte at a time": {Parts: slow},
		"body of an error":   {Status: 500, Parts: []llmtest.Part{{Text: `{"error":`, Hang: true}}},
	}
	eachSpeech(t, settings{adapter: ", idle: 2s"}, func(t *testing.T, p *provided) {
		var replies []llmtest.Reply
		for _, reply := range silent {
			replies = append(replies, reply)
		}
		p.server.Script(append(replies, says("good"))...)
		var sessions []string
		for name := range silent {
			sessions = append(sessions, strings.ReplaceAll(name, " ", "-"))
		}
		for _, session := range sessions {
			p.ask(session, "go")
		}
		for _, session := range sessions {
			p.cursor = 0
			p.event(session, sdkproto.TypeLLMRetry, `{"retry":1,"failure":{"code":"/^(TIMEOUT|SERVER)$/"}}`)
			p.ended(session, completed)
		}
		p.end(sessions...)
		if n := p.attempts(); n != 2*len(silent) {
			t.Errorf("%d attempts, want two of each session", n)
		}
		for _, session := range sessions {
			if diff := cmp.Diff([]string{"good"}, p.answers(session)); diff != "" {
				t.Errorf("%s: %s", session, diff)
			}
			begin, retry := p.events(session, sdkproto.TypeTurnStart)[0], p.events(session, sdkproto.TypeLLMRetry)[0]
			if took := number(member(retry, "time")) - number(member(begin, "time")); took < 2000 {
				t.Errorf("%s: given up after %d ms, before the limit", session, took)
			}
		}
	})
	// With the usual limit, which is longer than any wait of a test.
	for name, reply := range silent {
		t.Run("others and SIGTERM with "+name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()["deepseek"], settings{})
			p.server.Script(reply, says("good"))
			p.ask("s", "go")
			p.arrived(1)
			for _, other := range []string{"a", "b", "a"} {
				p.turn(other, "hello")
			}
			p.must(p.terminate())
			p.must(p.wantExit(0))
			p.check("s", "a", "b")
			if diff := cmp.Diff("aborted", member(p.events("s", sdkproto.TypeTurnEnd)[0], "data", "reason", "kind")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestB46: content that a provider would refuse is not sent, and what one refuses
// all the same fails its own turn only, now and after a resume.
func TestB46(t *testing.T) {
	t.Parallel()
	html := base64.StdEncoding.EncodeToString([]byte("<html>no picture</html>"))
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		p.server.Script(says("fine"))
		p.server.Refuse("poison")
		for name, blocks := range map[string]string{
			"nothing":         `[]`,
			"empty text":      `[{"type":"text","text":""}]`,
			"blank text":      `[{"type":"text","text":"  \n"}]`,
			"text and blanks": `[{"type":"text","text":"words"},{"type":"text","text":" "}]`,
			"an image alone":  `[{"type":"image","attachment":{"mediaType":"image/png","width":1,"height":1}}]`,
			"unknown alone":   `[{"type":"hologram"}]`,
		} {
			session := strings.ReplaceAll(name, " ", "-")
			p.must(p.send(fmt.Appendf(nil, `{"id":%q,"method":"session/prompt","params":{"sessionId":%q,"contentBlocks":%s}}`+"\n", name, session, blocks)))
			p.ended(session, completed)
			p.turn(session, "plain")
		}
		// Pictures in the frame are not for this build: refused, and nothing kept.
		for name, data := range map[string]string{"an empty image": "", "an image of HTML": html} {
			p.must(p.send(fmt.Appendf(nil, `{"id":%q,"method":"session/prompt","params":{"sessionId":"pictures","contentBlocks":[{"type":"image","data":%q,"mimeType":"image/png"}]}}`+"\n", name, data)))
			p.must(wantAnswer(p.peer, name, map[string]any{"error": map[string]any{}}))
		}
		if _, err := os.Stat(p.stored("pictures")); err == nil {
			t.Error("a refused message made a session")
		}
		p.turn("pictures", "plain")

		// What tools give.
		p.must(os.WriteFile(filepath.Join(p.ws, "fake.png"), []byte("<html>no picture</html>"), 0o600))
		for name, call := range map[string][2]string{
			"no output":    {"bash", `{"command":"true"}`},
			"blank output": {"bash", `{"command":"echo; echo"}`},
			"fake picture": {"read", `{"file_path":"fake.png"}`},
		} {
			session := strings.ReplaceAll(name, " ", "-")
			p.server.Script(calls("c", call[0], call[1]), says("fine"))
			p.turn(session, "go")
			p.turn(session, "plain")
		}

		// What the provider refuses: a prompt, a prompt behind a good one, a result,
		// and what its filter takes away.
		const refusal = `{"kind":"error","error":{"code":"INVALID_REQUEST","message":"/not allowed/"}}`
		for session, opening := range map[string]int{"first": 0, "later": 1} {
			for range opening {
				p.turn(session, "hello")
			}
			p.ask(session, "drink poison")
			p.ended(session, refusal)
			p.turn(session, "plain")
		}
		p.server.Script(
			llmtest.Stream(llmtest.Call(0, "c", "bash"), llmtest.Arguments(0, `{"command":"echo poi''son"}`), llmtest.Call(1, "d", "bash"), llmtest.Arguments(1, `{"command":"echo ok"}`), llmtest.Finish("tool_calls"), llmtest.Done),
			says("fine"))
		p.ask("result", "go")
		p.ended("result", refusal)
		p.turn("result", "plain")
		p.server.Script(llmtest.Stream(llmtest.Finish("content_filter"), llmtest.Done), says("fine"))
		p.ask("filtered", "something dark")
		p.ended("filtered", `{"kind":"error","error":{"code":"CONTENT_FILTER"}}`)
		p.turn("filtered", "plain")

		sessions := []string{
			"nothing", "empty-text", "blank-text", "text-and-blanks", "an-image-alone", "unknown-alone", "pictures", "no-output", "blank-output",
			"fake-picture", "first", "later", "result", "filtered",
		}
		p.end(sessions...)
		resumed := len(p.server.Received())
		p.launch()
		for _, session := range sessions {
			p.turn(session, "plain again")
		}
		p.end(sessions...)

		refused := 0
		for i, r := range p.server.Received() {
			if r.Refused != "" {
				refused++
			}
			if r.Refused != "" && (i >= resumed || !strings.Contains(string(r.Body), "poison")) {
				t.Errorf("request %d was refused, %s: %s", i+1, r.Refused, r.Body)
			}
			if i >= resumed && strings.Contains(string(r.Body), "something dark") {
				t.Errorf("request %d has what the filter took away: %s", i+1, r.Body)
			}
		}
		if refused != 3 {
			t.Errorf("%d requests were refused, want 3", refused)
		}
		for i, messages := range p.asked() {
			for _, m := range messages {
				if content, ok := member(m, "content").(string); ok && member(m, "role") != "assistant" && strings.TrimSpace(content) == "" {
					t.Errorf("request %d has an empty message: %s", i+1, show(m))
				}
			}
		}
		// The log shows what was set aside, and for what it was.
		for session, want := range map[string]int{"first": 1, "later": 1, "result": 2, "filtered": 1, "nothing": 0} {
			var aside []any
			for _, e := range p.events(session, sdkproto.TypeUserMessage, sdkproto.TypeToolResult) {
				if member(e, "surfaceOp", "op") == "replace" {
					aside = append(aside, e)
				}
			}
			if len(aside) != want {
				t.Errorf("session %s: %d messages were set aside, want %d", session, len(aside), want)
			}
		}
	})
}
