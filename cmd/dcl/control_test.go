package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Checklist 16, 19 and 22, S017, S018, S040, spec stream-json 4.1, F9, F17: the
// handshake is answered before any message, with all that the clients read, and
// what it does not know is passed over.
func TestInitialize(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]object{
		"nothing": nil,
		"what Python sends": {"hooks": nil, "agents": object{"tester": object{"description": "tests", "prompt": "Test.", "tools": []any{"Read"}, "model": "inherit"}},
			"excludeDynamicSections": false, "skills": []any{}},
		"what TypeScript sends": {"sdkMcpServers": []any{}, "systemPrompt": []any{""}, "promptSuggestions": false, "agentProgressSummaries": true,
			"forwardSubagentText": true, "supportedDialogKinds": []any{}, "perTaskStopAffordance": true, "systemPromptSnapshot": nil, "title": "t",
			"planModeInstructions": "x", "toolAliases": object{}, "sdkMcpServerConfigs": object{}, "sdkMcpServerManifests": object{}},
		"what nobody knows": {"warp": object{"drive": 1}, "subtypes": []any{}, "hooks": object{"NoSuchEvent": []any{object{"hookCallbackIds": []any{"a"}, "warp": 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			h := r.start()
			got := h.control("init-1", "initialize", fields)
			if keys := slices.Sorted(maps.Keys(h.all()[0])); !slices.Equal(keys, []string{"response", "type"}) {
				t.Errorf("the answer has members %q beside its response", keys)
			}
			if got["subtype"] != "success" {
				t.Fatalf("answer %v", got)
			}
			answer, _ := got["response"].(object)
			for _, fault := range missing(answer, "initialize", "commands:objects agents:objects models:objects output_style:text available_output_styles:strings "+
				"account:object claude_code_version:text pid:int") {
				t.Error(fault)
			}
			for _, list := range []struct{ name, fields string }{
				{"commands", "name:text description:string argumentHint:string"}, {"agents", "name:text description:string"},
				{"models", "value:text displayName:text description:string"},
			} {
				items, _ := answer[list.name].([]any)
				if len(items) == 0 && list.name != "commands" {
					t.Errorf("no %s", list.name)
				}
				for _, one := range items {
					o, _ := one.(object)
					for _, fault := range missing(o, list.name, list.fields) {
						t.Error(fault)
					}
				}
			}
			if answer["pid"] != float64(h.cmd.Process.Pid) {
				t.Errorf("pid %v, want %d", answer["pid"], h.cmd.Process.Pid)
			}
			if styles, _ := answer["available_output_styles"].([]any); !slices.Contains(styles, answer["output_style"]) {
				t.Errorf("output_style %v is not in %v", answer["output_style"], styles)
			}
			if said := r.complete("", "-v").stdout; !strings.HasPrefix(said, answer["claude_code_version"].(string)+" ") {
				t.Errorf("version %v, and -v says %s", answer["claude_code_version"], said)
			}
			_, hooks := fields["hooks"].(object)
			if applied := answer["hooks_applied"]; hooks && applied != true {
				t.Errorf("hooks_applied is %v", applied)
			}
			if agents, _ := fields["agents"].(object); agents != nil {
				if !slices.ContainsFunc(answer["agents"].([]any), func(a any) bool { return a.(object)["name"] == "tester" }) {
					t.Errorf("agents %v", answer["agents"])
				}
			}
			// A client that sends no message is told of the session all the same (S020).
			h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
			if code := h.end(); code != 0 || len(h.of("result")) != 0 {
				t.Errorf("exit code %d, %d results", code, len(h.of("result")))
			}
		})
	}
}

// Spec stream-json 4.1: what an initialize asks for beyond what there is is never
// claimed to be done; the members that clients insist on are booleans.
func TestInitializeClaimsNothing(t *testing.T) {
	t.Parallel()
	h := newRoom(t).start()
	got := h.control("i", "initialize", object{
		"mcpServers": object{"x": object{"command": "/no/such/program"}}, "settings": object{"model": "mock-model"},
		"disallowedTools": []any{"Bash"}, "managedSettings": object{"permissions": object{"deny": []any{"Write"}}}, "plugins": []any{object{"type": "local", "path": "/x"}},
	})
	answer, _ := got["response"].(object)
	for _, fault := range missing(answer, "initialize", "mcp_servers_applied:bool settings_applied:bool disallowed_tools_applied:bool managed_settings_applied:bool plugins_applied:bool") {
		t.Error(fault)
	}
	init := h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
	servers, _ := init["mcp_servers"].([]any)
	if applied := answer["mcp_servers_applied"] == true; applied != (len(servers) == 1) {
		t.Errorf("mcp_servers_applied is %v, and the servers are %v", applied, servers)
	}
	tools, _ := init["tools"].([]any)
	if applied := answer["disallowed_tools_applied"] == true; applied == slices.Contains(tools, any("Bash")) {
		t.Errorf("disallowed_tools_applied is %v, and the tools are %v", applied, tools)
	}
}

// requestBodies runs a conversation against a fake provider and gives what the
// model was sent.
func requestBodies(t *testing.T, server *llmtest.Server) (bodies []object) {
	t.Helper()
	for _, r := range server.Received() {
		var body object
		if err := wirejson.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// withProvider gives a room whose deepseek models are a fake provider that always
// says ok.
func withProvider(t *testing.T) (*room, *llmtest.Server) {
	t.Helper()
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	server.Script(llmtest.Stream(llmtest.DeepSeek().Whole(sdkproto.Text("ok"))))
	return newRoom(t).set("DEEPSEEK_API_KEY", llmtest.Key).set("DEEPSEEK_BASE_URL", server.URL), server
}

// Checklist 18, F18, S036, S072: an initialize is in force for the message right
// behind it, and system/init comes between its answer and the turn.
func TestInitializeIsFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fields object
		prompt string
	}{
		"a text":       {object{"systemPrompt": "Be brief."}, "Be brief."},
		"texts":        {object{"systemPrompt": []any{"Be brief.", "Be kind."}}, "Be brief.\n\nBe kind."},
		"an empty one": {object{"systemPrompt": []any{""}}, ""},
		"one more":     {object{"systemPrompt": "Be brief.", "appendSystemPrompt": "Be kind."}, "Be brief.\n\nBe kind."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := withProvider(t)
			c, lines := r.speak(requests("i", "initialize", tc.fields)+asks("go"), "--model", "deepseek-flash")
			if c.code != 0 || c.stderr != "" {
				t.Errorf("exit code %d: %s", c.code, c.stderr)
			}
			if got := systemPrompt(requestBodies(t, server)[0]); got != tc.prompt {
				t.Errorf("system prompt %q, want %q", got, tc.prompt)
			}
			// What was asked for is in the log, too.
			logs, err := filepath.Glob(filepath.Join(r.home, "sessions.d", "*.jsonl"))
			if err != nil || len(logs) != 1 {
				t.Fatal(logs, err)
			}
			if log := r.read(logs[0]); tc.prompt != "" && !strings.Contains(log, `"system":`+quoted(tc.prompt)) {
				t.Errorf("the log lacks the system prompt: %.2000s", log)
			}
			older := []string{"text", "usage"}
			order := slices.DeleteFunc(kinds(lines), func(k string) bool { return slices.Contains(older, k) })
			if want := []string{"control_response", "system/init", "assistant", "result/success"}; !slices.Equal(order, want) {
				t.Errorf("order %q, want %q", order, want)
			}
		})
	}
}

// Checklist 17, S039, decision D2 of spec stream-json 0.4: a second initialize is an
// error with these words, changes nothing, and gives the open questions.
func TestSecondInitialize(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	dialect := llmtest.DeepSeek()
	server.Script(
		llmtest.Stream(dialect.Whole(sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c1", Name: "Bash", Arguments: `{"command":"touch made"}`})),
		llmtest.Stream(dialect.Whole(sdkproto.Text("ok"))),
	)
	h := r.start("--model", "deepseek-flash")
	if got := h.control("i1", "initialize", object{"systemPrompt": "first"}); got["subtype"] != "success" {
		t.Fatal(got)
	}
	want := func(got object, pending int) {
		t.Helper()
		list, ok := got["pending_permission_requests"].([]any)
		if got["subtype"] != "error" || got["error"] != "Already initialized" || !ok || len(list) != pending {
			t.Errorf("answer %v", got)
		}
	}
	want(h.control("i2", "initialize", object{"systemPrompt": "second"}), 0)
	h.user("go")
	asked := h.wait("a question", func(l object) bool { return l["type"] == "control_request" })
	again := h.control("i3", "initialize", nil)
	want(again, 1)
	if list, _ := again["pending_permission_requests"].([]any); len(list) == 1 {
		if one, _ := list[0].(object); encode(one) != encode(asked) {
			t.Errorf("the open question is %v, want %v", one, asked)
		}
	}
	h.respond(asked["request_id"].(string), object{"behavior": "allow"})
	h.result(1)
	want(h.control("i4", "initialize", object{"systemPrompt": "fourth"}), 0)
	h.user("go")
	h.result(2)
	for i, body := range requestBodies(t, server) {
		if got := systemPrompt(body); got != "first" {
			t.Errorf("request %d has system prompt %q", i+1, got)
		}
	}
	if len(h.of("system/init")) != 1 {
		t.Errorf("%d system/init", len(h.of("system/init")))
	}
}

// Spec stream-json 4.1: an initialize that fails names the field, does not count,
// and leaves nothing behind.
func TestBadInitialize(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	h := r.start("--model", "deepseek-flash")
	for i, tc := range []struct {
		fields object
		names  string
	}{
		{object{"hooks": "x", "systemPrompt": "left behind"}, "hooks"},
		{object{"hooks": object{"PreToolUse": 5}}, "hooks"},
		{object{"hooks": object{"PreToolUse": []any{object{"hookCallbackIds": "x"}}}}, "hooks"},
		{object{"sdkMcpServers": "x"}, "sdkMcpServers"},
		{object{"sdkMcpServers": []any{5}}, "sdkMcpServers"},
		{object{"agents": []any{}}, "agents"},
		{object{"agent": 5}, "agent"},
		{object{"systemPrompt": 5}, "systemPrompt"},
		{object{"systemPrompt": []any{"a", 5}}, "systemPrompt"},
		{object{"appendSystemPrompt": []any{}}, "appendSystemPrompt"},
		{object{"jsonSchema": "x"}, "jsonSchema"},
		{object{"jsonSchema": object{"properties": 5}}, "jsonSchema"},
		{object{"promptSuggestions": "yes"}, "promptSuggestions"},
		{object{"agentProgressSummaries": 1}, "agentProgressSummaries"},
		{object{"disallowedTools": "Bash"}, "disallowedTools"},
		{object{"agent": "nobody"}, "nobody"},
	} {
		got := h.control(fmt.Sprint("bad", i), "initialize", tc.fields)
		if said, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(said, tc.names) {
			t.Errorf("%v: answer %v, want one that names %s", tc.fields, got, tc.names)
		}
	}
	if got := h.control("good", "initialize", object{"systemPrompt": "Be brief."}); got["subtype"] != "success" {
		t.Fatalf("answer %v", got)
	}
	h.user("go")
	h.result(1)
	if got := systemPrompt(requestBodies(t, server)[0]); got != "Be brief." {
		t.Errorf("system prompt %q", got)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Spec stream-json 1.3, 4.1: the agent that the launch names may come with the
// handshake, as TypeScript sends it; without it the handshake says so.
func TestAgentOfTheLaunch(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	h := r.start("--model", "deepseek-flash", "--agent=later")
	got := h.control("bad", "initialize", nil)
	if said, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(said, "later") {
		t.Errorf("answer %v", got)
	}
	if got := h.control("good", "initialize", object{"agents": object{"later": object{"description": "d", "prompt": "I am later."}}}); got["subtype"] != "success" {
		t.Fatalf("answer %v", got)
	}
	h.user("go")
	h.result(1)
	if got := systemPrompt(requestBodies(t, server)[0]); got != "I am later." {
		t.Errorf("system prompt %q", got)
	}
}

// Checklist 20, 21, 33 and 37, S019, S060, S062, case B12: every request with an id
// has an answer, a wrong one an error that says what is wrong; afterwards the session
// goes on.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	const unsupported = "unsupported_request"
	h := newRoom(t).script(echoModel).start()
	h.control("i", "initialize", nil)
	for i, tc := range []struct {
		request any
		names   string // what the error has to say
		code    string
	}{
		{object{"subtype": "warp_drive"}, "Unsupported control request subtype: warp_drive", unsupported},
		{object{"subtype": ""}, "subtype", ""},
		{object{}, "subtype", ""},
		{object{"subtype": nil}, "subtype", ""},
		{object{"subtype": 5}, "subtype", ""},
		{nil, "object", ""},
		{"interrupt", "object", ""},
		{[]any{}, "object", ""},
		{5, "object", ""},
		{object{"subtype": "interrupt", "cancel_queued": "yes"}, "cancel_queued", ""},
		{object{"subtype": "cancel_async_message"}, "message_uuid", ""},
		{object{"subtype": "cancel_async_message", "message_uuid": ""}, "message_uuid", ""},
		{object{"subtype": "cancel_async_message", "message_uuid": 5}, "message_uuid", ""},
		{object{"subtype": "cancel_async_message", "message_uuid": nil}, "message_uuid", ""},
		{object{"subtype": "set_permission_mode"}, "acceptEdits", ""},
		{object{"subtype": "set_permission_mode", "mode": "nonsense"}, "nonsense", ""},
		{object{"subtype": "set_permission_mode", "mode": 5}, "acceptEdits", ""},
		{object{"subtype": "set_permission_mode", "mode": nil}, "acceptEdits", ""},
		{object{"subtype": "set_permission_mode", "mode": "PLAN"}, "plan", ""},
		{object{"subtype": "set_model", "model": 5}, "model", ""},
		{object{"subtype": "set_model", "model": ""}, "model", ""},
		{object{"subtype": "set_model", "model": []any{"mock-model"}}, "model", ""},
		{object{"subtype": "set_max_thinking_tokens"}, "max_thinking_tokens", ""},
		{object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": -1}, "max_thinking_tokens", ""},
		{object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 1.5}, "max_thinking_tokens", ""},
		{object{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": "100"}, "max_thinking_tokens", ""},
		{object{"subtype": "seed_read_state"}, "path", ""},
		{object{"subtype": "seed_read_state", "path": "", "mtime": 1}, "path", ""},
		{object{"subtype": "seed_read_state", "path": 5, "mtime": 1}, "path", ""},
		{object{"subtype": "seed_read_state", "path": "a"}, "mtime", ""},
		{object{"subtype": "seed_read_state", "path": "a", "mtime": "1"}, "mtime", ""},
		{object{"subtype": "seed_read_state", "path": "a", "mtime": -1}, "mtime", ""},
		{object{"subtype": "mcp_message"}, "server_name", ""},
		{object{"subtype": "mcp_message", "server_name": "nobody", "message": object{}}, "nobody", ""},
		{object{"subtype": "mcp_toggle", "enabled": true}, "serverName", ""},
		{object{"subtype": "mcp_toggle", "serverName": "nobody"}, "enabled", ""},
		{object{"subtype": "mcp_toggle", "serverName": "nobody", "enabled": "yes"}, "enabled", ""},
		{object{"subtype": "mcp_toggle", "serverName": "nobody", "enabled": true}, "Server not found: nobody", ""},
		{object{"subtype": "mcp_toggle", "serverName": 5, "enabled": true}, "serverName", ""},
		{object{"subtype": "mcp_reconnect"}, "serverName", ""},
		{object{"subtype": "mcp_reconnect", "serverName": 5}, "serverName", ""},
		{object{"subtype": "mcp_reconnect", "serverName": "nobody"}, "Server not found: nobody", ""},
		{object{"subtype": "mcp_set_servers", "servers": object{}}, "dcl mcp add", unsupported},
		// What is wrong with these is wrong whether they are supported or not.
		{object{"subtype": "apply_flag_settings"}, "", ""},
		{object{"subtype": "apply_flag_settings", "settings": 5}, "", ""},
		{object{"subtype": "apply_flag_settings", "settings": object{"env": object{}}}, "", ""},
		{object{"subtype": "stop_task"}, "", ""},
		{object{"subtype": "stop_task", "task_id": "never"}, "", ""},
		{object{"subtype": "rewind_files"}, "", ""},
		{object{"subtype": "rewind_files", "user_message_id": 5}, "", ""},
		{object{"subtype": "get_task_output"}, "", ""},
		{object{"subtype": "mcp_call"}, "Unsupported control request subtype: mcp_call", unsupported},
		{object{"subtype": "set_cwd", "cwd": "/"}, "Unsupported control request subtype: set_cwd", unsupported},
		{object{"subtype": "can_use_tool", "tool_name": "Bash", "input": object{}}, "Unsupported control request subtype: can_use_tool", unsupported},
		{object{"subtype": "hook_callback"}, "Unsupported control request subtype: hook_callback", unsupported},
	} {
		id := fmt.Sprint("r", i)
		line := object{"type": "control_request", "request_id": id, "request": tc.request}
		if tc.request == nil {
			delete(line, "request")
		}
		h.send(line)
		answer := h.wait("an answer to "+encode(line), func(l object) bool { return dig(l, "response", "request_id") == id })
		got, _ := answer["response"].(object)
		if said, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(said, tc.names) {
			t.Errorf("%v: answer %v, want an error that says %q", tc.request, got, tc.names)
		}
		if tc.code != "" && got["error_code"] != tc.code {
			t.Errorf("%v: error_code %v, want %s", tc.request, got["error_code"], tc.code)
		}
		if _, ok := answer["request_id"]; ok {
			t.Errorf("request_id stands beside the response (F8)")
		}
	}
	h.user("still there?")
	if result := h.result(1); result["result"] != "you said: still there?" {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 0 || h.errorOutput() != "" {
		t.Errorf("exit code %d: %s", code, h.errorOutput())
	}
}

// Checklist 19, 22 and 37, F11: requests that are right succeed with an object, whatever
// stands beside what they need.
func TestRightRequests(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(echoModel).start()
	h.control("i", "initialize", object{"warp": 1})
	for i, tc := range []struct {
		subtype string
		fields  object
		has     string // members of the answer
	}{
		{"interrupt", nil, ""},
		{"interrupt", object{"cancel_queued": true}, ""},
		{"cancel_async_message", object{"message_uuid": unknownID}, "cancelled:bool"},
		{"set_permission_mode", object{"mode": "default"}, "mode:text"},
		{"set_model", nil, ""},
		{"set_model", object{"model": nil}, ""},
		{"set_model", object{"model": "default"}, ""},
		{"set_model", object{"model": "mock-model"}, ""},
		{"set_max_thinking_tokens", object{"max_thinking_tokens": 4096, "thinking_display": "omitted"}, ""},
		{"set_max_thinking_tokens", object{"max_thinking_tokens": 0}, ""},
		{"set_max_thinking_tokens", object{"max_thinking_tokens": nil}, ""},
		{"seed_read_state", object{"path": "a", "mtime": 0}, ""},
		{"seed_read_state", object{"path": "/a/b", "mtime": 1764498000000.5}, ""},
		{"mcp_status", object{"liveReply": true}, "mcpServers:objects"},
		{"get_session_cost", nil, "text:string"},
		{"list_models", nil, "models:objects"},
		{"get_binary_version", nil, "version:text"},
	} {
		fields := object{"warp": object{"drive": []any{1}}}
		maps.Copy(fields, tc.fields)
		got := h.control(fmt.Sprint("r", i), tc.subtype, fields)
		if got["subtype"] != "success" {
			t.Errorf("%s %v: answer %v", tc.subtype, tc.fields, got)
			continue
		}
		answer, _ := got["response"].(object)
		for _, fault := range missing(answer, tc.subtype, tc.has) {
			t.Error(fault)
		}
	}
	if results := h.of("result"); len(results) != 0 {
		t.Errorf("results %v", results)
	}
	h.user("go")
	h.result(1)
}

// Checklist 23 and 24, spec stream-json 2.3, 2.4: answers that nobody waits for, the
// second answer to a question, and withdrawals of nothing do nothing.
func TestStrayAnswers(t *testing.T) {
	t.Parallel()
	h := newRoom(t).rounds([]use{bash("touch one")}, []use{bash("touch two")}).start()
	stray := func() {
		h.respond("never", object{"behavior": "allow"})
		h.respond("never", failure("no"))
		h.send(object{"type": "control_cancel_request", "request_id": "never"})
		h.send(`{"type":"control_response","response":{"request_id":"never"}}`)
	}
	stray()
	h.user("go")
	for n, behavior := range []string{"allow", "deny"} {
		question := h.nth("a question", n+1, func(l object) bool { return l["type"] == "control_request" })
		id := question["request_id"].(string)
		stray()
		other := map[string]object{"deny": {"behavior": "allow"}, "allow": {"behavior": "deny", "message": "too late"}}[behavior]
		h.respond(id, object{"behavior": behavior, "message": "in time"})
		h.respond(id, other)
		h.respond(id, failure("too late"))
	}
	result := h.result(1)
	if result["subtype"] != "success" || !h.room.exists("one") || h.room.exists("two") {
		t.Errorf("result %v, one: %v, two: %v", result, h.room.exists("one"), h.room.exists("two"))
	}
	if denials, _ := result["permission_denials"].([]any); len(denials) != 1 {
		t.Errorf("denials %v", denials)
	}
	if got := h.toolResults(); len(got) != 2 || contentText(got[1]) != "in time" {
		t.Errorf("results %v", got)
	}
	if code := h.end(); code != 0 || h.errorOutput() != "" {
		t.Errorf("exit code %d: %s", code, h.errorOutput())
	}
}

// nth waits for the n-th line, from 1, that is what is wanted.
func (h *host) nth(what string, n int, wanted func(object) bool) object {
	h.t.Helper()
	seen := 0
	return h.wait(fmt.Sprintf("%s, number %d", what, n), func(l object) bool {
		if wanted(l) {
			seen++
			return seen == n
		}
		return false
	})
}

// S017, spec stream-json 2.2: a request that is delivered again while it has no
// answer is answered once.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	// The server answers nothing, so that the reconnect takes its time.
	h := newRoom(t).script(echoModel).start("--mcp-config", `{"mcpServers":{"mute":{"command":"sleep","args":["60"]}}}`, "--set", `mcp.connectTimeout="500ms"`)
	for range 3 {
		h.send(object{"type": "control_request", "request_id": "again", "request": object{"subtype": "mcp_reconnect", "serverName": "mute"}})
	}
	h.wait("the answer", func(l object) bool { return dig(l, "response", "request_id") == "again" })
	h.control("after", "mcp_status", nil)
	h.user("go")
	h.result(1)
	h.end()
	answers := 0
	for _, l := range h.of("control_response") {
		if dig(l, "response", "request_id") == "again" {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("%d answers", answers)
	}
}

// Checklist 29, S043, spec stream-json 4.4: the five modes are answered by their
// name and announced; others are refused with those that there are.
func TestPermissionModes(t *testing.T) {
	t.Parallel()
	h := newRoom(t).start()
	h.control("i", "initialize", nil)
	h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
	modes := []string{"acceptEdits", "plan", "bypassPermissions", "dontAsk", "default"}
	for i, mode := range modes {
		got := h.control(fmt.Sprint("m", i), "set_permission_mode", object{"mode": mode})
		if got["subtype"] != "success" || dig(got, "response", "mode") != mode {
			t.Errorf("%s: answer %v", mode, got)
		}
		status := h.nth("a status", i+1, func(l object) bool { return l["subtype"] == "status" })
		if v, ok := status["status"]; !ok || v != nil || status["permissionMode"] != mode {
			t.Errorf("%s: status %v", mode, status)
		}
	}
	got := h.control("bad", "set_permission_mode", object{"mode": "nonsense"})
	for _, mode := range modes {
		if said, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(said, mode) {
			t.Errorf("answer %v does not list %s", got, mode)
		}
	}
	h.end()
	if n := len(h.of("system/status")); n != len(modes) {
		t.Errorf("%d lines of status, want %d", n, len(modes))
	}
}

// Checklist 28, S061: a mode that is set during a turn holds for its next call; a
// question that is open stays open.
func TestPermissionModeDuringATurn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode        string
		made, asked bool // of the second call
	}{{"acceptEdits", true, false}, {"plan", false, false}, {"dontAsk", false, false}, {"bypassPermissions", true, false}, {"default", true, true}} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).rounds([]use{writes("one.txt")}, []use{writes("two.txt")}).start()
			h.user("go")
			first := h.wait("a question", func(l object) bool { return l["type"] == "control_request" })
			if got := h.control("m", "set_permission_mode", object{"mode": tc.mode}); dig(got, "response", "mode") != tc.mode {
				t.Fatalf("answer %v", got)
			}
			h.answering(map[string]func(object) any{"can_use_tool": func(object) any { return object{"behavior": "allow"} }})
			h.respond(first["request_id"].(string), object{"behavior": "allow"})
			h.result(1)
			if !h.room.exists("one.txt") || h.room.exists("two.txt") != tc.made {
				t.Errorf("one: %v, two: %v, want true and %v", h.room.exists("one.txt"), h.room.exists("two.txt"), tc.made)
			}
			if asked := len(h.of("control_request")) == 2; asked != tc.asked {
				t.Errorf("asked about the second: %v, want %v", asked, tc.asked)
			}
			h.control("back", "set_permission_mode", object{"mode": "default"})
		})
	}
}

// slowModel says fifty words, slowly, to a prompt that says slow.
const slowModel = `
rules:
  - when: {text: slow}
    reply: [{text: "word ", repeat: 50, every: 20ms}]
  - reply: "you said: {{user}}"
`

// Checklist 34, S042, S015: a message that waits can be withdrawn and then leaves
// nothing behind; one that runs, is done, or is not known cannot.
func TestCancelAsyncMessage(t *testing.T) {
	t.Parallel()
	const a, b, c, d = "aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-1111-4111-8111-111111111111", "cccccccc-1111-4111-8111-111111111111", "not a uuid"
	h := newRoom(t).script(slowModel).start("--replay-user-messages", "--include-partial-messages")
	write := func(line string) { h.send(strings.TrimSuffix(line, "\n")) }
	write(asksAs(a, "slow"))
	h.wait("the first words", func(l object) bool { return l["type"] == "stream_event" })
	write(asksAs(b, "withdrawn"))
	write(asksAs(c, "kept"))
	write(asksAs(d, "withdrawn"))
	for i, tc := range []struct {
		uuid string
		want bool
	}{{b, true}, {b, false}, {a, false}, {unknownID, false}, {d, true}} {
		got := h.control(fmt.Sprint("c", i), "cancel_async_message", object{"message_uuid": tc.uuid})
		if got["subtype"] != "success" || dig(got, "response", "cancelled") != tc.want {
			t.Errorf("%s: answer %v, want %v", tc.uuid, got, tc.want)
		}
	}
	if got := h.result(2)["result"]; got != "you said: kept" {
		t.Errorf("the second result is %v", got)
	}
	if got := h.control("late", "cancel_async_message", object{"message_uuid": c}); dig(got, "response", "cancelled") != false {
		t.Errorf("a message that is done: %v", got)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := len(h.of("result")); n != 2 {
		t.Errorf("%d results, want 2", n)
	}
	var replayed []any
	for _, l := range h.of("user") {
		replayed = append(replayed, l["uuid"])
	}
	if !slices.Equal(replayed, []any{a, c}) {
		t.Errorf("replayed are %v", replayed)
	}
}

// Cases B08 and B95, S003, S061: while the program waits for the client, in a hook
// and in a question, it answers what the client asks, in any order, and the call
// runs once.
func TestRequestsDuringQuestions(t *testing.T) {
	t.Parallel()
	h := newRoom(t).rounds([]use{bash("echo x >> ran")}).start()
	h.control("i", "initialize", object{"hooks": object{"PreToolUse": []any{object{"matcher": "Bash", "hookCallbackIds": []any{"hook_0"}}}}})
	for n := range 10 {
		h.user("go")
		for _, subtype := range []string{"hook_callback", "can_use_tool"} {
			question := h.nth(subtype, n+1, func(l object) bool { return dig(l, "request", "subtype") == subtype })
			for i, r := range []struct {
				subtype string
				fields  object
			}{
				{"set_model", object{"model": "mock-model"}}, {"mcp_status", nil}, {"set_max_thinking_tokens", object{"max_thinking_tokens": nil}}, {"list_models", nil},
				{"get_session_cost", nil}, {"get_binary_version", nil}, {"seed_read_state", object{"path": "a", "mtime": 1}},
				{"set_permission_mode", object{"mode": "default"}}, {"cancel_async_message", object{"message_uuid": unknownID}}, {"warp_drive", nil},
			} {
				got := h.control(fmt.Sprintf("%s-%d-%d", subtype, n, i), r.subtype, r.fields)
				if good := got["subtype"] == "success"; good != (r.subtype != "warp_drive") {
					t.Errorf("%s during %s: answer %v", r.subtype, subtype, got)
				}
			}
			// These need the end of the turn (spec stream-json 4.0).
			for _, refused := range []string{"mcp_reconnect", "mcp_toggle"} {
				got := h.control(fmt.Sprintf("%s-%s-%d", subtype, refused, n), refused, object{"serverName": "x", "enabled": true})
				if said, _ := got["error"].(string); got["error_code"] != "turn_running" || !strings.Contains(said, refused) {
					t.Errorf("%s: answer %v", refused, got)
				}
			}
			reply := object{}
			if subtype == "can_use_tool" {
				reply = object{"behavior": "allow"}
			}
			h.respond(question["request_id"].(string), reply)
		}
		h.result(n + 1)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if ran := h.room.read("ran"); ran != strings.Repeat("x\n", 10) {
		t.Errorf("the calls ran %d times, want 10", strings.Count(ran, "x"))
	}
}

// Decision D4 of spec stream-json 0.4, checklist 27, S044: a client that has read a
// result may change the model at once, and the next request is the new model's.
func TestSetModelBetweenTurns(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	h := r.start("--model", "deepseek-flash")
	models := []string{"deepseek-chat", "some-model-nobody-lists", "deepseek-flash"}
	h.user("go")
	h.result(1)
	for i, model := range models {
		if got := h.control(fmt.Sprint("m", i), "set_model", object{"model": model}); got["subtype"] != "success" || dig(got, "response", "applies") != nil {
			t.Errorf("%s: answer %v", model, got)
		}
		h.user("go")
		h.result(i + 2)
	}
	h.end()
	for i, body := range requestBodies(t, server) {
		if i > 0 && body["model"] == requestBodies(t, server)[i-1]["model"] {
			t.Errorf("request %d is for %v, as the one before", i+1, body["model"])
		}
	}
}
