package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/kernel/mcp"
	"dsh/plugins/streamjson/host"
)

// kinds are the four requests of spec stream-json 5, each with what comes of it in
// words.
var kinds = []struct {
	subtype string
	run     func(ctx context.Context, h *host.Host) string
}{
	{"can_use_tool", func(ctx context.Context, h *host.Host) string {
		a, err := host.Approver(h, host.Asking{}).Approve(ctx, approval.Request{SessionID: "s", ToolName: "Bash", CallID: "c"})
		return said(fmt.Sprintf("%s %q", a.Outcome, a.Message), err)
	}},
	{"hook_callback", func(ctx context.Context, h *host.Host) string {
		out, err := host.Callback(h, "hook_0")(ctx, hook.Call{Input: json.RawMessage(`{"a":1}`), ToolUseID: "c"})
		return said(string(out), err)
	}},
	{"mcp_message", func(ctx context.Context, h *host.Host) string {
		reply, err := host.Server(h, "app").Call(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`))
		if errors.Is(err, mcp.ErrHostClosed) {
			return "closed: " + err.Error()
		}
		return said(string(reply), err)
	}},
	{"elicitation", func(ctx context.Context, h *host.Host) string {
		a, err := host.Approver(h, host.Asking{}).Elicit(ctx, approval.Elicitation{Server: "app", Message: "?"})
		return said(a.Action, err)
	}},
}

var errStopped = errors.New("interrupted")

func said(what string, err error) string {
	switch {
	case errors.Is(err, errStopped):
		return "stopped"
	case err != nil:
		return "error: " + err.Error()
	}
	return what
}

// TestFailureMatrix is spec stream-json 5.6, cell by cell (S067, S068, S069, S070,
// B09, B20, F14, checklist 59, 60).
func TestFailureMatrix(t *testing.T) {
	invalid := `The client's answer to the permission request for Bash is invalid, so the call was not made: `
	for name, tc := range map[string]struct {
		// before happens before the request; then is what the client does with it, and
		// nil when it is not to be sent.
		before func(*client)
		then   func(c *client, id string, stop context.CancelCauseFunc)
		// withdrawn: a line takes the request back.
		withdrawn bool
		want      map[string]string
	}{
		"error answer": {
			then: func(c *client, id string, _ context.CancelCauseFunc) {
				c.refuse(id, "canUseTool callback is not provided")
			},
			want: map[string]string{
				"can_use_tool":  `rejected "Tool permission request failed: canUseTool callback is not provided"`,
				"hook_callback": "error: canUseTool callback is not provided",
				"mcp_message":   "error: canUseTool callback is not provided",
				"elicitation":   "cancel",
			},
		},
		"malformed success": {
			then: func(c *client, id string, _ context.CancelCauseFunc) { c.answer(id, `["odd"]`) },
			want: map[string]string{
				"can_use_tool":  fmt.Sprintf("rejected %q", invalid+"the answer should be an object."),
				"hook_callback": "error: the client's answer to a hook is no object",
				"mcp_message":   "error: the client's answer has no mcp_response",
				"elicitation":   "cancel",
			},
		},
		"success without response": {
			then: func(c *client, id string, _ context.CancelCauseFunc) {
				c.write(`{"type":"control_response","response":{"subtype":"success","request_id":"` + id + `"}}`)
			},
			want: map[string]string{
				"can_use_tool":  fmt.Sprintf("rejected %q", invalid+"the answer should be an object."),
				"hook_callback": "error: the client's answer to a hook is no object",
				"mcp_message":   "error: the client's answer has no mcp_response",
				"elicitation":   "cancel",
			},
		},
		"an object of another kind": {
			then: func(c *client, id string, _ context.CancelCauseFunc) {
				c.answer(id, `{"mcp_response":"text","other":1}`)
			},
			want: map[string]string{
				"can_use_tool":  fmt.Sprintf("rejected %q", invalid+`behavior should be "allow" or "deny".`),
				"hook_callback": `{"mcp_response":"text","other":1}`, // the hook engine judges it
				"mcp_message":   "error: the client's answer has no mcp_response",
				"elicitation":   "cancel",
			},
		},
		"turn interrupted": {
			then:      func(_ *client, _ string, stop context.CancelCauseFunc) { stop(errStopped) },
			withdrawn: true,
			want:      map[string]string{"can_use_tool": "stopped", "hook_callback": "stopped", "mcp_message": "stopped", "elicitation": "cancel"},
		},
		"end of input, pending": {
			then: func(c *client, _ string, _ context.CancelCauseFunc) { c.hangUp() },
			want: map[string]string{
				"can_use_tool":  `unavailable "Tool permission request failed: Stream closed"`,
				"hook_callback": "error: Stream closed",
				"mcp_message":   "closed: Stream closed",
				"elicitation":   "cancel",
			},
		},
		"already at the end of input": {
			before: (*client).hangUp,
			want: map[string]string{
				"can_use_tool":  `unavailable "Tool permission request failed: Stream closed"`,
				"hook_callback": "error: Stream closed",
				"mcp_message":   "closed: Stream closed",
				"elicitation":   "cancel",
			},
		},
	} {
		for _, kind := range kinds {
			t.Run(name+"/"+kind.subtype, func(t *testing.T) {
				c := connect(t)
				if tc.before != nil {
					tc.before(c)
				}
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				outcome := make(chan string, 1)
				go func() { outcome <- kind.run(ctx, c.Host) }()
				id := ""
				if tc.then != nil {
					r := c.next()
					if id = r.ID; r.subtype() != kind.subtype {
						t.Fatalf("unexpected line %s", r.line)
					}
					tc.then(c, id, stop)
				}
				if diff := cmp.Diff(tc.want[kind.subtype], wait(t, outcome)); diff != "" {
					t.Error(diff)
				}
				if tc.withdrawn {
					if r := c.next(); r.Type != "control_cancel_request" || r.ID != id {
						t.Errorf("unexpected line %s", r.line)
					}
					c.answer(id, `{"behavior":"allow"}`) // too late
				}
				c.quiet()
			})
		}
	}
}

// TestServes: the client is asked about every session as long as it can answer
// (decision D8 of the wire).
func TestServes(t *testing.T) {
	c := connect(t)
	a := host.Approver(c.Host, host.Asking{})
	if !a.Serves("s") || !a.Serves("") {
		t.Error("an open client is not asked")
	}
	c.hangUp()
	if a.Serves("s") {
		t.Error("a closed client is asked")
	}
}

// TestSideBySide: calls of one round ask at the same time, and each gets its own
// answer; one that is withdrawn leaves the others (B22, spec stream-json 5.1).
func TestSideBySide(t *testing.T) {
	c := connect(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var outcomes []<-chan approved
	ids := map[string]string{}
	for _, call := range []string{"a", "b", "c", "d"} {
		of := t.Context()
		if call == "d" {
			of = ctx
		}
		outcomes = append(outcomes, c.approve(of, host.Asking{}, approval.Request{SessionID: "s", ToolName: "Bash", CallID: call, Arguments: json.RawMessage(`{"command":"same"}`)}))
		r := c.next()
		if !strings.Contains(r.line, `"tool_use_id":"`+call+`"`) {
			t.Fatalf("unexpected line %s", r.line)
		}
		ids[call] = r.ID
	}
	stop()
	if r := c.next(); r.ID != ids["d"] || r.Type != "control_cancel_request" {
		t.Errorf("unexpected line %s", r.line)
	}
	c.answer(ids["c"], `{"behavior":"allow"}`)
	c.answer(ids["b"], `{"behavior":"deny","message":"not b"}`)
	c.answer(ids["a"], `{"behavior":"allow","updatedInput":{"command":"a"}}`)
	want := []approval.Answer{
		{Outcome: approval.AllowedOnce, Arguments: json.RawMessage(`{"command":"a"}`)}, {Outcome: approval.Rejected, Message: "not b"},
		{Outcome: approval.AllowedOnce}, {Outcome: approval.Cancelled},
	}
	for i, outcome := range outcomes {
		if diff := cmp.Diff(want[i], wait(t, outcome).answer); diff != "" {
			t.Errorf("call %d: %s", i, diff)
		}
	}
	c.quiet()
}

// TestCallback has the shape of spec stream-json 5.2 and gives the output as it
// came (S067).
func TestCallback(t *testing.T) {
	for name, tc := range map[string]struct {
		in   hook.Call
		want string
	}{
		"of a call": {hook.Call{Input: json.RawMessage(`{"hook_event_name":"PreToolUse"}`), ToolUseID: "toolu_01"}, `{"subtype":"hook_callback","callback_id":"hook_0","input":{"hook_event_name":"PreToolUse"},"tool_use_id":"toolu_01"}`},
		"of a turn": {hook.Call{Input: json.RawMessage(`{"hook_event_name":"Stop"}`)}, `{"subtype":"hook_callback","callback_id":"hook_0","input":{"hook_event_name":"Stop"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			outcome := make(chan string, 1)
			go func() {
				out, err := host.Callback(c.Host, "hook_0")(t.Context(), tc.in)
				outcome <- said(string(out), err)
			}()
			r := c.next()
			if diff := cmp.Diff(tc.want, string(r.Request)); diff != "" {
				t.Error(diff)
			}
			c.answer(r.ID, `{"continue":true,"odd":[1]}`)
			if got := wait(t, outcome); got != `{"continue":true,"odd":[1]}` {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestMessages: a request's answer is the server's; what wants no answer gets a
// dummy that means nothing (S068, B39, spec stream-json 5.3).
func TestMessages(t *testing.T) {
	for name, tc := range map[string]struct{ message, answer, want string }{
		"request":                  {`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, `{"mcp_response":{"jsonrpc":"2.0","id":3,"result":{}}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`},
		"error of the server":      {`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, `{"mcp_response":{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"m"}}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"m"}}`},
		"request without response": {`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, `{}`, "error: the client's answer has no mcp_response"},
		"notification, python":     {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"mcp_response":{"jsonrpc":"2.0","result":{}}}`, ""},
		"notification, typescript": {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"mcp_response":{"jsonrpc":"2.0","result":{},"id":0}}`, ""},
		"notification, bare":       {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{}`, ""},
		"our answer":               {`{"jsonrpc":"2.0","id":3,"result":{"action":"cancel"}}`, `{"mcp_response":{"jsonrpc":"2.0","result":{}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			outcome := make(chan string, 1)
			go func() {
				out, err := host.Server(c.Host, "my app").Call(t.Context(), json.RawMessage(tc.message))
				outcome <- said(string(out), err)
			}()
			r := c.next()
			if diff := cmp.Diff(`{"subtype":"mcp_message","server_name":"my app","message":`+tc.message+`}`, string(r.Request)); diff != "" {
				t.Error(diff)
			}
			c.answer(r.ID, tc.answer)
			if got := wait(t, outcome); got != tc.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
