package chatwire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// messages is the protocol with a model for each form of thinking.
func messages(caching bool) *Messages {
	return &Messages{
		Version: "v", Caching: caching, Display: "summarized", Budgets: map[string]int64{"low": 2000, "high": 8000},
		Thinking: func(model string) Thinking {
			return map[string]Thinking{
				"adaptive": {Form: ThinkAdaptive, Off: OffDisabled, Efforts: map[string]string{"xhigh": "high"}},
				"between":  {Form: ThinkAdaptive, Off: OffBetweenTools},
				"always":   {Form: ThinkAdaptive, Off: "low"},
				"budget":   {Form: ThinkBudget},
			}[model]
		},
	}
}

func encodeMessages(t testing.TB, m *Messages, req llm.Request) string {
	t.Helper()
	var headers sharedHeaders
	s, err := headers.of(m, &req.Header)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.appendRequest(t.Context(), nil, &req, s)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out)
}

func asked(config sdkproto.RequestConfig, history ...sdkproto.Message) llm.Request {
	if config.Model == "" {
		config.Model = "m"
	}
	if config.MaxTokens == 0 {
		config.MaxTokens = 100
	}
	return llm.Request{SessionID: "s", Header: sdkproto.Header{Config: config}, Messages: llm.Project(history)}
}

// TestMessagesBody is a whole request, by the rules of the Messages API.
func TestMessagesBody(t *testing.T) {
	temperature := 0.5
	req := asked(sdkproto.RequestConfig{Provider: "p", Model: "m", MaxTokens: 900, Temperature: &temperature, Stop: []string{"END"}},
		user(sdkproto.Text("look")),
		sdkproto.Message{Role: sdkproto.RoleAssistant, Source: sdkproto.Source{Provider: "p", Model: "m"}, Content: []sdkproto.Block{
			{Type: sdkproto.BlockReasoning, Text: "hm", Signature: "sig"}, sdkproto.Text("I will."), called("toolu_1", "bash", `{"command":"ls"}`), called("toolu_2", "read", ""),
		}},
		result("toolu_1", sdkproto.Text("a\nb")), result("toolu_2"), user(sdkproto.Text("and then?")))
	req.Header.System = "Be brief."
	req.Header.Tools = []sdkproto.ToolSchema{
		{Name: "bash", Description: "Runs.", Parameters: []byte("{ \"type\": \"object\" }")}, {Name: "read", Description: "Reads."},
	}
	const mark = `,"cache_control":{"type":"ephemeral"}`
	want := `{"model":"m","max_tokens":900,"temperature":0.5,"stop_sequences":["END"],` +
		`"system":[{"type":"text","text":"Be brief."` + mark + `}],` +
		`"tools":[{"name":"bash","description":"Runs.","input_schema":{"type":"object"}},{"name":"read","description":"Reads.","input_schema":{"type":"object"}` + mark + `}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"look"` + mark + `}]},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"I will."},` +
		`{"type":"tool_use","id":"toolu_1","name":"bash","input":{"command":"ls"}},{"type":"tool_use","id":"toolu_2","name":"read","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a\nb"},{"type":"tool_result","tool_use_id":"toolu_2","content":"(no output)"},` +
		`{"type":"text","text":"and then?"` + mark + `}]}],"stream":true}`
	if diff := cmp.Diff(want, encodeMessages(t, messages(true), req)); diff != "" {
		t.Error(diff)
	}
	if got := encodeMessages(t, messages(false), req); got != strings.ReplaceAll(want, mark, "") {
		t.Errorf("without caching:\n%s", got)
	}
	// Counting takes fewer members.
	s, err := messages(true).encodeHeader(&req.Header)
	if err != nil {
		t.Fatal(err)
	}
	got, err := messages(true).appendCount(t.Context(), nil, &req, s)
	counted := strings.Replace(strings.Replace(want, `,"max_tokens":900,"temperature":0.5,"stop_sequences":["END"]`, "", 1), `,"stream":true`, "", 1)
	if diff := cmp.Diff(counted, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// TestMessagesThinking: how a model is asked to think depends on the model, and a
// budget always leaves room for the answer.
func TestMessagesThinking(t *testing.T) {
	temperature := 0.5
	prompt := []sdkproto.Message{user(sdkproto.Text("x"))}
	calls := func(blocks ...sdkproto.Block) []sdkproto.Message {
		a := assistant(append(blocks, called("1", "x", "{}"))...)
		a.Source = sdkproto.Source{Provider: "p", Model: "budget"}
		return []sdkproto.Message{user(sdkproto.Text("x")), a, result("1", sdkproto.Text("r"))}
	}
	signed := sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "t", Signature: "s"}
	for _, tc := range []struct {
		name, model, effort string
		cap                 int64
		history             []sdkproto.Message
		want                string
		cold                bool // the temperature is left out
	}{
		{"none", "none", "high", 9000, prompt, ``, false},
		{"adaptive", "adaptive", "", 9000, prompt, `"thinking":{"type":"adaptive","display":"summarized"}`, true},
		{"adaptive with an effort", "adaptive", "max", 9000, prompt, `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"max"}`, true},
		{"another word", "adaptive", "xhigh", 9000, prompt, `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`, true},
		{"adaptive off", "adaptive", "off", 9000, prompt, `"thinking":{"type":"disabled"}`, false},
		{"between tools", "between", "off", 9000, prompt, `"thinking":{"type":"between_tools"}`, true},
		{"never off", "always", "off", 9000, prompt, `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}`, true},
		{"budget without an effort", "budget", "", 9000, prompt, ``, false},
		{"budget", "budget", "low", 9000, prompt, `"thinking":{"type":"enabled","budget_tokens":2000}`, true},
		{"half of the output", "budget", "high", 9000, prompt, `"thinking":{"type":"enabled","budget_tokens":4500}`, true},
		{"no room to think", "budget", "high", 2000, prompt, ``, false},
		{"budget off", "budget", "off", 9000, prompt, ``, false},
		{"unknown effort", "budget", "max", 9000, prompt, ``, false},
		{"within calls that began with a thought", "budget", "low", 9000, calls(signed), `"thinking":{"type":"enabled","budget_tokens":2000}`, true},
		{"within calls that did not", "budget", "low", 9000, calls(), ``, false},
		{"a prompt behind such calls", "budget", "low", 9000, append(calls(), user(sdkproto.Text("y"))), `"thinking":{"type":"enabled","budget_tokens":2000}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := encodeMessages(t, messages(false), asked(sdkproto.RequestConfig{Provider: "p", Model: tc.model, MaxTokens: tc.cap, ReasoningEffort: tc.effort, Temperature: &temperature}, tc.history...))
			want := fmt.Sprintf(`{"model":%q,"max_tokens":%d,`, tc.model, tc.cap)
			if tc.want != "" {
				want += tc.want + ","
			}
			if !tc.cold {
				want += `"temperature":0.5,`
			}
			if want += `"messages":[`; !strings.HasPrefix(body, want) {
				t.Errorf("got  %s\nwant %s", body, want)
			}
		})
	}
}

// TestMessagesHistory is the list of messages for histories that need arranging.
func TestMessagesHistory(t *testing.T) {
	text := sdkproto.Text
	u := func(blocks ...string) string {
		return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
	}
	a := func(blocks ...string) string {
		return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
	}
	use := func(id, input string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"x","input":` + input + `}`
	}
	res := func(id, content string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","content":` + content + `}`
	}
	image := func(mediaType, data string) string {
		return `{"type":"image","source":{"type":"base64","media_type":"` + mediaType + `","data":"` + base64.StdEncoding.EncodeToString([]byte(data)) + `"}}`
	}
	failed := result("1", text("bad"), picture("png", ""))
	failed.Content[0].IsError = true
	const noResult = `{"type":"tool_result","tool_use_id":"1","content":"(no result)","is_error":true}`
	const omittedPicture = "[image omitted: image/png, 640x480 pixels; this model is given text only]"
	call := assistant(called("1", "x", "{}"))
	for _, tc := range []struct {
		name  string
		blind bool
		in    []sdkproto.Message
		want  []string
	}{
		{"joined prompts", false, []sdkproto.Message{user(text("a")), user(text("b"), text("c"))}, []string{u(part("a"), part("b"), part("c"))}},
		{"results come first", false, []sdkproto.Message{user(text("a")), assistant(called("1", "x", "{}"), called("2", "x", "{}")), result("2", text("r")), user(text("note")), result("1", text("s")), user(text("b"))},
			[]string{u(part("a")), a(use("1", "{}"), use("2", "{}")), u(res("2", `"r"`), res("1", `"s"`), part("note"), part("b"))}},
		{"joined answers", false, []sdkproto.Message{user(text("a")), assistant(text("b")), assistant(text("c")), user(text("d"))}, []string{u(part("a")), a(part("b"), part("c")), u(part("d"))}},
		{"an answer that says nothing", false, []sdkproto.Message{user(text("a")), assistant(thought("t")), user(text("b"))}, []string{u(part("a"), part("b"))}},
		{"an answer first", false, []sdkproto.Message{assistant(text("a")), user(text("b"))}, []string{u(part("(empty message)")), a(part("a")), u(part("b"))}},
		{"an answer last", false, []sdkproto.Message{user(text("a")), assistant(text("b"))}, []string{u(part("a")), a(part("b")), u(part("(empty message)"))}},
		{"nothing", false, nil, []string{u(part("(empty message)"))}},
		{"a call without a result", false, []sdkproto.Message{user(text("a")), call, user(text("b"))}, []string{u(part("a")), a(use("1", "{}")), u(noResult, part("b"))}},
		{"a call without a result at the end", false, []sdkproto.Message{user(text("a")), call}, []string{u(part("a")), a(use("1", "{}")), u(noResult)}},
		{"a result without a call", false, []sdkproto.Message{user(text("a")), result("9", text("r"))}, []string{u(part("a"), part("r"))}},
		{"ids", false, []sdkproto.Message{user(text("a")), assistant(called("1", "x", "{}")), result("1", text("r")), assistant(called("1", "x", "{}"), called("é", "x", "{}")), result("1", text("s")), result("é", text("t"))},
			[]string{u(part("a")), a(use("1", "{}")), u(res("1", `"r"`)), a(use("1_2", "{}"), use("toolu_"+hashID("é", 24), "{}")), u(res("1_2", `"s"`), res("toolu_"+hashID("é", 24), `"t"`))}},
		{"no character 0", false, []sdkproto.Message{user(text("a\x00b")), assistant(called("1", "x", `{"a":"\u0000","b":"\\u0000\\\u0000"}`)), result("1", text("\x00"))},
			[]string{u(part("a\ufffdb")), a(use("1", `{"a":"\ufffd","b":"\\u0000\\\ufffd"}`)), u(res("1", "\"\ufffd\""))}},
		{"images", false, []sdkproto.Message{user(text("see"), picture("png", "a.png"), picture("gone", ""))},
			[]string{u(part("see"), image("image/png", pngBytes), part("[image omitted: image/png, 640x480 pixels; it cannot be read any more]"))}},
		{"images for the blind", true, []sdkproto.Message{user(text("see"), picture("png", ""))}, []string{u(part("see"), part(omittedPicture))}},
		{"images of results", false, []sdkproto.Message{user(text("a")), call, result("1", text("shot"), picture("jpeg", ""), text(" "))},
			[]string{u(part("a")), a(use("1", "{}")), u(res("1", `[`+part("shot")+`,`+image("image/jpeg", jpegBytes)+`]`))}},
		{"images of results for the blind", true, []sdkproto.Message{user(text("a")), call, result("1", picture("png", ""))}, []string{u(part("a")), a(use("1", "{}")), u(res("1", `"`+omittedPicture+`"`))}},
		{"images of failures", false, []sdkproto.Message{user(text("a")), call, failed},
			[]string{u(part("a")), a(use("1", "{}")), u(`{"type":"tool_result","tool_use_id":"1","content":"bad\n` + omittedPicture + `","is_error":true}`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := asked(sdkproto.RequestConfig{}, tc.in...)
			if !tc.blind {
				req.Image = readStored
			}
			body := encodeMessages(t, messages(false), req)
			want := `{"model":"m","max_tokens":100,"messages":[` + strings.Join(tc.want, ",") + `],"stream":true}`
			if diff := cmp.Diff(want, body); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStaleThoughts: what is remembered of refusals is bounded.
func TestStaleThoughts(t *testing.T) {
	var s staleThoughts
	for i := range maxStale + 2 {
		s.set(fmt.Sprint(i), i+1)
		s.set(fmt.Sprint(i), i+2)
	}
	if len(s.upTo) != maxStale || len(s.order) != maxStale || s.of("1") != 0 || s.of("2") != 4 {
		t.Errorf("%d sessions in %d places; %d, %d", len(s.upTo), len(s.order), s.of("1"), s.of("2"))
	}
}

// readMessages is read for the Messages protocol.
func readMessages(body io.Reader, whole bool) ([]string, error) {
	var got collected
	r := &messageReader{
		yield: got.put,
		from:  &response{host: "h", redact: func(s string) string { return s }},
	}
	read := readStream
	if whole {
		read = readWhole
	}
	err := read(r, body)
	return got.lines, errors.Join(err, got.broken)
}

// FuzzMessages: any bytes end with a finish or an error and nothing after it, and
// how they are cut on their way makes no difference.
func FuzzMessages(f *testing.F) {
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n"
	const stop = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\ndata: {\"type\":\"message_stop\"}"
	for _, s := range []string{
		"", stop, start + stop + "\n\n",
		"\ufeff" + start + "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"日\"}}\r\n\r\n" +
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"本\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" + stop,
		start + "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"x\",\"input\":{\"y\":[1]}}}\n\n" + stop,
		start + "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n",
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", "event: ping\rdata: x\r\rdata: {\"type\":\"error\"}\n\n",
		"{\"type\":\"message\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\"},{\"type\":\"odd\"}],\"stop_reason\":\"refusal\"}",
	} {
		f.Add([]byte(s), uint8(1), false)
		f.Add([]byte(s), uint8(5), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, whole bool) {
		cutAnyhow(t, data, int(piece), func(r io.Reader) ([]string, error) { return readMessages(r, whole) })
	})
}

// BenchmarkMessages decodes 20,000 deltas.
func BenchmarkMessages(b *testing.B) {
	var s strings.Builder
	s.WriteString("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	for i := range 20_000 {
		fmt.Fprintf(&s, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"w%d \"}}\n\n", i)
	}
	s.WriteString("data: {\"type\":\"message_stop\"}\n\n")
	text := s.String()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		r := &messageReader{yield: func(sdkproto.Chunk) bool { n++; return true }, from: &response{}}
		if err := readStream(r, strings.NewReader(text)); err != nil || n != 20_003 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/delta")
}
