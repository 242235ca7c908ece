package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/sdkproto"
)

// TestPrompt: hooks on a prompt add to it or keep it from the model (spec
// stream-json 6.5 rule 6; checklist 67).
func TestPrompt(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		name, output, command string
		limit                 any
		blocked               string
		context               string
	}{
		{name: "no opinion", output: `{}`},
		{name: "context", output: `{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"it is Monday"}}`, context: "it is Monday"},
		{name: "plain text", command: "echo it is Monday", context: "it is Monday"},
		{name: "block", output: `{"decision":"block","reason":"not today"}`, blocked: "not today"},
		{name: "exit 2", command: "echo not today >&2; exit 2", blocked: "not today"},
		{name: "the end", output: `{"continue":false,"stopReason":"not today"}`, blocked: "not today"},
		{name: "out of time", command: "sleep 100", limit: 0.2, blocked: "has not returned within 200ms"},
		{name: "failure", command: "echo broken; exit 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			var settings any
			if tc.command != "" {
				group := one("never looked at", tc.command)
				if tc.limit != nil {
					group = one("", tc.command, "timeout", tc.limit)
				}
				settings = on(hook.UserPromptSubmit, group)
			} else {
				defer w.callback(hook.Hook{Event: hook.UserPromptSubmit, Matcher: "x", Call: says(tc.output)})()
			}
			got := w.ask(w.open(w.folder(settings)), "hello")
			if tc.blocked == "" {
				if got.end.Kind != sdkproto.EndCompleted || got.answer != "said" {
					t.Errorf("ended %+v with %q", got.end, got.answer)
				}
				if all := strings.Join(got.users, "\n"); tc.context != "" && !strings.Contains(all, "<system-reminder>\nUserPromptSubmit hook additional context: "+tc.context) || tc.context == "" && len(got.users) != 1 {
					t.Errorf("the model got %q", all)
				}
				return
			}
			if got.end.Kind != sdkproto.EndBlocked || got.answer != "" || len(got.users) != 0 {
				t.Errorf("ended %+v with %q after %q", got.end, got.answer, got.users)
			}
			wants(t, "the notices", w.texts(), tc.blocked)
		})
	}
}

// TestPromptInput: a hook on a prompt hears its text; the prompt of a subagent is
// none.
func TestPromptInput(t *testing.T) {
	w := newWorld(t)
	r := &recorder{}
	w.callback(hook.Hook{Event: hook.UserPromptSubmit, Call: r.call})
	w.ask(w.open(w.folder(nil)), `call subagent {"description":"work","prompt":"hello","run_in_background":false}`)
	if in := r.all(); len(in) != 1 || !strings.HasPrefix(fmt.Sprint(in[0]["prompt"]), "call subagent") || in[0]["tool_use_id"] != nil {
		t.Errorf("heard %v", in)
	}
}

// TestStop: a hook makes the turn go on, at most eight times, or ends it (spec
// stream-json 6.5 rule 5; checklist 67).
func TestStop(t *testing.T) {
	for _, tc := range []struct {
		name    string
		output  func(n int) string
		answers int
		kind    string
		told    string
	}{
		{"no opinion", func(int) string { return `{}` }, 1, sdkproto.EndCompleted, ""},
		{"once", func(n int) string {
			if n == 0 {
				return `{"decision":"block","reason":"one more thing"}`
			}
			return `{}`
		}, 2, sdkproto.EndCompleted, "one more thing"},
		{"context", func(n int) string {
			if n == 0 {
				return `{"hookSpecificOutput":{"hookEventName":"Stop","additionalContext":"one more thing"}}`
			}
			return `{}`
		}, 2, sdkproto.EndCompleted, "one more thing"},
		{"for ever", func(int) string { return `{"decision":"block","reason":"one more thing"}` }, 9, sdkproto.EndCompleted, "one more thing"},
		{"the end", func(int) string { return `{"continue":false,"stopReason":"enough"}` }, 1, sdkproto.EndBlocked, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			var asked atomic.Int64
			r := &recorder{}
			w.callback(hook.Hook{Event: hook.Stop, Call: func(ctx context.Context, in hook.Call) (json.RawMessage, error) {
				_, err := r.call(ctx, in)
				return json.RawMessage(tc.output(int(asked.Add(1)) - 1)), err
			}})
			got := w.ask(w.open(w.folder(nil)), "hello")
			if n := got.count(sdkproto.TypeAssistantMessage); n != tc.answers || got.end.Kind != tc.kind || int(asked.Load()) != tc.answers {
				t.Errorf("%d answers, asked %d times, ended %+v", n, asked.Load(), got.end)
			}
			if tc.told != "" {
				wants(t, "what the model got", strings.Join(got.users, "\n"), tc.told)
			}
			for i, in := range r.all() {
				if in["stop_hook_active"] != (i > 0) || in["last_assistant_message"] != "said" {
					t.Errorf("heard %v", in)
				}
			}
			if tc.answers == 9 {
				wants(t, "the notices", w.texts(), "8 times in a row")
			}
			if tc.kind == sdkproto.EndBlocked {
				want := sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: "enough"}}
				if diff := cmp.Diff(want, got.end); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestBatch: hooks hear once of all calls of an answer, with what the model gets of
// them; they add to it or end the turn (spec stream-json 6.2, 6.3).
func TestBatch(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		name, output, command string
		told, ended           string
	}{
		{name: "no opinion", output: `{}`},
		{name: "context", output: `{"hookSpecificOutput":{"hookEventName":"PostToolBatch","additionalContext":"look around"}}`, told: "look around"},
		{name: "the end", output: `{"continue":false,"stopReason":"enough"}`, ended: "enough"},
		{name: "block", output: `{"decision":"block","reason":"not so"}`, ended: "not so"},
		{name: "exit 2", command: "echo not so >&2; exit 2", ended: "not so"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			r := &recorder{output: tc.output}
			defer w.callback(hook.Hook{Event: hook.PostToolBatch, Matcher: "never looked at", Call: r.call})()
			var settings any
			if tc.command != "" {
				settings = on(hook.PostToolBatch, one("", tc.command))
			}
			got := w.ask(w.open(w.folder(settings)), `call bash {"command":"echo made"}`)
			want := []any{map[string]any{
				"tool_name": "bash", "tool_use_id": "call_1_1_1", "tool_input": map[string]any{"command": "echo made"}, "tool_response": "made\n",
			}}
			if in := r.all(); len(in) != 1 || !cmp.Equal(want, in[0]["tool_calls"]) {
				t.Errorf("heard %v", in)
			}
			if tc.ended != "" {
				end := sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: tc.ended}}
				if diff := cmp.Diff(end, got.end); diff != "" || got.count(sdkproto.TypeAssistantMessage) != 1 {
					t.Errorf("%d answers: %s", got.count(sdkproto.TypeAssistantMessage), diff)
				}
				return
			}
			if got.end.Kind != sdkproto.EndCompleted || got.count(sdkproto.TypeAssistantMessage) != 2 {
				t.Errorf("ended %+v after %d answers", got.end, got.count(sdkproto.TypeAssistantMessage))
			}
			if all := strings.Join(got.users, "\n"); tc.told != "" && !strings.Contains(all, "<system-reminder>\nPostToolBatch hook additional context: "+tc.told) || tc.told == "" && len(got.users) != 1 {
				t.Errorf("the model got %q", all)
			}
		})
	}
	w.t = t
	r := &recorder{}
	defer w.callback(hook.Hook{Event: hook.PostToolBatch, Call: r.call})()
	w.ask(w.open(w.folder(nil)), "hello")
	if in := r.all(); len(in) != 0 {
		t.Errorf("heard of an answer without calls: %v", in)
	}
}

// TestSessionStart: what hooks say at the start is given to the model once, with
// the first prompt.
func TestSessionStart(t *testing.T) {
	w := newWorld(t)
	dir := w.folder(on(hook.SessionStart, one("startup", "echo the house is green"), one("resume", "echo never")))
	a := w.open(dir)
	w.engine.Run(t.Context(), hook.Input{Event: hook.SessionStart, SessionID: a.ID(), CWD: dir, Match: "startup", Members: map[string]any{"source": "startup"}})
	first, second := w.ask(a, "hello"), w.ask(a, "hello again")
	if all := strings.Join(first.users, "|"); !strings.Contains(all, "the house is green") || strings.Contains(all, "never") || len(first.users) != 2 {
		t.Errorf("the model got %q", all)
	}
	if len(second.users) != 1 {
		t.Errorf("the model got %q", second.users)
	}
}

// TestStopFailure: hooks hear of a turn that failed, and its end does not wait.
func TestStopFailure(t *testing.T) {
	w := newWorld(t)
	r := &recorder{}
	w.callback(hook.Hook{Event: hook.StopFailure, Call: r.call})
	w.ask(w.open(w.folder(nil)), "broken")
	await(t, "the hook", func() bool { return len(r.all()) == 1 })
	if in := r.all()[0]; in["error"] != "authentication_failed" || !strings.Contains(fmt.Sprint(in["error_details"]), "not valid") {
		t.Errorf("heard %v", in)
	}
}

// client answers questions when it is let.
type client struct {
	asked   chan approval.Request
	answer  chan approval.Answer
	elicits chan approval.Elicitation
}

func (c *client) Serves(string) bool { return true }

func (c *client) Approve(ctx context.Context, r approval.Request) (approval.Answer, error) {
	c.asked <- r
	select {
	case a := <-c.answer:
		return a, nil
	case <-ctx.Done():
		return approval.Answer{}, context.Cause(ctx)
	}
}

func (c *client) Elicit(_ context.Context, e approval.Elicitation) (approval.ElicitationAnswer, error) {
	c.elicits <- e
	return approval.ElicitationAnswer{Action: approval.ActionDecline}, nil
}

func newClient() *client {
	return &client{make(chan approval.Request, 8), make(chan approval.Answer, 8), make(chan approval.Elicitation, 8)}
}

// TestPermissionRequest: a hook settles a question beside the client (spec
// stream-json 6.5 rule 3).
func TestPermissionRequest(t *testing.T) {
	for _, tc := range []struct {
		name, output string
		answer       *approval.Answer
		there        string
		says         string
	}{
		{"allows", `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}`, nil, "marker", ""},
		{"allows something else", `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedInput":{"command":"touch other"}}}}`, nil, "other", ""},
		{"denies", `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"no way"}}}`, nil, "", "no way"},
		{"an unknown behavior", `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"maybe"}}}`, &approval.Answer{Outcome: approval.AllowedOnce}, "marker", ""},
		{"no opinion", `{}`, &approval.Answer{Outcome: approval.Rejected, Message: "the client says no"}, "", "the client says no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, "permissions.mode=default", "permissions.rules={\"ask\":[\"Bash(touch:*)\"]}")
			c := newClient()
			if err := seam[*approval.Desk](w).Register(w.owner, "client", c); err != nil {
				t.Fatal(err)
			}
			if tc.answer != nil {
				c.answer <- *tc.answer
			}
			r, note := &recorder{output: tc.output}, &recorder{}
			w.callback(hook.Hook{Event: hook.PermissionRequest, Matcher: "bash", Call: r.call})
			w.callback(hook.Hook{Event: hook.Notification, Matcher: "permission_prompt", Call: note.call})
			dir := w.folder(nil)
			got := w.ask(w.open(dir), `call bash {"command":"touch marker"}`)
			for _, name := range []string{"marker", "other"} {
				if exists(dir+"/"+name) != (name == tc.there) {
					t.Errorf("%s is there: %v; %s", name, name != tc.there, got.answer)
				}
			}
			wants(t, "the answer", got.answer, tc.says)
			in := r.all()
			if len(in) != 1 || in[0]["tool_name"] != "bash" || in[0]["tool_use_id"] != nil {
				t.Errorf("heard %v", in)
			}
			await(t, "the notification", func() bool { return len(note.all()) == 1 })
			if in := note.all()[0]; in["notification_type"] != "permission_prompt" || in["message"] == "" {
				t.Errorf("heard %v", in)
			}
		})
	}
}

// TestElicitation: a hook answers for the user, or has the last word (spec
// stream-json 5.4, 6.2).
func TestElicitation(t *testing.T) {
	w := newWorld(t)
	desk, c := seam[*approval.Desk](w), newClient()
	if err := desk.Register(w.owner, "client", c); err != nil {
		t.Fatal(err)
	}
	a := w.open(w.folder(nil))
	ask := func() approval.ElicitationAnswer {
		return desk.Elicit(t.Context(), approval.Elicitation{SessionID: a.ID(), Server: "srv", Message: "your name?", Schema: json.RawMessage(`{"type":"object"}`)})
	}
	if got := ask(); got.Action != approval.ActionDecline || len(c.elicits) != 1 {
		t.Errorf("without hooks: %v", got)
	}
	r := &recorder{output: `{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"name":"x"}}}`}
	closed := w.callback(hook.Hook{Event: hook.Elicitation, Matcher: "srv", Call: r.call})
	if got := ask(); got.Action != approval.ActionAccept || string(got.Content) != `{"name":"x"}` || len(c.elicits) != 1 {
		t.Errorf("with a hook: %v, the client was asked %d times", got, len(c.elicits))
	}
	if in := r.all(); len(in) != 1 || in[0]["mcp_server_name"] != "srv" || in[0]["message"] != "your name?" || in[0]["mode"] != "form" {
		t.Errorf("heard %v", in)
	}
	closed()
	r = &recorder{output: `{"hookSpecificOutput":{"hookEventName":"ElicitationResult","action":"cancel"}}`}
	w.callback(hook.Hook{Event: hook.ElicitationResult, Call: r.call})
	if got := ask(); got.Action != approval.ActionCancel || r.all()[0]["action"] != "decline" {
		t.Errorf("with a hook on the result: %v, heard %v", got, r.all())
	}
}

// TestFailures: what fails is told of and says nothing, unless it blocks on
// failure (spec stream-json 5.2, 6.5 rule 7; checklist 68).
func TestFailures(t *testing.T) {
	w := newWorld(t)
	fails := map[string]func(context.Context, hook.Call) (json.RawMessage, error){
		"an error": func(context.Context, hook.Call) (json.RawMessage, error) {
			return nil, errors.New("the client said: no such callback")
		},
		"a panic":    func(context.Context, hook.Call) (json.RawMessage, error) { panic("no such callback") },
		"no JSON":    says(`no such callback`),
		"wrong type": says(`{"reason":["no such callback"]}`),
	}
	for name, call := range fails {
		for _, blocks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, blocks %v", name, blocks), func(t *testing.T) {
				w.t = t
				before := len(w.told(hook.NoticeInformational))
				defer w.callback(hook.Hook{Event: hook.PreToolUse, Name: "hook_7", BlockOnFailure: blocks, Call: call})()
				defer w.callback(hook.Hook{Event: "NoSuchEvent", Call: call})()
				dir := w.folder(nil)
				got := w.ask(w.open(dir), `call bash {"command":"touch marker"}`)
				if exists(dir+"/marker") == blocks || got.end.Kind != sdkproto.EndCompleted {
					t.Errorf("ran: %v; %s", !blocks, got.answer)
				}
				told := w.told(hook.NoticeInformational)[before:]
				if len(told) != 1 || told[0].Level != "warning" || !strings.Contains(told[0].Text, "PreToolUse:bash hook error: hook_7") {
					t.Errorf("told %v", told)
				}
			})
		}
	}
	if err := w.engine.Register(w.owner, []hook.Hook{{Event: hook.Stop, Name: "h", Matcher: "(", Call: says("{}")}}); err == nil || !strings.Contains(err.Error(), `matcher "("`) {
		t.Errorf("a matcher that means nothing: %v", err)
	}
}

// TestNotices: each run is framed by two notices with one id, but those of quiet
// events (spec stream-json 6.7; checklist 70).
func TestNotices(t *testing.T) {
	w := newWorld(t)
	dir := w.folder(on(hook.PreToolUse, one("", `echo out; echo err >&2; exit 2`)))
	w.ask(w.open(dir), `call bash {"command":"true"}`)
	started, responded := w.told(hook.NoticeStarted), w.told(hook.NoticeResponded)
	if len(started) != 1 || len(responded) != 1 {
		t.Fatalf("%d started, %d responded", len(started), len(responded))
	}
	code := 2
	want := hook.Notice{
		Kind: hook.NoticeResponded, SessionID: started[0].SessionID, ID: started[0].ID, Name: "PreToolUse:bash", Event: "PreToolUse",
		Output: "out\nerr\n", Stdout: "out\n", Stderr: "err\n", ExitCode: &code, Outcome: "error",
	}
	if diff := cmp.Diff(want, responded[0]); diff != "" || want.ID == "" {
		t.Error(diff)
	}
	for _, event := range []string{hook.Notification, hook.SessionEnd, hook.PreCompact, hook.PostCompact} {
		r := &recorder{}
		w.callback(hook.Hook{Event: event, Call: r.call})
		w.engine.Run(t.Context(), hook.Input{Event: event, CWD: dir})
		if len(r.all()) != 1 {
			t.Errorf("%s was not run", event)
		}
	}
	if n := len(w.told(hook.NoticeStarted)); n != 1 {
		t.Errorf("quiet events are told of: %d notices", n)
	}
}
