package main

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// system/init comes once, behind the answer to initialize and in front of all else,
// also when no message ever comes or no initialize was sent (checklist 39; S072;
// spec stream-json 3.1, 3.2, 3.13, decision D1; of its fields each is checked by the
// strict reader). Every line has session_id and uuid, and nothing is said on
// standard error (checklist 6, 9, 41; S030, S077).
func TestInitOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		initialize bool
		turns      int
	}{
		"initialize and two turns": {true, 2},
		"two turns":                {false, 2},
		"initialize alone":         {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script("rules: [{reply: hi}]").start()
			if tc.initialize {
				h.initialize(nil)
			}
			for n := range tc.turns {
				h.prompt(n + 1)
			}
			if tc.initialize {
				h.wait("init", isType("system/init"))
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if n := len(h.of("system/init")); n != 1 {
				t.Fatalf("%d lines of system/init", n)
			}
			kinds := []string{"system"}
			if tc.initialize {
				kinds = []string{"control_response", "system"}
			}
			session := h.of("system/init")[0]["session_id"]
			for i, l := range h.all() {
				if i < len(kinds) && l["type"] != kinds[i] {
					t.Errorf("line %d is %v", i+1, l)
				}
				if l["type"] != "control_response" && l["session_id"] != session {
					t.Errorf("session_id of %v", l)
				}
				if kind, _ := l["type"].(string); kind == "error" || kind == "end" || l["subtype"] == "session_state_changed" {
					t.Errorf("a line of type %v %v", kind, l["subtype"]) // F6, checklist 53
				}
			}
			if said := h.errorOutput(); said != "" {
				t.Errorf("standard error: %s", said)
			}
		})
	}
}

// What the host brings is in system/init: tools of its MCP servers and its agents
// (checklist 40; S020, S076).
func TestInitHasWhatTheHostBrings(t *testing.T) {
	t.Parallel()
	server := &sdkServer{tools: []object{aTool("add"), aTool("sub")}}
	h := newRoom(t).script("rules: [{reply: hi}]").start().with(&answers{mcp: server.answer})
	h.initialize(object{
		"sdkMcpServers": []string{"calc"},
		"agents":        object{"my-reviewer": object{"description": "reviews", "prompt": "Review."}},
	})
	init := h.wait("init", isType("system/init"))
	has := func(key string, names ...string) {
		list, _ := init[key].([]any)
		for _, name := range names {
			if !slices.Contains(list, any(name)) {
				t.Errorf("%s lacks %s: %v", key, name, list)
			}
		}
	}
	has("tools", "mcp__calc__add", "mcp__calc__sub", "Read", "Write", "Edit", "Bash", "Glob", "Grep", "Skill", "NotebookEdit", "LSP")
	has("agents", "my-reviewer", "general-purpose")
	if diff := cmp.Diff([]any{object{"name": "calc", "status": "connected"}}, init["mcp_servers"]); diff != "" {
		t.Error(diff)
	}
}

// User messages are echoed when their turn begins, with the sender's uuid or one
// that was made, and only with the flag (checklist 47; spec stream-json 3.5;
// peers/claude 04, 05). One process answers several, queued ones too, each with a
// result that is the last line of its turn (checklist 48; S026; spec stream-json 3.7,
// 11.1; case B94).
func TestReplayAndResults(t *testing.T) {
	t.Parallel()
	const uuid = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"
	content := []any{object{"type": "text", "text": "second"}, object{"type": "text", "text": "and more"}}
	for _, flag := range []bool{true, false} {
		t.Run(fmt.Sprint(flag), func(t *testing.T) {
			t.Parallel()
			var flags []string
			if flag {
				flags = append(flags, "--replay-user-messages")
			}
			h := newRoom(t).script("rules: [{reply: 'you said {{user}}'}]").start(flags...)
			h.send(object{"type": "user", "uuid": uuid, "session_id": "", "parent_tool_use_id": nil, "message": object{"role": "user", "content": "first"}, "origin": object{"kind": "test", "n": 1.0}})
			h.send(object{"type": "user", "message": object{"role": "user", "content": content}})
			h.user("third")
			h.result(3)
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			var turns [][]string // the types of the lines of each turn
			turn := []string{}
			for _, l := range h.all() {
				kind, _ := l["type"].(string)
				if turn = append(turn, kind); kind == "result" {
					turns, turn = append(turns, turn), nil
				}
			}
			if len(turn) > 0 {
				t.Errorf("behind the last result: %v", turn)
			}
			want := []string{"user", "assistant", "text", "usage", "result"}
			if !flag {
				want = want[1:]
			}
			if diff := cmp.Diff([][]string{append([]string{"system"}, want...), want, want}, turns); diff != "" {
				t.Error(diff)
			}
			results := h.of("result")
			if results[0]["user_message_uuid"] != uuid || !cmp.Equal(results[0]["origin"], any(object{"kind": "test", "n": 1.0})) {
				t.Errorf("result 1: %v", results[0])
			}
			if _, has := results[1]["origin"]; has {
				t.Errorf("result 2 has an origin") // absent in, absent out (spec stream-json 2.1)
			}
			if text, _ := results[1]["result"].(string); !strings.HasPrefix(text, "you said second") {
				t.Errorf("result 2 %q", text)
			}
			if !flag {
				return
			}
			echoes := h.of("user")
			if echoes[0]["uuid"] != uuid || dig(echoes[0], "message", "content") != "first" {
				t.Errorf("echo 1: %v", echoes[0])
			}
			if diff := cmp.Diff(any(content), dig(echoes[1], "message", "content")); diff != "" {
				t.Errorf("echo 2: %s", diff)
			}
			for i, e := range echoes {
				id, _ := e["uuid"].(string)
				if e["isReplay"] != true || !uuidForm.MatchString(id) || results[i]["user_message_uuid"] != id || e["parent_tool_use_id"] != nil {
					t.Errorf("echo %d: %v", i+1, e)
				}
			}
		})
	}
}

// The four kinds of older lines are there unless a setting turns them off; a call
// that was refused has both of its own (S031; spec stream-json 3.14).
func TestOlderLines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags []string
		want  []string
	}{
		"on":  {nil, []string{"tool_start Bash", "tool_result Bash true", "tool_start Bash", "tool_result Bash false", "text", "usage"}},
		"off": {[]string{"--set", "front.legacyEvents=false"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).rounds([]use{bash("touch x")}, []use{bash("echo hi")}).start(tc.flags...).approving(deny("no"))
			h.prompt(1)
			var got []string
			for i, l := range h.all() {
				switch l["type"] {
				case "tool_start":
					got = append(got, fmt.Sprint("tool_start ", l["name"]))
				case "tool_result":
					got = append(got, fmt.Sprint("tool_result ", l["name"], " ", l["is_error"]))
					if before := h.all()[i-1]; before["type"] != "user" || block(before)["tool_use_id"] != l["tool_use_id"] || block(before)["content"] != l["content"] {
						t.Errorf("in front of %v stands %v", l, before)
					}
				case "text", "usage":
					got = append(got, fmt.Sprint(l["type"]))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Results of MCP tools stay arrays of blocks, text and image, those of built-in
// tools are strings (checklist 45; S024; spec stream-json 3.4, 8.4; peers/claude 21).
func TestMCPResultsAreBlocks(t *testing.T) {
	t.Parallel()

	server := &sdkServer{tools: []object{aTool("show"), aTool("fail")}, call: func(_ any, name string, _ object) any {
		if name == "fail" {
			return object{"isError": true, "content": []object{{"type": "text", "text": "it broke"}}}
		}
		return object{"content": []object{
			{"type": "text", "text": "a picture:"}, {"type": "image", "data": pixel, "mimeType": "image/png"}, {"type": "text", "text": "that was it"},
			{"type": "resource_link", "uri": "file:///x.txt", "name": "x"},
		}}
	}}
	h := newRoom(t).rounds([]use{{"mcp__app__show", object{}}, {"mcp__app__fail", object{}}, bash("echo x")}).start("--allowedTools", "mcp__app").with(&answers{mcp: server.answer})
	h.initialize(object{"sdkMcpServers": []string{"app"}})
	h.prompt(1)
	results := h.toolResults()
	if len(results) != 3 {
		t.Fatalf("%d results", len(results))
	}
	shown, _ := results[0]["content"].([]any)
	if len(shown) != 4 {
		t.Fatalf("content %v", results[0]["content"])
	}
	if diff := cmp.Diff([]any{
		object{"type": "text", "text": "a picture:"},
		object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": pixel}},
		object{"type": "text", "text": "that was it"},
	}, shown[:3]); diff != "" {
		t.Error(diff)
	}
	if link, _ := shown[3].(object); link["type"] != "text" || !strings.Contains(fmt.Sprint(link["text"]), "file:///x.txt") {
		t.Errorf("the link is %v", shown[3])
	}
	if diff := cmp.Diff(object{"type": "tool_result", "tool_use_id": "call_1_1_2", "is_error": true, "content": []any{object{"type": "text", "text": "it broke"}}}, results[1]); diff != "" {
		t.Error(diff)
	}
	if results[2]["content"] != "x" {
		t.Errorf("of Bash: %v", results[2])
	}
}

// Each tool's result is in the structured form of spec stream-json 9 beside its
// text, and the text of a failure stands in its place (S023; peers/claude 13, 14, 15).
func TestStructuredResults(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write("a.txt", "one\ntwo\n")
	path := r.work + "/a.txt"
	r.rounds(
		[]use{{"Read", object{"file_path": path}}, bash("printf out"), {"Glob", object{"pattern": "*.txt"}}, {"Grep", object{"pattern": "two", "output_mode": "content"}}},
		[]use{{"Edit", object{"file_path": path, "old_string": "two", "new_string": "2"}}, {"Write", object{"file_path": r.work + "/b.txt", "content": "b\n"}},
			{"TodoWrite", object{"todos": []object{{"content": "c", "status": "pending", "activeForm": "d"}}}}},
		[]use{{"Read", object{"file_path": r.work + "/missing"}}, {"NoTool", object{}}, bash("exit 2")},
	)
	h := r.start("--permission-mode", "bypassPermissions")
	h.prompt(1)
	var got []any
	for _, l := range h.of("user") {
		got = append(got, l["tool_use_result"])
	}
	if len(got) != 10 {
		t.Fatalf("%d results", len(got))
	}
	for i, want := range []object{
		{"type": "text", "file": object{"filePath": path, "content": "one\ntwo\n", "numLines": 2.0, "startLine": 1.0, "totalLines": 2.0}},
		{"stdout": "out", "stderr": "", "interrupted": false},
		{"numFiles": 1.0, "filenames": []any{path}, "truncated": false},
		{"mode": "content", "numLines": 1.0},
		{"filePath": path, "oldString": "two", "newString": "2", "originalFile": "one\ntwo\n", "userModified": false, "replaceAll": false},
		{"type": "create", "filePath": r.work + "/b.txt", "content": "b\n", "originalFile": nil},
		{"oldTodos": []any{}, "newTodos": []any{object{"content": "c", "status": "pending", "activeForm": "d"}}},
	} {
		o, _ := got[i].(object)
		for key, value := range want {
			if _, has := o[key]; !has || !cmp.Equal(value, o[key]) {
				t.Errorf("result %d: %s is %v, want %v", i+1, key, o[key], value)
			}
		}
	}
	for i, l := range h.toolResults()[7:] {
		text, _ := got[7+i].(string)
		if l["is_error"] != true || text != "Error: "+strings.TrimPrefix(contentText(l), "Error: ") {
			t.Errorf("failure %d: %v and %v", i+1, l, got[7+i])
		}
	}
	if text := contentText(h.toolResults()[8]); !strings.Contains(text, "No such tool available: NoTool") {
		t.Errorf("an unknown tool: %q", text)
	}
}

// No line overtakes another: a hook of the host is called behind the lines of what it
// is about, a server of the host behind those of the call (S072; spec stream-json 0.2
// point 9, 3.1; peers/claude 16, 21).
func TestQuestionsStandBehindTheirLines(t *testing.T) {
	t.Parallel()
	server := &sdkServer{tools: []object{aTool("echo")}}
	h := newRoom(t).rounds([]use{{"mcp__app__echo", object{"text": "x"}}}).start("--allowedTools", "mcp__app").with(&answers{mcp: server.answer})
	hooks := hooksOf(nil, "PreToolUse", "Stop")
	hooks["sdkMcpServers"] = []string{"app"}
	h.initialize(hooks)
	const turns = 20
	for n := range turns {
		h.prompt(n + 1)
	}
	called, said, asked := 0, 0, map[any]int{}
	for i, l := range h.all() {
		switch b := block(l); {
		case l["type"] == "assistant" && b["type"] == "tool_use":
			called++
		case l["type"] == "assistant":
			said++
		}
		what := dig(l, "request", "input", "hook_event_name")
		if method := dig(l, "request", "message", "method"); method == "tools/call" {
			what = method
		}
		if what == nil {
			continue
		}
		asked[what]++
		if what == "Stop" && said != asked[what] || what != "Stop" && called != asked[what] {
			t.Errorf("line %d, %v number %d, stands behind %d calls and %d texts", i+1, what, asked[what], called, said)
		}
	}
	if diff := cmp.Diff(map[any]int{"PreToolUse": turns, "tools/call": turns, "Stop": turns}, asked); diff != "" {
		t.Error(diff)
	}
}

// An image that Read gives is an array with the image in it, and its bytes stand in
// the line once (spec stream-json 0.2 point 6, 3.4, 9).
func TestReadOfAnImage(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	r.write("a.png", string(data))
	h := r.rounds([]use{{"Read", object{"file_path": r.work + "/a.png"}}}).start()
	h.prompt(1)
	results := h.toolResults()
	content, _ := results[0]["content"].([]any)
	if len(results) != 1 || len(content) == 0 || !cmp.Equal(content[len(content)-1], any(object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": pixel}})) {
		t.Fatalf("results %v", results)
	}
	structured, _ := h.of("user")[0]["tool_use_result"].(object)
	if structured["type"] != "image" || dig(structured, "file", "type") != "image/png" || dig(structured, "file", "originalSize") != float64(len(data)) {
		t.Errorf("structured result %v", structured)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, raw := range h.raw {
		if strings.Count(raw, pixel) > 1 {
			t.Errorf("the bytes stand in the line twice: %s", raw)
		}
	}
}
