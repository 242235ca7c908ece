package streamjson_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// initialize is answered before any message, with all lists (S040; checklist 16,
// 19, 22), and a second time with an error that changes nothing (S039; checklist
// 17). A host that says nothing more still gets system/init.
func TestInitialize(t *testing.T) {
	c := start(t, "front.version=9.8.7")
	c.send(control("i1", "initialize", "hooks", nil, "unknown", 7, "promptSuggestions", true, "agentProgressSummaries", true))
	first := c.response("i1")
	answer, ok := first.at("response", "response").(map[string]any)
	if !ok || first.str("response", "subtype") != "success" {
		t.Fatalf("got %v", first)
	}
	for _, key := range []string{"commands", "agents", "models", "available_output_styles"} {
		if _, ok := answer[key].([]any); !ok {
			t.Errorf("%s is %v", key, answer[key])
		}
	}
	if answer["output_style"] != "default" || answer["claude_code_version"] != "9.8.7" || answer["pid"] != float64(os.Getpid()) || line(answer).str("account", "apiKeySource") != "none" {
		t.Errorf("got %v", answer)
	}
	if models := answer["models"].([]any); len(models) == 0 || line(models[0].(map[string]any)).str("value") != "default" {
		t.Errorf("models: %v", models)
	}
	for _, key := range []string{"hooks_applied", "mcp_servers_applied", "settings_applied"} {
		if _, there := answer[key]; there {
			t.Errorf("%s without a request for it", key)
		}
	}
	init := c.kind("system/init")
	dir, err := os.Getwd()
	must(t, err)
	if init.str("cwd") != dir || init.str("model") != "mock-model" || init.str("permissionMode") != "default" || init.str("claude_code_version") != "9.8.7" ||
		init.str("output_style") != "default" || init.str("apiKeySource") != "none" || len(init.str("session_id")) != 36 {
		t.Errorf("init: %v", init)
	}
	for _, key := range []string{"tools", "mcp_servers", "slash_commands", "agents", "skills", "plugins"} {
		if _, ok := init[key].([]any); !ok {
			t.Errorf("init %s is %v", key, init[key])
		}
	}
	c.send(control("i2", "initialize"))
	second := c.response("i2")
	if second.str("response", "error") != "Already initialized" || !cmp.Equal(second.at("response", "pending_permission_requests"), any([]any{})) {
		t.Errorf("got %v", second)
	}
	if lines, code := c.rest(); code != 0 || len(lines) != 3 {
		t.Errorf("code %d: %s", code, c.show())
	}
}

// What is wrong with an initialize is named, changes nothing and does not count as
// the one (checklist 21; spec stream-json 4.1).
func TestBadInitialize(t *testing.T) {
	c := start(t)
	for i, tc := range []struct {
		members map[string]any
		want    string
	}{
		{map[string]any{"hooks": "x"}, "hooks"},
		{map[string]any{"hooks": map[string]any{"Stop": 7}}, "hooks"},
		{map[string]any{"sdkMcpServers": "app"}, "sdkMcpServers"},
		{map[string]any{"agents": []any{}}, "agents"},
		{map[string]any{"agent": "nobody"}, `"nobody"`},
		{map[string]any{"systemPrompt": 7}, "systemPrompt"},
		{map[string]any{"systemPrompt": []any{7}}, "systemPrompt"},
		{map[string]any{"appendSystemPrompt": 7}, "appendSystemPrompt"},
		{map[string]any{"jsonSchema": "x"}, "jsonSchema"},
		{map[string]any{"jsonSchema": map[string]any{"type": 7}}, "jsonSchema"},
		{map[string]any{"promptSuggestions": "yes"}, "promptSuggestions"},
		{map[string]any{"agentProgressSummaries": 1}, "agentProgressSummaries"},
		{map[string]any{"perTaskStopAffordance": "yes"}, "perTaskStopAffordance"},
	} {
		id := fmt.Sprintf("i%d", i)
		request := map[string]any{"subtype": "initialize"}
		for k, v := range tc.members {
			request[k] = v
		}
		c.send(map[string]any{"type": "control_request", "request_id": id, "request": request})
		if got := c.response(id).str("response", "error"); !strings.Contains(got, tc.want) {
			t.Errorf("%v: got %q", tc.members, got)
		}
	}
	c.send(control("good", "initialize"))
	if got := c.response("good"); got.str("response", "subtype") != "success" {
		t.Errorf("got %v", got)
	}
}

// An initialize that is followed by a message at once holds for that message's
// turn (F18; checklist 18, 40): here the main agent's tools and the kinds of
// agents. The prompt itself is seen in the log of the session.
func TestInitializeIsABarrier(t *testing.T) {
	for range 10 {
		c := start(t)
		c.send(control("i", "initialize", "systemPrompt", []any{"You are", "a parrot."}, "appendSystemPrompt", "Squawk.",
			"agents", map[string]any{"polly": map[string]any{"description": "d", "prompt": "p"}, "broken": map[string]any{"prompt": 7}}),
			user("one"))
		lines, code := c.rest()
		if code != 0 || len(results(lines)) != 1 {
			t.Fatalf("code %d: %s", code, c.show())
		}
		init := lines[slices.Index(kinds(lines), "system/init")]
		if agents, _ := init["agents"].([]any); !slices.Contains(agents, any("polly")) || slices.Contains(agents, any("broken")) {
			t.Errorf("agents: %v", init["agents"])
		}
		if header := stored(t, c.Home); !strings.Contains(header, `"system":"You are\n\na parrot.\n\nSquawk."`) {
			t.Errorf("no such prompt in the log")
		}
	}
}

// stored is all that is in the session logs of a home.
func stored(t *testing.T, home string) string {
	t.Helper()
	var all strings.Builder
	root := os.DirFS(home)
	entries, err := os.ReadDir(home + "/sessions.d")
	must(t, err)
	for _, e := range entries {
		if f, err := root.Open("sessions.d/" + e.Name()); err == nil {
			info, _ := f.Stat()
			b := make([]byte, info.Size())
			_, _ = f.Read(b)
			_ = f.Close()
			all.Write(b)
		}
	}
	return all.String()
}

// The main agent's prompt, its tools and its model make the session (S035; spec
// stream-json 11.7); the name is looked up after the definitions came.
func TestMainAgent(t *testing.T) {
	c := start(t, "front.agent=polly")
	c.send(control("i", "initialize", "systemPrompt", []any{""}, "agents", map[string]any{"polly": map[string]any{
		"description": "d", "prompt": "You are Polly.", "tools": []any{"Read", "Nonsense"}, "model": "mock-model", "initialPrompt": "Begin.",
	}}), user("one"))
	lines, code := c.rest()
	i := slices.Index(kinds(lines), "system/init")
	if i < 0 || code != 0 {
		t.Fatalf("code %d: %s", code, c.show())
	}
	if tools, _ := lines[i]["tools"].([]any); len(tools) != 1 || lines[i].str("model") != "mock-model" {
		t.Errorf("tools: %v", lines[i])
	}
	if log := stored(t, c.Home); !strings.Contains(log, `"system":"You are Polly."`) || !strings.Contains(log, "Begin.") {
		t.Errorf("the prompt is not the agent's")
	}
}

// --tools restricts the built-in tools (spec stream-json 1.3).
func TestTools(t *testing.T) {
	for set, want := range map[string]int{`["Read","Nonsense"]`: 1, `[]`: 0} {
		c := start(t, "front.tools="+set)
		c.send(control("i", "initialize"))
		if tools, _ := c.kind("system/init")["tools"].([]any); len(tools) != want {
			t.Errorf("%s: %v", set, tools)
		}
	}
}

// Every request gets one answer, in an envelope with the id inside (F8, F10;
// checklist 19 to 21, 29, 33, 37; case B12).
func TestRequests(t *testing.T) {
	c := start(t)
	type object = map[string]any
	for i, tc := range []struct {
		request any
		// want is a part of the error, or the response.
		wrong string
		good  any
		code  string
	}{
		{request: object{"subtype": "warp_drive"}, wrong: "Unsupported control request subtype: warp_drive", code: "unsupported_request"},
		{request: object{"subtype": "rewind_files"}, wrong: "user_message_id"},
		{request: object{}, wrong: "Unsupported control request subtype: ", code: "unsupported_request"},
		{request: 7, wrong: "request must be an object"},
		{request: nil, wrong: "request must be an object"},
		{request: object{"subtype": "interrupt"}, good: object{"still_queued": []any{}}},
		{request: object{"subtype": "interrupt", "cancel_queued": true}, good: object{"still_queued": []any{}, "cancelled": []any{}}},
		{request: object{"subtype": "interrupt", "cancel_queued": 7}, wrong: "cancel_queued"},
		{request: object{"subtype": "cancel_async_message"}, wrong: "message_uuid"},
		{request: object{"subtype": "cancel_async_message", "message_uuid": 7}, wrong: "message_uuid"},
		{request: object{"subtype": "cancel_async_message", "message_uuid": uuidA}, good: object{"cancelled": false}},
		{request: object{"subtype": "set_permission_mode"}, wrong: "dontAsk", code: "invalid_mode"},
		{request: object{"subtype": "set_permission_mode", "mode": "yolo"}, wrong: "acceptEdits", code: "invalid_mode"},
		{request: object{"subtype": "set_permission_mode", "mode": "acceptEdits"}, good: object{"mode": "acceptEdits"}},
		{request: object{"subtype": "set_permission_mode", "mode": "plan"}, good: object{"mode": "plan"}},
		{request: object{"subtype": "set_permission_mode", "mode": "bypassPermissions"}, good: object{"mode": "bypassPermissions"}},
		{request: object{"subtype": "set_permission_mode", "mode": "dontAsk"}, good: object{"mode": "dontAsk"}},
		{request: object{"subtype": "set_permission_mode", "mode": "default"}, good: object{"mode": "default"}},
		{request: object{"subtype": "set_model", "model": 7}, wrong: "model"},
		{request: object{"subtype": "set_model", "model": "mock-9"}, good: object{}},
		{request: object{"subtype": "set_model", "model": nil}, good: object{}},
		{request: object{"subtype": "set_model"}, good: object{}},
		{request: object{"subtype": "set_max_thinking_tokens"}, wrong: "max_thinking_tokens"},
		{request: object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": -1}, wrong: "max_thinking_tokens"},
		{request: object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 1.5}, wrong: "max_thinking_tokens"},
		{request: object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": "1"}, wrong: "max_thinking_tokens"},
		{request: object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 4096}, good: object{}},
		{request: object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": nil}, good: object{}},
		{request: object{"subtype": "seed_read_state", "path": "/x", "mtime": 1.5}, good: object{}},
		{request: object{"subtype": "seed_read_state", "path": "", "mtime": 1}, wrong: "path"},
		{request: object{"subtype": "seed_read_state", "path": "/x"}, wrong: "mtime"},
		{request: object{"subtype": "seed_read_state", "path": "/x", "mtime": -1}, wrong: "mtime"},
		{request: object{"subtype": "mcp_message", "message": object{}}, wrong: "server_name"},
		{request: object{"subtype": "mcp_message", "server_name": "x"}, wrong: "message"},
		{request: object{"subtype": "mcp_message", "server_name": "x", "message": object{}}, wrong: "Server not found: x"},
		{request: object{"subtype": "mcp_status"}, good: object{"mcpServers": []any{}}},
		{request: object{"subtype": "mcp_toggle", "serverName": "x"}, wrong: "enabled"},
		{request: object{"subtype": "mcp_toggle", "serverName": "x", "enabled": true}, wrong: "Server not found: x"},
		{request: object{"subtype": "mcp_reconnect"}, wrong: "serverName"},
		{request: object{"subtype": "mcp_reconnect", "serverName": "x"}, wrong: "Server not found: x"},
		{request: object{"subtype": "mcp_set_servers", "servers": object{}}, wrong: "mcp_set_servers is not supported", code: "unsupported_request"},
		{request: object{"subtype": "get_session_cost"}, good: object{"text": "Total cost: $0.0000"}},
		{request: object{"subtype": "get_binary_version"}, good: object{"version": "2.1.240"}},
	} {
		id := fmt.Sprintf("r%d", i)
		c.send(object{"type": "control_request", "request_id": id, "request": tc.request})
		got := c.response(id)
		if tc.wrong != "" {
			if got.str("response", "subtype") != "error" || !strings.Contains(got.str("response", "error"), tc.wrong) || got.str("response", "error_code") != tc.code {
				t.Errorf("%v: got %v", tc.request, got)
			}
			continue
		}
		if diff := cmp.Diff(tc.good, got.at("response", "response")); diff != "" || got.str("response", "subtype") != "success" {
			t.Errorf("%v: (-want +got):\n%s%v", tc.request, diff, got)
		}
	}
	c.send(user("one"))
	if r := c.result(); r.str("result") != "said one" {
		t.Errorf("then %v", r)
	}
	lines, _ := c.rest()
	if n := strings.Count(strings.Join(kinds(lines), "\n"), "control_response"); n != 43 {
		t.Errorf("%d answers", n)
	}
	// system/init says the mode first (spec stream-json 3.6, 3.13).
	if slices.Contains(kinds(lines), "system/status") {
		t.Errorf("a mode was told before system/init: %v", kinds(lines))
	}
}

// A request with the id of one in progress is the same, delivered again (S017):
// here an initialize that waits for the end of a turn.
func TestRedelivery(t *testing.T) {
	c := start(t)
	c.send(user("hang"))
	c.kind("system/init")
	c.send(control("i", "initialize"), control("i", "initialize"), control("s", "mcp_status"))
	c.response("s")
	c.send(control("x", "interrupt"))
	c.response("i")
	lines, code := c.rest()
	n := 0
	for _, l := range lines {
		if l.str("response", "request_id") == "i" {
			n++
		}
	}
	if n != 1 || code != 1 {
		t.Errorf("%d answers, code %d: %s", n, code, c.show())
	}
}

// An interrupt right behind a message stops its turn before it began, whatever
// still delays that (case B11; spec stream-json 4.2), and only its.
func TestInterruptBeforeTheTurn(t *testing.T) {
	for range 20 {
		c := start(t)
		c.send(user("hang", "uuid", uuidA), control("x", "interrupt"), user("after", "uuid", uuidB))
		lines, code := c.rest()
		got := results(lines)
		if len(got) != 2 || got[0].str("subtype") != "error_during_execution" || got[1].str("result") != "said after" || code != 0 {
			t.Fatalf("code %d: %s", code, c.show())
		}
		if at := slices.Index(kinds(lines), "control_response/success"); at > slices.Index(kinds(lines), "result/error_during_execution") {
			t.Errorf("the answer came behind the result: %v", kinds(lines))
		}
	}
}

// Interrupts at any time during many turns: each message has one result, and none
// is lost (case B94).
func TestInterruptStorm(t *testing.T) {
	c := start(t)
	var sent []any
	for i := range 40 {
		sent = append(sent, user(fmt.Sprintf("m%d", i)))
		if i%3 == 0 {
			sent = append(sent, control(fmt.Sprintf("x%d", i), "interrupt"))
		}
	}
	c.send(sent...)
	lines, _ := c.rest()
	got := results(lines)
	if len(got) != 40 {
		t.Fatalf("%d results", len(got))
	}
	for i, r := range got {
		if r.str("subtype") == "success" && r.str("result") != fmt.Sprintf("said m%d", i) {
			t.Errorf("result %d is %q", i, r.str("result"))
		}
	}
}

// cancel_queued takes the waiting messages away; cancel_async_message one of them
// (S042; checklist 34; spec stream-json 4.3): no result, no replay.
func TestCancelQueued(t *testing.T) {
	c := start(t, "front.replayUserMessages=true")
	c.send(user("hang", "uuid", uuidA))
	c.kind("system/init")
	c.send(user("B", "uuid", uuidB), user("C", "uuid", uuidC),
		control("q1", "cancel_async_message", "message_uuid", uuidB), control("q2", "cancel_async_message", "message_uuid", uuidA))
	if got := c.response("q1"); got.at("response", "response", "cancelled") != true {
		t.Errorf("queued: %v", got)
	}
	if got := c.response("q2"); got.at("response", "response", "cancelled") != false {
		t.Errorf("running: %v", got)
	}
	c.send(control("x", "interrupt", "cancel_queued", true))
	if got := c.response("x"); !cmp.Equal(got.at("response", "response"), any(map[string]any{"still_queued": []any{}, "cancelled": []any{uuidC}})) {
		t.Errorf("got %v", got)
	}
	lines, code := c.rest()
	if len(results(lines)) != 1 || code != 1 || strings.Count(c.show(), `"isReplay":true`) != 1 {
		t.Errorf("code %d: %s", code, c.show())
	}
}

// set_model holds from the next turn on: when it comes right behind a result, that
// is the next message's (S044, S061; checklist 26, 27; decision D3, D4).
func TestSetModel(t *testing.T) {
	c := start(t)
	c.send(user("model"))
	if r := c.result(); r.str("result") != "I am mock-model" {
		t.Errorf("got %v", r)
	}
	c.send(control("m", "set_model", "model", "mock-2"), user("model"))
	if got := c.response("m"); !cmp.Equal(got.at("response", "response"), any(map[string]any{})) {
		t.Errorf("got %v", got)
	}
	if r := c.result(); r.str("result") != "I am mock-2" {
		t.Errorf("got %v", r)
	}
	c.send(user("hang"))
	c.send(control("n", "set_model", "model", "mock-3"), control("t", "set_max_thinking_tokens", "max_thinking_tokens", 0))
	for _, id := range []string{"n", "t"} {
		if got := c.response(id); got.str("response", "subtype") != "success" {
			t.Errorf("%s: %v", id, got)
		}
	}
	c.send(control("x", "interrupt"))
	c.result()
	c.send(user("model"))
	if r := c.result(); r.str("result") != "I am mock-3" {
		t.Errorf("got %v", r)
	}
	c.send(control("d", "set_model"), user("model"))
	if r := c.result(); r.str("result") != "I am mock-model" {
		t.Errorf("got %v", r)
	}
}

// While a turn runs queries are answered, and what would disturb it is refused
// (S061; checklist 25, 26; spec stream-json 4.0).
func TestDuringATurn(t *testing.T) {
	c := start(t)
	c.send(user("hang"))
	c.kind("system/init")
	c.send(control("s", "mcp_status"), control("m", "set_model", "model", "mock-2"), control("p", "set_permission_mode", "mode", "plan"),
		control("g", "mcp_toggle", "serverName", "x", "enabled", true), control("r", "mcp_reconnect", "serverName", "x"))
	if got := c.response("s"); got.str("response", "subtype") != "success" {
		t.Errorf("got %v", got)
	}
	if got := c.response("m"); got.str("response", "response", "applies") != "after_turn" {
		t.Errorf("got %v", got)
	}
	c.response("p")
	if got := c.kind("system/status"); got.str("permissionMode") != "plan" || got.at("status") != nil {
		t.Errorf("got %v", got)
	}
	for _, id := range []string{"g", "r"} {
		name := map[string]string{"g": "mcp_toggle", "r": "mcp_reconnect"}[id]
		if got := c.response(id); got.str("response", "error") != name+" is not allowed while a turn is running" || got.str("response", "error_code") != "turn_running" {
			t.Errorf("got %v", got)
		}
	}
	c.send(control("x", "interrupt"))
	c.result()
}

// strictModels refuses what is not listed.
func TestStrictModels(t *testing.T) {
	c := start(t, "front.strictModels=true")
	c.send(control("a", "set_model", "model", "mock-9"), control("b", "set_model", "model", "mock-model"))
	if got := c.response("a"); !strings.Contains(got.str("response", "error"), `"mock-9"`) {
		t.Errorf("got %v", got)
	}
	if got := c.response("b"); got.str("response", "subtype") != "success" {
		t.Errorf("got %v", got)
	}
}

// Answers may come in any order while a question is open (case B08; S003): the
// host sets the mode and asks for a status before it allows the call.
func TestQuestionsAndRequests(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("touch"))
	ask := c.kind("control_request/can_use_tool")
	c.send(control("m", "set_model", "model", "mock-2"), control("s", "mcp_status"), control("again", "initialize"))
	c.response("m")
	c.response("s")
	if got := c.response("again").at("response", "pending_permission_requests"); !cmp.Equal(got, any([]any{map[string]any(ask)})) {
		t.Errorf("pending: %v", got)
	}
	c.send(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": ask.str("request_id"), "response": map[string]any{"behavior": "allow"},
	}})
	if r := c.result(); r.str("result") != "done" {
		t.Errorf("got %v", r)
	}
	if _, err := os.Stat("made"); err != nil {
		t.Error(err)
	}
}

// An interrupt withdraws what was asked, before the result (S070; checklist 80).
func TestInterruptWithdraws(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("touch"))
	ask := c.kind("control_request/can_use_tool")
	c.send(control("x", "interrupt"))
	gone := c.kind("control_cancel_request")
	if gone.str("request_id") != ask.str("request_id") {
		t.Errorf("got %v", gone)
	}
	if r := c.result(); r.str("terminal_reason") != "aborted_tools" {
		t.Errorf("got %v", r)
	}
	c.send(user("after"))
	if r := c.result(); r.str("result") != "said after" {
		t.Errorf("got %v", r)
	}
}

// A hosted server is connected before system/init, which lists its tools (S033;
// checklist 40), and the answer to initialize does not wait for it.
func TestHostedServer(t *testing.T) {
	c := start(t)
	c.mu.Lock()
	c.answer = serveApp
	c.mu.Unlock()
	c.send(control("i", "initialize", "sdkMcpServers", []any{"app"}), user("time"))
	c.response("i")
	init := c.kind("system/init")
	if !cmp.Equal(init["mcp_servers"], any([]any{map[string]any{"name": "app", "status": "connected"}})) {
		t.Errorf("servers: %v", init["mcp_servers"])
	}
	if tools, _ := init["tools"].([]any); !slices.Contains(tools, any("mcp__app__server_time")) {
		t.Errorf("tools: %v", tools)
	}
	c.send(control("s", "mcp_status"))
	if got := c.response("s"); got.str("response", "response", "mcpServers", "0", "config", "type") != "sdk" || got.str("response", "response", "mcpServers", "0", "tools", "0", "name") != "server_time" {
		t.Errorf("got %v", got)
	}
	if r := c.result(); r.str("result") != "Tool said: noon" {
		t.Errorf("got %v %s", r, c.show())
	}
	c.send(control("n", "mcp_message", "server_name", "app", "message", map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": map[string]any{}}))
	if got := c.response("n"); got.str("response", "subtype") != "success" {
		t.Errorf("got %v (checklist 74)", got)
	}
}

// serveApp is a client with one MCP server that allows every call.
func serveApp(_ string, l line) any {
	if l.str("request", "subtype") == "can_use_tool" {
		return map[string]any{"behavior": "allow", "updatedInput": l.at("request", "input")}
	}
	message, _ := l.at("request", "message").(map[string]any)
	reply := map[string]any{"jsonrpc": "2.0"}
	if id, there := message["id"]; there {
		reply["id"] = id
	}
	switch message["method"] {
	case "initialize":
		reply["result"] = map[string]any{
			"protocolVersion": line(message).str("params", "protocolVersion"), "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "app", "version": "1"},
		}
	case "tools/list":
		reply["result"] = map[string]any{"tools": []any{map[string]any{"name": "server_time", "description": "d", "inputSchema": map[string]any{"type": "object"}}}}
	case "tools/call":
		reply["result"] = map[string]any{"content": []any{map[string]any{"type": "text", "text": "noon"}}}
	default:
		reply["result"] = map[string]any{}
	}
	return map[string]any{"mcp_response": reply}
}

// Variables that the client sends are those of programs that start later; values
// that are no strings are ignored (spec stream-json 2.5).
func TestEnvironment(t *testing.T) {
	t.Setenv("STREAMJSON_TEST", "old")
	c := start(t)
	raw, err := json.Marshal(map[string]any{"type": "update_environment_variables", "variables": map[string]any{"STREAMJSON_TEST": "new", "OTHER": 7}})
	must(t, err)
	c.send(string(raw), control("s", "mcp_status"))
	c.response("s")
	if got := os.Getenv("STREAMJSON_TEST"); got != "new" {
		t.Errorf("got %q", got)
	}
}
