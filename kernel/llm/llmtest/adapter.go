package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// TestAdapter is the contract of adapters that speak chat completions. open
// makes an adapter for the base URL that sends Key; it may ask for the test's
// cleanup.
func TestAdapter(t *testing.T, d Dialect, open func(tb testing.TB, url string) llm.Adapter) {
	s := suite{d, open}
	t.Run("streams", s.streams)
	t.Run("finish reasons", s.finishReasons)
	t.Run("statuses", s.statuses)
	t.Run("failures", s.failures)
	t.Run("packets", s.packets)
	t.Run("histories", s.histories)
	t.Run("prefix", s.prefix)
	t.Run("cancel", s.cancel)
	t.Run("stop listening", s.stopListening)
	t.Run("side by side", s.sideBySide)
	t.Run("connections", s.connections)
	t.Run("key", s.key)
}

// TestRequests is the part of TestAdapter that is about what is sent.
func TestRequests(t *testing.T, d Dialect, open func(tb testing.TB, url string) llm.Adapter) {
	s := suite{d, open}
	t.Run("histories", s.histories)
	t.Run("prefix", s.prefix)
	t.Run("key", s.key)
}

type suite struct {
	dialect Dialect
	open    func(testing.TB, string) llm.Adapter
}

const limit = 20 * time.Second

// ask makes one attempt at the replies.
func (s suite) ask(t *testing.T, replies ...Reply) (Answer, *Server) {
	t.Helper()
	server := NewServer(t, s.dialect)
	server.Script(replies...)
	a := s.open(t, server.URL)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return Collect(ctx, t, a, Request(t, a, User("hello"))), server
}

func (s suite) streams(t *testing.T) {
	hello := []sdkproto.Block{sdkproto.Text("hello")}
	crlf := func(texts ...string) Reply {
		for i := range texts {
			texts[i] = strings.ReplaceAll(texts[i], "\n", "\r\n")
		}
		return Stream(texts...)
	}
	for _, tc := range []struct {
		name  string
		reply Reply
		want  []sdkproto.Block
	}{
		{"text", Stream(Text("hel"), Text("lo"), Finish("stop"), Done), hello},
		{"comments and blank lines (B50)", Stream(strings.Repeat(Comment, 50), "\n\n\n", Text("hel"), Comment, ":\n", Text("lo"), Comment, Finish("stop"), "\n", Done), hello},
		{"CRLF", crlf(Comment, Text("hel"), Text("lo"), Finish("stop"), Done), hello},
		{"one event over two lines with CRLF", crlf("data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"hello\"}}]}\n\n", Finish("stop"), Done), hello},
		{"byte-order mark", Stream("\ufeff"+Text("hello"), Finish("stop"), Done), hello},
		{"data without a space", Stream(strings.Replace(Text("hello"), "data: ", "data:", 1), Finish("stop"), "data:[DONE]\n\n"), hello},
		{"empty data", Stream("data:\n\n", "data: \n\n", Text("hello"), "data\n\n", Finish("stop"), Done), hello},
		{"one event over two lines", Stream("data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"hello\"}}]}\n\n", Finish("stop"), Done), hello},
		{"pings and other fields", Stream("event: ping\ndata: {\"type\": \"ping\"}\n\n", "event: ping\ndata: pong\n\n", "id: 7\nretry: 5\nother: x\n"+Text("hello"), Finish("stop"), Done), hello},
		{"bytes behind the terminator", Stream(Text("hello"), Finish("stop"), Done+Text("more")+"data: {\n\n"), hello},
		{"terminator with blanks", Stream(Text("hello"), Finish("stop"), "data:  [DONE] \n\n"), hello},
		{"terminator without a line end", Stream(Text("hello"), Finish("stop"), "data: [DONE]"), hello},
		{"no finish reason and no call (R16)", Stream(Text("hello"), Done), hello},
		{"empty deltas open no block", Stream(s.dialect.ReasoningDelta(""), Text(""), Text("hello"), Text(""), Finish("stop"), Done), hello},
		{"null members", Stream(Delta(`"role":"assistant","content":null,"reasoning_content":null,"tool_calls":null`), Text("hello"), Finish("stop"), Done), hello},
		{"another choice", Stream(Event(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"hello"}}]}`), Finish("stop"), Done), hello},
		{"events without a choice", Stream(Event(`{"id":"x"}`), Event(`{"choices":[]}`), Event(`{"choices":null,"error":null}`), Text("hello"), Finish("stop"), Done), hello},
		{"odd characters", Stream(Text("日\u2028本<&>\"\\\u0001"), Text("😀\n"), Finish("stop"), Done), []sdkproto.Block{sdkproto.Text("日\u2028本<&>\"\\\u0001😀\n")}},
		{"reasoning only", Stream(s.dialect.ReasoningDelta("hm"), Finish("stop"), Done), []sdkproto.Block{Thought("hm")}},
		{
			"reasoning, text and calls",
			Stream(s.dialect.ReasoningDelta("let "), s.dialect.ReasoningDelta("me"), Text("I will."), Call(0, "call_a", "bash"), Arguments(0, `{"command":`),
				Arguments(0, `"ls"}`), Call(1, "call_b", "read"), Arguments(1, `{}`), Finish("tool_calls"), Done),
			[]sdkproto.Block{Thought("let me"), sdkproto.Text("I will."), Called("call_a", "bash", `{"command":"ls"}`), Called("call_b", "read", `{}`)},
		},
		{
			"calls in turns",
			Stream(Call(0, "call_a", "bash"), Call(1, "call_b", "read"), Arguments(1, `{"b"`), Arguments(0, `{"a"`), Arguments(1, `:1}`), Arguments(0, `:2}`), Finish("tool_calls"), Done),
			[]sdkproto.Block{Called("call_a", "bash", `{"a":2}`), Called("call_b", "read", `{"b":1}`)},
		},
		{
			"calls without numbers",
			Stream(Delta(`"tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{}"}},{"id":"b","function":{"name":"read","arguments":"{\"x\""}}]`),
				Delta(`"tool_calls":[{"function":{"arguments":":1}"}}]`), Finish("tool_calls"), Done),
			[]sdkproto.Block{Called("a", "bash", `{}`), Called("b", "read", `{"x":1}`)},
		},
		{
			"calls with one number",
			Stream(Delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}}]`),
				Delta(`"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{}"}}]`), Finish("tool_calls"), Done),
			[]sdkproto.Block{Called("a", "bash", `{}`), Called("b", "read", `{}`)},
		},
		{
			"broken arguments are kept as they are (B52)",
			Stream(Call(0, "a", "bash"), Arguments(0, "{\"path: \"a\"}\n"), Finish("tool_calls"), Done),
			[]sdkproto.Block{Called("a", "bash", "{\"path: \"a\"}\n")},
		},
		{"a call without arguments", Stream(Call(0, "a", "bash"), Finish("tool_calls"), Done), []sdkproto.Block{Called("a", "bash", "")}},
		{"call ended by stop", Stream(Call(0, "a", "bash"), Finish("stop"), Done), []sdkproto.Block{Called("a", "bash", "")}},
		{
			"an answer that is no stream (B50)",
			JSON(200, strings.Repeat("\n", 50)+`{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`), hello,
		},
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
	t.Run("every chunk", func(t *testing.T) {
		ans, _ := s.ask(t, Stream(s.dialect.ReasoningDelta("hm"), Text("do"), Text("ne"), Call(0, "call_1", "bash"), Arguments(0, "{}"), Finish("tool_calls"), Usage(30, 10, 5, 2), Done))
		want := []string{
			`{"type":"block-start","index":0,"blockType":"reasoning"}`,
			`{"type":"reasoning-delta","index":0,"text":"hm"}`,
			`{"type":"block-start","index":1,"blockType":"text"}`,
			`{"type":"text-delta","index":1,"text":"do"}`,
			`{"type":"text-delta","index":1,"text":"ne"}`,
			`{"type":"block-start","index":2,"blockType":"tool-call"}`,
			`{"type":"tool-call-delta","index":2,"id":"call_1","name":"bash","argumentsDelta":""}`,
			`{"type":"tool-call-delta","index":2,"id":"call_1","argumentsDelta":"{}"}`,
			`{"type":"block-end","index":0,"block":{"type":"reasoning","text":"hm"}}`,
			`{"type":"block-end","index":1,"block":{"type":"text","text":"done"}}`,
			`{"type":"block-end","index":2,"block":{"type":"tool-call","id":"call_1","name":"bash","arguments":"{}"}}`,
			`{"type":"usage","usage":{"inputTokens":20,"outputTokens":5,"cacheReadTokens":10,"reasoningTokens":2}}`,
			`{"type":"finish","reason":{"kind":"tool-calls"}}`,
		}
		if diff := cmp.Diff(want, ans.Lines()); diff != "" {
			t.Error(diff)
		}
	})
	for _, tc := range []struct {
		name, usage string
		want        *sdkproto.Usage
	}{
		{"none", "", nil},
		{"plain", `{"prompt_tokens":7,"completion_tokens":3}`, &sdkproto.Usage{InputTokens: 7, OutputTokens: 3}},
		{"cache hits of DeepSeek", `{"prompt_tokens":7,"completion_tokens":3,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":3}`, &sdkproto.Usage{InputTokens: 3, OutputTokens: 3, CacheReadTokens: 4}},
		{"details first", `{"prompt_tokens":7,"completion_tokens":3,"prompt_cache_hit_tokens":4,"prompt_tokens_details":{"cached_tokens":5}}`, &sdkproto.Usage{InputTokens: 2, OutputTokens: 3, CacheReadTokens: 5}},
		{"unreadable", `{"prompt_tokens":"many"}`, nil},
		{"null details", `{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":null}`, &sdkproto.Usage{InputTokens: 7, OutputTokens: 3}},
	} {
		t.Run("usage "+tc.name, func(t *testing.T) {
			usage := tc.usage
			if usage == "" {
				usage = "null"
			}
			ans, _ := s.ask(t, Stream(Text("x"), Event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":`+usage+`}`), Done))
			if diff := cmp.Diff(tc.want, ans.Usage()); diff != "" || ans.Err != nil {
				t.Error(diff, ans.Err)
			}
		})
	}
}

// finishReasons are those of spec jsonrpc 10.4, decision R16 and case B54.
func (s suite) finishReasons(t *testing.T) {
	text, call := Text("some"), Call(0, "a", "bash")+Arguments(0, `{"pa`)
	for _, tc := range []struct {
		name   string
		reply  Reply
		finish string
		code   string
		again  bool
	}{
		{"stop", Stream(text, Finish("stop"), Done), "stop", "", false},
		{"tool_calls", Stream(call, Finish("tool_calls"), Done), "tool-calls", "", false},
		{"tool_calls without a call", Stream(text, Finish("tool_calls"), Done), "stop", "", false},
		{"length", Stream(text, Finish("length"), Done), "max-tokens", "", false},
		{"length in a call", Stream(call, Finish("length"), Done), "max-tokens", "", false},
		{"length and nothing else", Stream(Finish("length"), Done), "max-tokens", "", false},
		{"none", Stream(text, Done), "stop", "", false},
		{"none in a call", Stream(text, call, Done), "", llm.CodeStreamClosed, true},
		{"none and nothing", Stream(Done), "", llm.CodeEmptyResponse, true},
		{"stop and nothing", Stream(Finish("stop"), Done), "", llm.CodeEmptyResponse, true},
		{"stop and empty pieces", Stream(Text(""), s.dialect.ReasoningDelta(""), Finish("stop"), Done), "", llm.CodeEmptyResponse, true},
		{"tool_calls and nothing", Stream(Finish("tool_calls"), Done), "", llm.CodeEmptyResponse, true},
		{"resources", Stream(text, Finish("insufficient_system_resource"), Done), "", "INSUFFICIENT_SYSTEM_RESOURCE", true},
		{"resources in a call", Stream(call, Finish("insufficient_system_resource"), Done), "", "INSUFFICIENT_SYSTEM_RESOURCE", true},
		{"resources, then the end", Stream(text, Finish("insufficient_system_resource")), "", "INSUFFICIENT_SYSTEM_RESOURCE", true},
		{"filter", Stream(text, Finish("content_filter"), Done), "", "CONTENT_FILTER", false},
		{"function_call", Stream(text, Finish("function_call"), Done), "", "FUNCTION_CALL", false},
		{"made up", Stream(text, Finish("moon-phase 2"), Done), "", "MOON_PHASE_2", false},
		{"no terminator", Stream(text, Finish("stop")), "", llm.CodeStreamClosed, true},
		{"no terminator in a call", Stream(call), "", llm.CodeStreamClosed, true},
		{"nothing at all", Stream(), "", llm.CodeStreamClosed, true},
		{"half an event", Stream(text, `data: {"choices":[{"index":0,"delta":{"con`), "", llm.CodeStreamClosed, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ans, _ := s.ask(t, tc.reply)
			if got := ans.Finish(); got != tc.finish {
				t.Errorf("finish is %q, want %q", got, tc.finish)
			}
			wantFailure(t, ans, tc.code, 0)
			if e := ans.Failure(); e != nil && e.Retryable() != tc.again {
				t.Errorf("retryable is %v", e.Retryable())
			}
		})
	}
	t.Run("the word is kept", func(t *testing.T) {
		ans, _ := s.ask(t, Stream(text, Finish("moon-phase 2"), Done))
		if e := ans.Failure(); e == nil || !strings.Contains(e.Message, `"moon-phase 2"`) {
			t.Errorf("got %v", ans.Err)
		}
	})
	t.Run("a failed attempt is accounted for", func(t *testing.T) {
		ans, _ := s.ask(t, Stream(text, Finish("content_filter"), Usage(9, 0, 4, 0), Done))
		if diff := cmp.Diff(&sdkproto.Usage{InputTokens: 9, OutputTokens: 4}, ans.Usage()); diff != "" {
			t.Error(diff)
		}
	})
}

func wantFailure(t *testing.T, ans Answer, code string, status int) {
	t.Helper()
	e := ans.Failure()
	switch {
	case code == "" && ans.Err != nil:
		t.Errorf("got error %v", ans.Err)
	case code == "":
	case e == nil:
		t.Errorf("got %v, want an *llm.Error with code %s", ans.Err, code)
	case e.Code != code || e.Status != status:
		t.Errorf("got code %s, status %d, want %s, %d: %s", e.Code, e.Status, code, status, e.Message)
	case e.Message == "" || len(e.Message) > 4000 || strings.Contains(e.Message, Key):
		t.Errorf("the message is empty, too long or tells the key: %.200s", e.Message)
	}
}

// statuses is the table of spec jsonrpc 10.6, with the words of several vendors.
func (s suite) statuses(t *testing.T) {
	// A body of this size does not end, and must not be waited for.
	const endless = 1 << 20
	message := func(text string) string {
		return `{"error":{"message":` + quote(text) + `,"type":"some_error","param":null,"code":null}}`
	}
	for _, tc := range []struct {
		name   string
		status int
		body   string
		code   string
		again  bool
	}{
		{"401", 401, message("no"), llm.CodeAuth, false},
		{"403", 403, message("no"), llm.CodeAuth, false},
		{"403 with quota wording", 403, message("insufficient balance"), llm.CodeAuth, false},
		{"402 balance", 402, message("Insufficient Balance"), llm.CodeQuota, false},
		{"402 without words", 402, "", "HTTP_402", false},
		{"400 quota", 400, message("You exceeded your current quota, please check your plan"), llm.CodeQuota, false},
		{"429", 429, message("slow down"), llm.CodeRateLimit, true},
		{"429 quota type", 429, `{"error":{"message":"no","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.CodeQuota, false},
		{"429 rate words", 429, message("Rate limit reached for requests"), llm.CodeRateLimit, true},
		{"400 DeepSeek context", 400, message("This model's maximum context length is 131072 tokens. However, you requested 140000 tokens"), llm.CodeContextWindow, false},
		{"400 context code", 400, `{"error":{"message":"too much","code":"context_length_exceeded"}}`, llm.CodeContextWindow, false},
		{"400 llama.cpp context", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, llm.CodeContextWindow, false},
		{"400 too long", 400, message("prompt is too long: 210000 tokens > 200000 maximum"), llm.CodeContextWindow, false},
		{"400 input length", 400, `{"message":"Range of input length should be [1, 129024]"}`, llm.CodeContextWindow, false},
		{"400", 400, message("bad tool name"), llm.CodeInvalidRequest, false},
		{"400 plain text", 400, "nope", llm.CodeInvalidRequest, false},
		{"400 empty", 400, "", llm.CodeInvalidRequest, false},
		{"413", 413, message("too large"), llm.CodeInvalidRequest, false},
		{"413 with quota wording", 413, message("billing"), llm.CodeInvalidRequest, false},
		{"500", 500, message("oops"), llm.CodeServer, true},
		{"502 page", 502, "<html><head><title>Bad gateway</title></head><body>" + strings.Repeat("load balancer billing ", 9000) + "</body></html>", llm.CodeServer, true},
		{"503", 503, message("the load balancer has no server"), llm.CodeServer, true},
		{"529", 529, message("overloaded"), llm.CodeServer, true},
		{"404", 404, message("no such model"), "HTTP_404", false},
		{"422", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, "HTTP_422", false},
		{"307", 307, "", "HTTP_307", false},
		{"an endless body", 500, strings.Repeat("x", endless), llm.CodeServer, true},
		{"control characters", 400, message("a\x1b[31m\r\nb\x00"), llm.CodeInvalidRequest, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reply := Reply{Status: tc.status, Header: map[string]string{
				"content-type": "application/json", "x-request-id": "request-7", "x-deepseek-request-id": "other", "retry-after": "3",
			}, Parts: []Part{{Text: tc.body, Hang: len(tc.body) >= endless}}}
			if tc.status == 307 {
				reply.Header["location"] = "/elsewhere/chat/completions"
			}
			ans, server := s.ask(t, reply)
			wantFailure(t, ans, tc.code, tc.status)
			e := ans.Failure()
			if e == nil || len(ans.Chunks) > 0 {
				t.Fatalf("got %v", ans)
			}
			if e.Retryable() != tc.again || e.RequestID != "request-7" || tc.again && e.RetryAfter != 3*time.Second {
				t.Errorf("got retryable %v, request %q, retry after %v", e.Retryable(), e.RequestID, e.RetryAfter)
			}
			if strings.ContainsAny(e.Message, "\x1b\r\n\x00<") {
				t.Errorf("the message is not cleaned: %q", e.Message)
			}
			if n := len(server.Received()); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
	t.Run("the provider's words are told", func(t *testing.T) {
		for body, want := range map[string]string{
			message("the words"):                      "the words",
			`{"error":"the words"}`:                   "the words",
			`{"message":"the words"}`:                 "the words",
			`{"detail":"the words"}`:                  "the words",
			`{"msg":"the words"}`:                     "the words",
			"the\n  words":                            "the words",
			`{"error":{"message":"the\tword\u00e9"}}`: "the wordé",
		} {
			ans, _ := s.ask(t, JSON(400, body))
			if e := ans.Failure(); e == nil || e.Message != want {
				t.Errorf("%s gives %v", body, ans.Err)
			}
		}
	})
	t.Run("the other request id", func(t *testing.T) {
		ans, _ := s.ask(t, Reply{Status: 500, Header: map[string]string{"x-deepseek-request-id": "ds-1"}})
		if e := ans.Failure(); e == nil || e.RequestID != "ds-1" {
			t.Errorf("got %+v", e)
		}
	})
	// Case B57.
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":      0,
		"2":     2 * time.Second,
		" 2 ":   2 * time.Second,
		"0":     0,
		"86400": 24 * time.Hour,
		now.Add(3 * time.Second).Format(http.TimeFormat): 3 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):      0,
		"soon":                 0,
		"-5":                   0,
		"1.5":                  0,
		"99999999999999999999": 365 * 24 * time.Hour,
	} {
		t.Run("retry-after "+value, func(t *testing.T) {
			ans, _ := s.ask(t, Reply{Status: 429, Header: map[string]string{"retry-after": value, "date": now.Format(http.TimeFormat)}})
			if e := ans.Failure(); e == nil || e.RetryAfter != want {
				t.Errorf("got %+v, want %v", e, want)
			}
		})
	}
}

// failures are those of a connection and of what comes over a good one.
func (s suite) failures(t *testing.T) {
	text := Text("some")
	for _, tc := range []struct {
		name  string
		reply Reply
		code  string
		again bool
	}{
		{"cut before the headers", Reply{Parts: []Part{{Cut: true}}}, llm.CodeTransport, true},
		{"cut behind the headers", Reply{Parts: []Part{{Text: Comment, Cut: true}}}, llm.CodeTransport, true},
		{"cut behind some text", Reply{Parts: []Part{{Text: text}, {Text: text}, {Text: text, Cut: true}}}, llm.CodeTransport, true},
		{"cut within an event", Reply{Parts: []Part{{Text: text + `data: {"choices":[{"in`, Cut: true}}}, llm.CodeTransport, true},
		{"cut within a call", Reply{Parts: []Part{{Text: Call(0, "a", "bash") + Arguments(0, `{"c`), Cut: true}}}, llm.CodeTransport, true},
		{"garbage", Stream(text, "data: {\"type\": \"broken\n\n", Done), llm.CodeMalformedResponse, false},
		{"another type", Stream(text, Event(`{"choices":[{"delta":{"content":5}}]}`), Done), llm.CodeMalformedResponse, false},
		{"a list", Stream(Event(`[1]`), Done), llm.CodeMalformedResponse, false},
		{"a web page", Reply{Header: map[string]string{"content-type": "text/html; charset=utf-8"}, Parts: []Part{{Text: "<html>sign in</html>"}}}, llm.CodeMalformedResponse, false},
		{"JSON that is none", JSON(200, "{"), llm.CodeMalformedResponse, false},
		{"JSON with an error", JSON(200, `{"error":{"message":"no","code":"rate_limit_exceeded"}}`), llm.CodeRateLimit, true},
		{"an error in the stream", Stream(text, Event(`{"error":{"message":"Overloaded","type":"server_error"}}`), Done), llm.CodeServer, true},
		{"an error event", Stream(text, "event: error\ndata: {\"message\":\"Overloaded\"}\n\n"), llm.CodeServer, true},
		{"an error event of plain text", Stream(text, "event: error\ndata: Overloaded\n\n"), llm.CodeServer, true},
		{"an error with a status", Stream(text, Event(`{"error":{"message":"x","code":429}}`)), llm.CodeRateLimit, true},
		{"an error with a status of text", Stream(text, Event(`{"error":{"message":"x","code":"400"}}`)), llm.CodeInvalidRequest, false},
		{"an error about the context", Stream(Event(`{"error":{"message":"maximum context length exceeded"}}`)), llm.CodeContextWindow, false},
		{"an error about the quota", Stream(Event(`{"error":{"message":"Insufficient Balance"}}`)), llm.CodeQuota, false},
		{"an error about the request", Stream(Event(`{"error":{"message":"x","type":"invalid_request_error"}}`)), llm.CodeInvalidRequest, false},
		{"an error of one text", Stream(Event(`{"error":"boom"}`)), llm.CodeServer, true},
		{"an error beside a choice", Stream(Event(`{"error":{"message":"x","code":502},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`)), llm.CodeServer, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ans, server := s.ask(t, tc.reply)
			wantFailure(t, ans, tc.code, 0)
			if e := ans.Failure(); e != nil && e.Retryable() != tc.again {
				t.Errorf("retryable is %v", e.Retryable())
			}
			if n := len(server.Received()); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		a := s.open(t, "http://127.0.0.1:1")
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		ans := Collect(ctx, t, a, Request(t, a, User("hello")))
		wantFailure(t, ans, llm.CodeTransport, 0)
	})
}

// packets sends the same bytes cut in every way: characters of several bytes,
// line ends and names of fields come in pieces.
func (s suite) packets(t *testing.T) {
	reply := Stream("\ufeff"+Comment, s.dialect.ReasoningDelta("日本"), Text("😀é"), "\r\n", Call(0, "a", "bash"), Arguments(0, `{"x":"日"}`), Finish("tool_calls"), Usage(3, 1, 2, 1), Done)
	s.cut(t, reply)
}

// cut has a reply sent in packets of several sizes, which must make no difference.
func (s suite) cut(t *testing.T, reply Reply) {
	t.Helper()
	whole, _ := s.ask(t, reply)
	if whole.Err != nil {
		t.Fatal(whole.Err)
	}
	for _, n := range []int{1, 2, 3, 7} {
		reply.Packet = n
		ans, _ := s.ask(t, reply)
		if diff := cmp.Diff(whole.Lines(), ans.Lines()); diff != "" || ans.Err != nil {
			t.Errorf("in packets of %d bytes: %v\n%s", n, ans.Err, diff)
		}
	}
}

// histories are such that a log can hold; a provider must take them all (cases
// B46, B49, B52).
func (s suite) histories(t *testing.T) {
	said := sdkproto.Text("ok")
	for name, history := range map[string][]sdkproto.Message{
		"prompt":                {User("hello")},
		"empty prompt":          {User("")},
		"blank prompt":          {User(" \n")},
		"no block":              {{Role: sdkproto.RoleUser}},
		"unknown blocks":        {{Role: sdkproto.RoleUser, Content: []sdkproto.Block{{Type: "file"}}}, Assistant(sdkproto.Block{Type: "file"}), User("x")},
		"image":                 {{Role: sdkproto.RoleUser, Content: []sdkproto.Block{{Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{MediaType: "image/png", Width: 2, Height: 3}}}}},
		"two prompts":           {User("one"), User("two")},
		"answers":               {User("a"), Assistant(said), User("b"), Assistant(Thought("t"), said), User("c")},
		"reasoning only":        {User("a"), Assistant(Thought("t")), User("b")},
		"empty answer":          {User("a"), Assistant(), User("b")},
		"blank answer":          {User("a"), Assistant(sdkproto.Text("\n")), User("b")},
		"two answers":           {User("a"), Assistant(said), Assistant(said), User("b")},
		"call":                  {User("a"), Assistant(Thought("t"), Called("1", "bash", `{"a":1}`)), Result("1", sdkproto.Text("r"))},
		"call without thought":  {User("a"), Assistant(Called("1", "bash", "{}")), Result("1", sdkproto.Text("r"))},
		"empty thought":         {User("a"), Assistant(Thought(""), Called("1", "bash", "{}")), Result("1", sdkproto.Text("r"))},
		"call with text":        {User("a"), Assistant(said, Called("1", "bash", "{}")), Result("1", sdkproto.Text("r")), User("b")},
		"two calls":             {User("a"), Assistant(Called("1", "bash", "{}"), Called("2", "read", "{}")), Result("1", sdkproto.Text("r")), Result("2", sdkproto.Text("s"))},
		"empty result":          {User("a"), Assistant(Called("1", "bash", "{}")), Result("1")},
		"blank result":          {User("a"), Assistant(Called("1", "bash", "{}")), Result("1", sdkproto.Text(" \n"))},
		"image result":          {User("a"), Assistant(Called("1", "bash", "{}")), Result("1", sdkproto.Block{Type: sdkproto.BlockImage, Data: "AA==", MimeType: "image/png"})},
		"broken arguments":      {User("a"), Assistant(Called("1", "bash", `{"path: "a"}`), Called("2", "bash", ""), Called("3", "bash", "{\"a\"\n:")), Result("1", said), Result("2", said), Result("3", said)},
		"id twice in an answer": {User("a"), Assistant(Called("1", "bash", "{}"), Called("1", "read", "{}")), Result("1", sdkproto.Text("r")), Result("1", sdkproto.Text("s"))},
		"id again later":        {User("a"), Assistant(Called("1", "bash", "{}")), Result("1", said), Assistant(Called("1", "bash", "{}")), Result("1", said)},
		"odd ids":               {User("a"), Assistant(Called("toolu_01/ é "+strings.Repeat("x", 100), "bash", "{}"), Called("", "read", "{}")), Result("toolu_01/ é "+strings.Repeat("x", 100), said), Result("", said)},
		"odd characters":        {User("<&>\u2028\u2029\u0000\x7f\xff😀"), Assistant(Thought("😀 <&>\u2028  "), Called("1", "bash", "{}")), Result("1", sdkproto.Text("\x1b[0m\xfe"))},
	} {
		t.Run(name, func(t *testing.T) {
			server := NewServer(t, s.dialect)
			server.Script(Stream(s.dialect.Whole(sdkproto.Text("fine"))))
			a := s.open(t, server.URL)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			req := Request(t, a, history...)
			for _, effort := range []string{req.Header.Config.ReasoningEffort, s.off(a)} {
				req.Header.Config.ReasoningEffort = effort
				ans := Collect(ctx, t, a, req)
				got := server.Received()
				if last := got[len(got)-1]; ans.Err != nil || last.Refused != "" {
					t.Errorf("effort %q: %v\n%s", effort, ans.Err, last.Body)
				}
			}
		})
	}
}

// off gives the effort that switches reasoning off, if the adapter has one.
func (s suite) off(a llm.Adapter) string {
	r, _, _, err := a.Resolve(llm.Route{Provider: Provider, Model: Model, ReasoningEffort: "off"})
	if err != nil {
		return ""
	}
	return r.ReasoningEffort
}

// cacheMark is what a request of the Messages protocol marks the end of cached
// content with.
const cacheMark = `,"cache_control":{"type":"ephemeral"}`

// prefix: what one request says of the history is the beginning of what the next
// says, byte for byte (spec jsonrpc 10.7).
func (s suite) prefix(t *testing.T) {
	history := []sdkproto.Message{
		User("one"), Assistant(Thought("t"), Called("1", "bash", `{"a":1}`), Called("1", "bash", `{`)),
		Result("1", sdkproto.Text("r")), Result("1"), Assistant(sdkproto.Text("said")), User("two"), User(""),
		Assistant(Called("1", "read", "")), Result("1", sdkproto.Text("s")), Assistant(Thought("u")), User("three"),
	}
	server := NewServer(t, s.dialect)
	server.Script(Reply{Lenient: true, Parts: []Part{{Text: s.dialect.Whole(sdkproto.Text("x"))}}})
	a := s.open(t, server.URL)
	var before []byte
	for n := 1; n <= len(history); n++ {
		if s.dialect.Messages && !answerable(history[:n]) {
			continue // what has no result yet is told there
		}
		Collect(context.Background(), t, a, Request(t, a, history[:n]...))
		got := server.Received()
		// Where the cache's marks are moves on; they are no part of what is said.
		body := bytes.ReplaceAll(got[len(got)-1].Body, []byte(cacheMark), nil)
		if !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
		end := bytes.LastIndex(body, []byte(`],"stream"`))
		if end < 0 {
			t.Fatalf("no end of the messages: %s", body)
		}
		if !bytes.HasPrefix(body, before) {
			t.Fatalf("with %d messages the request no longer begins with\n%s\nbut is\n%s", n, before, body)
		}
		before = body[:end]
		if s.dialect.Messages {
			// The user's last message may go on.
			before = bytes.TrimSuffix(before, []byte("]}"))
		}
	}
}

// answerable reports whether a history ends with the user and every call in it has
// a result.
func answerable(history []sdkproto.Message) bool {
	open := 0
	for _, m := range history {
		for _, b := range m.Content {
			switch b.Type {
			case sdkproto.BlockToolCall:
				open++
			case sdkproto.BlockToolResult:
				open--
			}
		}
	}
	return open == 0 && history[len(history)-1].Role == sdkproto.RoleUser
}

// cancel: the end of the context ends the attempt at once, wherever it is, with
// the context's error, and the provider sees the client go.
func (s suite) cancel(t *testing.T) {
	for name, reply := range map[string]Reply{
		"before the headers":  {Parts: []Part{{Hang: true}}},
		"behind the headers":  {Parts: []Part{{Text: Comment, Hang: true}}},
		"behind some text":    {Parts: []Part{{Text: s.dialect.Begun(sdkproto.Text("some"))}, {Hang: true}}},
		"within an event":     {Parts: []Part{{Text: s.dialect.Begun(sdkproto.Text("some")) + `data: {"type`, Hang: true}}},
		"behind the finish":   {Parts: []Part{{Text: s.dialect.Begun(sdkproto.Text("some")) + s.dialect.finished("stop"), Hang: true}}},
		"in a refusal's body": {Status: 500, Parts: []Part{{Text: `{"error":`, Hang: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			server := NewServer(t, s.dialect)
			server.Script(reply)
			a := s.open(t, server.URL)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan Answer, 1)
			req := Request(t, a, User("hello"))
			go func() { ended <- Collect(ctx, t, a, req) }()
			waitFor(t, "the request", func() bool { return len(server.Received()) == 1 })
			time.Sleep(20 * time.Millisecond) // let what was sent arrive
			cancel()
			select {
			case ans := <-ended:
				if !errors.Is(ans.Err, context.Canceled) {
					t.Errorf("got %v", ans.Err)
				}
			case <-time.After(limit):
				t.Fatal("the attempt did not end")
			}
			waitFor(t, "the end of the connection", func() bool { return server.Gone() == 1 })
		})
	}
	t.Run("before it begins", func(t *testing.T) {
		server := NewServer(t, s.dialect)
		a := s.open(t, server.URL)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if ans := Collect(ctx, t, a, Request(t, a, User("hello"))); !errors.Is(ans.Err, context.Canceled) {
			t.Errorf("got %v", ans.Err)
		}
	})
	t.Run("while nobody takes", func(t *testing.T) {
		server := NewServer(t, s.dialect)
		server.Script(Stream(s.dialect.Begun(sdkproto.Text("one two three"))))
		a := s.open(t, server.URL)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var texts int
		var last error
		for c, err := range a.Stream(ctx, Request(t, a, User("hello"))) {
			if c.Type == sdkproto.ChunkTextDelta {
				texts++
				cancel()
			}
			last = err
		}
		if texts != 1 || !errors.Is(last, context.Canceled) {
			t.Errorf("%d pieces came behind the cancellation, then %v", texts-1, last)
		}
	})
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// stopListening: a consumer may leave at any chunk; the connection is given up.
func (s suite) stopListening(t *testing.T) {
	server := NewServer(t, s.dialect)
	server.Script(Reply{Parts: []Part{{Text: s.dialect.Begun(Thought("a"), sdkproto.Text("b"), Called("c", "bash", ""))}, {Hang: true}}})
	a := s.open(t, server.URL)
	for n := 1; n <= 6; n++ {
		seen := 0
		for _, err := range a.Stream(context.Background(), Request(t, a, User("hello"))) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == n {
				break
			}
		}
		waitFor(t, "the end of the connection", func() bool { return server.Gone() == n })
	}
}

// sideBySide: attempts do not mix.
func (s suite) sideBySide(t *testing.T) {
	server := NewServer(t, s.dialect)
	a := s.open(t, server.URL)
	server.Script(Stream(s.dialect.Whole(sdkproto.Text("ab"), Called("x", "bash", "{}"))))
	want := []sdkproto.Block{sdkproto.Text("ab"), Called("x", "bash", "{}")}
	var all sync.WaitGroup
	for i := range 40 {
		req := Request(t, a, User(fmt.Sprintf("prompt-%d-", i)))
		all.Go(func() {
			ans := Collect(context.Background(), t, a, req)
			if diff := cmp.Diff(want, ans.Blocks(), cmpopts.IgnoreUnexported(sdkproto.Block{})); diff != "" || ans.Err != nil {
				t.Error(ans.Err, diff)
			}
		})
	}
	all.Wait()
	for i := range 40 {
		mark, sent := fmt.Appendf(nil, "prompt-%d-", i), 0
		for _, r := range server.Received() {
			if bytes.Contains(r.Body, mark) {
				sent++
			}
		}
		if sent != 1 {
			t.Errorf("prompt %d was sent %d times", i, sent)
		}
	}
}

// connections: a good answer leaves its connection for the next request.
func (s suite) connections(t *testing.T) {
	server := NewServer(t, s.dialect)
	server.Script(Stream(s.dialect.Whole(sdkproto.Text("a"))))
	a := s.open(t, server.URL)
	for range 5 {
		if ans := Collect(context.Background(), t, a, Request(t, a, User("hello"))); ans.Err != nil {
			t.Fatal(ans.Err)
		}
	}
	if n := server.Connections(); n != 1 {
		t.Errorf("5 requests took %d connections", n)
	}
	// Twenty at once keep theirs too.
	server.Script(Reply{Parts: []Part{{Wait: 50 * time.Millisecond, Text: s.dialect.Whole(sdkproto.Text("a"))}}})
	for range 2 {
		var all sync.WaitGroup
		for range 20 {
			req := Request(t, a, User("hello"))
			all.Go(func() { Collect(context.Background(), t, a, req) })
		}
		all.Wait()
	}
	if n := server.Connections(); n > 20 {
		t.Errorf("20 requests at once, twice, took %d connections", n)
	}
}

// key: the key is sent, and told to nobody else.
func (s suite) key(t *testing.T) {
	ans, server := s.ask(t, Stream(s.dialect.Whole(sdkproto.Text("a"))))
	if ans.Err != nil {
		t.Fatal(ans.Err)
	}
	for _, r := range server.Received() {
		if bytes.Contains(r.Body, []byte(Key)) || strings.Contains(r.Path, Key) {
			t.Error("the key is in the path or the body")
		}
	}
	for name, reply := range map[string]Reply{
		"refusal": JSON(401, `{"error":{"message":"Incorrect API key provided: `+Key+`"}}`),
		"text":    {Status: 500, Parts: []Part{{Text: "bad key " + Key}}},
		"stream":  Stream(Event(`{"error":{"message":"bad key ` + Key + `"}}`)),
		"event":   Stream("event: error\ndata: " + Key + "\n\n"),
		"garbage": Stream("data: {" + Key + "\n\n"),
	} {
		ans, _ := s.ask(t, reply)
		if e := ans.Failure(); e == nil || strings.Contains(fmt.Sprintf("%+v %v", e, ans.Err), Key) {
			t.Errorf("%s gives %+v", name, e)
		}
	}
}
