package chatwire

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

func deepseekDialect() Dialect {
	return Dialect{
		MaxTokens: "max_tokens", Reasoning: "reasoning_content", RequireReasoning: true, SystemRole: "system",
		StreamUsage: true, Effort: EffortThinking, EmptyContent: ContentEmpty,
	}
}

func encode(t testing.TB, d Dialect, req llm.Request) string {
	t.Helper()
	var headers sharedHeaders
	s, err := headers.of(&d, &req.Header)
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.appendRequest(t.Context(), nil, &req, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func user(blocks ...sdkproto.Block) sdkproto.Message {
	return sdkproto.Message{Role: sdkproto.RoleUser, Content: blocks}
}

func assistant(blocks ...sdkproto.Block) sdkproto.Message {
	return sdkproto.Message{Role: sdkproto.RoleAssistant, Content: blocks}
}

func thought(text string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockReasoning, Text: text}
}

func called(id, name, arguments string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: arguments}
}

func result(id string, content ...sdkproto.Block) sdkproto.Message {
	return user(sdkproto.Block{Type: sdkproto.BlockToolResult, ToolCallID: id, Content: content})
}

// specRequest is the log behind the example of spec jsonrpc 10.3.
func specRequest() llm.Request {
	return llm.Request{
		Header: sdkproto.Header{
			Config: sdkproto.RequestConfig{Provider: "deepseek-official", Model: "deepseek-v4-flash", ReasoningEffort: "high", MaxTokens: 256000},
			System: "...",
			Tools:  []sdkproto.ToolSchema{{Name: "bash", Description: "...", Parameters: json.RawMessage(`{"type":"object"}`)}},
		},
		Messages: []sdkproto.Message{
			user(sdkproto.Text("hello")),
			assistant(thought("think"), called("call_1", "bash", `{"command":"echo hi"}`)),
			result("call_1", sdkproto.Text("hi\n")),
		},
	}
}

// TestSpecRequest compares with the body of spec jsonrpc 10.3, byte for byte but
// for the line breaks that the page puts between members.
func TestSpecRequest(t *testing.T) {
	want := `{"model":"deepseek-v4-flash",
 "messages":[{"role":"system","content":"..."},
  {"role":"user","content":"hello"},
  {"role":"assistant","content":"","reasoning_content":"think","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"echo hi\"}"}}]},
  {"role":"tool","tool_call_id":"call_1","content":"hi\n"}],
 "stream":true,"stream_options":{"include_usage":true},
 "thinking":{"type":"enabled"},"reasoning_effort":"high",
 "tools":[{"type":"function","function":{"name":"bash","description":"...","parameters":{"type":"object"}}}],
 "max_tokens":256000}`
	want = regexp.MustCompile(`\n *`).ReplaceAllString(want, "")
	if diff := cmp.Diff(want, encode(t, deepseekDialect(), specRequest())); diff != "" {
		t.Error(diff)
	}
}

// TestMessages goes through the table of spec jsonrpc 10.3.
func TestMessages(t *testing.T) {
	text := sdkproto.Text
	image := sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{MediaType: "image/png", Name: "a.png", Width: 640, Height: 480}}
	for _, tc := range []struct {
		name string
		in   []sdkproto.Message
		want string
	}{
		{"text blocks are joined", []sdkproto.Message{user(text("a"), text("b"))}, `{"role":"user","content":"ab"}`},
		{"text", []sdkproto.Message{assistant(text("a"), text("b"))}, `{"role":"assistant","content":"ab"}`},
		{"text and reasoning", []sdkproto.Message{assistant(thought("t"), text("a"))}, `{"role":"assistant","content":"a","reasoning_content":"t"}`},
		{"reasoning only", []sdkproto.Message{assistant(thought("t"))}, `{"role":"assistant","content":"","reasoning_content":"t"}`},
		{"reasoning is kept to the byte", []sdkproto.Message{assistant(thought("😀 <&>\u2028  "), text("a"))}, "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"😀 <&>\\u2028  \"}"},
		{
			"no reasoning beside a call", []sdkproto.Message{assistant(text("a"), called("1", "x", "{}")), result("1", text("r"))},
			`{"role":"assistant","content":"a","reasoning_content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"1","content":"r"}`,
		},
		{
			"two calls", []sdkproto.Message{assistant(called("1", "x", "{}"), called("2", "y", `{"z": 1}`)), result("1", text("r")), result("2", text("s"))},
			`{"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}},` +
				`{"id":"2","type":"function","function":{"name":"y","arguments":"{\"z\": 1}"}}]},` +
				`{"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":"s"}`,
		},
		{"empty result", []sdkproto.Message{result("1")}, `{"role":"tool","tool_call_id":"1","content":"(no output)"}`},
		{"blank result", []sdkproto.Message{result("1", text(" \n"))}, `{"role":"tool","tool_call_id":"1","content":"(no output)"}`},
		{"result of two texts", []sdkproto.Message{result("1", text("a"), text("b"))}, `{"role":"tool","tool_call_id":"1","content":"ab"}`},
		{
			"image", []sdkproto.Message{user(text("see"), image, text("that"))},
			`{"role":"user","content":"see\n[image omitted: a.png, image/png, 640x480 pixels; this model is given text only]\nthat"}`,
		},
		{
			"inline image in a result", []sdkproto.Message{result("1", sdkproto.Block{Type: sdkproto.BlockImage, Data: "AA=="})},
			`{"role":"tool","tool_call_id":"1","content":"[image omitted: this model is given text only]"}`,
		},
		{
			"a result and a text in one message", []sdkproto.Message{user(sdkproto.Block{Type: sdkproto.BlockToolResult, ToolCallID: "1"}, text("go on"))},
			`{"role":"tool","tool_call_id":"1","content":"(no output)"},{"role":"user","content":"go on"}`,
		},
		{"messages of one role are not joined", []sdkproto.Message{user(text("a")), user(text("b"))}, `{"role":"user","content":"a"},{"role":"user","content":"b"}`},
		{
			"ids that repeat", []sdkproto.Message{
				assistant(called("1", "x", "{}"), called("1", "y", "{}")), result("1", text("rx")), result("1", text("ry")),
				assistant(called("1", "z", "{}")), result("1", text("rz")),
			},
			`{"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}},` +
				`{"id":"1_2","type":"function","function":{"name":"y","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"1","content":"rx"},{"role":"tool","tool_call_id":"1_2","content":"ry"},` +
				`{"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"id":"1_3","type":"function","function":{"name":"z","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"1_3","content":"rz"}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := encode(t, deepseekDialect(), llm.Request{Header: sdkproto.Header{Config: sdkproto.RequestConfig{Model: "m"}}, Messages: tc.in})
			want := `{"model":"m","messages":[` + tc.want + `],"stream":true,"stream_options":{"include_usage":true}}`
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDialects: what differs between endpoints is data.
func TestDialects(t *testing.T) {
	call := []sdkproto.Message{assistant(thought("t"), called("call_1", "x", "{}")), result("call_1", sdkproto.Text("r"))}
	temperature := 0.5
	for _, tc := range []struct {
		name   string
		change func(*Dialect, *llm.Request)
		want   string
	}{
		{"off", func(_ *Dialect, r *llm.Request) { r.Header.Config.ReasoningEffort = EffortOff }, `],"stream":true,"stream_options":{"include_usage":true},"thinking":{"type":"disabled"},"max_tokens":9}`},
		{"max", func(_ *Dialect, r *llm.Request) { r.Header.Config.ReasoningEffort = "max" }, `"thinking":{"type":"enabled"},"reasoning_effort":"max","max_tokens":9}`},
		{"reasoning_effort", func(d *Dialect, r *llm.Request) { d.Effort = EffortField; r.Header.Config.ReasoningEffort = "low" }, `"stream_options":{"include_usage":true},"reasoning_effort":"low","max_tokens":9}`},
		{"reasoning object", func(d *Dialect, r *llm.Request) { d.Effort = EffortObject; r.Header.Config.ReasoningEffort = "low" }, `,"reasoning":{"effort":"low"},`},
		{"no effort known", func(d *Dialect, r *llm.Request) { d.Effort = EffortNone; r.Header.Config.ReasoningEffort = "low" }, `],"stream":true,"stream_options":{"include_usage":true},"max_tokens":9}`},
		{"other cap", func(d *Dialect, _ *llm.Request) { d.MaxTokens = "max_completion_tokens" }, `,"max_completion_tokens":9}`},
		{"no cap member", func(d *Dialect, _ *llm.Request) { d.MaxTokens = "" }, `"stream_options":{"include_usage":true}}`},
		{"no cap", func(_ *Dialect, r *llm.Request) { r.Header.Config.MaxTokens = 0 }, `"stream_options":{"include_usage":true}}`},
		{"no stream_options", func(d *Dialect, _ *llm.Request) { d.StreamUsage = false }, `],"stream":true,"max_tokens":9}`},
		{"developer", func(d *Dialect, r *llm.Request) { d.SystemRole = "developer"; r.Header.System = "s" }, `"messages":[{"role":"developer","content":"s"},{`},
		{"no system prompt", func(*Dialect, *llm.Request) {}, `"messages":[{"role":"assistant",`},
		{"reasoning", func(d *Dialect, _ *llm.Request) { d.Reasoning = "reasoning" }, `"content":"","reasoning":"t","tool_calls"`},
		{"no reasoning", func(d *Dialect, _ *llm.Request) { d.Reasoning = "" }, `"content":"","tool_calls"`},
		{"null content", func(d *Dialect, _ *llm.Request) { d.EmptyContent = ContentNull }, `{"role":"assistant","content":null,"reasoning_content"`},
		{"no content", func(d *Dialect, _ *llm.Request) { d.EmptyContent = ContentOmit }, `{"role":"assistant","reasoning_content"`},
		{"temperature and stop", func(_ *Dialect, r *llm.Request) {
			r.Header.Config.Temperature, r.Header.Config.Stop = &temperature, []string{"x", "y"}
		}, `"max_tokens":9,"temperature":0.5,"stop":["x","y"]}`},
		{"ids that match", func(d *Dialect, _ *llm.Request) {
			d.CallIDs, d.CallIDLength = regexp.MustCompile(`^[a-z0-9_]{6}$`).MatchString, 6
		}, `"tool_calls":[{"id":"call_1",`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, req := deepseekDialect(), llm.Request{Header: sdkproto.Header{Config: sdkproto.RequestConfig{Model: "m", MaxTokens: 9}}, Messages: call}
			tc.change(&d, &req)
			if got := encode(t, d, req); !strings.Contains(got, tc.want) {
				t.Errorf("%s\nis not in\n%s", tc.want, got)
			}
			if err := d.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("ids that do not match", func(t *testing.T) {
		d := deepseekDialect()
		d.CallIDs, d.CallIDLength = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`).MatchString, 9
		got := encode(t, d, llm.Request{Messages: append(call, call...)})
		ids := regexp.MustCompile(`"(?:id|tool_call_id)":"([^"]*)"`).FindAllStringSubmatch(got, -1)
		if len(ids) != 4 || ids[0][1] != ids[1][1] || ids[2][1] != ids[3][1] || ids[0][1] == ids[2][1] {
			t.Errorf("got ids %q", ids)
		}
		for _, id := range ids {
			if !d.CallIDs(id[1]) {
				t.Errorf("%q does not match", id[1])
			}
		}
	})
}

func TestDialectValidate(t *testing.T) {
	for name, change := range map[string]func(*Dialect){
		"maxTokens":    func(d *Dialect) { d.MaxTokens = "tokens" },
		"reasoning":    func(d *Dialect) { d.Reasoning = "thoughts" },
		"systemRole":   func(d *Dialect) { d.SystemRole = "" },
		"effort":       func(d *Dialect) { d.Effort = "" },
		"emptyContent": func(d *Dialect) { d.EmptyContent = "" },
		"callIdLength": func(d *Dialect) { d.CallIDs, d.CallIDLength = regexp.MustCompile(`^x+$`).MatchString, 9 },
	} {
		d := deepseekDialect()
		change(&d)
		if err := d.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSharedHeaders: the prompt and the tools that sessions share are encoded
// once, and never taken for others.
func TestSharedHeaders(t *testing.T) {
	d := deepseekDialect()
	var headers sharedHeaders
	of := func(h sdkproto.Header) *shared {
		t.Helper()
		s, err := headers.of(&d, &h)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	tools := specRequest().Header.Tools
	more := append(tools[:1:1], sdkproto.ToolSchema{Name: "read"})
	first := of(sdkproto.Header{System: "s", Tools: tools})
	if again := of(sdkproto.Header{System: "s", Tools: tools, Config: sdkproto.RequestConfig{Model: "other"}}); again != first {
		t.Error("encoded again")
	}
	for name, h := range map[string]sdkproto.Header{
		"another prompt": {System: "t", Tools: tools},
		"more tools":     {System: "s", Tools: more},
		"fewer tools":    {System: "s", Tools: more[:1]},
		"no tools":       {System: "s"},
	} {
		if s := of(h); s == first {
			t.Errorf("%s is taken for the first", name)
		}
	}
	if whole := of(sdkproto.Header{System: "s", Tools: more}); of(sdkproto.Header{System: "s", Tools: more[:1]}) == whole {
		t.Error("a part of a list is taken for the whole")
	}
	for i := range 3 * maxShared {
		of(sdkproto.Header{System: strings.Repeat("x", i+2)})
	}
	if n := len(headers.list); n != maxShared {
		t.Errorf("%d headers are kept", n)
	}
	again := of(sdkproto.Header{System: "s", Tools: tools})
	if string(again.tools) != string(first.tools) || string(again.system) != string(first.system) {
		t.Error("a forgotten header is encoded differently")
	}
	if _, err := headers.of(&d, &sdkproto.Header{Tools: []sdkproto.ToolSchema{{Name: "bad", Parameters: json.RawMessage(`{`)}}}); err == nil || !strings.Contains(err.Error(), "tool bad") {
		t.Errorf("broken parameters give %v", err)
	}
}

// A body is complete for every reader, and gone once it is sent and released.
func TestBody(t *testing.T) {
	b := &body{text: []byte("some text")}
	one, two := &bodyReader{body: b}, &bodyReader{body: b}
	p := make([]byte, 4)
	if n, err := one.Read(p); n != 4 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	b.release()
	if b.text == nil {
		t.Fatal("released while it was being sent")
	}
	for _, r := range []*bodyReader{one, two} {
		var got strings.Builder
		got.Write(p[:r.at])
		buf := make([]byte, 3)
		for {
			n, err := r.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				break
			}
		}
		if got.String() != "some text" {
			t.Errorf("got %q", got.String())
		}
	}
	if b.release(); b.text != nil {
		t.Error("not released")
	}
	if n, err := (&bodyReader{body: b}).Read(p); n != 0 || err == nil {
		t.Errorf("a released body gives %d bytes, %v", n, err)
	}
}

func BenchmarkRequest(b *testing.B) {
	d, req := deepseekDialect(), specRequest()
	for range 200 {
		req.Messages = append(req.Messages, specRequest().Messages...)
	}
	var headers sharedHeaders
	b.ReportAllocs()
	for b.Loop() {
		s, err := headers.of(&d, &req.Header)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.appendRequest(b.Context(), make([]byte, 0, sizeOf(&req, s)), &req, s); err != nil {
			b.Fatal(err)
		}
	}
}
