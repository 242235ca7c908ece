package main

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Content that a provider would refuse is not sent, and what one refuses all the
// same fails its own turn only, now and after a resume (case B46; checklist 86, 89).
func TestB46(t *testing.T) {
	t.Parallel()
	html := base64.StdEncoding.EncodeToString([]byte("<html>no picture</html>"))
	image := func(data string) []any {
		return []any{object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": data}}}
	}
	const success, refused, failed = "success ok completed", "success error api_error", "error_during_execution error"
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(p.says("fine"))
		p.server.Refuse("poison")
		p.room.write("fake.png", "<html>no picture</html>")
		p.launch("--permission-mode", "bypassPermissions")
		n := 0
		ask := func(name string, content any, end string, asked int) {
			t.Helper()
			before := len(p.server.Received())
			n++
			p.send(object{"type": "user", "message": object{"role": "user", "content": content}})
			if got := endOf(p.result(n)); !strings.HasPrefix(got, end) {
				t.Errorf("%s: the end is %s", name, got)
			}
			if got := len(p.server.Received()) - before; got != asked {
				t.Errorf("%s: %d requests, want %d", name, got, asked)
			}
			n++
			if result := p.prompt(n); result["result"] != "fine" {
				t.Errorf("%s: then %v", name, result)
			}
		}
		ask("an empty text", "", success, 0)
		ask("a blank text", "  \n", success, 0)
		ask("no blocks", []any{}, success, 0)
		ask("blank blocks", []any{object{"type": "text", "text": " "}, object{"type": "text", "text": ""}}, success, 0)
		ask("a blank block beside text", []any{object{"type": "text", "text": "words"}, object{"type": "text", "text": " "}}, success, 1)
		ask("an empty image", image(""), failed, 0)
		ask("an image of HTML", image(html), failed, 0)
		for name, call := range map[string]use{
			"no output": bash("true"), "blank output": bash("echo; echo"), "a fake picture": {"Read", object{"file_path": p.room.work + "/fake.png"}},
		} {
			p.server.Script(p.calls("c"+fmt.Sprint(n), call.tool, encode(call.args)), p.says("fine"))
			ask(name, "go", success, 2)
		}
		ask("a prompt against the rules", "drink poison", refused, 1)
		p.server.Script(p.calls("p1", "Bash", `{"command":"echo poi''son"}`), p.says("fine"))
		ask("a result against the rules", "go", refused, 2)

		session, _ := p.result(1)["session_id"].(string)
		if code := p.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		resumed := len(p.server.Received())
		p.launch("--resume", session)
		p.goesOn(1)
		for i, r := range p.server.Received() {
			if r.Refused != "" && (i >= resumed || !strings.Contains(string(r.Body), "poison")) {
				t.Errorf("request %d was refused: %s", i+1, r.Refused)
			}
			for _, m := range messages(t, r.Body) {
				blocks, isList := m["content"].([]any)
				if text, isText := m["content"].(string); isText && strings.TrimSpace(text) == "" && m["tool_calls"] == nil {
					t.Errorf("request %d has an empty message: %v", i+1, m)
				}
				for _, v := range blocks {
					b, _ := v.(object)
					if text, _ := b["text"].(string); isList && b["type"] == "text" && strings.TrimSpace(text) == "" {
						t.Errorf("request %d has an empty block: %v", i+1, m)
					}
				}
			}
		}
	})
}

// A tool never runs on arguments that are no object, or not what it takes; the model
// is told where they are broken, the wire shows an object all the same, and no
// provider refuses the history for them (case B52; checklist 44; spec stream-json 3.3,
// 12.3).
func TestB52(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.launch("--permission-mode", "bypassPermissions", "--include-partial-messages", "--set", "loop.maxFailedCalls=100")
		n := 0
		for name, tc := range map[string]struct{ arguments, told string }{
			"a quote is missing":  {`{"command: "touch marker"}`, "byte 12"},
			"a raw newline":       {"{\"command\":\"touch marker\n\"}", "byte 24"},
			"two objects":         {`{"command":"touch marker"}{"command":"touch marker"}`, "byte 26"},
			"null":                {`null`, "object"},
			"a list":              {`[]`, "object"},
			"encoded twice":       {`"{\"command\":\"touch marker\"}"`, "object"},
			"in another object":   {`{"arguments":{"command":"touch marker"}}`, "command"},
			"nothing":             {``, "command"},
			"cut in the middle":   {`{"command":"touch mark`, "byte 22"},
			"another letter case": {`{"Command":"touch marker"}`, "command"},
			"a name twice":        {`{"command":"touch marker","command":"true"}`, "duplicate"},
			"long":                {`{"command":"` + strings.Repeat("x", 300_000), "byte 300012"},
		} {
			if tc.arguments == "" && p.dialect.Messages {
				continue // the API has {} then
			}
			n++
			p.server.Script(p.calls(fmt.Sprint("c", n), "Bash", tc.arguments), p.says("I see."))
			if result := p.prompt(n); result["result"] != "I see." {
				t.Errorf("%s: %v", name, result)
			}
			results := p.toolResults()
			if len(results) != n {
				t.Fatalf("%s: %d results", name, len(results))
			}
			if text := contentText(results[n-1]); results[n-1]["is_error"] != true || !strings.Contains(text, tc.told) || len(text) > 5000 {
				t.Errorf("%s: the result is %.300q, want an error with %q", name, text, tc.told)
			}
			if name == "long" {
				continue
			}
			uses := p.of("tool_start")
			if input, isObject := uses[len(uses)-1]["input"].(object); !isObject {
				t.Errorf("%s: the input is %v", name, input)
			}
		}
		brackets(t, p.host, 0)
		p.goesOn(n + 1)
		p.attempts()
		for _, r := range p.server.Received() {
			for _, m := range messages(t, r.Body) {
				calls, _ := m["tool_calls"].([]any)
				for _, c := range calls {
					arguments, _ := dig(c.(object), "function", "arguments").(string)
					var o object
					if wirejson.Unmarshal([]byte(arguments), &o) != nil {
						t.Errorf("a call went back whose arguments are no object: %.200s", arguments)
					}
				}
			}
		}
		if files := p.room.read("marker"); p.room.exists("marker") || p.room.exists("mark") {
			t.Errorf("a tool ran: %s", files)
		}
		// A cap on consecutive failures ends what a stubborn model goes on with.
		_ = p.end()
		p.launch("--permission-mode", "bypassPermissions", "--set", "loop.maxFailedCalls=3")
		p.server.Script(p.calls("c", "Bash", `{"command`))
		if got := endOf(p.prompt(1)); !strings.HasPrefix(got, "error_during_execution error") {
			t.Errorf("the end is %s", got)
		}
		if got := p.toolResults(); len(got) != 3 {
			t.Errorf("%d results, want the limit", len(got))
		}
	})
}

// odd holds the signs at which some readers cut a line (case B91).
const odd = "a\u2028b\u2029c\u0085d\u000be\u000cf\ufeffg 渐🚀é—한"

// They arrive as they were, escaped, wherever they come from: the model's text,
// thinking and input, a file and its name, an MCP server, the host's own words
// (checklist 7; case B91; spec stream-json 0.2). The strict reader checks each line.
func TestB91(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		path := p.room.work + "/" + odd
		p.room.write(path, odd+"\n")
		server := &sdkServer{tools: []object{aTool("echo")}, call: func(_ any, _ string, arguments object) any {
			return texts(fmt.Sprint(arguments["text"]))
		}}
		p.server.Script(
			llmtest.Stream(p.dialect.Whole(llmtest.Thought(odd), sdkproto.Text(odd), llmtest.Called("c1", "Read", encode(object{"file_path": path})),
				llmtest.Called("c2", "mcp__app__echo", encode(object{"text": odd})), llmtest.Called("c3", "Bash", encode(object{"command": "cat *", "description": odd})))),
			p.says(odd))
		p.launch("--include-partial-messages", "--replay-user-messages", "--allowedTools", "mcp__app", "Bash").with(&answers{mcp: server.answer})
		p.initialize(object{"sdkMcpServers": []string{"app"}})
		p.user(odd)
		if result := p.result(1); result["result"] != odd {
			t.Errorf("result %q", result["result"])
		}
		brackets(t, p.host, 0)
		var got []any
		for _, l := range p.of("user") {
			if l["isReplay"] == true {
				got = append(got, dig(l, "message", "content"))
			}
		}
		for _, b := range p.toolResults() {
			got = append(got, strings.TrimPrefix(contentText(b), "1\t"))
		}
		for _, l := range p.of("assistant") {
			b := block(l)
			switch b["type"] {
			case "tool_use":
				got = append(got, fmt.Sprint(dig(b, "input", "file_path"), dig(b, "input", "text"), dig(b, "input", "description")))
			case "text":
				got = append(got, b["text"])
			}
		}
		if diff := cmp.Diff([]any{
			odd, odd, odd, odd, odd, fmt.Sprint(path, nil, nil), fmt.Sprint(nil, odd, nil), fmt.Sprint(nil, nil, odd), odd,
		}, got); diff != "" {
			t.Error(diff)
		}
		// The raw bytes have none of them.
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, raw := range p.raw {
			if strings.ContainsAny(raw, "\u2028\u2029\u0085\u000b\u000c\ufeff") {
				t.Errorf("a raw separator in %s", raw)
			}
		}
	})
}

// Characters whose bytes come in different packets stay whole, cut at every place
// (case B92; checklist 46).
func TestB92(t *testing.T) {
	t.Parallel()
	const text = "渐🚀é—한 \u2028 渐🚀é—한"
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.launch("--include-partial-messages")
		n := 0
		for size := 1; size <= 7; size++ {
			reply := llmtest.Stream(p.dialect.Whole(llmtest.Thought(text), sdkproto.Text(text), llmtest.Called(fmt.Sprint("c", size), "Bash", encode(object{"command": "printf '" + text + "'"}))))
			reply.Packet = size
			end := p.says(text)
			end.Packet = size
			p.server.Script(reply, end)
			n++
			if result := p.prompt(n); result["result"] != text {
				t.Errorf("packets of %d: %q", size, result["result"])
			}
			if got := contentText(p.toolResults()[n-1]); got != text {
				t.Errorf("packets of %d: the tool gave %q", size, got)
			}
		}
		brackets(t, p.host, 0)
		for _, raw := range p.raw {
			if strings.Contains(raw, "\ufffd") {
				t.Errorf("a damaged character in %s", raw)
			}
		}
		p.attempts()
	})
}
