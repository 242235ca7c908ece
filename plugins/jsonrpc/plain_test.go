package jsonrpc_test

import (
	"context"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/sdkproto"
)

// busyTurn is a turn with all that extensions report about.
func busyTurn(r *fakeRegistry) {
	r.step = func(ctx context.Context, a *fakeAgent, m sdkproto.Message) {
		turn := a.turnNumber()
		a.append(sdkproto.TypeUserMessage, m)
		a.append(sdkproto.TypeAssistantChunk, sdkproto.AssistantChunk{Turn: turn, Step: 1, Chunk: sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: "hi"}})
		a.append(sdkproto.TypeAssistantMessage, sdkproto.AssistantMessage{Turn: turn, Step: 1, Usage: &sdkproto.Usage{InputTokens: 1, OutputTokens: 2}, Message: sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text("hi")}, Source: sdkproto.Source{Kind: sdkproto.SourceModel, Provider: "scripted", Model: "m"}, Role: sdkproto.RoleAssistant, ID: "a1",
		}})
		if sdkproto.TextOf(m.Content) == "hang" {
			<-ctx.Done()
		}
	}
}

// Spec jsonrpc 13.3, decision D21: a client that asks for nothing sees the plain
// protocol, byte for byte, whatever other clients could ask for.
func TestPlainProtocol(t *testing.T) {
	p := serve(t, setup{}, busyTurn)
	steps := []struct {
		send []string
		// until is in the last line of the step.
		until string
		want  []string
	}{
		{[]string{prompt("0", "s", "early")}, `"id":0`, []string{failed("0", -32603, `"SDK server is not initialized"`)}},
		{[]string{`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"cwd":"/w","provider":"scripted","model":"m","maxTokens":0}}`}, `"id":"i"`,
			[]string{failed(`"i"`, -32602, `"initialize maxTokens must be a positive safe integer"`)}},
		{[]string{initialize}, `"id":"i"`, []string{initialized}},
		{[]string{probe}, `"probe"`, []string{probed}},
		{[]string{prompt("1", "s", "hello")}, `"idle"`, []string{
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"agent/inbox/spliced","seq":0,"time":1,"data":{"target":"next-turn","start":0,"inserted":[{"content":[{"type":"text","text":"hello"}],"source":{"kind":"user"},"role":"user","id":"s-m1"}]}}}}`,
			`{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"s","status":"running"}}`,
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"turn/start","seq":1,"time":1,"data":{"turn":1}}}}`,
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"agent/inbox/spliced","seq":2,"time":1,"data":{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}}}}`,
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"user/message","seq":3,"time":1,"data":{"content":[{"type":"text","text":"hello"}],"source":{"kind":"user"},"role":"user","id":"s-m1"},"surfaceOp":"append"}}}`,
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"assistant/chunk","seq":4,"time":1,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"hi"}}}}}`,
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"assistant/message","seq":5,"time":1,"data":{"turn":1,"step":1,"message":{"content":[{"type":"text","text":"hi"}],"source":{"kind":"model","provider":"scripted","model":"m"},"role":"assistant","id":"a1"},"usage":{"inputTokens":1,"outputTokens":2}},"surfaceOp":"append"}}}`,
			`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"turn/end","seq":6,"time":1,"data":{"turn":1,"reason":{"kind":"completed"}}}}}`,
			`{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"s","status":"idle"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"messageId":"s-m1"}}`,
		}},
		{[]string{prompt("2", "", "x")}, `"id":2`, []string{failed("2", -32602, `"session/prompt sessionId must be a non-empty string"`)}},
		{[]string{`{"id":3,"method":"session/prompt","params":{"sessionId":"s","contentBlocks":"x"}}`}, `"id":3`,
			[]string{failed("3", -32602, `"session/prompt contentBlocks must be an array of content blocks"`)}},
	}
	for _, step := range steps {
		p.send(step.send...)
		got := p.until(step.until)
		for len(got) < len(step.want) {
			got = append(got, p.next()) // the answer may come before or behind
		}
		if diff := gocmp.Diff(answersLast(step.want), answersLast(got)); diff != "" {
			t.Errorf("%q: %s", step.send, diff)
		}
	}
	// A child is announced; nothing else is new.
	if _, err := p.agents.Open(t.Context(), agent.Spec{ID: "c", Parent: "s", Depth: 1}, agent.OpenAny); err != nil {
		t.Fatal(err)
	}
	p.send(prompt("4", "c", "hang"))
	lines := p.until(`"text":"hi"}],"source":{"kind":"model"`)
	if lines[0] != `{"jsonrpc":"2.0","method":"subagent.started","params":{"parentSessionId":"s","childSessionId":"c"}}` {
		t.Errorf("got %s", lines[0])
	}
	p.send(shutdown)
	a, before := p.answer(`"stop"`)
	if a != stopped {
		t.Errorf("got %s", a)
	}
	lines = append(lines[1:], before...)
	if code, rest := p.ended(); code != 0 || len(rest) > 0 {
		t.Errorf("exit %d, then %q", code, rest)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"c","event":{`) &&
			!strings.HasPrefix(l, `{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"c","status":"`) &&
			l != `{"jsonrpc":"2.0","id":4,"result":{"messageId":"c-m1"}}` {
			t.Errorf("got %s", l)
		}
	}
}

// answersLast puts answers behind notifications: they may come anywhere.
func answersLast(lines []string) []string {
	var events, answers []string
	for _, l := range lines {
		if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":`) {
			answers = append(answers, l)
		} else {
			events = append(events, l)
		}
	}
	return append(events, answers...)
}

// Decision D21: the same refusals with data, for a client that asked.
func TestErrorData(t *testing.T) {
	with := func(params string) string {
		return `{"id":9,"method":"initialize","params":{"cwd":"/w","provider":"scripted","model":"m","protocolVersion":1` + params + `}}`
	}
	tests := []struct{ name, send, want string }{
		{"method", `{"id":9,"method":"nope"}`, failedWith("9", -32601, "unknown DeepSeek Harness SDK runtime method: nope", `{"code":"METHOD_NOT_FOUND","retryable":false}`)},
		{"maxTokens", with(`,"maxTokens":0`), failedWith("9", -32602, "initialize maxTokens must be a positive safe integer", `{"code":"INVALID_PARAMS","retryable":false,"field":"maxTokens"}`)},
		{"provider", strings.Replace(with(""), `"scripted"`, `"X"`, 1), failedWith("9", -32602, `no adapter registered for provider "X"; registered providers: scripted`, `{"code":"NO_ADAPTER","retryable":false,"field":"provider"}`)},
		{"capabilities", with(`,"capabilities":1`), failedWith("9", -32602, "initialize capabilities must be an object", `{"code":"INVALID_PARAMS","retryable":false,"field":"capabilities"}`)},
		{"session id", prompt("9", "", "x"), failedWith("9", -32602, "session/prompt sessionId must be a non-empty string", `{"code":"INVALID_PARAMS","retryable":false,"field":"sessionId"}`)},
		{"block", `{"id":9,"method":"session/prompt","params":{"sessionId":"s","contentBlocks":[{"type":"text","text":"x"},3]}}`,
			failedWith("9", -32602, "session/prompt contentBlocks[1]: a content block must be an object", `{"code":"INVALID_PARAMS","retryable":false,"field":"contentBlocks[1]"}`)},
		{"image", `{"id":9,"method":"session/prompt","params":{"sessionId":"s","contentBlocks":[{"type":"image","data":"x"}]}}`,
			failedWith("9", -32603, "SDK image prompt requires an attachment store", `{"code":"NO_ATTACHMENT_STORE","retryable":false}`)},
		{"session", `{"id":9,"method":"session/resume","params":{"sessionId":"none"}}`,
			failedWith("9", -32603, "open session none: no such session", `{"code":"SESSION_NOT_FOUND","retryable":false}`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, setup{})
			if !strings.Contains(tt.send, "protocolVersion") {
				p.send(with(""))
				p.next()
			}
			p.send(tt.send)
			if got := p.next(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// The parameters of every method beyond the plain protocol.
func TestExtensionParams(t *testing.T) {
	const s = `"sessionId":"s"`
	long := `"` + strings.Repeat("x", 201) + `"`
	text := func(method, field string) string { return quote(method + " " + field + " must be a non-empty string") }
	tests := []struct{ method, params, want string }{
		{"session/cancel", `{}`, text("session/cancel", "sessionId")},
		{"session/cancel", `{"sessionId":7}`, text("session/cancel", "sessionId")},
		{"session/cancel", `{` + s + `,"messageId":""}`, text("session/cancel", "messageId")},
		{"session/cancel", `{` + s + `,"messageId":{}}`, text("session/cancel", "messageId")},
		{"session/close", `{"sessionId":null}`, text("session/close", "sessionId")},
		{"session/close", `[]`, text("session/close", "sessionId")},
		{"session/list", `{"cwd":1}`, text("session/list", "cwd")},
		{"session/list", `{"limit":0}`, `"session/list limit must be an integer from 1 to 1000"`},
		{"session/list", `{"limit":1001}`, `"session/list limit must be an integer from 1 to 1000"`},
		{"session/list", `{"limit":1.5}`, `"session/list limit must be an integer from 1 to 1000"`},
		{"session/list", `{"cursor":"x"}`, `"session/list cursor must be the nextCursor of an answer to session/list"`},
		{"session/list", `{"cursor":3}`, `"session/list cursor must be the nextCursor of an answer to session/list"`},
		{"session/resume", `{}`, text("session/resume", "sessionId")},
		{"session/events", `{"fromSeq":0}`, text("session/events", "sessionId")},
		{"session/events", `{` + s + `,"fromSeq":-1}`, `"session/events fromSeq must be an integer from 0 on"`},
		{"session/events", `{` + s + `,"fromSeq":"0"}`, `"session/events fromSeq must be an integer from 0 on"`},
		{"session/wait", `{"messageId":"m"}`, text("session/wait", "sessionId")},
		{"session/wait", `{` + s + `}`, text("session/wait", "messageId")},
		{"session/wait", `{` + s + `,"messageId":"m","timeoutMs":-1}`, `"session/wait timeoutMs must be an integer from 0 on"`},
		{"session/wait", `{` + s + `,"messageId":"m","timeoutMs":9007199254740992}`, `"session/wait timeoutMs must be an integer from 0 on"`},
		{"session/steer", `{"contentBlocks":[]}`, text("session/steer", "sessionId")},
		{"session/steer", `{` + s + `}`, `"session/steer contentBlocks must be an array of content blocks"`},
		{"session/steer", `{` + s + `,"contentBlocks":[{}]}`, `"session/steer contentBlocks[0]: a content block must have a string \"type\""`},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"idempotencyKey":""}`, text("session/prompt", "idempotencyKey")},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"idempotencyKey":` + long + `}`, `"session/prompt idempotencyKey must be at most 200 bytes long"`},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"options":[]}`, `"session/prompt options must be an object"`},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"options":{"model":""}}`, text("session/prompt", "options.model")},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"options":{"provider":1}}`, text("session/prompt", "options.provider")},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"options":{"maxTokens":0}}`, `"session/prompt options.maxTokens must be a positive safe integer"`},
		{"session/prompt", `{` + s + `,"contentBlocks":[],"options":{"reasoningEffort":true}}`, text("session/prompt", "options.reasoningEffort")},
		{"initialize", `{"cwd":"/w","provider":"scripted","model":"m","protocolVersion":0}`, `"initialize protocolVersion must be a positive safe integer"`},
		{"initialize", `{"cwd":"/w","provider":"scripted","model":"m","protocolVersion":"1"}`, `"initialize protocolVersion must be a positive safe integer"`},
		{"initialize", `{"cwd":"/w","provider":"scripted","model":"m","capabilities":{"notifications":"x"}}`, `"initialize capabilities.notifications must be an array of strings"`},
		{"initialize", `{"cwd":"/w","provider":"scripted","model":"m","capabilities":{"notifications":[1]}}`, `"initialize capabilities.notifications must be an array of strings"`},
		{"initialize", `{"cwd":"/w","provider":"scripted","model":"m","capabilities":{"chunks":0}}`, `"initialize capabilities.chunks must be true or false"`},
		{"initialize", `{"cwd":"/w","provider":"scripted","model":"m","capabilities":{"heartbeatSeconds":3601}}`, `"initialize capabilities.heartbeatSeconds must be an integer from 1 to 3600"`},
	}
	p := serve(t, setup{})
	p.begin()
	for _, tt := range tests {
		p.send(`{"id":1,"method":"` + tt.method + `","params":` + tt.params + `}`)
		if got, want := p.next(), failed("1", -32602, tt.want); got != want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", tt.method, tt.params, got, want)
		}
	}
	if made := p.agents.opened(); len(made) > 0 {
		t.Errorf("made %v", made)
	}
	// All but a prompt works before initialize, and ping whenever.
	p = serve(t, setup{ready: true})
	defer p.ready.Hold("slow")()
	p.send(initialize, `{"id":1,"method":"session/cancel","params":{"sessionId":"s","messageId":null}}`)
	if got := p.next(); got != `{"jsonrpc":"2.0","id":1,"result":{"cancelled":false}}` {
		t.Errorf("got %s", got)
	}
	p.send(`{"id":2,"method":"ping"}`)
	if got := p.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":2,"result":{"time":1`) {
		t.Errorf("got %s", got)
	}
}
