package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/hook"
	"dsh/plugins/hooks"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// TestB27: a hook that does not return is cut off at its limit, which is in
// seconds, with all that it has started; the event names it. Without a limit of its
// own it has that of its event.
func TestB27(t *testing.T) {
	mute := func(ctx context.Context, _ hook.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	wake := make(chan struct{})
	deaf := func(context.Context, hook.Call) (json.RawMessage, error) {
		<-wake // it does not look at its context
		return json.RawMessage(`{}`), nil
	}
	for _, tc := range []struct {
		name, event string
		command     string
		call        func(context.Context, hook.Call) (json.RawMessage, error)
		limit       time.Duration
		sets        []string
		runs        bool
	}{
		{"command before a call", hook.PreToolUse, "sleep 987.65 & sleep 987.65", nil, time.Second, nil, false},
		{"command after a call", hook.PostToolUse, "sleep 987.65 & sleep 987.65", nil, time.Second, nil, true},
		{"callback before a call", hook.PreToolUse, "", mute, time.Second, nil, false},
		{"callback after a call", hook.PostToolUse, "", mute, time.Second, nil, true},
		{"callback that ignores its limit", hook.PreToolUse, "", deaf, 100 * time.Millisecond, nil, false},
		{"the usual limit", hook.PreToolUse, "", mute, 0, []string{"hooks.limit=150ms"}, false},
		{"the usual limit of a command", hook.PreToolUse, "sleep 987.65", nil, 0, []string{"hooks.limit=150ms"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.sets...)
			var settings any
			name := "callback-7"
			if tc.command != "" {
				name = tc.command
				group := one("", tc.command)
				if tc.limit != 0 {
					group = one("", tc.command, "timeout", tc.limit.Seconds())
				}
				settings = on(tc.event, group)
			} else {
				w.callback(hook.Hook{Event: tc.event, Name: name, Limit: tc.limit, Call: tc.call})
			}
			dir := w.folder(settings)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				got := w.ask(w.open(dir), `call bash {"command":"touch marker"}`)
				if exists(filepath.Join(dir, "marker")) != tc.runs || got.end.Kind != sdkproto.EndCompleted {
					t.Errorf("ran: %v, ended %+v with %q", !tc.runs, got.end, got.answer)
				}
				if !tc.runs {
					wants(t, "the answer", got.answer, "has not returned within")
				}
			}()
			select {
			case <-ended:
			case <-time.After(15 * time.Second):
				t.Fatal("the turn does not end")
			}
			if tc.limit == 100*time.Millisecond {
				close(wake)
			}
			wants(t, "the notices", w.texts(), "warning: "+tc.event+":bash hook error: "+name+": it has not returned within")
			wants(t, "the log", w.log.String(), "a hook failed", tc.event)
			if r := w.told(hook.NoticeResponded); len(r) != 1 || r[0].Outcome != "cancelled" {
				t.Errorf("responded %v", r)
			}
			if tc.command != "" {
				await(t, "the end of what it started", func() bool { return !running(t, "sleep 987.65") })
			}
		})
	}
}

func running(t *testing.T, command string) bool {
	t.Helper()
	out, err := exec.Command("ps", "-eo", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == command {
			return true
		}
	}
	return false
}

// TestB27Limits: there is a finite limit for each event, which a dump of the config
// shows (spec stream-json 5.2).
func TestB27Limits(t *testing.T) {
	got, err := wirejson.Marshal(hooks.Plugin.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, "the defaults", string(got), `"limit":"10m0s"`, `"promptLimit":"30s"`, `"endLimit":"1.5s"`)
	for event, set := range map[string]string{hook.UserPromptSubmit: "hooks.promptLimit=100ms", hook.SessionEnd: "hooks.endLimit=100ms"} {
		w := newWorld(t, set)
		cut := make(chan error, 1)
		w.callback(hook.Hook{Event: event, Name: "h", Call: func(ctx context.Context, _ hook.Call) (json.RawMessage, error) {
			<-ctx.Done()
			cut <- context.Cause(ctx)
			return nil, ctx.Err()
		}})
		out := w.engine.Run(t.Context(), hook.Input{Event: event, CWD: w.folder(nil)})
		if err := <-cut; !strings.Contains(err.Error(), "100ms") || (out.Decision == hook.Block) != (event == hook.UserPromptSubmit) {
			t.Errorf("%s: cut off by %v, %+v", event, err, out)
		}
	}
}

// TestB27Child: a child that keeps the output open does not hold up the turn.
func TestB27Child(t *testing.T) {
	w := newWorld(t)
	dir := w.folder(on(hook.PreToolUse, one("", `sleep 30 & echo '`+denial+`'`)))
	began := time.Now()
	got := w.ask(w.open(dir), `call bash {"command":"touch marker"}`)
	wants(t, "the answer", got.answer, "not in my house")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestInterrupted: a turn that is cancelled cancels the hooks that it waits for.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	begun, cut := make(chan struct{}), make(chan struct{})
	w.callback(hook.Hook{Event: hook.PreToolUse, Call: func(ctx context.Context, _ hook.Call) (json.RawMessage, error) {
		close(begun)
		<-ctx.Done()
		close(cut)
		return nil, ctx.Err()
	}})
	dir := w.folder(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan hook.Outcome, 1)
	go func() { done <- w.engine.Run(ctx, hook.Input{Event: hook.PreToolUse, CWD: dir, Match: "x"}) }()
	<-begun
	cancel()
	select {
	case <-cut:
	case <-time.After(5 * time.Second):
		t.Fatal("the hook goes on")
	}
	if out := <-done; out.Decision != "" || w.texts() != "" {
		t.Errorf("got %+v; told %s", out, w.texts())
	}
}

// TestCommand: what a command hook gets and how its end is read (spec stream-json
// 6.4; case B04: nothing of it reaches the harness's own output).
func TestCommand(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		name, command string
		want          hook.Outcome
		told          string
	}{
		{"input", `test "$(tail -n 1 | cut -c 1-3)" = '{"a' && exit 2`, hook.Outcome{Decision: hook.Deny, Reason: "a PreToolUse hook blocks without giving a reason"}, ""},
		{"it need not read it", `exec <&-; exit 0`, hook.Outcome{}, ""},
		{"folder and variable", `test "$PWD" = "$CLAUDE_PROJECT_DIR" && echo "$CLAUDE_PROJECT_DIR" >&2; exit 2`, hook.Outcome{Decision: hook.Deny, Reason: "DIR"}, ""},
		{"text is no opinion", `echo some debug text; echo more >&2`, hook.Outcome{}, ""},
		{"bad JSON", `echo '{"decision":'`, hook.Outcome{}, "no JSON object"},
		{"another code", `echo '` + denial + `'; echo broken >&2; exit 1`, hook.Outcome{}, "it ended with code 1: broken"},
		{"a signal", `kill -9 $$`, hook.Outcome{}, "it was ended by SIGKILL"},
		{"the reason of the object", `echo '` + denial + `'; exit 2`, hook.Outcome{Decision: hook.Deny, Reason: "not in my house"}, ""},
		{"too long", `echo '{"reason":"'; head -c 2000000 /dev/zero | tr '\0' x; echo '"}'`, hook.Outcome{}, "longer than"},
		{"no such command", `no-such-command-anywhere`, hook.Outcome{}, "it ended with code 127"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			before := len(w.told(hook.NoticeInformational))
			dir := w.folder(on(hook.PreToolUse, one("", tc.command)))
			got := w.engine.Run(t.Context(), hook.Input{Event: hook.PreToolUse, SessionID: "s", CWD: dir, Match: "bash", Members: map[string]any{"agent": strings.Repeat("x", 200_000)}})
			tc.want.Reason = strings.ReplaceAll(tc.want.Reason, "DIR", dir)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			told := w.told(hook.NoticeInformational)[before:]
			if tc.told == "" && len(told) > 0 || tc.told != "" && (len(told) != 1 || !strings.Contains(told[0].Text, tc.told)) {
				t.Errorf("told %v", told)
			}
		})
	}
}

// TestCannotBlock: exit 2 on an event that cannot be refused is told of, and
// nothing more.
func TestCannotBlock(t *testing.T) {
	w := newWorld(t)
	dir := w.folder(on(hook.SessionStart, one("", "echo no >&2; exit 2")))
	got := w.engine.Run(t.Context(), hook.Input{Event: hook.SessionStart, CWD: dir, Match: "startup"})
	if diff := cmp.Diff(hook.Outcome{}, got); diff != "" {
		t.Error(diff)
	}
	wants(t, "the notices", w.texts(), "no")
}

// TestSideBySide: all hooks on an occurrence run at the same time, commands that
// are the same once (spec stream-json 6.1).
func TestSideBySide(t *testing.T) {
	w := newWorld(t)
	// Each waits until both are there.
	meet := func(me, other string) string {
		return fmt.Sprintf(`touch %s; for i in $(seq 500); do test -e %s && break; sleep 0.02; done; echo %s >> log`, me, other, me)
	}
	dir := w.folder(on(hook.Stop, one("", meet("a", "b")), one("", meet("b", "a")), one("", meet("a", "b"))))
	w.settings(filepath.Join(w.Home, "user", "settings.json"), on(hook.Stop, one("x", meet("a", "b"))))
	w.callback(hook.Hook{Event: hook.Stop, Call: func(context.Context, hook.Call) (json.RawMessage, error) {
		await(t, "a command", func() bool { return exists(filepath.Join(dir, "a")) })
		return json.RawMessage("{}"), nil
	}})
	w.engine.Run(t.Context(), hook.Input{Event: hook.Stop, SessionID: "s", CWD: dir})
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(log), "a\n"); len(log) != 4 || got != 1 {
		t.Errorf("ran %q", log)
	}
}

// TestAsync: a hook that says so goes on in the background, and cannot block (spec
// stream-json 6.3).
func TestAsync(t *testing.T) {
	w := newWorld(t)
	for name, group := range map[string]any{
		"said":       one("", `echo '{"async":true}'; while ! test -e go; do sleep 0.02; done; touch done; echo no >&2; exit 2`),
		"configured": one("", `while ! test -e go; do sleep 0.02; done; touch done; exit 2`, "async", true),
		"both":       one("", `echo '{"async":true}'; while ! test -e go; do sleep 0.02; done; touch done`, "async", true),
	} {
		dir := w.folder(on(hook.PreToolUse, group))
		if got := w.engine.Run(t.Context(), hook.Input{Event: hook.PreToolUse, SessionID: "s", CWD: dir, Match: "x"}); got.Decision != "" {
			t.Errorf("%s: %+v", name, got)
		}
		if exists(filepath.Join(dir, "done")) {
			t.Errorf("%s: it was waited for", name)
		}
		write(t, filepath.Join(dir, "go"), "")
		await(t, "its end", func() bool { return exists(filepath.Join(dir, "done")) })
	}
	dir := w.folder(on(hook.PreToolUse, one("", `echo '{"async":true,"asyncTimeout":200}'; exec sleep 876.54`)))
	w.engine.Run(t.Context(), hook.Input{Event: hook.PreToolUse, SessionID: "s", CWD: dir, Match: "x"})
	await(t, "its end", func() bool { return !running(t, "sleep 876.54") })
	await(t, "a line in the log", func() bool { return strings.Contains(w.log.String(), "a hook in the background failed") })
}

// TestAsyncBound: no more go on in the background than the config says; a further
// one is waited for.
func TestAsyncBound(t *testing.T) {
	w := newWorld(t, "hooks.maxBackground=0")
	dir := w.folder(on(hook.PreToolUse, one("", `echo '{"async":true}'; sleep 0.2; touch done`)))
	w.engine.Run(t.Context(), hook.Input{Event: hook.PreToolUse, SessionID: "s", CWD: dir, Match: "x"})
	if !exists(filepath.Join(dir, "done")) {
		t.Error("it was not waited for")
	}
}

// TestB84: entries that cannot be used are told of once, with file and key, and the
// others run.
func TestB84(t *testing.T) {
	w := newWorld(t)
	dir := w.folder(map[string]any{
		"PreTolUse":     []any{one("", "exit 2")},
		hook.Stop:       "exit 2",
		hook.PreCompact: []any{map[string]any{"matcher": 1, "hooks": []any{}}, map[string]any{"matcher": ""}},
		hook.PreToolUse: []any{
			one("(", "exit 2"),
			map[string]any{"matchers": "Bash", "hooks": []any{
				map[string]any{"type": "prompt", "prompt": "x"}, map[string]any{"type": "command", "comand": "exit 2"},
				map[string]any{"type": "command", "command": "echo fine >&2; exit 2", "timeout": -1, "statusMessage": "Checking"},
			}},
		},
	})
	for range 3 {
		got := w.engine.Run(t.Context(), hook.Input{Event: hook.PreToolUse, SessionID: "s", CWD: dir, Match: "x"})
		if got.Reason != "fine" {
			t.Errorf("got %+v", got)
		}
	}
	log := w.log.String()
	for _, part := range []string{
		`settings.json: hooks.PreTolUse" error="this harness does not tell of such an event; did you mean \"PreToolUse\"`,
		`hooks.Stop"`, `hooks.PreCompact[0]"`, `hooks.PreCompact[1]"`, `hooks.PreToolUse[0].matcher"`, `hooks.PreToolUse[1].matchers"`,
		`hooks.PreToolUse[1].hooks[0].type"`, `hooks.PreToolUse[1].hooks[1].comand"`, `hooks.PreToolUse[1].hooks[1].command"`, `hooks.PreToolUse[1].hooks[2].timeout"`,
	} {
		if n := strings.Count(log, part); n != 1 {
			t.Errorf("%s is told %d times", part, n)
		}
	}
	if strings.Contains(log, "statusMessage") {
		t.Error("a key of another program is told of")
	}
	if t.Failed() {
		t.Log(log)
	}
}

// TestTrust: hooks of a folder that is not trusted do not run, and cannot switch
// off those of the user; hooks that come later are seen.
func TestTrust(t *testing.T) {
	w := newWorld(t, "settings.trust=never")
	dir := w.folder(on(hook.PreToolUse, one("", "echo project >&2; exit 2")))
	in := hook.Input{Event: hook.PreToolUse, SessionID: "s", CWD: dir, Match: "x"}
	if w.engine.Any(dir, hook.PreToolUse) || w.engine.Run(t.Context(), in).Decision != "" {
		t.Error("a hook of a folder runs that is not trusted")
	}
	wants(t, "the log", w.log.String(), "not trusted")
	user := filepath.Join(w.Home, "user", "settings.json")
	w.settings(user, on(hook.PreToolUse, one("", "echo user >&2; exit 2")))
	write(t, filepath.Join(dir, ".claude", "settings.local.json"), `{"disableAllHooks":true}`)
	if got := w.engine.Run(t.Context(), in); got.Reason != "user" || !w.engine.Any(dir, hook.PreToolUse) || w.engine.Any(dir, hook.Stop) {
		t.Errorf("got %+v", got)
	}
	write(t, user, `{"disableAllHooks":true,"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"exit 2"}]}]}}`)
	if got := w.engine.Run(t.Context(), in); got.Decision != "" {
		t.Errorf("got %+v although all hooks are off", got)
	}
}

// TestB31: a command at the end of a session runs, and a callback whose client has
// gone is no more than a line for debugging.
func TestB31(t *testing.T) {
	w := newWorld(t)
	dir := w.folder(on(hook.SessionEnd, one("other", "touch ended"), one("clear", "touch cleared")))
	w.callback(hook.Hook{Event: hook.SessionEnd, Name: "cb", Call: func(context.Context, hook.Call) (json.RawMessage, error) {
		return nil, fmt.Errorf("Stream closed")
	}})
	w.engine.Run(t.Context(), hook.Input{Event: hook.SessionEnd, SessionID: "s", CWD: dir, Match: "other", Members: map[string]any{"reason": "other"}})
	if !exists(filepath.Join(dir, "ended")) || exists(filepath.Join(dir, "cleared")) {
		t.Error("the wrong commands ran")
	}
	if w.texts() != "" || strings.Contains(strings.ToLower(w.log.String()), "stream closed") {
		t.Errorf("told %q, logged %s", w.texts(), w.log)
	}
}

// TestLongContext: what is too long for the model is in a file.
func TestLongContext(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("é", 10_000) + "the end"
	for text, whole := range map[string]bool{strings.Repeat("é", 10_000): true, long: false} {
		out, err := wirejson.Marshal(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": hook.UserPromptSubmit, "additionalContext": text}})
		if err != nil {
			t.Fatal(err)
		}
		closed := w.callback(hook.Hook{Event: hook.UserPromptSubmit, Call: says(string(out))})
		got := w.engine.Run(t.Context(), hook.Input{Event: hook.UserPromptSubmit, SessionID: "s", CWD: w.folder(nil)}).Context
		closed()
		if whole {
			if len(got) != 1 || got[0] != text {
				t.Errorf("a text that fits was changed")
			}
			continue
		}
		if len(got) != 1 || len([]rune(got[0])) > 3000 {
			t.Fatalf("got %d texts", len(got))
		}
		_, file, _ := strings.Cut(strings.TrimSuffix(got[0], "]"), "all of it is in ")
		if kept, err := os.ReadFile(file); err != nil || string(kept) != long {
			t.Errorf("%q holds %d bytes: %v", file, len(kept), err)
		}
	}
}
