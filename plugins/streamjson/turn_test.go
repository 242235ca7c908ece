package streamjson_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/kerneltest"
	"dsh/plugins"
	"dsh/profiles"
)

const (
	uuidA = "aaaaaaaa-1111-4111-8111-111111111111"
	uuidB = "bbbbbbbb-1111-4111-8111-111111111111"
	uuidC = "cccccccc-1111-4111-8111-111111111111"
)

func results(lines []line) (list []line) {
	for _, l := range lines {
		if l.str("type") == "result" {
			list = append(list, l)
		}
	}
	return list
}

func texts(lines []line) (list []string) {
	for _, l := range results(lines) {
		list = append(list, l.str("result"))
	}
	return list
}

// Odd lines are skipped and the next message runs (spec stream-json 2.6; checklist
// 10, 13, 15, 90; cases B03, B06, B12).
func TestLines(t *testing.T) {
	c := start(t)
	for _, raw := range []string{
		"\r\n", "   \n", "\t\r\n", "this is no JSON\n", "[1]\n", "7\n",
		`{"type":"keep_alive"}` + "\n", `{"type":"warp"}` + "\n", `{"no":"type"}` + "\n",
		`{"type":"control_response","response":{"subtype":"success","request_id":"nobody","response":{}}}` + "\n",
		`{"type":"control_response"}` + "\n",
		`{"type":"control_cancel_request","request_id":"nobody"}` + "\n",
		`{"type":"control_request","request":{"subtype":"interrupt"}}` + "\n",
		`{"type":"user","message":{"role":"user","content":"one"}}` + "  \r\n",
		`{"type":"user","message":{"role":"user","content":"two"},"session_id":"default","more":{"x":1}}` + "\n",
		`{"type":"user","message":{"role":"user","content":"three"},"session_id":"` + uuidA + `"}` + "\n",
		`{"type":"user","message":{"role":"user","content":"four"},"session_id":""}`, // no end
	} {
		if _, err := c.In.WriteString(raw); err != nil {
			t.Fatal(err)
		}
	}
	lines, code := c.rest()
	if diff := cmp.Diff([]string{"said one", "said two", "said three", "said four"}, texts(lines)); diff != "" || code != 0 {
		t.Errorf("code %d (-want +got):\n%s%s", code, diff, c.show())
	}
	// Without initialize, init comes before anything else (decision D1).
	if lines[0].kind() != "system/init" || strings.Count(c.show(), `"subtype":"init"`) != 1 {
		t.Errorf("init: %s", c.show())
	}
	for i, l := range results(lines) {
		if l.str("session_id") != lines[0].str("session_id") || l.at("queued_turn_count") != float64(3-i) && l.at("queued_turn_count") == nil {
			t.Errorf("result %d: %v", i, l)
		}
	}
	if n := strings.Count(c.log.String(), "no JSON object"); n != 3 {
		t.Errorf("%d notes of lines that are no objects: %s", n, c.log.String())
	}
}

// An end of input without a message is no failure (checklist 15), and a fragment
// is dropped (case B06).
func TestNothing(t *testing.T) {
	for name, raw := range map[string]string{"nothing": "", "a fragment": `{"type":"user","mess`} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			if _, err := c.In.WriteString(raw); err != nil {
				t.Fatal(err)
			}
			lines, code := c.rest()
			if len(lines) != 0 || code != 0 || (raw != "") != strings.Contains(c.log.String(), "no JSON object") {
				t.Errorf("code %d, %s, %s", code, c.show(), c.log.String())
			}
		})
	}
}

// Messages that no model sees have a result of their own, and the session goes on
// (spec stream-json 2.1, 2.6; checklist 48, 50, 89; case B80).
func TestLocalResults(t *testing.T) {
	user := func(message string) string { return `{"type":"user","message":` + message + `}` }
	for name, tc := range map[string]struct {
		line, subtype, result string
	}{
		"no message":      {`{"type":"user"}`, "error_during_execution", "Invalid user message: "},
		"a string":        {user(`"x"`), "error_during_execution", "Invalid user message: "},
		"another role":    {user(`{"role":"assistant","content":"x"}`), "error_during_execution", "Invalid user message: message.role"},
		"no content":      {user(`{"role":"user"}`), "error_during_execution", "Invalid user message: message.content"},
		"a number":        {user(`{"role":"user","content":7}`), "error_during_execution", "Invalid user message: message.content"},
		"unknown block":   {user(`{"role":"user","content":[{"type":"video"}]}`), "error_during_execution", `unsupported content block type "video"`},
		"image by url":    {user(`{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://x"}}]}`), "error_during_execution", "base64"},
		"a broken image":  {user(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}`), "error_during_execution", "message.content[0]"},
		"blank":           {user(`{"role":"user","content":" \n\t"}`), "success", "blank"},
		"blank blocks":    {user(`{"role":"user","content":[{"type":"text","text":" "}]}`), "success", "blank"},
		"no blocks":       {user(`{"role":"user","content":[]}`), "success", "blank"},
		"unknown command": {user(`{"role":"user","content":"/nonsense now"}`), "success", "Unknown command: /nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			c.send(tc.line, `{"type":"user","message":{"role":"user","content":"after"}}`)
			lines, code := c.rest()
			got := results(lines)
			if len(got) != 2 || code != 0 {
				t.Fatalf("code %d: %s", code, c.show())
			}
			first := got[0]
			if first.str("subtype") != tc.subtype || !strings.Contains(first.str("result"), tc.result) || first.at("num_turns") != 0.0 {
				t.Errorf("got %v", first)
			}
			if failed := tc.subtype != "success"; failed != (first.at("is_error") == true) || failed != (first.str("errors", "0") != "") {
				t.Errorf("got %v", first)
			}
			if got[1].str("result") != "said after" {
				t.Errorf("then %v", got[1])
			}
			if blank := tc.result == "blank"; blank != strings.Contains(c.show(), `"subtype":"informational"`) {
				t.Errorf("informational: %s", c.show())
			}
		})
	}
}

// A path is a prompt, not a command.
func TestPathIsNoCommand(t *testing.T) {
	c := start(t)
	c.send(user("/etc/hosts is what?"))
	lines, _ := c.rest()
	if diff := cmp.Diff([]string{"said /etc/hosts is what?"}, texts(lines)); diff != "" {
		t.Error(diff)
	}
}

// A command of a file is what the file makes of it.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	must(t, os.MkdirAll(".claude/commands", 0o700))
	must(t, os.WriteFile(".claude/commands/greet.md", []byte("hello $ARGUMENTS"), 0o600))
	c := startHere(t, t.TempDir(), "commands.projectFolders=[\".claude/commands\"]")
	c.send(control("i", "initialize"), user("/greet you"))
	lines, _ := c.rest()
	if got := results(lines); len(got) != 1 || !strings.Contains(got[0].str("result"), "said hello you") {
		t.Errorf("got %s %s", c.show(), c.log.String())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Replays come when a message is taken, carry its uuid and its content, and only
// with the flag (S009, S015; checklist 47; spec stream-json 3.5).
func TestReplay(t *testing.T) {
	for _, on := range []string{"true", "false"} {
		c := start(t, "front.replayUserMessages="+on)
		c.send(user("one", "uuid", uuidA), user("/nonsense", "uuid", "not-a-uuid"), user("aside", "shouldQuery", false), user("two"))
		lines, code := c.rest()
		var replays []line
		for _, l := range lines {
			if l.at("isReplay") != nil {
				replays = append(replays, l)
			}
		}
		if on == "false" {
			if len(replays) != 0 {
				t.Errorf("replays without the flag: %v", replays)
			}
			continue
		}
		if len(replays) != 4 || code != 0 {
			t.Fatalf("code %d: %s", code, c.show())
		}
		if lines[1].str("uuid") != uuidA || lines[1].str("message", "content") != "one" || lines[1].at("isReplay") != true || lines[1].at("parent_tool_use_id") != nil {
			t.Errorf("first: %v", lines[1])
		}
		if replays[1].str("uuid") != "not-a-uuid" || len(replays[3].str("uuid")) != 36 {
			t.Errorf("uuids: %v", replays)
		}
		// What was said aside reaches the model with the next prompt, and has no result.
		got := texts(lines)
		if len(got) != 3 || !strings.Contains(got[2], "aside") || !strings.Contains(got[2], "two") {
			t.Errorf("results: %q", got)
		}
	}
}

// A uuid that comes again is another message: each has its result.
func TestSameUUID(t *testing.T) {
	c := start(t, "front.replayUserMessages=true")
	c.send(user("one", "uuid", uuidA), user("two", "uuid", uuidA))
	lines, _ := c.rest()
	if diff := cmp.Diff([]string{"said one", "said two"}, texts(lines)); diff != "" || strings.Count(c.show(), `"isReplay":true`) != 2 {
		t.Errorf("%s%s", diff, c.show())
	}
}

// The origin of a message is that of its result.
func TestOrigin(t *testing.T) {
	c := start(t)
	c.send(user("one", "origin", map[string]any{"kind": "human", "x": 1}), user("two"))
	lines, _ := c.rest()
	got := results(lines)
	if len(got) != 2 || !cmp.Equal(got[0].at("origin"), any(map[string]any{"kind": "human", "x": 1.0})) || got[1].at("origin") != nil {
		t.Errorf("got %s", c.show())
	}
}

// An image with its bytes reaches the session by reference (S014, S132).
func TestImage(t *testing.T) {
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))))
	c := start(t)
	c.send(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "text", "text": "look"},
		map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": base64.StdEncoding.EncodeToString(b.Bytes())}},
	}}})
	lines, code := c.rest()
	if got := results(lines); len(got) != 1 || got[0].at("is_error") != false || code != 0 {
		t.Errorf("got %s", c.show())
	}
}

// priority is the place in the queue (spec stream-json 2.1); the running turn
// goes on.
func TestPriority(t *testing.T) {
	c := start(t)
	c.send(user("hang"))
	c.kind("system/init")
	c.send(user("later", "priority", "later"), user("next"), user("now", "priority", "now"), control("i", "interrupt"))
	lines, _ := c.rest()
	if diff := cmp.Diff([]string{"said now", "said next", "said later"}, texts(lines)[1:]); diff != "" {
		t.Errorf("%s%s", diff, c.show())
	}
}

// More messages than may wait are taken when there is room: none is lost.
func TestBackPressure(t *testing.T) {
	c := start(t, "front.maxQueued=2")
	for range 20 {
		c.send(user("x"))
	}
	lines, code := c.rest()
	if got := texts(lines); len(got) != 20 || code != 0 {
		t.Errorf("%d results, code %d", len(got), code)
	}
}

// Without a control channel there is one prompt, in three forms.
func TestText(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt, format string
		code           int
		want           []string
	}{
		"stream":          {"one", "stream-json", 0, []string{"system/init", "assistant/text", "result/success"}},
		"json":            {"one", "json", 0, []string{"result/success"}},
		"a failure":       {"fail", "json", 1, []string{"result/success"}},
		"a closed client": {"touch", "stream-json", 0, []string{"system/init", "assistant/tool_use", "user/tool_result", "assistant/text", "result/success"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, "front.inputFormat=text", "front.outputFormat="+tc.format, "front.prompt="+tc.prompt)
			lines, code := c.rest()
			if diff := cmp.Diff(tc.want, without(kinds(lines), "system/permission_denied")); diff != "" || code != tc.code {
				t.Errorf("code %d (-want +got):\n%s%s", code, diff, c.show())
			}
		})
	}
}

func without(list []string, drop string) (kept []string) {
	for _, s := range list {
		if s != drop {
			kept = append(kept, s)
		}
	}
	return kept
}

// An interrupt ends the running turn with its result behind the answer; what waits
// stays and runs (S041; checklist 80; spec stream-json 11.2).
func TestInterrupt(t *testing.T) {
	c := start(t)
	c.send(user("hang", "uuid", uuidA))
	c.kind("system/init")
	time.Sleep(50 * time.Millisecond) // the model has begun, most likely; it need not have
	c.send(user("B", "uuid", uuidB), control("i", "interrupt"))
	answer := c.response("i")
	if !cmp.Equal(answer.at("response", "response", "still_queued"), any([]any{uuidB})) {
		t.Errorf("got %v", answer)
	}
	r := c.result()
	if r.str("subtype") != "error_during_execution" || r.at("is_error") != true || r.str("errors", "0") == "" {
		t.Errorf("got %v", r)
	}
	if r := c.result(); r.str("result") != "said B" {
		t.Errorf("got %v", r)
	}
	if _, code := c.rest(); code != 0 {
		t.Errorf("code %d", code)
	}
}

// A subagent in the background keeps the process alive after the end of input, and
// its end leads to a turn of its own with a result (spec stream-json 1.8, 11.1; F13,
// checklist 54).
func TestBackground(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("delegate"))
	lines, code := c.rest()
	r := results(lines)
	if len(r) != 2 || r[0].str("result") != "it works in the background" || r[1].str("origin", "kind") != "task-notification" || code != 0 {
		t.Fatalf("code %d: %s", code, c.show())
	}
	order := strings.Join(kinds(lines), " ")
	if strings.Count(order, "system/task_started") != 1 || strings.Count(order, "system/task_notification") != 1 {
		t.Errorf("got %s", order)
	}
}

// Output text is the result alone.
func TestPlainText(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	must(t, os.WriteFile("model.yaml", []byte(script), 0o600))
	b := kerneltest.Boot(t, kerneltest.Options{
		Profile: "stream-json", FS: profiles.FS, Plugins: plugins.Builtin(),
		Sets: []string{"scripted.script=model.yaml", "front.inputFormat=text", "front.outputFormat=text"},
	})
	_, err := b.In.WriteString("one\n")
	must(t, err)
	must(t, b.In.Close())
	code := b.WaitExit(t)
	out := make([]byte, 100)
	n, err := b.Out.Read(out)
	must(t, err)
	if string(out[:n]) != "said one\n" || code != 0 {
		t.Errorf("code %d: %q", code, out[:n])
	}
}
