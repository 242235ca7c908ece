package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// serversOf gives mcp_servers of system/init as name to status.
func serversOf(init object) map[any]any {
	servers := map[any]any{}
	list, _ := init["mcp_servers"].([]any)
	for _, v := range list {
		s, _ := v.(object)
		servers[s["name"]] = s["status"]
	}
	return servers
}

// status gives the row of a server in mcp_status.
func (h *host) status(n int, name string) object {
	h.t.Helper()
	list, _ := dig(h.control(fmt.Sprint("status", n), "mcp_status", nil), "response", "mcpServers").([]any)
	for _, v := range list {
		if s, _ := v.(object); s["name"] == name {
			return s
		}
	}
	return nil
}

// marked gives the processes below a room's dcl, by what is in their environment.
func (r *room) marked(except int) (pids []string) {
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range list {
		environ, _ := os.ReadFile(file)
		pid := filepath.Base(filepath.Dir(file))
		if bytes.Contains(environ, []byte(logVariable+"="+r.root+"\x00")) && pid != strconv.Itoa(except) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The tool that --permission-prompt-tool names is asked in place of the host (S010,
// spec stream-json 7.3, 5.1): it gets tool_name, input and tool_use_id, and only a
// plain consent in its text runs the call (case B21, B23).
func TestPermissionPromptTool(t *testing.T) {
	t.Parallel()
	commands := []string{"plain", "changed", "denied", "junk", "shout", "twice", "failed", "remembered", "again"}
	var calls []use
	for _, c := range commands {
		calls = append(calls, bash("touch "+c))
	}
	r := newRoom(t).rounds(calls)
	r.set(logVariable, r.root)
	h := r.start(append(serving(map[string]string{"desk": "good"}), "--permission-prompt-tool", "mcp__desk__approve")...)
	result := h.prompt(1)
	var made []string
	for _, name := range append(commands, "instead") {
		if r.exists(name) {
			made = append(made, name)
		}
	}
	if diff := cmp.Diff([]string{"plain", "remembered", "again", "instead"}, made); diff != "" {
		t.Error(diff)
	}
	var refused []string
	for _, id := range []int{3, 4, 5, 6, 7} {
		refused = append(refused, fmt.Sprintf("Bash call_1_1_%d", id))
	}
	if diff := cmp.Diff(refused, denials(result)); diff != "" || len(h.asks("can_use_tool")) != 0 {
		t.Error(diff)
	}
	texts := map[string]string{}
	for i, b := range h.toolResults() {
		texts[commands[i]] = contentText(b)
	}
	if texts["denied"] != "the tool says no" || !strings.Contains(texts["failed"], "the approver is ill") {
		t.Errorf("results %v", texts)
	}
	questions := strings.Split(strings.TrimSpace(r.read(r.root+"/questions")), "\n")
	if len(questions) != 8 {
		t.Errorf("%d questions: the remembered call was asked about", len(questions))
	}
	want := object{"tool_name": "Bash", "tool_use_id": "call_1_1_1", "input": object{"command": "touch plain"}}
	if diff := cmp.Diff(want, jsonOf(t, questions[0])); diff != "" {
		t.Error(diff)
	}
}

// A prompt tool that there is not refuses, and says so (S010, case B20).
func TestPermissionPromptToolMissing(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made"), bash("echo fine")})
	h := r.start("--permission-prompt-tool", "mcp__nobody__approve")
	result := h.prompt(1)
	results := h.toolResults()
	if r.exists("made") || len(denials(result)) != 1 || !strings.Contains(contentText(results[0]), "mcp__nobody__approve") || contentText(results[1]) != "fine" {
		t.Errorf("results %v", results)
	}
}

// Servers that hang or exit hold nothing up but system/init, and that no longer
// than MCP_TIMEOUT (case B32, spec stream-json 3.2, 4.1): initialize is answered
// first, the good server works, what is wrong with the others is told, and nothing
// of them is left.
func TestServersThatDoNotStart(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{{"mcp__good__echo", object{"text": "hello"}}}).set("MCP_TIMEOUT", "700")
	r.set(logVariable, r.root)
	h := r.start(append(serving(map[string]string{"good": "good", "mute": "mute", "gone": "exit"}), "--allowedTools", "mcp__good")...)
	h.initialize(nil)
	if len(h.of("system/init")) != 0 && len(h.all()) == 1 {
		t.Error("the answer to initialize has waited for the servers")
	}
	if result := h.prompt(1); result["result"] != "done" || contentText(h.toolResults()[0]) != "echo hello" {
		t.Errorf("results %v", h.toolResults())
	}
	servers := serversOf(h.of("system/init")[0])
	if servers["good"] != "connected" || servers["gone"] != "failed" && servers["gone"] != "pending" || servers["mute"] != "failed" && servers["mute"] != "pending" {
		t.Errorf("servers %v", servers)
	}
	n := 0
	eventually(t, "both failures", func() bool {
		n += 2
		return h.status(n, "mute")["status"] == "failed" && h.status(n+1, "gone")["status"] == "failed"
	})
	if text := fmt.Sprint(h.status(n+2, "gone")["error"]); !strings.Contains(text, "no database here") {
		t.Errorf("error %q", text)
	}
	if text, _ := h.status(n+3, "mute")["error"].(string); text == "" {
		t.Error("the mute server has no error")
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "the end of all servers", func() bool { return len(r.marked(0)) == 0 })
}

// The first model request has the tools of a slow server, whose list comes in
// pages, and the end of input does not cut its start short (case B33).
func TestSlowServer(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{{"mcp__late__echo", object{"text": "hello"}}})
	h := r.start(append(serving(map[string]string{"late": "slow"}), "--allowedTools", "mcp__late")...)
	h.user("go")
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	init := h.of("system/init")[0]
	tools, _ := init["tools"].([]any)
	if serversOf(init)["late"] != "connected" || !slices.Contains(tools, any("mcp__late__echo")) || !slices.Contains(tools, any("mcp__late__ask")) {
		t.Errorf("init %v", init)
	}
	if results := h.toolResults(); len(results) != 1 || contentText(results[0]) != "echo hello" {
		t.Errorf("results %v", results)
	}
}

// Tools that a server adds later go through the same filter as those before (cases
// B33, B24 e).
func TestLateTools(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(encode(object{"rules": append(append(
		steps(object{"turn": 1}, []use{{"mcp__late__grow", object{"text": "more"}}, {"mcp__late__grow", object{"text": "hidden"}}}),
		steps(object{"turn": 2}, []use{{"mcp__late__more", object{}}, {"mcp__late__hidden", object{}}})...), object{"reply": "done"})}))
	h := r.start(append(serving(map[string]string{"late": "good"}), "--allowedTools", "mcp__late", "--disallowedTools", "mcp__late__hidden")...)
	h.prompt(1)
	n := 0
	eventually(t, "both tools", func() bool {
		n++
		tools := encode(h.status(n, "late")["tools"])
		return strings.Contains(tools, `"more"`) && strings.Contains(tools, `"hidden"`)
	})
	h.prompt(2)
	results := h.toolResults()
	if len(results) != 4 || contentText(results[2]) != "grown" || !strings.Contains(contentText(results[3]), "No such tool available") {
		t.Errorf("results %v", results)
	}
}

// A server that dies during a call ends that call with an error that says the
// outcome is unknown; the call is not repeated, and the next turn is served by a new
// process (case B37).
func TestServerDiesDuringACall(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(encode(object{"rules": append(append(
		steps(object{"turn": 1}, []use{{"mcp__bank__transfer", object{}}}),
		steps(object{"turn": 2}, []use{{"mcp__bank__echo", object{"text": "again"}}})...), object{"reply": "done"})}))
	r.set(logVariable, r.root)
	h := r.start(append(serving(map[string]string{"bank": "good"}), "--allowedTools", "mcp__bank")...)
	if result := h.prompt(1); result["result"] != "done" {
		t.Errorf("result %v", result)
	}
	b := h.toolResults()[0]
	if text := contentText(b); b["is_error"] != true || !strings.Contains(text, "is not known") {
		t.Errorf("result %v", b)
	}
	if got := r.read(r.root + "/ledger"); got != "paid\n" {
		t.Errorf("ledger %q", got)
	}
	n := 0
	eventually(t, "the server's return", func() bool { n++; return h.status(n, "bank")["status"] == "connected" })
	h.prompt(2)
	if b := h.toolResults()[1]; contentText(b) != "echo again" {
		t.Errorf("result %v", b)
	}
}

// What an MCP server asks the user reaches the host, and its answer the server
// (checklist 75, S069; column elicitation of spec stream-json 5.6; 5.4).
func TestElicitationOfAProcess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer any
		want   string
	}{
		{"accept", object{"action": "accept", "content": object{"pick": "blue"}}, "accept blue"},
		{"decline", object{"action": "decline"}, "decline <nil>"},
		{"cancel", object{"action": "cancel"}, "cancel <nil>"},
		{"error", failure("Unsupported control request subtype: elicitation"), "cancel <nil>"},
		{"no such action", object{"action": "maybe"}, "cancel <nil>"},
		{"no action", object{}, "cancel <nil>"},
		{"null", nullAnswer, "cancel <nil>"},
		{"content that is none", object{"action": "accept", "content": 5}, "cancel <nil>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{{"mcp__desk__ask", object{}}})
			h := r.start(append(serving(map[string]string{"desk": "good"}), "--allowedTools", "mcp__desk")...).with(&answers{elicit: func(object) any { return tt.answer }})
			h.prompt(1)
			if got := contentText(h.toolResults()[0]); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			_, request := h.ask("elicitation", 1)
			want := object{"mcp_server_name": "desk", "message": "Which one?"}
			for key, value := range want {
				if request[key] != value {
					t.Errorf("%s is %v", key, request[key])
				}
			}
			if dig(request, "requested_schema", "properties", "pick", "type") != "string" {
				t.Errorf("request %v", request)
			}
		})
	}
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{{"mcp__desk__ask", object{}}})
		h := r.start(append(serving(map[string]string{"desk": "good"}), "--allowedTools", "mcp__desk")...)
		h.user("go")
		id, _ := h.ask("elicitation", 1)
		h.control("stop", "interrupt", nil)
		if result := h.result(1); h.cancels(id) != 1 || h.at(isType("control_cancel_request")) > h.at(isType("result")) || result["terminal_reason"] != "aborted_tools" {
			t.Errorf("%d withdrawals, result %v", h.cancels(id), result)
		}
	})
	t.Run("end of input", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{{"mcp__desk__ask", object{}}}, []use{{"mcp__desk__ask", object{}}})
		h := r.start(append(serving(map[string]string{"desk": "good"}), "--allowedTools", "mcp__desk")...)
		h.user("go")
		h.ask("elicitation", 1)
		h.end()
		for _, b := range h.toolResults() {
			if contentText(b) != "cancel <nil>" {
				t.Errorf("result %v", b)
			}
		}
		if len(h.toolResults()) != 2 || len(h.asks("elicitation")) != 1 {
			t.Errorf("asked %v", h.asks("elicitation"))
		}
	})
}
