package tooltodo

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/llmscripted"
	"dsh/plugins/sessionjsonl"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func claudeTool(t *testing.T, c Config) tool.Tool {
	t.Helper()
	c.Dialect = "claude"
	tl, ok := start(t, c).View(nil).Lookup("TodoWrite")
	if !ok {
		t.Fatal("TodoWrite is not registered")
	}
	return tl
}

// TestConformance runs the suite of all tools on both faces.
func TestConformance(t *testing.T) {
	t.Run("todo_write", func(t *testing.T) {
		tl, _ := start(t, defaults()).View(nil).Lookup("todo_write")
		tooltest.TestTool(t, tl, tooltest.Options{Good: []string{`{"todos":[{"content":"a","status":"pending"}]}`}})
	})
	t.Run("TodoWrite", func(t *testing.T) {
		tooltest.TestTool(t, claudeTool(t, defaults()), tooltest.Options{Good: []string{`{"todos":[{"content":"a","status":"pending","activeForm":"b"}]}`}})
	})
}

// TestClaudeSpec: spec stream-json 9; a call is read-only, so that plan mode has
// it.
func TestClaudeSpec(t *testing.T) {
	tl := claudeTool(t, defaults())
	if got := tooltest.Inputs(t, tl); got != "todos" {
		t.Errorf("inputs %s", got)
	}
	if spec := tl.Spec(); !spec.ReadOnly || !strings.Contains(string(spec.Parameters), `"required":["content","status","activeForm"]`) {
		t.Errorf("spec %+v, parameters %s", spec, spec.Parameters)
	}
}

// TestClaudeRefused: the text has no prefix of its own.
func TestClaudeRefused(t *testing.T) {
	c := Config{Dialect: "claude", MaxItems: 4, MaxRunes: 5}
	for arguments, want := range map[string]string{
		`{"todos":[{"content":"a","status":"pending","activeForm":"toolong"}]}`: "entry 1 has 7 characters and may have 5; shorten it",
		`{"todos":[{"content":" ","status":"pending","activeForm":"x"}]}`:       "entry 1 has no content; say what is to be done",
	} {
		got := tool.NewPipeline().Call(context.Background(), start(t, c).View(nil), "TodoWrite", arguments, tool.Invocation{
			Emit: func(...session.Draft) error { t.Error("something is recorded"); return errors.New("no") },
		})
		if !got.IsError || sdkproto.TextOf(got.Content) != want || got.Meta != nil {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  model: {use: llm-scripted}
  loop: {use: agentloop}
  todo: {use: tool-todo, config: {dialect: claude}}
`

const script = `
rules:
  - when: {matches: '^(\S+)$', step: 1}
    reply: [{call: {tool: TodoWrite, args: {todos: [{content: "{{match 1}}", status: pending, activeForm: "doing {{match 1}}"}]}}}]
  - when: {matches: '.', step: 2}
    reply: done
`

// TestOldTodos: the structured result tells the list before, also in a session
// that was resumed.
func TestOldTodos(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	booted := kerneltest.Boot(t, kerneltest.Options{
		Text: rows, Sets: []string{"model.script=" + file},
		Plugins: []kernel.Plugin{core.Plugin, sessionjsonl.Plugin, llmscripted.Plugin, agentloop.Plugin, Plugin},
	})
	agents, ok := kernel.Seam[agent.Registry](booted.Kernel)
	if !ok {
		t.Fatal("no registry")
	}
	owner := kernel.NewOwner(context.Background(), "test")
	defer owner.Close(context.Background())
	metas := make(chan string, 10)
	sub := session.NewSubscription(owner, slog.New(slog.DiscardHandler), "test", 1000, func(_ context.Context, e session.Entry) error {
		if e.Record == nil || e.Record.Event.Type != sdkproto.TypeToolResult {
			return nil
		}
		r, err := session.Decode[sdkproto.ToolResult](e.Record)
		metas <- string(r.Meta)
		return err
	})
	if err := agents.Watch(owner, func(a agent.Agent, _ agent.Spec) { a.Log().Subscribe(sub) }); err != nil {
		t.Fatal(err)
	}
	cwd := t.TempDir()
	write := func(id, what string) string {
		t.Helper()
		a, err := agents.Open(t.Context(), agent.Spec{ID: id, CWD: cwd, Route: llm.Route{Provider: "scripted", Model: "m"}}, agent.OpenAny)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Send(t.Context(), []sdkproto.Block{sdkproto.Text(what)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
			t.Fatal(err)
		}
		if err := a.WhenIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		return <-metas
	}
	// A list is forgotten when its session ends.
	a, err := agents.Open(t.Context(), agent.Spec{ID: "short", CWD: cwd, Route: llm.Route{Provider: "scripted", Model: "m"}}, agent.OpenNew)
	if err != nil {
		t.Fatal(err)
	}
	l := lists{agents: agents}
	count := func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.of) }
	l.put("short", nil)
	l.put("nobody's", nil)
	if n := count(); n != 1 {
		t.Errorf("%d lists are remembered, want that of the live session", n)
	}
	if err := agents.Close(t.Context(), a.ID(), agent.Cause{Kind: sdkproto.AbortUser}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); count() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the list of a closed session is still there")
		}
	}
	list := func(what string) string {
		if what == "" {
			return "[]"
		}
		return `[{"content":"` + what + `","status":"pending","activeForm":"doing ` + what + `"}]`
	}
	for i, step := range []struct{ id, what, before string }{
		{"s", "a", ""}, {"s", "b", "a"}, {"other", "x", ""}, {"close s", "", ""}, {"s", "c", "b"}, {"s", "d", "c"},
	} {
		if id, ok := strings.CutPrefix(step.id, "close "); ok {
			if err := agents.Close(t.Context(), id, agent.Cause{Kind: sdkproto.AbortUser}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var got, want any
		if err := wirejson.Unmarshal([]byte(write(step.id, step.what)), &got); err != nil {
			t.Fatal(err)
		}
		if err := wirejson.Unmarshal([]byte(`{"oldTodos":`+list(step.before)+`,"newTodos":`+list(step.what)+`}`), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}
