package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// echoModel repeats the prompt.
const echoModel = `
rules:
  - reply: "you said: {{user}}"
`

// Checklist 7, spec stream-json 0.2 and 0.3: line separators that are no line ends
// never stand raw in a line, wherever they come from, and half a character is
// replaced.
func TestSeparators(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(`
rules:
  - when: {step: 1}
    reply:
      - chunks: ["a\u2028", "b\u2029c\u0085d\ufeffe\rf"]
      - call: {tool: Write, args: {file_path: "x\u2028y.txt", content: "l1\u2028l2\u2029\n"}}
  - reply: "{{result}} \u2028"
`)
	c, lines := r.speak(asksAs(someID, "p\u2028q\u2029")+
		`{"type":"user","message":{"role":"user","content":"half: \ud83d!"}}`+"\n",
		"--permission-mode", "bypassPermissions", "--include-partial-messages", "--replay-user-messages")
	if c.code != 0 || strings.ContainsAny(c.stdout, "\u2028\u2029\u0085\ufeff\r") || strings.Contains(c.stdout, `\ud83d`) {
		t.Errorf("exit code %d", c.code)
	}
	texts := map[string]bool{}
	for _, l := range only(lines, "assistant") {
		if text, ok := block(l)["text"].(string); ok {
			texts[text] = true
		}
	}
	if !texts["a\u2028b\u2029c\u0085d\ufeffe\rf"] {
		t.Errorf("the model's text did not come whole: %v", texts)
	}
	replays := only(lines, "user")
	if len(replays) == 0 || dig(replays[0], "message", "content") != "p\u2028q\u2029" {
		t.Errorf("the prompt did not come back whole")
	}
	if n := len(only(lines, "result/success")); n != 2 {
		t.Errorf("%d results, want 2", n)
	}
}

// Checklist 8, spec stream-json 0.2, case B01: what a tool gives in one piece never
// makes a line of a million characters.
func TestToolOutputFits(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]use{
		"a command":           bash("head -c 5000000 /dev/zero | tr '\\0' a"),
		"a command of lines":  bash("yes 'word word word' | head -n 300000"),
		"a failing command":   bash("head -c 5000000 /dev/zero | tr '\\0' a >&2; exit 3"),
		"a file of one line":  {"Read", object{"file_path": "wide.txt"}},
		"a file of many":      {"Read", object{"file_path": "long.txt"}},
		"a search":            {"Grep", object{"pattern": "a", "path": ".", "output_mode": "content"}},
		"characters of three": bash("yes '\u2028\u65e5' | head -c 5000000"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{call})
			r.write("wide.txt", strings.Repeat("a", 5<<20))
			r.write("long.txt", strings.Repeat("a line\n", 5<<20/7))
			// judge finds lines that are too long.
			c, lines := r.speak(asks("go"), "--permission-mode", "bypassPermissions")
			if c.code != 0 || len(only(lines, "result/success")) != 1 || len(only(lines, "user")) != 1 {
				t.Errorf("exit code %d, %q\n%s", c.code, kinds(lines), c.stderr)
			}
		})
	}
}

// Checklist 6 and 9, S001, S078, spec stream-json 1.6: of a run in which nothing
// goes wrong nothing is said on standard error.
func TestQuiet(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("echo hi"), {"TodoWrite", object{"todos": []any{}}}}, []use{{"Read", object{"file_path": "gone"}}})
	c, lines := r.speak(requests("i", "initialize", object{"hooks": nil})+asks("go")+asks("/nonesuch")+asks(" ")+requests("m", "set_permission_mode", object{"mode": "plan"})+
		requests("x", "warp_drive", nil), "--include-partial-messages", "--replay-user-messages", "--permission-prompt-tool", "stdio")
	if c.code != 0 || c.stderr != "" || len(only(lines, "result")) != 3 {
		t.Errorf("exit code %d, %d results, standard error:\n%s", c.code, len(only(lines, "result")), c.stderr)
	}
}

// Case B04, S001: whatever is switched on and whatever programs print, standard
// output is lines of the protocol from the first byte to the last.
func TestNothingElseOnStdout(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("printf '\\033[31mred\\033[0m'; echo loud >&2")})
	for _, name := range []string{"DEBUG", "VERBOSE", "ANTHROPIC_LOG", "DSH_LOG_LEVEL", "GODEBUG", "NODE_DEBUG", "DEBUG_CLAUDE_AGENT_SDK"} {
		value := "debug"
		if name == "GODEBUG" {
			value = "gctrace=1"
		}
		r.set(name, value)
	}
	const banner = `printf 'banner\n\033[1mbold\033[0m\n'`
	settings := wire(object{"hooks": object{"PostToolUse": []any{object{"hooks": []any{object{"type": "command", "command": banner}}}}}})
	c, lines := r.speak(requests("i", "initialize", nil)+asks("go")+asks("/clear"), "--debug-to-stderr", "--permission-mode", "bypassPermissions",
		"--settings", strings.TrimSpace(settings), "--mcp-config", wire(object{"mcpServers": object{"loud": object{"command": "sh", "args": []any{"-c", banner}}}}))
	if c.code != 0 || len(only(lines, "result")) != 2 {
		t.Errorf("exit code %d, %q", c.code, kinds(lines))
	}
	if strings.Contains(c.stdout, "\x1b") {
		t.Error("an escape code is on standard output")
	}
	if c.stderr == "" {
		t.Error("the log is empty, so this proves nothing")
	}
}

// Checklist 10, spec stream-json 2.6, cases B03 and B12: lines that are nothing are
// passed over, and the messages among them are answered, each once. A clean reader
// says something of those lines only that a client cannot have meant.
func TestNoise(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		noise string
		quiet bool // nothing is said on standard error
	}{
		"blank lines":                {"\n\r\n   \n\t\r\n \t \n", true},
		"keep_alive":                 {`{"type":"keep_alive"}` + "\n", true},
		"an unknown type":            {`{"type":"warp_drive","x":{"y":[1]}}` + "\n", true},
		"no type":                    {`{"x":1}` + "\n", true},
		"a type that is no text":     {`{"type":5}` + "\n" + `{"type":null}` + "\n", false},
		"no JSON":                    {"hello\n{\n{\"type\":\n", false},
		"no object":                  {"[1]\n\"x\"\n5\nnull\ntrue\n[{\"type\":\"user\"}]\n", false},
		"two objects in a line":      {`{"type":"keep_alive"}{"type":"keep_alive"}` + "\n", false},
		"no UTF-8":                   {"{\"type\":\"keep_alive\",\"x\":\"\xff\xfe\"}\n", false},
		"a byte order mark":          {"\ufeff\n", false},
		"zero bytes":                 {"\x00\x00\n", false},
		"a request without an id":    {`{"type":"control_request","request":{"subtype":"interrupt"}}` + "\n", false},
		"a request with a number":    {`{"type":"control_request","request_id":7,"request":{"subtype":"interrupt"}}` + "\n", false},
		"a request with an empty id": {`{"type":"control_request","request_id":"","request":{"subtype":"interrupt"}}` + "\n", false},
		"an answer to nothing":       {`{"type":"control_response","response":{"subtype":"success","request_id":"x","response":{}}}` + "\n", true},
		"an answer without content":  {`{"type":"control_response"}` + "\n" + `{"type":"control_response","response":5}` + "\n", true},
		"a withdrawal of nothing":    {`{"type":"control_cancel_request","request_id":"x"}` + "\n" + `{"type":"control_cancel_request"}` + "\n", true},
		"no environment":             {`{"type":"update_environment_variables"}` + "\n" + `{"type":"update_environment_variables","variables":{"A":1,"B":null}}` + "\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := strings.TrimSuffix(asks("one"), "\n")
			in := tc.noise + good + "\n" + tc.noise + good + "\r\n" + tc.noise + good + " \t\n" + tc.noise
			c, lines := newRoom(t).script(echoModel).speak(in)
			results := only(lines, "result")
			if c.code != 0 || len(results) != 3 {
				t.Fatalf("exit code %d, %d results, want 3\n%s", c.code, len(results), c.stderr)
			}
			for _, result := range results {
				if result["result"] != "you said: one" {
					t.Errorf("result %v", result["result"])
				}
			}
			if answers := only(lines, "control_response"); len(answers) > 0 {
				t.Errorf("answers %v", answers)
			}
			if tc.quiet && c.stderr != "" {
				t.Errorf("standard error: %s", c.stderr)
			}
		})
	}
}

// Spec stream-json 2.6, S013, S014: a user line that cannot be used has one result
// that says why, costs nothing, and the next one is answered.
func TestBadUserLines(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"no message":           `{"type":"user"}`,
		"message of null":      `{"type":"user","message":null}`,
		"message of text":      `{"type":"user","message":"hello"}`,
		"no content":           `{"type":"user","message":{"role":"user"}}`,
		"content of null":      `{"type":"user","message":{"role":"user","content":null}}`,
		"content of a number":  `{"type":"user","message":{"role":"user","content":5}}`,
		"content of an object": `{"type":"user","message":{"role":"user","content":{"type":"text","text":"x"}}}`,
		"no role":              `{"type":"user","message":{"content":"x"}}`,
		"another role":         `{"type":"user","message":{"role":"assistant","content":"x"}}`,
		"an unknown block":     `{"type":"user","message":{"role":"user","content":[{"type":"smell","smell":"x"}]}}`,
		"a block of text":      `{"type":"user","message":{"role":"user","content":["x"]}}`,
		"a text without text":  `{"type":"user","message":{"role":"user","content":[{"type":"text"}]}}`,
		"a text of a number":   `{"type":"user","message":{"role":"user","content":[{"type":"text","text":5}]}}`,
		"an image of nothing":  `{"type":"user","message":{"role":"user","content":[{"type":"image"}]}}`,
		"an image of no form":  `{"type":"user","message":{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, lines := newRoom(t).script(echoModel).speak(line + "\n" + asks("next"))
			results := only(lines, "result")
			if c.code != 0 || len(results) != 2 {
				t.Fatalf("exit code %d, %d results, want 2\n%s", c.code, len(results), c.stderr)
			}
			bad := results[0]
			errors, _ := bad["errors"].([]any)
			if bad["subtype"] != "error_during_execution" || bad["num_turns"] != 0.0 || len(errors) != 1 ||
				!strings.HasPrefix(fmt.Sprint(errors[0]), "Invalid user message: ") || bad["result"] != errors[0] {
				t.Errorf("result %v", bad)
			}
			if results[1]["result"] != "you said: next" {
				t.Errorf("the next one: %v", results[1]["result"])
			}
			if n := len(only(lines, "assistant")); n != 1 {
				t.Errorf("%d answers of the model, want 1", n)
			}
		})
	}
}

// Checklist 90, S013, S016, spec stream-json 2.1: what a client says of the session
// and beside it does not matter; every answer is of the one session.
func TestUserLineForms(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(echoModel).start("--session-id=" + someID)
	for i, more := range []object{
		{}, {"session_id": ""}, {"session_id": "default"}, {"session_id": someID}, {"session_id": "another"}, {"session_id": nil}, {"session_id": 5},
		{"parent_tool_use_id": nil}, {"parent_tool_use_id": "toolu_1"}, {"uuid": unknownID}, {"uuid": nil}, {"uuid": "not a uuid"}, {"uuid": 5},
		{"priority": "now"}, {"priority": "whenever"}, {"isSynthetic": true, "tool_use_result": object{}, "timestamp": "x"},
		{"client_composed": true, "pasted_content": []any{}, "inline_pastes": nil, "agent_id": "a", "subagent_type": "b", "task_description": "c"},
		{"warp": object{"drive": []any{1, nil}}},
		{"message": object{"role": "user", "content": []any{object{"type": "text", "text": "hello"}}}},
		{"message": object{"role": "user", "content": []any{object{"type": "text", "text": "hello", "cache_control": object{"type": "ephemeral"}}}, "id": "x"}},
	} {
		line := object{"type": "user", "message": object{"role": "user", "content": "hello"}}
		for k, v := range more {
			line[k] = v
		}
		h.send(line)
		if result := h.result(i + 1); result["result"] != "you said: hello" || result["session_id"] != someID {
			t.Errorf("%v: result %v", more, result)
		}
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if inits := h.of("system/init"); len(inits) != 1 {
		t.Errorf("%d system/init, want 1", len(inits))
	}
}

// Case B06: frames in pieces of one byte, and a last one that ends with the input.
// Half a frame at the end is dropped with a note.
func TestPieces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last string
		want int
		note bool
	}{
		"a last frame without its end": {strings.TrimSuffix(asks("two"), "\n"), 2, false},
		"half a frame":                 {asks("two")[:40], 1, true},
		"nothing":                      {"", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(echoModel).start()
			for _, b := range []byte(asks("one")) {
				if _, err := h.stdin.Write([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
			h.result(1)
			if _, err := io.WriteString(h.stdin, tc.last); err != nil {
				t.Fatal(err)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if n := len(h.of("result")); n != tc.want {
				t.Errorf("%d results, want %d", n, tc.want)
			}
			if (h.errorOutput() != "") != tc.note {
				t.Errorf("standard error: %q", h.errorOutput())
			}
		})
	}
}

// write sends a text in packets of some bytes, 0 in one.
func (h *host) write(text string, packet int) {
	h.t.Helper()
	if packet == 0 {
		packet = len(text)
	}
	for piece := range slices.Chunk([]byte(text), packet) {
		if _, err := h.stdin.Write(piece); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Case B01, S014: frames of any length go both ways, byte for byte: a long text,
// one with runs of blanks, an image, a long answer and a long argument of a call.
func TestLongFrames(t *testing.T) {
	t.Parallel()
	blanks := strings.Repeat("word"+strings.Repeat(" ", 40), 3<<20/44)
	for _, packet := range []int{0, 8 << 10} {
		t.Run(fmt.Sprintf("packets of %d", packet), func(t *testing.T) {
			t.Parallel()
			dialect := llmtest.DeepSeek()
			server := llmtest.NewServer(t, dialect)
			answer, argument := strings.Repeat(strings.Repeat("x", 8191)+" ", 3<<20/8192), strings.Repeat("x", 2<<20)
			server.Script(
				llmtest.Stream(dialect.Whole(sdkproto.Text("short"))),
				llmtest.Stream(dialect.Whole(sdkproto.Text("short"))),
				llmtest.Stream(dialect.Whole(sdkproto.Text(answer))),
				llmtest.Stream(dialect.Whole(sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c1", Name: "Write", Arguments: wireText(object{"file_path": "big.txt", "content": argument})})),
				llmtest.Stream(dialect.Whole(sdkproto.Text("done"))),
			)
			r := newRoom(t).set("DEEPSEEK_API_KEY", llmtest.Key).set("DEEPSEEK_BASE_URL", server.URL)
			h := r.start("--model", "deepseek-flash", "--permission-mode", "bypassPermissions", "--set", "front.legacyLines=false",
				"--set", "compaction.enabled=false")
			h.long = true // a model's text is not the harness's to shorten
			for i, text := range []string{strings.Repeat("a", 70_000), blanks} {
				h.write(asks(text), packet)
				h.result(i + 1)
				if got := lastPrompt(t, server); sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(text)) {
					t.Errorf("the model got %d bytes, sent were %d", len(got), len(text))
				}
			}
			h.user("a long answer")
			if got := h.result(3)["result"]; got != answer {
				t.Errorf("a result of %d bytes, want %d", len(got.(string)), len(answer))
			}
			if said := h.of("assistant"); block(said[len(said)-1])["text"] != answer {
				t.Error("the answer did not come whole")
			}
			h.user("a long call")
			h.result(4)
			for _, l := range h.of("assistant") {
				if b := block(l); b["type"] == "tool_use" && dig(b, "input", "content") != argument {
					t.Error("the argument did not come whole")
				}
			}
			if data, err := os.ReadFile(r.work + "/big.txt"); err != nil || string(data) != argument {
				t.Errorf("%d bytes were written, want %d (%v)", len(data), len(argument), err)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// wireText is the JSON text of a value.
func wireText(v any) string { return strings.TrimSuffix(wire(v), "\n") }

// lastPrompt is the text of the last message that the model got.
func lastPrompt(t *testing.T, server *llmtest.Server) string {
	t.Helper()
	got := server.Received()
	var body struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := wirejson.Unmarshal(got[len(got)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Messages[len(body.Messages)-1].Content
}

// Case B01, S014, spec stream-json 0.2: an image of six megabytes of base64 is
// taken, in packets, too, and the model gets it.
func TestLongImage(t *testing.T) {
	t.Parallel()
	dialect := llmtest.Messages()
	server := llmtest.NewServer(t, dialect)
	server.Script(llmtest.Stream(dialect.Whole(sdkproto.Text("seen"))))
	r := newRoom(t).set("ANTHROPIC_API_KEY", llmtest.Key).set("ANTHROPIC_BASE_URL", server.URL)
	h := r.start("--model", "claude-opus-5")
	data := base64.StdEncoding.EncodeToString(noisyImage(t, 4_600_000))
	h.write(wire(object{"type": "user", "message": object{"role": "user", "content": []any{
		object{"type": "text", "text": "what is it"},
		object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": data}},
	}}}), 8<<10)
	if result := h.result(1); result["result"] != "seen" {
		t.Fatalf("result %v", result)
	}
	if body := string(server.Received()[0].Body); !strings.Contains(body, `"type":"image"`) {
		t.Error("the model got no image")
	}
	h.user("next")
	if result := h.result(2); result["result"] != "seen" {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Case B01: beyond the documented bound a frame is drained and refused by itself,
// and the next one is served.
func TestTooLongFrames(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(echoModel).start("--set", "front.maxLine=10000")
	more := strings.Repeat("a", 50_000)
	for i, line := range []string{
		`{"type":"user","message":{"role":"user","content":"` + more + `"}}`,
		`{"message":{"role":"user","content":"` + more + `"},"type":"user"}`,
		`{"message":{"content":[{"type":"text","text":"` + more + `"}],"role":"user"},"type":"user"}`,
	} {
		h.send(line)
		if result := h.result(i + 1); result["subtype"] != "error_during_execution" || !strings.Contains(result["result"].(string), "10000") {
			t.Errorf("result %v", result)
		}
	}
	h.send(`{"type":"control_request","request_id":"long","request":{"subtype":"initialize","appendSystemPrompt":"` + more + `"}}`)
	answer := h.wait("an answer", func(l object) bool { return dig(l, "response", "request_id") == "long" })
	if said, _ := dig(answer, "response", "error").(string); dig(answer, "response", "subtype") != "error" || !strings.Contains(said, "10000") {
		t.Errorf("answer %v", answer)
	}
	h.send(`{"type":"keep_alive","x":"` + more + `"}`)
	h.user("small")
	if result := h.result(4); result["result"] != "you said: small" {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Case B02: nothing adds up over the frames of a long session.
func TestManyFrames(t *testing.T) {
	t.Parallel()
	const text = 40_000
	h := newRoom(t).script(`rules: [{reply: [{chunks: ["`+strings.Repeat("0123456789", text/10)+`"]}]}]`).
		start("--set", "front.legacyLines=false", "--set", "scripted.contextWindow=0")
	for i := range manyFrames {
		h.user("again")
		if result := h.next(); len(result["result"].(string)) != text {
			t.Fatalf("turn %d: %v", i, result)
		}
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// next waits for one more result and forgets the lines so far.
func (h *host) next() object {
	h.t.Helper()
	result := h.result(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines, h.raw = nil, nil
	return result
}

// Spec stream-json 1.6: a client that does not read standard error holds nothing
// up, however much is said there.
func TestUnreadStderr(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoModel)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	h := r.startWith(func(h *host) { h.cmd.Stderr = writer })
	writer.Close()
	h.write(strings.Repeat("this is no JSON\n", 20_000)+asks("still there?"), 64<<10)
	if result := h.result(1); result["result"] != "you said: still there?" {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Spec stream-json 1.8: input that cannot be read is input that has ended.
func TestUnreadableInput(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	folder, err := os.Open(r.work)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	for _, in := range []*os.File{folder, nothing} {
		h := r.startWith(func(h *host) {
			if err := h.stdin.Close(); err != nil {
				t.Fatal(err)
			}
			h.cmd.Stdin = in
		})
		if code := h.exit(); code != 0 || len(h.all()) != 0 {
			t.Errorf("%s: exit code %d, lines %q", in.Name(), code, kinds(h.all()))
		}
	}
}

// Case B98, checklist 6 and 41, S072: with many calls at once, subagents,
// increments, hooks and requests in between, every line is one frame with an id of
// its own, and the increments of a message come before its whole.
func TestMixedWriters(t *testing.T) {
	t.Parallel()
	var calls []use
	for i := range 20 {
		calls = append(calls, bash(fmt.Sprintf("echo %d", i)))
	}
	for range 3 {
		calls = append(calls, use{"Agent", object{"description": "look", "prompt": "sub", "subagent_type": "general-purpose"}})
	}
	rules := append(steps(object{"text": "sub"}, []use{bash("echo sub")}), object{"when": object{"text": "sub"}, "reply": "subbed"})
	rules = append(rules, steps(object{"text": "go"}, calls)...)
	rules = append(rules, object{"reply": []any{object{"text": "word ", "repeat": 200}}})
	h := newRoom(t).script(encode(object{"rules": rules})).
		start("--permission-mode", "bypassPermissions", "--include-partial-messages", "--include-hook-events", "--replay-user-messages").
		answering(map[string]func(object) any{"hook_callback": func(object) any { return object{} }})
	h.control("i", "initialize", object{"hooks": object{"PreToolUse": []any{object{"hookCallbackIds": []any{"h"}}}}})
	for i := range 3 {
		h.user("go")
		for j := range 20 {
			h.send(requestLine(fmt.Sprintf("q-%d-%d", i, j), "mcp_status"))
		}
	}
	h.result(1)
	h.control("stop", "interrupt", nil)
	h.result(3)
	if code := h.end(); code > 1 {
		t.Errorf("exit code %d", code)
	}
	answers, whole := map[any]int{}, map[any]bool{}
	for _, l := range h.all() {
		switch l["type"] {
		case "control_response":
			answers[dig(l, "response", "request_id")]++
		case "assistant":
			whole[dig(l, "message", "id")] = true
		case "stream_event":
			if dig(l, "event", "type") == "message_start" && whole[dig(l, "event", "message", "id")] {
				t.Errorf("message %v begins behind its whole", dig(l, "event", "message", "id"))
			}
		}
	}
	for id, n := range answers {
		if n != 1 {
			t.Errorf("%d answers to %v", n, id)
		}
	}
	if len(answers) != 62 {
		t.Errorf("answers to %d requests, want 62", len(answers))
	}
	if n := len(h.of("result")); n != 3 {
		t.Errorf("%d results, want 3", n)
	}
}

func requestLine(id, subtype string) object {
	return object{"type": "control_request", "request_id": id, "request": object{"subtype": subtype}}
}

// Spec stream-json 2.5: variables of the client are those of programs that start
// later.
func TestEnvironmentOfTools(t *testing.T) {
	t.Parallel()
	h := newRoom(t).rounds([]use{bash(`echo "$COLOR/$OTHER"`)}).start("--permission-mode", "bypassPermissions")
	h.send(object{"type": "update_environment_variables", "variables": object{"COLOR": "blue", "OTHER": 5}})
	h.user("go")
	h.result(1)
	if got := h.toolResults(); len(got) != 1 || contentText(got[0]) != "blue/" {
		t.Errorf("results %v", got)
	}
}

// noisyImage is a PNG of at least so many bytes, which do not repeat.
func noisyImage(t *testing.T, size int) []byte {
	t.Helper()
	side := 1
	for side*side*3 < size {
		side++
	}
	picture, noise := image.NewNRGBA(image.Rect(0, 0, side, side)), rand.New(rand.NewPCG(1, 2))
	for i := range picture.Pix {
		picture.Pix[i] = byte(noise.Uint32())
		if i%4 == 3 {
			picture.Pix[i] = 0xff
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
