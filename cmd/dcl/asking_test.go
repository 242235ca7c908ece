package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh/sdkproto/wirejson"
)

// use is one call of a scripted model. args is an object, or a text that is sent
// as it stands. The first call of the first request of a turn has the id
// call_TURN_1_1.
type use struct {
	tool string
	args any
}

func bash(command string) use { return use{"Bash", object{"command": command}} }

func writes(name string) use {
	return use{"Write", object{"file_path": name, "content": "x\n"}}
}

// rounds has the model make these calls in each turn, one list for each request,
// and then say done. A call that is made gets its text back as its result.
func (r *room) rounds(rounds ...[]use) *room {
	r.t.Helper()
	return r.script(encode(object{"rules": append(steps(object{}, rounds...), object{"reply": "done"})}))
}

// steps are rules that make calls, one for each request of a turn.
func steps(when object, rounds ...[]use) (rules []any) {
	for i, round := range rounds {
		if len(round) == 0 {
			continue
		}
		var reply []any
		for _, u := range round {
			call := object{"tool": u.tool, "args": u.args}
			if raw, isText := u.args.(string); isText {
				call = object{"tool": u.tool, "arguments": raw}
			}
			reply = append(reply, object{"call": call})
		}
		w := object{"step": i + 1}
		for k, v := range when {
			w[k] = v
		}
		rules = append(rules, object{"when": w, "reply": reply})
	}
	return rules
}

// encode gives the JSON text of a value, which is YAML, too.
func encode(v any) string {
	text, err := wirejson.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// toolResults gives the tool_result blocks of the main thread, in order.
func (h *host) toolResults() (list []object) {
	for _, l := range h.of("user") {
		if b := block(l); b["type"] == "tool_result" && l["parent_tool_use_id"] == nil {
			list = append(list, b)
		}
	}
	return list
}

// contentText is the text of a tool_result: a string, or text blocks.
func contentText(b object) string {
	if s, ok := b["content"].(string); ok {
		return s
	}
	var texts []string
	list, _ := b["content"].([]any)
	for _, v := range list {
		part, _ := v.(object)
		text, _ := part["text"].(string)
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// asks gives the program's control requests of a subtype so far, in order.
func (h *host) asks(subtype string) (list []object) {
	for _, l := range h.of("control_request") {
		if dig(l, "request", "subtype") == subtype {
			list = append(list, l)
		}
	}
	return list
}

// ask waits for the n-th control request of a subtype, from 1, and gives its id and
// the request.
func (h *host) ask(subtype string, n int) (id string, request object) {
	h.t.Helper()
	count := 0
	line := h.wait(fmt.Sprintf("%s number %d", subtype, n), func(l object) bool {
		if l["type"] == "control_request" && dig(l, "request", "subtype") == subtype {
			count++
			return count == n
		}
		return false
	})
	id, _ = line["request_id"].(string)
	request, _ = line["request"].(object)
	return id, request
}

// cancels counts the withdrawals of a request.
func (h *host) cancels(id string) (n int) {
	for _, l := range h.of("control_cancel_request") {
		if l["request_id"] == id {
			n++
		}
	}
	return n
}

// at gives the place of the first line that is wanted, -1 for none.
func (h *host) at(wanted func(object) bool) int { return slices.IndexFunc(h.all(), wanted) }

func isType(kind string) func(object) bool {
	typ, subtype, _ := strings.Cut(kind, "/")
	return func(l object) bool { return l["type"] == typ && (subtype == "" || l["subtype"] == subtype) }
}

// denials gives permission_denials of a result as "tool id".
func denials(result object) (list []string) {
	entries, _ := result["permission_denials"].([]any)
	for _, v := range entries {
		d, _ := v.(object)
		list = append(list, fmt.Sprint(d["tool_name"], " ", d["tool_use_id"]))
	}
	return list
}

// allow and deny are answers to can_use_tool.
func allow(more ...object) object { return answerOf("allow", more) }
func deny(message string, more ...object) object {
	return answerOf("deny", append([]object{{"message": message}}, more...))
}

func answerOf(behavior string, more []object) object {
	o := object{"behavior": behavior}
	for _, m := range more {
		for k, v := range m {
			o[k] = v
		}
	}
	return o
}

// approving answers every can_use_tool with the same.
func (h *host) approving(reply any) *host {
	return h.answering(map[string]func(object) any{"can_use_tool": func(object) any { return reply }})
}

// initialize sends the handshake and fails the test when it fails.
func (h *host) initialize(more object) object {
	h.t.Helper()
	got := h.control("init", "initialize", more)
	if got["subtype"] != "success" {
		h.t.Fatalf("initialize: %v", got)
	}
	answer, _ := got["response"].(object)
	return answer
}

// prompt runs one turn more and gives its result; n is its number, from 1.
func (h *host) prompt(n int) object {
	h.t.Helper()
	h.user(fmt.Sprintf("go %d", n))
	return h.result(n)
}

// hooksOf registers one callback for each event, named as the event is.
func hooksOf(more object, events ...string) object {
	hooks := object{}
	for _, e := range events {
		m := object{"hookCallbackIds": []string{e}}
		for k, v := range more {
			m[k] = v
		}
		hooks[e] = []object{m}
	}
	return object{"hooks": hooks}
}

// answers is a host that answers by subtype; for what is missing it allows, has no
// opinion, and hosts no server. What it was asked is kept.
type answers struct {
	permission func(request object) any
	hook       func(id string, input object) any
	mcp        func(server string, message object) any
	elicit     func(request object) any

	mu    sync.Mutex
	heard []string // events of hooks
	input []object
}

func (a *answers) events() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.heard)
}

// inputs gives what hooks of an event were told.
func (a *answers) inputs(event string) (list []object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, in := range a.input {
		if in["hook_event_name"] == event {
			list = append(list, in)
		}
	}
	return list
}

func (h *host) with(a *answers) *host {
	return h.answering(map[string]func(object) any{
		"can_use_tool": func(request object) any {
			if a.permission == nil {
				return allow()
			}
			return a.permission(request)
		},
		"hook_callback": func(request object) any {
			id, _ := request["callback_id"].(string)
			input, _ := request["input"].(object)
			event, _ := input["hook_event_name"].(string)
			a.mu.Lock()
			a.heard, a.input = append(a.heard, event), append(a.input, input)
			a.mu.Unlock()
			if a.hook == nil {
				return object{}
			}
			return a.hook(id, input)
		},
		"mcp_message": func(request object) any {
			server, _ := request["server_name"].(string)
			message, _ := request["message"].(object)
			if a.mcp == nil {
				return failure("SDK MCP server not found: " + server)
			}
			return a.mcp(server, message)
		},
		"elicitation": func(request object) any {
			if a.elicit == nil {
				return failure("Unsupported control request subtype: elicitation")
			}
			return a.elicit(request)
		},
	})
}

// read gives a file of the workspace, "" when it is not there.
func (r *room) read(name string) string {
	r.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.work, name)
	}
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(text)
}

// awaitFile waits until a file has been written.
func (r *room) awaitFile(name string) string {
	r.t.Helper()
	var text string
	eventually(r.t, "the file "+name, func() bool { text = r.read(name); return text != "" })
	return text
}

// eventually waits for what comes about outside of the program's output.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// says waits until standard error, which is a pipe of its own, holds a text.
func (h *host) says(text string) {
	h.t.Helper()
	eventually(h.t, "standard error to name "+text, func() bool { return strings.Contains(h.errorOutput(), text) })
}
