package streamjson_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asked answers hook callbacks, and notes which there were.
type asked struct {
	mu     sync.Mutex
	events []string
	say    map[string]any
}

func (a *asked) answer(_ string, l line) any {
	if l.str("request", "subtype") != "hook_callback" {
		return serveApp("", l)
	}
	event := l.str("request", "input", "hook_event_name")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, event)
	if said := a.say[event]; said != nil {
		return said
	}
	return map[string]any{}
}

func (a *asked) heard() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

func hooksFor(events ...string) map[string]any {
	hooks := map[string]any{}
	for i, event := range events {
		hooks[event] = []any{map[string]any{"hookCallbackIds": []any{"hook_" + string(rune('a'+i))}}}
	}
	return hooks
}

// The callbacks of an initialize hear of the session's begin, before system/init,
// of the prompt and of the end, while the channel is open (S032; checklist 66, 67,
// 70; case B31; spec stream-json 6.7).
func TestHooks(t *testing.T) {
	c := start(t)
	a := &asked{}
	c.mu.Lock()
	c.answer = a.answer
	c.mu.Unlock()
	c.send(control("i", "initialize", "hooks", hooksFor("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd", "NoSuchEvent")), user("one"))
	if got := c.response("i"); got.at("response", "response", "hooks_applied") != true {
		t.Errorf("got %v", got)
	}
	c.result()
	if diff := cmp.Diff([]string{"SessionStart", "UserPromptSubmit", "Stop"}, a.heard()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lines, code := c.rest()
	order := kinds(lines)
	began, ended, init := slices.Index(order, "system/hook_started"), slices.Index(order, "system/hook_response"), slices.Index(order, "system/init")
	if began < 0 || ended < began || init < ended || code != 0 {
		t.Errorf("code %d, order: %v", code, order)
	}
	if n := strings.Count(strings.Join(order, "\n"), "hook_started"); n != 1 {
		t.Errorf("%d hook_started without the flag: %v", n, order)
	}
	if lines[began].str("hook_id") == "" || lines[began].str("hook_id") != lines[ended].str("hook_id") || lines[began].str("hook_event") != "SessionStart" {
		t.Errorf("got %v and %v", lines[began], lines[ended])
	}
}

// A blocked prompt is a success without a model request, and a note comes in front
// of its result (spec stream-json 6.5 rule 6).
func TestBlockedPrompt(t *testing.T) {
	c := start(t)
	a := &asked{say: map[string]any{"UserPromptSubmit": map[string]any{"decision": "block", "reason": "not today"}}}
	c.mu.Lock()
	c.answer = a.answer
	c.mu.Unlock()
	c.send(control("i", "initialize", "hooks", hooksFor("UserPromptSubmit")), user("one"))
	r := c.result()
	if r.str("subtype") != "success" || r.at("is_error") != false || r.at("num_turns") != 0.0 {
		t.Errorf("got %v", r)
	}
	c.send(user("two"))
	c.result()
	if _, code := c.rest(); code != 0 || !strings.Contains(c.show(), "not today") {
		t.Errorf("code %d: %s", code, c.show())
	}
}

// An interrupt cuts the hooks on a prompt short: nothing waits for a client that
// does not answer (case B11; spec stream-json 11.2).
func TestInterruptDuringAHook(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize", "hooks", hooksFor("UserPromptSubmit")), user("one"))
	ask := c.kind("control_request/hook_callback")
	c.send(control("x", "interrupt"))
	if gone := c.kind("control_cancel_request"); gone.str("request_id") != ask.str("request_id") {
		t.Errorf("got %v", gone)
	}
	if r := c.result(); r.str("subtype") != "error_during_execution" {
		t.Errorf("got %v", r)
	}
}

// An initialize that comes after a turn holds from the next one on (spec
// stream-json 4.1): the session is the same, its prompt is the new one.
func TestLateInitialize(t *testing.T) {
	c := start(t)
	c.send(user("one"))
	first := c.result()
	a := &asked{}
	c.mu.Lock()
	c.answer = a.answer
	c.mu.Unlock()
	c.send(control("i", "initialize", "systemPrompt", "You are a parrot.", "hooks", hooksFor("UserPromptSubmit")), user("two"))
	second := c.result()
	lines, code := c.rest()
	if second.str("session_id") != first.str("session_id") || second.str("result") != "said two" || code != 0 {
		t.Errorf("code %d: %s", code, c.show())
	}
	if n := strings.Count(strings.Join(kinds(lines), "\n"), "system/init"); n != 1 {
		t.Errorf("%d times init", n)
	}
	if diff := cmp.Diff([]string{"UserPromptSubmit"}, a.heard()); diff != "" {
		t.Error(diff)
	}
	if log := stored(t, c.Home); !strings.Contains(log, `"system":"You are a parrot."`) {
		t.Error("the prompt stayed")
	}
}
