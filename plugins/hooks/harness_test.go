package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/hook"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/plugins/compaction"
	"dsh/plugins/core"
	"dsh/plugins/hooks"
	"dsh/plugins/llmscripted"
	"dsh/plugins/permissions"
	"dsh/plugins/processlocal"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/settings"
	"dsh/plugins/spill"
	"dsh/plugins/subagent"
	"dsh/plugins/toolbash"
	"dsh/plugins/toolfs"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  spill: {use: spill}
  process: {use: process-local, config: {graceMs: 100}}
  model: {use: llm-scripted}
  loop: {use: agentloop, config: {retries: {delay: 1ms, maxDelay: 1ms}}}
  permissions: {use: permissions, config: {mode: bypassPermissions}}
  settings: {use: settings, config: {userFolders: [user], projectFolders: [.claude], trust: always}}
  fs: {use: tool-fs}
  shell: {use: tool-bash}
  subagent: {use: subagent}
  compaction: {use: compaction}
  hooks: {use: hooks}
`

// script makes the call that a prompt names, and says what came of it; what a hook
// adds to the end of a turn is answered with itself.
const script = `
rules:
  - when: {matches: '(?s)^call (\S+) (.*)', step: 1}
    reply: [{call: {tool: "{{match 1}}", arguments: "{{match 2}}"}}]
  - when: {matches: '^call ', step: 2}
    reply: "{{result}}"
  - when: {text: broken}
    reply: [{error: {code: AUTH, status: 401, message: the key is not valid}}]
  - reply: said
`

// world is a running profile with the real loop, tools and rules.
type world struct {
	*kerneltest.Booted

	t       *testing.T
	agents  agent.Registry
	engine  hook.Engine
	owner   *kernel.Owner
	log     *kerneltest.Log
	mu      sync.Mutex
	notices []hook.Notice
}

func newWorld(t *testing.T, sets ...string) *world {
	t.Helper()
	t.Setenv("CLAUDE_CONFIG_DIR", "/cfg")
	base := t.TempDir()
	file := filepath.Join(base, "model.yaml")
	write(t, file, script)
	w := &world{t: t, log: &kerneltest.Log{}, owner: kernel.NewOwner(context.Background(), "test")}
	home := filepath.Join(base, "home")
	if err := os.MkdirAll(filepath.Join(home, "user"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.Booted = kerneltest.Boot(t, kerneltest.Options{
		Text: rows, Home: home, Sets: append(sets, "model.script="+file),
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Plugins: []kernel.Plugin{
			core.Plugin, sessionjsonl.Plugin, spill.Plugin, processlocal.Plugin, llmscripted.Plugin, agentloop.Plugin, permissions.Plugin,
			settings.Plugin, toolfs.Plugin, toolbash.Plugin, subagent.Plugin, compaction.Plugin, hooks.Plugin,
		},
	})
	w.agents, w.engine = seam[agent.Registry](w), seam[hook.Engine](w)
	t.Cleanup(func() {
		if err := w.Kernel.Root().Quiesce(context.Background()); err != nil {
			t.Error(err)
		}
		if err := w.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := w.engine.Watch(w.owner, func(n hook.Notice) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notices = append(w.notices, n)
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

func seam[T any](w *world) T {
	w.t.Helper()
	return kerneltest.Seam[T](w.t, w.Booted)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// folder makes a working directory whose project settings have hooks.
func (w *world) folder(hooks any) string {
	w.t.Helper()
	dir, err := filepath.EvalSymlinks(w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	if hooks != nil {
		w.settings(filepath.Join(dir, ".claude", "settings.json"), hooks)
	}
	return dir
}

func (w *world) settings(file string, hooks any) {
	w.t.Helper()
	text, err := wirejson.Marshal(map[string]any{"hooks": hooks})
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, file, string(text))
}

// one is a settings entry of one command.
func one(matcher, command string, more ...any) any {
	h := map[string]any{"type": "command", "command": command}
	for i := 0; i < len(more); i += 2 {
		h[more[i].(string)] = more[i+1]
	}
	return map[string]any{"matcher": matcher, "hooks": []any{h}}
}

func on(event string, groups ...any) map[string]any { return map[string]any{event: groups} }

// callback registers a callback until the test ends or it is closed.
func (w *world) callback(h hook.Hook) (closed func()) {
	w.t.Helper()
	o := w.owner.Child("callback")
	if err := w.engine.Register(o, []hook.Hook{h}); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := o.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
}

// says is a callback with a fixed output.
func says(output string) func(context.Context, hook.Call) (json.RawMessage, error) {
	return func(context.Context, hook.Call) (json.RawMessage, error) { return json.RawMessage(output), nil }
}

// recorder keeps the inputs of a callback.
type recorder struct {
	mu     sync.Mutex
	inputs []map[string]any
	output string
}

func (r *recorder) call(_ context.Context, in hook.Call) (json.RawMessage, error) {
	var m map[string]any
	if err := wirejson.Unmarshal(in.Input, &m); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs = append(r.inputs, m)
	if r.output == "" {
		return json.RawMessage("{}"), nil
	}
	return json.RawMessage(r.output), nil
}

func (r *recorder) all() []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.inputs)
}

func (w *world) open(cwd string) agent.Agent {
	w.t.Helper()
	a, err := w.agents.Open(w.t.Context(), agent.Spec{
		ID: "s-" + filepath.Base(filepath.Dir(cwd)) + "-" + filepath.Base(cwd), CWD: cwd, Route: llm.Route{Provider: "scripted", Model: "m"},
	}, agent.OpenNew)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// turn is what a turn came to.
type turn struct {
	// answer is the last answer's text, end the reason of the end.
	answer string
	end    sdkproto.TurnEndReason
	events []sdkproto.Event
	// users are the texts of messages that are not the model's.
	users []string
}

// ask runs a turn in a session and reads it from the log.
func (w *world) ask(a agent.Agent, prompt string) turn {
	w.t.Helper()
	from := int64(0)
	w.events(a.ID(), 0, func(r *session.Record) { from = r.Event.Seq + 1 })
	if _, err := a.Send(w.t.Context(), []sdkproto.Block{sdkproto.Text(prompt)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if err := a.WhenIdle(ctx); err != nil {
		w.t.Fatalf("%v\n%s", err, w.log)
	}
	var t turn
	w.events(a.ID(), from, func(r *session.Record) {
		t.events = append(t.events, r.Event)
		switch r.Event.Type {
		case sdkproto.TypeAssistantMessage:
			t.answer = sdkproto.TextOf(decode[sdkproto.AssistantMessage](w.t, r).Message.Content)
		case sdkproto.TypeTurnEnd:
			t.end = decode[sdkproto.TurnEnd](w.t, r).Reason
		case sdkproto.TypeUserMessage:
			t.users = append(t.users, sdkproto.TextOf(decode[sdkproto.Message](w.t, r).Content))
		}
	})
	return t
}

func decode[T any](t *testing.T, r *session.Record) T {
	t.Helper()
	v, err := session.Decode[T](r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *world) events(id string, from int64, fn func(*session.Record)) {
	w.t.Helper()
	if err := w.agents.Events(w.t.Context(), id, from, func(r *session.Record) error { fn(r); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// count says how many events of a type a turn has.
func (t turn) count(typ string) (n int) {
	for _, e := range t.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func (w *world) told(kind string) []hook.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.notices), func(n hook.Notice) bool { return n.Kind != kind })
}

// texts are the informational notices.
func (w *world) texts() string {
	var list []string
	for _, n := range w.told(hook.NoticeInformational) {
		list = append(list, n.Level+": "+n.Text)
	}
	return strings.Join(list, "\n")
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

func wants(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// touch is a tool as an MCP server has it.
func touch() tool.Tool {
	type arguments struct {
		Path string `json:"path"`
	}
	return tool.Typed(tool.Spec{Name: "mcp__app__touch", Description: "Makes a file."},
		func(_ context.Context, in tool.Invocation, a arguments) (tool.Result, error) {
			if err := os.WriteFile(filepath.Join(in.CWD, a.Path), nil, 0o600); err != nil {
				return tool.Result{}, fmt.Errorf("make a file: %w", err)
			}
			return tool.TextResult("touched"), nil
		})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}
