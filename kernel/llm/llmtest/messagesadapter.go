package llmtest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// TestMessages is the contract of adapters that speak the Messages protocol. open
// makes an adapter for the base URL that sends Key and answers for Provider and
// Model, which thinks adaptively and takes the effort off.
func TestMessages(t *testing.T, open func(tb testing.TB, url string) llm.Adapter) {
	s := suite{Messages(), open}
	t.Run("streams", s.messageStreams)
	t.Run("every chunk", s.messageChunks)
	t.Run("stop reasons", s.stopReasons)
	t.Run("statuses", s.statuses)
	t.Run("failures", s.messageFailures)
	t.Run("packets", s.messagePackets)
	t.Run("histories", s.histories)
	t.Run("signatures", s.signatures)
	t.Run("prefix", s.prefix)
	t.Run("cancel", s.cancel)
	t.Run("stop listening", s.stopListening)
	t.Run("side by side", s.sideBySide)
	t.Run("connections", s.connections)
	t.Run("key", s.key)
	t.Run("count", s.count)
}

func (s suite) messageStreams(t *testing.T) {
	hello := []sdkproto.Block{sdkproto.Text("hello")}
	block, start, end := TextBlock(0, "hel", "lo"), MessageStart(), MessageDelta("end_turn", 5)+MessageStop
	for _, tc := range []struct {
		name  string
		reply Reply
		want  []sdkproto.Block
	}{
		{"text", Stream(start, block, end), hello},
		{"pings, comments and blank lines (B50)", Stream(start, strings.Repeat(Comment, 20), "\n\n", block, MessageEvent("ping", ""), ":\n", end), hello},
		{"CRLF", Stream(strings.ReplaceAll(start+block+end, "\n", "\r\n")), hello},
		{"byte-order mark", Stream("\ufeff" + start + block + end), hello},
		{"data without a space", Stream(strings.ReplaceAll(start+block+end, "data: ", "data:")), hello},
		{"no names of events", Stream(strings.ReplaceAll(start+block+end, "event: ", "x: ")), hello},
		{"bytes behind the terminator", Stream(start + block + end + "data: {\n\n"), hello},
		{"terminator without a line end", Stream(start + block + strings.TrimSuffix(end, "\n\n")), hello},
		{"unknown events and deltas", Stream(start+MessageEvent("moon_phase", `,"x":1`)+BlockStart(0, `"type":"text","text":""`)+
			BlockDelta(0, `"type":"citations_delta","citation":{}`)+BlockDelta(0, `"type":"text_delta","text":"hello"`)+BlockStop(0), end), hello},
		{"unknown blocks", Stream(start+BlockStart(0, `"type":"server_tool_use","id":"x","name":"y","input":{}`)+
			BlockDelta(0, `"type":"input_json_delta","partial_json":"{"`)+BlockStop(0)+TextBlock(1, "hello"), end), hello},
		{"empty pieces", Stream(start+TextBlock(0, "", "hello", ""), end), hello},
		{"text in the start of a block", Stream(start+BlockStart(0, `"type":"text","text":"hel"`)+BlockDelta(0, `"type":"text_delta","text":"lo"`)+BlockStop(0), end), hello},
		{"no end of a block", Stream(start+BlockStart(0, `"type":"text","text":""`)+BlockDelta(0, `"type":"text_delta","text":"hello"`), end), hello},
		{"no end of a block before the next", Stream(start+BlockStart(0, `"type":"thinking","thinking":""`)+BlockDelta(0, `"type":"thinking_delta","thinking":"t"`)+TextBlock(1, "hello"), end),
			[]sdkproto.Block{Thought("t"), sdkproto.Text("hello")}},
		{"odd characters", Stream(start+TextBlock(0, "日\u2028本<&>\"\\\u0001", "😀\n"), end), []sdkproto.Block{sdkproto.Text("日\u2028本<&>\"\\\u0001😀\n")}},
		{"thinking, text and calls", Stream(start+ThinkingBlock(0, "let ", "me")+TextBlock(1, "I will.")+ToolUseBlock(2, "toolu_a", "bash", "", `{"command":`, `"ls"}`)+
			ToolUseBlock(3, "toolu_b", "read", "{}"), MessageDelta("tool_use", 5), MessageStop),
			[]sdkproto.Block{Signed("let me"), sdkproto.Text("I will."), Called("toolu_a", "bash", `{"command":"ls"}`), Called("toolu_b", "read", "{}")}},
		{"thinking without text", Stream(start+ThinkingBlock(0)+TextBlock(1, "hello"), end), []sdkproto.Block{Signed(""), sdkproto.Text("hello")}},
		{"redacted thinking", Stream(start+BlockStart(0, `"type":"redacted_thinking","data":"ZGF0YQ=="`)+BlockStop(0)+TextBlock(1, "hello"), end),
			[]sdkproto.Block{{Type: sdkproto.BlockRedacted, Data: "ZGF0YQ=="}, sdkproto.Text("hello")}},
		{"a call without input", Stream(start+ToolUseBlock(0, "a", "bash"), MessageDelta("tool_use", 5), MessageStop), []sdkproto.Block{Called("a", "bash", "")}},
		{"input in the start of a block", Stream(start+BlockStart(0, `"type":"tool_use","id":"a","name":"bash","input":{"x":1}`)+BlockStop(0), MessageDelta("tool_use", 5), MessageStop),
			[]sdkproto.Block{Called("a", "bash", `{"x":1}`)}},
		{"broken input is kept as it is (B52)", Stream(start+ToolUseBlock(0, "a", "bash", `{"path: "a"}`), MessageDelta("tool_use", 5), MessageStop),
			[]sdkproto.Block{Called("a", "bash", `{"path: "a"}`)}},
		{"an answer that is no stream", JSON(200, strings.Repeat("\n", 50)+`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},`+
			`{"type":"text","text":"hello"},{"type":"tool_use","id":"a","name":"bash","input":{"x":[1]}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`),
			[]sdkproto.Block{{Type: sdkproto.BlockReasoning, Text: "t", Signature: "s"}, sdkproto.Text("hello"), Called("a", "bash", `{"x":[1]}`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ans, server := s.ask(t, tc.reply)
			if ans.Err != nil {
				t.Fatal(ans.Err)
			}
			if diff := cmp.Diff(tc.want, ans.Blocks(), cmpopts.IgnoreUnexported(sdkproto.Block{})); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if n := len(server.Received()); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

// messageChunks: the provider's id and the tokens so far come first, a block ends
// where the provider ends it, and the tokens are the last totals (case B86).
func (s suite) messageChunks(t *testing.T) {
	ans, _ := s.ask(t, Stream(MessageStart()+ThinkingBlock(0, "hm")+TextBlock(1, "do", "ne")+ToolUseBlock(2, "toolu_1", "bash", "", "{}"), MessageDelta("tool_use", 5)+MessageStop))
	want := []string{
		`{"type":"usage","usage":{"inputTokens":20,"outputTokens":1,"cacheReadTokens":10,"cacheWriteTokens":7},"messageId":"msg_01llmtest"}`,
		`{"type":"block-start","index":0,"blockType":"reasoning"}`,
		`{"type":"reasoning-delta","index":0,"text":"hm"}`,
		`{"type":"block-end","index":0,"block":{"type":"reasoning","text":"hm","signature":"` + SignatureOf(Model, "hm") + `"}}`,
		`{"type":"block-start","index":1,"blockType":"text"}`,
		`{"type":"text-delta","index":1,"text":"do"}`,
		`{"type":"text-delta","index":1,"text":"ne"}`,
		`{"type":"block-end","index":1,"block":{"type":"text","text":"done"}}`,
		`{"type":"block-start","index":2,"blockType":"tool-call"}`,
		`{"type":"tool-call-delta","index":2,"id":"toolu_1","name":"bash","argumentsDelta":""}`,
		`{"type":"tool-call-delta","index":2,"id":"toolu_1","argumentsDelta":"{}"}`,
		`{"type":"block-end","index":2,"block":{"type":"tool-call","id":"toolu_1","name":"bash","arguments":"{}"}}`,
		`{"type":"usage","usage":{"inputTokens":20,"outputTokens":5,"cacheReadTokens":10,"cacheWriteTokens":7},"messageId":"msg_01llmtest"}`,
		`{"type":"finish","reason":{"kind":"tool-calls"}}`,
	}
	if diff := cmp.Diff(want, ans.Lines()); diff != "" || ans.Err != nil {
		t.Error(ans.Err, diff)
	}
	t.Run("later totals", func(t *testing.T) {
		ans, _ := s.ask(t, Stream(MessageStart()+TextBlock(0, "x"),
			MessageEvent("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":21,"cache_creation_input_tokens":0,"cache_read_input_tokens":null,"output_tokens":9}`)+MessageStop))
		if diff := cmp.Diff(&sdkproto.Usage{InputTokens: 21, OutputTokens: 9, CacheReadTokens: 10}, ans.Usage()); diff != "" {
			t.Error(diff)
		}
	})
}

// stopReasons are those of cases B54 and B56: a call is run only if the answer
// ended in a way that says it is complete.
func (s suite) stopReasons(t *testing.T) {
	text, call := MessageStart()+TextBlock(0, "some"), MessageStart()+ToolUseBlock(0, "a", "bash", "{}")
	half := MessageStart() + BlockStart(0, `"type":"tool_use","id":"a","name":"bash","input":{}`) + BlockDelta(0, `"type":"input_json_delta","partial_json":"{\"pa"`)
	stop := func(reason string) string { return MessageDelta(reason, 5) + MessageStop }
	for _, tc := range []struct {
		name   string
		stream string
		want   sdkproto.FinishReason
		code   string
		again  bool
	}{
		{"end_turn", text + stop("end_turn"), sdkproto.FinishReason{Kind: "stop"}, "", false},
		{"tool_use", call + stop("tool_use"), sdkproto.FinishReason{Kind: "tool-calls"}, "", false},
		{"tool_use without a call", text + stop("tool_use"), sdkproto.FinishReason{Kind: "stop"}, "", false},
		{"max_tokens", text + stop("max_tokens"), sdkproto.FinishReason{Kind: "max-tokens"}, "", false},
		{"max_tokens in a call", half + stop("max_tokens"), sdkproto.FinishReason{Kind: "max-tokens"}, "", false},
		{"window", text + stop("model_context_window_exceeded"), sdkproto.FinishReason{Kind: "max-tokens", Native: "model_context_window_exceeded"}, "", false},
		{"stop_sequence", text + MessageEvent("message_delta", `,"delta":{"stop_reason":"stop_sequence","stop_sequence":"END"}`) + MessageStop,
			sdkproto.FinishReason{Kind: "stop", Native: "stop_sequence", Sequence: "END"}, "", false},
		{"refusal", text + stop("refusal"), sdkproto.FinishReason{Kind: "stop", Native: "refusal"}, "", false},
		{"refusal and nothing", MessageStart() + stop("refusal"), sdkproto.FinishReason{}, "REFUSAL", false},
		{"refusal behind a call", call + stop("refusal"), sdkproto.FinishReason{}, "REFUSAL", false},
		{"pause_turn", text + stop("pause_turn"), sdkproto.FinishReason{Kind: "stop", Native: "pause_turn"}, "", false},
		{"pause_turn behind a call", call + stop("pause_turn"), sdkproto.FinishReason{}, "PAUSE_TURN", false},
		{"made up", text + stop("moon-phase 2"), sdkproto.FinishReason{}, "MOON_PHASE_2", false},
		{"none", text + MessageStop, sdkproto.FinishReason{Kind: "stop"}, "", false},
		{"none behind a call", call + MessageStop, sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
		{"none in a call", half + MessageStop, sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
		{"tool_use in a call", half + stop("tool_use"), sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
		{"end_turn and nothing", MessageStart() + stop("end_turn"), sdkproto.FinishReason{}, llm.CodeEmptyResponse, true},
		{"none and nothing", MessageStop, sdkproto.FinishReason{}, llm.CodeEmptyResponse, true},
		{"no terminator", text + MessageDelta("end_turn", 5), sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
		{"no terminator in a call", half, sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
		{"nothing at all", "", sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
		{"half an event", text + `data: {"type":"message_de`, sdkproto.FinishReason{}, llm.CodeStreamClosed, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ans, _ := s.ask(t, Stream(tc.stream))
			wantFailure(t, ans, tc.code, 0)
			var got sdkproto.FinishReason
			if n := len(ans.Chunks); n > 0 && ans.Chunks[n-1].Reason != nil {
				got = *ans.Chunks[n-1].Reason
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if e := ans.Failure(); e != nil && e.Retryable() != tc.again {
				t.Errorf("retryable is %v", e.Retryable())
			}
		})
	}
	t.Run("a failed attempt is accounted for", func(t *testing.T) {
		ans, _ := s.ask(t, Stream(text))
		if diff := cmp.Diff(&sdkproto.Usage{InputTokens: 20, OutputTokens: 1, CacheReadTokens: 10, CacheWriteTokens: 7}, ans.Usage()); diff != "" {
			t.Error(diff)
		}
	})
}

// messageFailures are those of a connection, of what comes over a good one, and of
// the errors that a provider reports inside a stream, whose kinds stand for
// statuses.
func (s suite) messageFailures(t *testing.T) {
	text := MessageStart() + TextBlock(0, "some")
	reported := func(kind string) Reply {
		return Stream(text, MessageEvent("error", `,"error":{"type":`+quote(kind)+`,"message":"the words"}`))
	}
	for _, tc := range []struct {
		name   string
		reply  Reply
		code   string
		status int
		again  bool
	}{
		{"cut before the headers", Reply{Parts: []Part{{Cut: true}}}, llm.CodeTransport, 0, true},
		{"cut behind some text", Reply{Parts: []Part{{Text: text, Cut: true}}}, llm.CodeTransport, 0, true},
		{"cut within a call", Reply{Parts: []Part{{Text: MessageStart() + BlockStart(0, `"type":"tool_use","id":"a","name":"bash","input":{}`), Cut: true}}}, llm.CodeTransport, 0, true},
		{"garbage", Stream(text, "data: {\"type\": \"broken\n\n"), llm.CodeMalformedResponse, 0, false},
		{"another type", Stream(text, BlockStart(1, `"type":5`)), llm.CodeMalformedResponse, 0, false},
		{"no type", Stream(text, Event(`{"x":1}`)), llm.CodeMalformedResponse, 0, false},
		{"a piece of no block", Stream(text, BlockDelta(0, `"type":"text_delta","text":"x"`)), llm.CodeMalformedResponse, 0, false},
		{"a piece of another block", Stream(MessageStart(), BlockStart(0, `"type":"text","text":""`), BlockDelta(1, `"type":"text_delta","text":"x"`)), llm.CodeMalformedResponse, 0, false},
		{"a piece of another kind", Stream(MessageStart(), BlockStart(0, `"type":"text","text":""`), BlockDelta(0, `"type":"thinking_delta","thinking":"x"`)), llm.CodeMalformedResponse, 0, false},
		{"a web page", Reply{Header: map[string]string{"content-type": "text/html"}, Parts: []Part{{Text: "<html>sign in</html>"}}}, llm.CodeMalformedResponse, 0, false},
		{"JSON that is none", JSON(200, "{"), llm.CodeMalformedResponse, 0, false},
		{"JSON of another kind", JSON(200, `{"type":"moon"}`), llm.CodeMalformedResponse, 0, false},
		{"JSON with an error", JSON(200, `{"type":"error","error":{"type":"rate_limit_error","message":"no"}}`), llm.CodeRateLimit, 429, true},
		{"overloaded", reported("overloaded_error"), llm.CodeServer, 529, true},
		{"api_error", reported("api_error"), llm.CodeServer, 500, true},
		{"timeout_error", reported("timeout_error"), llm.CodeServer, 504, true},
		{"rate_limit_error", reported("rate_limit_error"), llm.CodeRateLimit, 429, true},
		{"authentication_error", reported("authentication_error"), llm.CodeAuth, 401, false},
		{"permission_error", reported("permission_error"), llm.CodeAuth, 403, false},
		{"billing_error", reported("billing_error"), llm.CodeQuota, 402, false},
		{"not_found_error", reported("not_found_error"), "HTTP_404", 404, false},
		{"invalid_request_error", reported("invalid_request_error"), llm.CodeInvalidRequest, 400, false},
		{"an unknown kind", reported("moon_error"), llm.CodeServer, 0, true},
		{"plain text", Stream(text, "event: error\ndata: Overloaded\n\n"), llm.CodeServer, 0, true},
		{"too long", Stream(MessageStart(), MessageEvent("error", `,"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}`)), llm.CodeContextWindow, 400, false},
		{"refused for its balance", JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`), llm.CodeQuota, 400, false},
		{"refused as overloaded", JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), llm.CodeServer, 529, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ans, server := s.ask(t, tc.reply)
			wantFailure(t, ans, tc.code, tc.status)
			if e := ans.Failure(); e != nil && e.Retryable() != tc.again {
				t.Errorf("retryable is %v", e.Retryable())
			}
			if n := len(server.Received()); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
	t.Run("the request id", func(t *testing.T) {
		ans, _ := s.ask(t, Reply{Status: 529, Header: map[string]string{"request-id": "req_1", "retry-after": "4"}})
		if e := ans.Failure(); e == nil || e.RequestID != "req_1" || e.RetryAfter.Seconds() != 4 {
			t.Errorf("got %+v", e)
		}
	})
}

func (s suite) messagePackets(t *testing.T) {
	reply := Stream("\ufeff"+Comment+MessageStart(), ThinkingBlock(0, "日本"), TextBlock(1, "😀é"), "\r\n", ToolUseBlock(2, "a", "bash", `{"x":"日"}`), MessageDelta("tool_use", 5), MessageStop)
	s.cut(t, reply)
}

// signatures: thoughts go back byte for byte and in place, and only to the model
// that had them (case B59). The server refuses every other signature.
func (s suite) signatures(t *testing.T) {
	other := func(m sdkproto.Message) sdkproto.Message { m.Source.Model = "another"; return m }
	elsewhere := func(m sdkproto.Message) sdkproto.Message { m.Source.Provider = "another"; return m }
	redacted := sdkproto.Block{Type: sdkproto.BlockRedacted, Data: "ZGF0YQ=="}
	forged := sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "t", Signature: SignatureOf("another", "t")}
	odd := Signed("😀 <&>\u2028  ")
	call, result := Called("1", "bash", "{}"), Result("1", sdkproto.Text("r"))
	for _, tc := range []struct {
		name    string
		history []sdkproto.Message
		sends   []string
		never   string
	}{
		{"own", []sdkproto.Message{User("a"), Assistant(odd, call), result}, []string{`"thinking"`, odd.Signature, "😀 <&>", `"tool_use"`}, ""},
		{"without text", []sdkproto.Message{User("a"), Assistant(Signed(""), call), result}, []string{`{"type":"thinking","thinking":"","signature":"` + SignatureOf(Model, "")}, ""},
		{"redacted", []sdkproto.Message{User("a"), Assistant(redacted, call), result}, []string{`{"type":"redacted_thinking","data":"ZGF0YQ=="}`}, ""},
		{"unsigned", []sdkproto.Message{User("a"), Assistant(Thought("t"), call), result}, nil, `"thinking","thinking"`},
		{"of another model", []sdkproto.Message{User("a"), other(Assistant(forged, redacted, call)), result}, []string{`"tool_use"`}, `thinking","`},
		{"of another provider", []sdkproto.Message{User("a"), elsewhere(Assistant(forged, redacted, call)), result}, []string{`"tool_use"`}, `thinking","`},
		{"nothing but a thought of another", []sdkproto.Message{User("a"), other(Assistant(forged)), User("b")}, nil, `"assistant"`},
		{"another model and back", []sdkproto.Message{User("a"), Assistant(odd, sdkproto.Text("x")), User("b"), other(Assistant(forged, sdkproto.Text("y"))), User("c")}, []string{odd.Signature, `"y"`}, forged.Signature},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := NewServer(t, s.dialect)
			server.Script(Stream(s.dialect.Whole(sdkproto.Text("fine"))))
			a := s.open(t, server.URL)
			ans := Collect(context.Background(), t, a, Request(t, a, tc.history...))
			body := server.Received()[0].Body
			if ans.Err != nil {
				t.Errorf("%v\n%s", ans.Err, body)
			}
			for _, part := range tc.sends {
				at := bytes.Index(body, []byte(part))
				if at < 0 {
					t.Fatalf("%s is not sent, or not in its place:\n%s", part, body)
				}
			}
			if tc.never != "" && bytes.Contains(body, []byte(tc.never)) {
				t.Errorf("%s is sent:\n%s", tc.never, body)
			}
		})
	}
	// What nobody but the provider can know of: it refuses once, and the session
	// goes on without the thoughts so far.
	t.Run("refused", func(t *testing.T) {
		server := NewServer(t, s.dialect)
		server.Script(Stream(s.dialect.Whole(sdkproto.Text("fine"))))
		a := s.open(t, server.URL)
		stale := Signed("t")
		stale.Signature = "sig_of_another_history"
		req := Request(t, a, User("a"), Assistant(stale, call), result)
		ans := Collect(context.Background(), t, a, req)
		if e := ans.Failure(); e == nil || e.Status != 400 || !e.Retryable() {
			t.Fatalf("got %+v", ans.Err)
		}
		if ans = Collect(context.Background(), t, a, req); ans.Err != nil {
			t.Fatalf("the second attempt: %v", ans.Err)
		}
		req = Request(t, a, User("a"), Assistant(stale, call), result, Assistant(Signed("new"), sdkproto.Text("fine")), User("b"))
		if ans = Collect(context.Background(), t, a, req); ans.Err != nil {
			t.Fatalf("the next prompt: %v", ans.Err)
		}
		last := server.Received()[2].Body
		if bytes.Contains(last, []byte(stale.Signature)) || !bytes.Contains(last, []byte(SignatureOf(Model, "new"))) {
			t.Errorf("the next prompt sends\n%s", last)
		}
		// A refusal that leaving them out does not mend is no reason to try again.
		server.Script(JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Invalid signature in thinking block"}}`))
		for _, req := range []llm.Request{Request(t, a, User("a")), Request(t, a, User("a"), Assistant(Thought("t"), sdkproto.Text("x")), User("b"))} {
			if e := Collect(context.Background(), t, a, req).Failure(); e == nil || e.Code != llm.CodeInvalidRequest {
				t.Errorf("got %+v", e)
			}
		}
	})
}

// count: the same request is counted without being answered.
func (s suite) count(t *testing.T) {
	server := NewServer(t, s.dialect)
	a := s.open(t, server.URL)
	counter, ok := a.(llm.TokenCounter)
	if !ok {
		t.Fatal("the adapter counts no tokens")
	}
	req := Request(t, a, User("a"), Assistant(Signed("t"), Called("1", "bash", "{}")), Result("1", sdkproto.Text("r")))
	server.Script(JSON(200, `{"input_tokens":2095}`))
	n, err := counter.CountTokens(context.Background(), req)
	got := server.Received()[0]
	if n != 2095 || err != nil || !strings.HasSuffix(got.Path, "/v1/messages/count_tokens") || got.Refused != "" {
		t.Errorf("%d, %v, %s %s\n%s", n, err, got.Path, got.Refused, got.Body)
	}
	for _, tc := range []struct {
		name  string
		reply Reply
		code  string
	}{
		{"refused", JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`), llm.CodeInvalidRequest},
		{"unreadable", JSON(200, `{"tokens":1}`), llm.CodeMalformedResponse},
		{"cut", Reply{Parts: []Part{{Cut: true}}}, llm.CodeTransport},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server.Script(tc.reply)
			_, err := counter.CountTokens(context.Background(), req)
			wantFailure(t, Answer{Err: err}, tc.code, map[string]int{llm.CodeInvalidRequest: 400}[tc.code])
		})
	}
}
