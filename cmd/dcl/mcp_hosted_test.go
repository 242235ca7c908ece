package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The handshake with servers of the host, in both forms in which they are made
// known, and a call (checklist 40, 71, S033, S068; spec stream-json 8.1 to 8.4;
// peers/claude 21): the answer to initialize comes first, a name in both forms is
// one server, one of an external server of the same name wins, ids are never used
// twice, original names go to the host.
func TestHostedServer(t *testing.T) {
	t.Parallel()
	sdkConfig := `{"mcpServers":{"my.app":{"type":"sdk","name":"another"}}}`
	for _, tt := range []struct {
		name  string
		flags []string
		names []string
	}{
		{"initialize", nil, []string{"my.app"}},
		{"flag", []string{"--mcp-config", sdkConfig}, nil},
		{"both", []string{"--mcp-config", sdkConfig}, []string{"my.app", "my.app"}},
		{"over an external one", serving(map[string]string{"my.app": "good"}), []string{"my.app"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{
				pages: [][]object{{aTool("server_time")}, {aTool("fails"), aTool("other.tool")}},
				call: func(_ any, name string, arguments object) any {
					if name == "fails" {
						return object{"content": []object{{"type": "text", "text": "it went wrong"}}, "isError": true}
					}
					return texts(fmt.Sprint(name, " ", arguments["text"]))
				},
			}
			r := newRoom(t).rounds([]use{
				{"mcp__my_app__server_time", object{"text": "now"}}, {"mcp__my_app__fails", object{}}, {"mcp__my_app__other_tool", object{"text": "x"}},
			})
			h := r.start(append(tt.flags, "--allowedTools", "mcp__my_app")...).with(&answers{mcp: app.answer})
			in := object{}
			if tt.names != nil {
				in["sdkMcpServers"] = tt.names
			}
			h.initialize(in)
			h.prompt(1)
			if answer, first := h.at(isType("control_response")), h.at(isType("control_request")); answer < 0 || answer > first {
				t.Errorf("the answer is line %d, the handshake line %d", answer, first)
			}
			var methods []any
			ids := map[any]bool{}
			for _, l := range h.asks("mcp_message") {
				request, _ := l["request"].(object)
				if request["server_name"] != "my.app" {
					t.Errorf("server_name %v", request["server_name"])
				}
				methods = append(methods, dig(request, "message", "method"))
				if dig(request, "message", "jsonrpc") != "2.0" {
					t.Errorf("message %v", request["message"])
				}
				if id := dig(request, "message", "id"); id != nil {
					if ids[id] || !is(id, "int") {
						t.Errorf("id %v", id)
					}
					ids[id] = true
				}
			}
			if diff := cmp.Diff([]any{"initialize", "notifications/initialized", "tools/list", "tools/list", "tools/call", "tools/call", "tools/call"}, methods); diff != "" {
				t.Error(diff)
			}
			first := app.got("initialize")[0]
			if !is(dig(first, "params", "protocolVersion"), "text") || !is(dig(first, "params", "clientInfo", "name"), "text") || !is(dig(first, "params", "capabilities"), "object") {
				t.Errorf("initialize %v", first)
			}
			init := h.of("system/init")[0]
			tools, _ := init["tools"].([]any)
			for _, name := range []string{"server_time", "fails", "other_tool"} {
				if !slices.Contains(tools, any("mcp__my_app__"+name)) {
					t.Errorf("%s is not among %v", name, tools)
				}
			}
			if diff := cmp.Diff(map[any]any{"my.app": "connected"}, serversOf(init)); diff != "" {
				t.Error(diff)
			}
			results := h.toolResults()
			for i, want := range []string{"server_time now", "it went wrong", "other.tool x"} {
				if diff := cmp.Diff([]any{object{"type": "text", "text": want}}, results[i]["content"]); diff != "" || (results[i]["is_error"] == true) != (i == 1) {
					t.Error(diff, results[i])
				}
			}
			call := app.called()[0]
			if dig(call, "params", "_meta", "claudecode/toolUseId") != "call_1_1_1" || dig(call, "params", "arguments", "text") != "now" {
				t.Errorf("call %v", call)
			}
			row := h.status(1, "my.app")
			if row["status"] != "connected" || dig(row, "config", "type") != "sdk" || dig(row, "config", "name") != "my.app" || len(row["tools"].([]any)) != 3 {
				t.Errorf("mcp_status %v", row)
			}
		})
	}
}

// Results keep their blocks as an array (checklist 45, S024; spec stream-json 8.4),
// and every way in which a call can fail is a failed call (column mcp_message of
// spec stream-json 5.6, error and malformed answers), after which the server still
// serves.
func TestHostedResults(t *testing.T) {
	t.Parallel()
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	content := func(blocks ...object) object { return object{"content": blocks} }
	text := func(s string) object { return object{"type": "text", "text": s} }
	for _, tt := range []struct {
		name   string
		result any
		// want is the content; has are texts in it where it is not all told.
		want   []any
		has    string
		failed bool
	}{
		{name: "text", result: content(text("one"), text("two")), want: []any{text("one"), text("two")}},
		{name: "image", result: content(text("see"), object{"type": "image", "data": pixel, "mimeType": "image/png"}), want: []any{
			text("see"), object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": pixel}},
		}},
		{name: "link", result: content(object{"type": "resource_link", "uri": "file:///tmp/x.txt", "name": "the-file"}), has: "file:///tmp/x.txt"},
		{name: "resource", result: content(object{"type": "resource", "resource": object{"uri": "a://b", "text": "text of it"}}), has: "text of it"},
		{name: "blob", result: content(object{"type": "resource", "resource": object{"uri": "a://b", "mimeType": "application/pdf", "blob": "AAEC"}}), has: "/"},
		{name: "audio", result: content(object{"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}), has: "/"},
		{name: "structure alone", result: object{"structuredContent": object{"n": 7}, "content": []any{}}, has: `"n":7`},
		{name: "empty", result: content(), has: "output"},
		{name: "isError", result: object{"isError": true, "content": []object{text("bad"), text("worse")}}, want: []any{text("bad"), text("worse")}, failed: true},
		{name: "JSON-RPC error", result: rpcError{-32602, "no such argument"}, has: "no such argument", failed: true},
		{name: "control error", result: failure("SDK MCP server not found: app"), has: "SDK MCP server not found", failed: true},
		{name: "text for a result", result: "nonsense", has: "", failed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			app := &sdkServer{tools: []object{aTool("echo")}, call: func(any, string, object) any {
				if calls++; calls == 1 {
					return tt.result
				}
				return texts("still there")
			}}
			r := newRoom(t).rounds([]use{{"mcp__app__echo", object{}}}, []use{{"mcp__app__echo", object{}}})
			h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: app.answer})
			h.initialize(object{"sdkMcpServers": []string{"app"}})
			if result := h.prompt(1); result["result"] != "done" || len(denials(result)) != 0 {
				t.Errorf("result %v", result)
			}
			results := h.toolResults()
			if (results[0]["is_error"] == true) != tt.failed || tt.want != nil && !cmp.Equal(any(tt.want), results[0]["content"]) || !strings.Contains(contentText(results[0]), tt.has) {
				t.Errorf("result %v", results[0])
			}
			if list, isList := results[0]["content"].([]any); (!isList || len(list) == 0) && !tt.failed {
				t.Errorf("content %v", results[0]["content"])
			}
			if contentText(results[1]) != "still there" || results[1]["is_error"] == true {
				t.Errorf("the next call gave %v", results[1])
			}
		})
	}
	for name, answer := range map[string]any{
		"no mcp_response": object{}, "null": nullAnswer, "an mcp_response that is none": object{"mcp_response": 5},
		"another id": object{"mcp_response": object{"jsonrpc": "2.0", "id": 999, "result": texts("wrong")}},
		"neither":    object{"mcp_response": object{"jsonrpc": "2.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{tools: []object{aTool("echo")}}
			r := newRoom(t).rounds([]use{{"mcp__app__echo", object{}}})
			h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: func(server string, m object) any {
				if m["method"] == "tools/call" {
					return answer
				}
				return app.answer(server, m)
			}})
			h.initialize(object{"sdkMcpServers": []string{"app"}})
			h.prompt(1)
			if b := h.toolResults()[0]; b["is_error"] != true || strings.Contains(contentText(b), "wrong") {
				t.Errorf("result %v", b)
			}
		})
	}
}

// A server of the host whose handshake fails leaves the session alone (checklist 72;
// spec stream-json 8.2; column mcp_message of 5.6): it is failed with its error, its
// tools are not there, the next turns try again. One that does not answer is given
// up after MCP_TIMEOUT, and the request withdrawn.
func TestHostedHandshakeFails(t *testing.T) {
	t.Parallel()
	for name, handshake := range map[string]any{
		"control error": failure("server is out"), "JSON-RPC error": rpcError{-32000, "server is out"}, "no object": "server is out",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{tools: []object{aTool("echo")}, handshake: handshake}
			r := newRoom(t).rounds([]use{{"mcp__app__echo", object{"text": "x"}}})
			h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: app.answer})
			h.initialize(object{"sdkMcpServers": []string{"app"}})
			if result := h.prompt(1); result["result"] != "done" || result["is_error"] != false {
				t.Errorf("result %v", result)
			}
			init := h.of("system/init")[0]
			if diff := cmp.Diff(map[any]any{"app": "failed"}, serversOf(init)); diff != "" || strings.Contains(encode(init["tools"]), "mcp__app") {
				t.Error(diff)
			}
			row := h.status(1, "app")
			if text, _ := row["error"].(string); row["status"] != "failed" || text == "" || name != "no object" && !strings.Contains(text, "server is out") {
				t.Errorf("mcp_status %v", row)
			}
			app.mu.Lock()
			app.handshake = nil // the host has mended it
			app.mu.Unlock()
			n := 1
			eventually(t, "another attempt", func() bool { n++; h.prompt(n); return h.status(n, "app")["status"] == "connected" })
			h.prompt(n + 1)
			results := h.toolResults()
			if got := contentText(results[len(results)-1]); got != "echo x" {
				t.Errorf("result %q", got)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).rounds().set("MCP_TIMEOUT", "300").start()
		h.initialize(object{"sdkMcpServers": []string{"app"}})
		result := h.prompt(1)
		id, request := h.ask("mcp_message", 1)
		if h.cancels(id) != 1 || dig(request, "message", "method") != "initialize" || result["result"] != "done" {
			t.Errorf("%d withdrawals, result %v", h.cancels(id), result)
		}
		if status := serversOf(h.of("system/init")[0])["app"]; status != "failed" && status != "pending" {
			t.Errorf("status %v", status)
		}
	})
}

// Calls of one answer overlap: ids differ, answers may come in any order, and each
// result goes to its call, with its error flag (checklist 73, case B39). One that
// never comes is withdrawn by an interrupt, and a late answer is nobody's.
func TestParallelHostedCalls(t *testing.T) {
	t.Parallel()
	const n = 20
	var calls []use
	for i := range n {
		calls = append(calls, use{"mcp__app__echo", object{"text": fmt.Sprint("arg", i)}})
	}
	tool := aTool("echo")
	tool["annotations"] = object{"readOnlyHint": true}
	app := &sdkServer{tools: []object{tool}, call: func(any, string, object) any { return nil }}
	r := newRoom(t).rounds(calls)
	h := r.start().with(&answers{mcp: app.answer})
	h.initialize(object{"sdkMcpServers": []string{"app"}})
	h.user("go")
	// callOf gives the open request of the k-th call, in the order of their arrival.
	callOf := func(k int) (id string, rpc any, text string) {
		count := 0
		line := h.wait(fmt.Sprint("call ", k), func(l object) bool {
			if dig(l, "request", "message", "method") == "tools/call" {
				count++
				return count == k
			}
			return false
		})
		id, _ = line["request_id"].(string)
		text, _ = dig(line, "request", "message", "params", "arguments", "text").(string)
		return id, dig(line, "request", "message", "id"), text
	}
	answered := map[int]bool{}
	ids := map[any]bool{}
	failing := map[string]bool{"arg1": true, "arg5": true, "arg9": true, "arg13": true, "arg17": true}
	for round := 1; len(answered) < n; round++ {
		callOf(min(len(answered)+5, n)) // several wait at a time
		for k := n; k > 0; k-- {
			if k > len(h.asks("mcp_message"))-3 || answered[k] {
				continue
			}
			id, rpc, text := callOf(k)
			if ids[rpc] {
				t.Errorf("id %v twice", rpc)
			}
			ids[rpc], answered[k] = true, true
			result := texts("for " + text)
			if failing[text] {
				result["isError"] = true
			}
			h.respond(id, object{"mcp_response": object{"jsonrpc": "2.0", "id": rpc, "result": result}})
		}
	}
	h.result(1)
	for i, b := range h.toolResults() {
		arg := fmt.Sprint("arg", i)
		if contentText(b) != "for "+arg || (b["is_error"] == true) != failing[arg] || b["tool_use_id"] != fmt.Sprintf("call_1_1_%d", i+1) {
			t.Errorf("result %d: %v", i, b)
		}
	}
	h.user("again")
	late, rpc, _ := callOf(n + 1)
	h.control("stop", "interrupt", nil)
	if result := h.result(2); result["terminal_reason"] != "aborted_tools" || h.cancels(late) != 1 {
		t.Errorf("%d withdrawals, result %v", h.cancels(late), result)
	}
	withdrawn, ended := h.at(isType("control_cancel_request")), 0
	for i, l := range h.all() {
		if l["type"] == "result" {
			ended = i
		}
		if l["type"] == "control_cancel_request" {
			withdrawn = i
		}
	}
	if withdrawn > ended {
		t.Errorf("withdrawn in line %d, the result is line %d", withdrawn, ended)
	}
	h.respond(late, object{"mcp_response": object{"jsonrpc": "2.0", "id": rpc, "result": texts("late")}})
	app.mu.Lock()
	app.call = nil
	app.mu.Unlock()
	h.prompt(3)
	if results := h.toolResults(); len(results) != 3*n || contentText(results[2*n]) != "echo arg0" {
		t.Errorf("%d results", len(results))
	}
}

// A call without an answer ends after MCP_TOOL_TIMEOUT, or after what the client says
// of its server, and the request is withdrawn (column mcp_message of spec stream-json
// 5.6, 8.7).
func TestHostedCallTimesOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		variable string
		configs  any
		told     string
	}{
		"variable":            {"300", nil, "300ms"},
		"config":              {"", object{"app": object{"timeout": 1000}}, "1s"},
		"config and variable": {"20000", object{"app": object{"timeout": 1001}, "other": object{"timeout": 1000}}, "1.001s"},
		"too short a config":  {"300", object{"app": object{"timeout": 999}}, "300ms"},
		"no config":           {"300", "app", "300ms"},
		"no number":           {"300", object{"app": object{"timeout": "soon"}}, "300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{tools: []object{aTool("echo")}, call: func(any, string, object) any { return nil }}
			r := newRoom(t).rounds([]use{{"mcp__app__echo", object{}}}).set("MCP_TOOL_TIMEOUT", tc.variable)
			h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: app.answer})
			h.initialize(object{"sdkMcpServers": []string{"app"}, "sdkMcpServerConfigs": tc.configs})
			result := h.prompt(1)
			var id string
			for _, l := range h.asks("mcp_message") {
				if dig(l, "request", "message", "method") == "tools/call" {
					id, _ = l["request_id"].(string)
				}
			}
			b := h.toolResults()[0]
			if b["is_error"] != true || h.cancels(id) != 1 || result["result"] != "done" || !strings.Contains(contentText(b), "no sign of life for "+tc.told+",") {
				t.Errorf("%d withdrawals, result %v", h.cancels(id), b)
			}
		})
	}
}

// When the input ends, a call of a hosted tool fails with Stream closed, later ones
// are not sent, and the turn goes on (column mcp_message of spec stream-json 5.6).
func TestHostedServerWithoutAHost(t *testing.T) {
	t.Parallel()
	app := &sdkServer{tools: []object{aTool("echo")}, call: func(any, string, object) any { return nil }}
	r := newRoom(t).rounds([]use{{"mcp__app__echo", object{"text": "1"}}}, []use{{"mcp__app__echo", object{"text": "2"}}})
	h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: app.answer})
	h.initialize(object{"sdkMcpServers": []string{"app"}})
	h.user("go")
	h.wait("the call", func(l object) bool { return dig(l, "request", "message", "method") == "tools/call" })
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	results := h.toolResults()
	if len(results) != 2 || results[0]["is_error"] != true || results[1]["is_error"] != true || !strings.Contains(contentText(results[0]), "Stream closed") {
		t.Errorf("results %v", results)
	}
	if len(app.called()) != 1 || h.result(1)["result"] != "done" {
		t.Errorf("called %v", app.called())
	}
	t.Run("from the start", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).rounds().start("--mcp-config", `{"mcpServers":{"app":{"type":"sdk","name":"app"}}}`)
		h.user("go")
		if code := h.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if status := serversOf(h.of("system/init")[0])["app"]; status != "failed" || h.result(1)["result"] != "done" {
			t.Errorf("status %v", status)
		}
	})
}

// What a hosted server says by itself (checklist 74; spec stream-json 8.5): it is
// answered at once, a change of its list is followed, unknown servers and messages
// that are none are errors.
func TestServerInitiatedMessages(t *testing.T) {
	t.Parallel()
	app := &sdkServer{tools: []object{aTool("echo")}}
	r := newRoom(t).script(encode(object{"rules": append(steps(object{"turn": 2}, []use{{"mcp__app__late", object{"text": "x"}}, {"mcp__app__echo", object{}}}), object{"reply": "done"})}))
	h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: app.answer})
	h.initialize(object{"sdkMcpServers": []string{"app"}})
	h.prompt(1)
	send := func(id, server string, message any) object {
		return h.control(id, "mcp_message", object{"server_name": server, "message": message})
	}
	app.offer(aTool("late"))
	for i, message := range []object{
		{"jsonrpc": "2.0", "method": "notifications/message", "params": object{"level": "info", "data": "hello"}},
		{"jsonrpc": "2.0", "method": "notifications/progress", "params": object{"progressToken": "77", "progress": 1}},
		{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
	} {
		if got := send(fmt.Sprint("m", i), "app", message); got["subtype"] != "success" {
			t.Errorf("%v: %v", message["method"], got)
		}
	}
	for id, bad := range map[string][2]any{
		"x1": {"nobody", object{"jsonrpc": "2.0", "method": "notifications/message"}}, "x2": {"app", "text"}, "x3": {"app", nil},
	} {
		if got := send(id, bad[0].(string), bad[1]); got["subtype"] != "error" {
			t.Errorf("%v: %v", bad, got)
		}
	}
	if got := h.control("x4", "mcp_message", object{"message": object{}}); got["subtype"] != "error" {
		t.Errorf("without a server: %v", got)
	}
	n := 0
	eventually(t, "the new list", func() bool { n++; return strings.Contains(encode(h.status(n, "app")["tools"]), `"late"`) })
	h.prompt(2)
	results := h.toolResults()
	if len(results) != 2 || contentText(results[0]) != "late x" || !strings.HasPrefix(contentText(results[1]), "No such tool available") {
		t.Errorf("results %v", results)
	}
	// A request of the server is answered with a message to it.
	if got := send("p", "app", object{"jsonrpc": "2.0", "id": "ping-1", "method": "ping"}); got["subtype"] != "success" {
		t.Errorf("ping: %v", got)
	}
	answer := h.wait("the answer to ping", func(l object) bool { return dig(l, "request", "message", "id") == "ping-1" })
	if dig(answer, "request", "message", "result") == nil {
		t.Errorf("ping is answered with %v", answer)
	}
}

// What a hosted server asks the user (checklist 75, S069; spec stream-json 5.4, 8.5):
// the question reaches the host, the host's answer the server, as the answer to the
// server's own request.
func TestElicitationOfAHostedServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer any
		want   object
	}{
		{"accept", object{"action": "accept", "content": object{"pick": "blue"}}, object{"action": "accept", "content": object{"pick": "blue"}}},
		{"decline", object{"action": "decline"}, object{"action": "decline"}},
		{"cancel", object{"action": "cancel"}, object{"action": "cancel"}},
		{"error", failure("no handler"), object{"action": "cancel"}},
		{"no such action", object{"action": "Accept"}, object{"action": "cancel"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{tools: []object{aTool("echo")}, call: func(any, string, object) any { return nil }}
			r := newRoom(t).rounds([]use{{"mcp__app__echo", object{}}})
			h := r.start("--allowedTools", "mcp__app").with(&answers{mcp: app.answer, elicit: func(object) any { return tt.answer }})
			h.initialize(object{"sdkMcpServers": []string{"app"}})
			h.user("go")
			call := h.wait("the call", func(l object) bool { return dig(l, "request", "message", "method") == "tools/call" })
			schema := object{"type": "object", "properties": object{"pick": object{"type": "string"}}}
			got := h.control("e", "mcp_message", object{"server_name": "app", "message": object{
				"jsonrpc": "2.0", "id": 41, "method": "elicitation/create", "params": object{"message": "Which?", "requestedSchema": schema},
			}})
			if got["subtype"] != "success" {
				t.Errorf("mcp_message: %v", got)
			}
			_, request := h.ask("elicitation", 1)
			if request["mcp_server_name"] != "app" || request["message"] != "Which?" || !cmp.Equal(any(schema), request["requested_schema"]) {
				t.Errorf("request %v", request)
			}
			answer := h.wait("the answer", func(l object) bool {
				return dig(l, "request", "message", "id") == 41.0 && dig(l, "request", "message", "method") == nil
			})
			result, _ := dig(answer, "request", "message", "result").(object)
			if content, _ := result["content"].(object); len(content) == 0 {
				delete(result, "content")
			}
			if diff := cmp.Diff(tt.want, result); diff != "" || dig(answer, "request", "server_name") != "app" {
				t.Error(diff)
			}
			id, _ := call["request_id"].(string)
			h.respond(id, object{"mcp_response": object{"jsonrpc": "2.0", "id": dig(call, "request", "message", "id"), "result": texts("done with it")}})
			h.result(1)
			if got := contentText(h.toolResults()[0]); got != "done with it" {
				t.Errorf("the call gave %q", got)
			}
		})
	}
}

// A tool of a hosted server is asked about as any other (spec stream-json 8.4, 7.6,
// 5.1), one that only reads runs, also in mode plan (7.1), where the others are
// refused.
func TestPermissionsOfHostedTools(t *testing.T) {
	t.Parallel()
	reads := aTool("look")
	reads["annotations"] = object{"readOnlyHint": true}
	for mode, want := range map[string][]string{
		"default": {"look a", "asked"},
		"plan":    {"look a", "Permission denied: Plan mode: write operations are not allowed"},
		"dontAsk": {"look a", "denied"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{tools: []object{reads, aTool("echo")}}
			r := newRoom(t).rounds([]use{{"mcp__app__look", object{"text": "a"}}, {"mcp__app__echo", object{"text": "b"}}})
			h := r.start("--permission-mode", mode).with(&answers{mcp: app.answer, permission: func(object) any { return deny("asked") }})
			h.initialize(object{"sdkMcpServers": []string{"app"}})
			result := h.prompt(1)
			for i, b := range h.toolResults() {
				if got := contentText(b); got != want[i] && !(want[i] == "denied" && b["is_error"] == true) {
					t.Errorf("got %q, want %q", got, want[i])
				}
			}
			if diff := cmp.Diff([]string{"mcp__app__echo call_1_1_2"}, denials(result)); diff != "" {
				t.Error(diff)
			}
			if mode != "default" {
				return
			}
			_, request := h.ask("can_use_tool", 1)
			if request["tool_name"] != "mcp__app__echo" || firstRule(suggested(request, "addRules"))["toolName"] != "mcp__app__echo" || dig(request, "mcp_server", "name") != "app" {
				t.Errorf("request %v", request)
			}
		})
	}
}

// Hooks see hosted tools under their full names, and can change what comes of them
// (spec stream-json 6.1, 6.3).
func TestHooksOnHostedTools(t *testing.T) {
	t.Parallel()
	app := &sdkServer{tools: []object{aTool("echo")}}
	r := newRoom(t).rounds([]use{{"mcp__app__echo", object{"text": "a"}}})
	h := r.start().with(&answers{mcp: app.answer, hook: func(_ string, in object) any {
		if in["hook_event_name"] == "PreToolUse" {
			return decides("allow", object{"updatedInput": object{"text": "b"}})
		}
		return object{"hookSpecificOutput": object{"hookEventName": "PostToolUse", "updatedMCPToolOutput": "instead"}}
	}})
	in := hooksOf(object{"matcher": "mcp__app__.*"}, "PreToolUse", "PostToolUse")
	in["sdkMcpServers"] = []string{"app"}
	h.initialize(in)
	h.prompt(1)
	if got := dig(app.called()[0], "params", "arguments", "text"); got != "b" {
		t.Errorf("called with %v", got)
	}
	if got := contentText(h.toolResults()[0]); got != "instead" {
		t.Errorf("result %q", got)
	}
	if len(h.asks("hook_callback")) != 2 || len(h.asks("can_use_tool")) != 0 {
		t.Errorf("hooks %v", h.asks("hook_callback"))
	}
}
