package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/hook"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

const denial = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not in my house"}}`

// TestB26 refuses calls of all kinds of tools in every documented form: none runs,
// and the model is told why. A form that there is not is an error that names the
// member.
func TestB26(t *testing.T) {
	w := newWorld(t)
	if err := seam[*tool.Registry](w).Register(w.owner, touch()); err != nil {
		t.Fatal(err)
	}
	type run struct{ command, callback string }
	forms := map[string]run{
		"exit 2 with stderr":             {command: `echo 'not in my house' >&2; exit 2`},
		"exit 0 with the nested object":  {command: `echo '` + denial + `'`},
		"exit 2 with the nested object":  {command: `echo '` + denial + `'; exit 2`},
		"exit 2 with any other output":   {command: `echo '{"permissionDecision":"allow"}'; echo 'not in my house' >&2; exit 2`},
		"the older block":                {command: `echo '{"decision":"block","reason":"not in my house"}'`},
		"a callback":                     {callback: denial},
		"a callback with the older form": {callback: `{"decision":"block","reason":"not in my house","future":1}`},
	}
	calls := map[string]string{
		"bash": `{"command":"touch marker"}`, "write": `{"file_path":"marker","content":"x"}`,
		"edit":            `{"file_path":"marker","old_string":"","new_string":"x"}`,
		"mcp__app__touch": `{"path":"marker"}`,
	}
	for name, call := range calls {
		dir := w.folder(nil)
		if got := w.ask(w.open(dir), "call "+name+" "+call); !exists(filepath.Join(dir, "marker")) {
			t.Fatalf("%s does not work without hooks: %s", name, got.answer)
		}
		for form, r := range forms {
			var settings any
			if r.command != "" {
				settings = on(hook.PreToolUse, one("", r.command))
			}
			dir := w.folder(settings)
			closed := func() {}
			if r.callback != "" {
				closed = w.callback(hook.Hook{Event: hook.PreToolUse, Name: "cb", Call: says(r.callback)})
			}
			got := w.ask(w.open(dir), "call "+name+" "+call)
			closed()
			if exists(filepath.Join(dir, "marker")) || !strings.Contains(got.answer, "not in my house") || got.end.Kind != sdkproto.EndCompleted {
				t.Errorf("%s, %s: the answer is %q, the turn ended %v", name, form, got.answer, got.end)
			}
		}
		for odd, member := range map[string]string{
			`{"permission":"deny"}`:                             `"permission"`,
			`{"permission":"deny","reason":"no"}`:               `"permission"`,
			`{"decision":"deny"}`:                               `"decision"`,
			`{"decision":{"behavior":"deny"}}`:                  `"decision"`,
			`{"hookSpecificOutput":{"permissionDecision":"x"}}`: `"hookSpecificOutput.hookEventName"`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"block"}}`: `"hookSpecificOutput.permissionDecision"`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","deny":true}}`:                  `"hookSpecificOutput.deny"`,
			`{"one":1,"two":2}`: `"one", "two"`,
			`{"continue":"no"}`: `"continue"`,
			`["deny"]`:          `object`,
		} {
			before := len(w.told(hook.NoticeInformational))
			closed := w.callback(hook.Hook{Event: hook.PreToolUse, Name: "odd-one", Call: says(odd)})
			dir := w.folder(nil)
			w.ask(w.open(dir), "call "+name+" "+call)
			closed()
			told := w.told(hook.NoticeInformational)[before:]
			if len(told) != 1 || told[0].Level != "warning" || !strings.Contains(told[0].Text, member) || !strings.Contains(told[0].Text, "odd-one") {
				t.Errorf("%s, %s: told %v", name, odd, told)
			}
			if !exists(filepath.Join(dir, "marker")) {
				t.Errorf("%s, %s: a failed hook stopped the call", name, odd)
			}
		}
	}
}

// TestInput: what hooks hear of a call (spec stream-json 5.2, 6.2; checklist 66).
func TestInput(t *testing.T) {
	w := newWorld(t)
	pre, post, failed := &recorder{}, &recorder{}, &recorder{}
	w.callback(hook.Hook{Event: hook.PreToolUse, Matcher: "bash", Call: pre.call})
	w.callback(hook.Hook{Event: hook.PostToolUse, Matcher: "*", Call: post.call})
	w.callback(hook.Hook{Event: hook.PostToolUseFailure, Call: failed.call})
	dir := w.folder(nil)
	a := w.open(dir)
	w.ask(a, `call bash {"command":"echo hi"}`)
	w.ask(a, `call read {"file_path":"nowhere"}`)
	w.ask(a, `call nothing {}`)
	w.ask(a, `call bash {"nonsense":1}`)
	base := func(event, command string, call any) map[string]any {
		return map[string]any{
			"session_id": a.ID(), "transcript_path": "/cfg/projects/" + key(dir) + "/" + a.ID() + ".jsonl", "cwd": dir,
			"permission_mode": "bypassPermissions", "hook_event_name": event,
			"tool_name": "bash", "tool_input": map[string]any{"command": command}, "tool_use_id": call,
		}
	}
	got := pre.all()
	if len(got) != 1 {
		t.Fatalf("heard of %d calls: %v", len(got), got)
	}
	if diff := cmp.Diff(base("PreToolUse", "echo hi", got[0]["tool_use_id"]), got[0]); diff != "" || got[0]["tool_use_id"] == "" {
		t.Error(diff)
	}
	if got := post.all(); len(got) != 1 {
		t.Errorf("heard of %d good results", len(got))
	} else {
		took, response := got[0]["duration_ms"], got[0]["tool_response"]
		delete(got[0], "duration_ms")
		delete(got[0], "tool_response")
		if diff := cmp.Diff(base("PostToolUse", "echo hi", pre.all()[0]["tool_use_id"]), got[0]); diff != "" {
			t.Error(diff)
		}
		if _, ok := took.(float64); !ok || !strings.Contains(fmt.Sprint(response), "hi") {
			t.Errorf("took %v, response %v", took, response)
		}
	}
	if got := failed.all(); len(got) != 1 || got[0]["tool_name"] != "read" || !strings.Contains(fmt.Sprint(got[0]["error"]), "nowhere") || got[0]["is_interrupt"] != false {
		t.Errorf("heard of failures %v", got)
	}
}

func key(dir string) string { return strings.Map(dash, dir) }

func dash(r rune) rune {
	if strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r) {
		return r
	}
	return '-'
}

// TestUpdatedInput: hooks replace arguments in the order of the configuration, the
// rules see the outcome, and what the tool does not take is refused (spec
// stream-json 6.5 rules 1 and 2).
func TestUpdatedInput(t *testing.T) {
	w := newWorld(t, `permissions.rules={"deny":["Bash(touch forbidden:*)"]}`)
	update := func(input string) string {
		return `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":` + input + `,"additionalContext":"mind the gap"},"systemMessage":"changed it"}`
	}
	slow := func(output string) string { return "sleep 0.2; echo '" + output + "'" }
	for _, tc := range []struct {
		name     string
		settings []any
		callback string
		there    string
		answer   []string
	}{
		{"one", nil, update(`{"command":"touch other"}`), "other", []string{"mind the gap"}},
		{"the later one, though it is the quicker", []any{one("bash", slow(update(`{"command":"touch first"}`))), one("", "echo '"+update(`{"command":"touch second"}`)+"'")}, "", "second", nil},
		{"a callback after all settings", []any{one("bash", slow(update(`{"command":"touch first"}`)))}, update(`{"command":"touch other"}`), "other", nil},
		{"a deny rule holds", nil, update(`{"command":"touch forbidden"}`), "", []string{"Permission to use"}},
		{"not what the tool takes", nil, update(`{"cmd":"touch other"}`), "", []string{"a hook made for bash are not valid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			var settings any
			if tc.settings != nil {
				settings = on(hook.PreToolUse, tc.settings...)
			}
			dir := w.folder(settings)
			if tc.callback != "" {
				defer w.callback(hook.Hook{Event: hook.PreToolUse, Matcher: "Other|bash", Name: "cb", Call: says(tc.callback)})()
			}
			got := w.ask(w.open(dir), `call bash {"command":"touch original"}`)
			wants(t, "the answer", got.answer, tc.answer...)
			for _, name := range []string{"original", "first", "second", "other", "forbidden"} {
				if exists(filepath.Join(dir, name)) != (name == tc.there) {
					t.Errorf("%s is there: %v; %s", name, name != tc.there, got.answer)
				}
			}
		})
	}
	wants(t, "the notices", w.texts(), "warning: PreToolUse:bash says: changed it")
}

// TestPrecedence: deny beats defer beats ask beats allow (spec stream-json 6.5
// rule 1, 6.6).
func TestPrecedence(t *testing.T) {
	w := newWorld(t)
	says := func(words ...string) any {
		var groups []any
		for _, word := range words {
			groups = append(groups, one("", fmt.Sprintf(`echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"%s","permissionDecisionReason":"because of %s"}}'`, word, word)))
		}
		return on(hook.PreToolUse, groups...)
	}
	for _, tc := range []struct {
		words  []string
		runs   bool
		answer string
		end    string
	}{
		{[]string{"allow"}, true, "", sdkproto.EndCompleted},
		{[]string{"allow", "ask"}, false, "because of ask", sdkproto.EndCompleted}, // nobody can be asked
		{[]string{"ask", "defer", "allow"}, false, "", sdkproto.EndDeferred},
		{[]string{"allow", "deny", "defer", "ask"}, false, "because of deny", sdkproto.EndCompleted},
	} {
		t.Run(strings.Join(tc.words, " "), func(t *testing.T) {
			w.t = t
			dir := w.folder(says(tc.words...))
			got := w.ask(w.open(dir), `call bash {"command":"touch marker"}`)
			if exists(filepath.Join(dir, "marker")) != tc.runs || got.end.Kind != tc.end || !strings.Contains(got.answer, tc.answer) {
				t.Errorf("ran: %v, the answer is %q, the turn ended %+v", !tc.runs, got.answer, got.end)
			}
			if n := got.count(sdkproto.TypeAssistantMessage); tc.end == sdkproto.EndDeferred && n != 1 {
				t.Errorf("%d answers; a deferred call ends the turn", n)
			}
		})
	}
}

// TestAfter: what hooks say of a result (spec stream-json 6.3, 6.5 rule 4;
// checklist 67).
func TestAfter(t *testing.T) {
	w := newWorld(t)
	if err := seam[*tool.Registry](w).Register(w.owner, touch()); err != nil {
		t.Fatal(err)
	}
	specific := func(members string) string {
		return `{"hookSpecificOutput":{"hookEventName":"PostToolUse",` + members + `}}`
	}
	const bash, mcp = `bash {"command":"echo the-secret"}`, `mcp__app__touch {"path":"f"}`
	for _, tc := range []struct {
		name, call, output string
		with, without      []string
		ends               bool
	}{
		{"context", bash, specific(`"additionalContext":"remember the milk"`), []string{"the-secret", "remember the milk"}, nil, false},
		{"block", bash, `{"decision":"block","reason":"run the tests"}`, []string{"the-secret", "run the tests"}, nil, false},
		{"a text in its place", bash, specific(`"updatedToolOutput":"hidden"`), []string{"hidden"}, []string{"the-secret"}, false},
		{"an object in its place", bash, specific(`"updatedToolOutput":{"stdout":"hidden"}`), []string{`{"stdout":"hidden"}`}, []string{"the-secret"}, false},
		{"the older name", mcp, specific(`"updatedMCPToolOutput":[{"type":"text","text":"hidden"}]`), []string{"hidden"}, []string{"touched"}, false},
		{"the older name for another tool", bash, specific(`"updatedMCPToolOutput":"hidden"`), []string{"the-secret"}, []string{"hidden"}, false},
		{"the end", bash, `{"continue":false,"stopReason":"enough"}`, nil, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			defer w.callback(hook.Hook{Event: hook.PostToolUse, Name: "cb", Call: says(tc.output)})()
			got := w.ask(w.open(w.folder(nil)), "call "+tc.call)
			wants(t, "the answer", got.answer, tc.with...)
			for _, part := range tc.without {
				if strings.Contains(got.answer, part) {
					t.Errorf("the answer has %q: %s", part, got.answer)
				}
			}
			if !tc.ends {
				return
			}
			want := sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: "enough"}}
			if diff := cmp.Diff(want, got.end); diff != "" || got.count(sdkproto.TypeAssistantMessage) != 1 || got.count(sdkproto.TypeToolResult) != 1 {
				t.Errorf("%s; %d answers", diff, got.count(sdkproto.TypeAssistantMessage))
			}
			wants(t, "the notices", w.texts(), "notice: PostToolUse:bash hook ended the turn: enough")
		})
	}
}

// TestStopBefore: a turn that a hook ends before a call does not make the call.
func TestStopBefore(t *testing.T) {
	w := newWorld(t)
	w.callback(hook.Hook{Event: hook.PreToolUse, Call: says(`{"continue":false,"stopReason":"enough"}`)})
	dir := w.folder(nil)
	got := w.ask(w.open(dir), `call bash {"command":"touch marker"}`)
	if exists(filepath.Join(dir, "marker")) || got.end.Kind != sdkproto.EndBlocked || got.count(sdkproto.TypeAssistantMessage) != 1 {
		t.Errorf("the turn ended %+v after %q", got.end, got.answer)
	}
}

// TestPermissionDenied: hooks hear of refusals, and may let the model try again.
func TestPermissionDenied(t *testing.T) {
	w := newWorld(t, `permissions.rules={"deny":["Bash(rm:*)"]}`)
	denied, failed := &recorder{output: `{"hookSpecificOutput":{"hookEventName":"PermissionDenied","retry":true}}`}, &recorder{}
	w.callback(hook.Hook{Event: hook.PermissionDenied, Call: denied.call})
	w.callback(hook.Hook{Event: hook.PostToolUseFailure, Call: failed.call})
	got := w.ask(w.open(w.folder(nil)), `call bash {"command":"rm x"}`)
	wants(t, "the answer", got.answer, "Permission to use", "try this call again")
	if in := denied.all(); len(in) != 1 || in[0]["reason"] == "" || in[0]["tool_name"] != "bash" || len(failed.all()) != 0 {
		t.Errorf("heard %v, and of failures %v", in, failed.all())
	}
}

// TestB29: hooks hear of the calls of subagents as of any other, with the agent's
// id and type, and a refusal holds (spec stream-json 6.5 rule 8).
func TestB29(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		for _, background := range []string{"true", "false"} {
			t.Run(fmt.Sprintf("refuses %v, background %s", refuses, background), func(t *testing.T) {
				w := newWorld(t)
				start, stop := &recorder{}, &recorder{}
				pre := &recorder{}
				w.callback(hook.Hook{Event: hook.PreToolUse, Matcher: "bash", Call: func(ctx context.Context, in hook.Call) (json.RawMessage, error) {
					out, err := pre.call(ctx, in)
					if refuses {
						out = json.RawMessage(denial)
					}
					return out, err
				}})
				w.callback(hook.Hook{Event: hook.SubagentStart, Matcher: "general-purpose", Call: start.call})
				w.callback(hook.Hook{Event: hook.SubagentStop, Matcher: "general-purpose", Call: stop.call})
				w.callback(hook.Hook{Event: hook.SubagentStop, Matcher: "another", Call: says(`{"decision":"block"}`)})
				dir := w.folder(nil)
				a := w.open(dir)
				w.ask(a, `call subagent {"description":"work","prompt":"call bash {\"command\":\"touch sub.txt\"}","run_in_background":`+background+`}`)
				await(t, "the end of the subagent", func() bool { return len(stop.all()) > 0 })
				if exists(filepath.Join(dir, "sub.txt")) == refuses {
					t.Errorf("the file is there: %v", !refuses)
				}
				in := pre.all()
				if len(in) != 1 {
					t.Fatalf("heard of %d calls", len(in))
				}
				id, ok := in[0]["agent_id"].(string)
				if !ok || id == "" || id == a.ID() || in[0]["agent_type"] != "general-purpose" || in[0]["session_id"] != a.ID() {
					t.Errorf("heard %v", in[0])
				}
				if in := start.all(); len(in) != 1 || in[0]["agent_id"] != id || in[0]["agent_type"] != "general-purpose" {
					t.Errorf("of the start heard %v", in)
				}
				if in := stop.all(); len(in) != 1 || in[0]["agent_id"] != id || in[0]["stop_hook_active"] != false ||
					in[0]["agent_transcript_path"] != "/cfg/projects/"+key(dir)+"/"+a.ID()+"/subagents/agent-"+id+".jsonl" {
					t.Errorf("of the end heard %v", in)
				}
			})
		}
	}
}
