package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/process"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

// TestRacingOpens: fifty Opens of one id give one agent, and a watcher hears of
// it once, before its first event (S105).
func TestRacingOpens(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	heard := map[string]int{}
	must(t, r.reg.Watch(r.owner, func(a agent.Agent, s agent.Spec) {
		mu.Lock()
		defer mu.Unlock()
		heard[s.ID]++
		if n := a.Log().Next(); n != 0 {
			t.Errorf("the watcher came after %d events", n)
		}
	}))
	agents := make([]agent.Agent, 50)
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() {
			a, err := r.reg.Open(t.Context(), spec("s"), agent.OpenAny)
			if err != nil {
				t.Error(err)
				return
			}
			agents[i] = a
			send(t, a, "go")
		})
	}
	wg.Wait()
	for _, a := range agents {
		if a != agents[0] {
			t.Fatal("two agents of one id")
		}
	}
	idle(t, agents[0])
	if heard["s"] != 1 {
		t.Errorf("the watcher heard of it %d times", heard["s"])
	}
	turns := 0
	for _, rd := range r.store.records("s") {
		if rd.Event.Type == sdkproto.TypeTurnEnd {
			turns++
		}
	}
	if turns != 50 {
		t.Errorf("%d turns", turns)
	}
	late := 0
	must(t, r.reg.Watch(r.owner, func(agent.Agent, agent.Spec) { late++ }))
	if late != 1 {
		t.Errorf("a late watcher heard of %d agents", late)
	}
}

// TestOpenModes is decision D9, with the errors that must pass through.
func TestOpenModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx := t.Context()
		r.tool("read", "r", echo)
		open := func(mode agent.Mode, change func(*agent.Spec)) error {
			s := spec("s")
			if change != nil {
				change(&s)
			}
			_, err := r.reg.Open(ctx, s, mode)
			return err
		}
		for name, tc := range map[string]struct {
			mode   agent.Mode
			change func(*agent.Spec)
			want   string
		}{
			"unknown, resume": {agent.OpenResume, nil, session.ErrNotFound.Error()},
			"empty id":        {agent.OpenAny, func(s *agent.Spec) { s.ID = "" }, "session id must not be empty"},
			"long id":         {agent.OpenAny, func(s *agent.Spec) { s.ID = strings.Repeat("ä", 41) }, "too long"},
			"no adapter":      {agent.OpenAny, func(s *agent.Spec) { s.Route.Provider = "x" }, `no adapter registered for provider "x"`},
			"empty filter":    {agent.OpenAny, func(s *agent.Spec) { s.Tools = &tool.Filter{} }, "tools.restrict({}) is a no-op"},
			"unknown tool":    {agent.OpenAny, func(s *agent.Spec) { s.Tools = &tool.Filter{Allow: []string{"nope"}} }, `tools.restrict() names unknown global tool "nope"; known global tools: read`},
		} {
			if err := open(tc.mode, tc.change); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if list, err := r.reg.List(ctx, ""); err != nil || len(list) > 0 {
			t.Fatalf("failed Opens left %v, %v", list, err)
		}
		must(t, open(agent.OpenNew, nil))
		if err := open(agent.OpenNew, nil); !errors.Is(err, session.ErrExists) {
			t.Errorf("new, live: got %v", err)
		}
		must(t, open(agent.OpenResume, func(s *agent.Spec) { s.CWD = "/elsewhere" }))
		a, _ := r.reg.Get("s")
		send(t, a, "go")
		idle(t, a)
		must(t, r.reg.Close(ctx, "s", agent.Cause{}))
		must(t, r.reg.Close(ctx, "s", agent.Cause{}))
		if _, live := r.reg.Get("s"); live {
			t.Error("a closed agent is live")
		}
		if err := open(agent.OpenNew, nil); !errors.Is(err, session.ErrExists) {
			t.Errorf("new, stored: got %v", err)
		}
		if err := open(agent.OpenAny, func(s *agent.Spec) { s.CWD = "/elsewhere" }); !errors.Is(err, session.ErrOtherCWD) {
			t.Errorf("other cwd: got %v", err)
		}
		must(t, open(agent.OpenResume, func(s *agent.Spec) { s.CWD = "/srv/x/../dir/" }))
		again, _ := r.reg.Get("s")
		if again == a {
			t.Error("the closed agent came back")
		}
		if _, err := a.Send(ctx, nil, sdkproto.Source{}, sdkproto.TargetNextTurn); !errors.Is(err, agent.ErrClosing) {
			t.Errorf("send to a closed agent: got %v", err)
		}
		list, err := r.reg.List(ctx, "/srv/./dir")
		if err != nil || len(list) != 1 || list[0].ID != "s" || list[0].CWD != "/srv/dir" {
			t.Errorf("list: %v, %v", list, err)
		}
		must(t, r.reg.Delete(ctx, "s"))
		if list, _ := r.reg.List(ctx, ""); len(list) > 0 {
			t.Error("a deleted session is listed")
		}
		if err := r.reg.Delete(ctx, "s"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("delete again: got %v", err)
		}
	})
}

// TestOpenWithoutCWD: a new session works where the process does, a stored one
// where it did.
func TestOpenWithoutCWD(t *testing.T) {
	r := newRig(t)
	here, err := os.Getwd()
	must(t, err)
	for id, want := range map[string]string{"new": here, "stored": filepath.FromSlash("/srv/dir")} {
		if id == "stored" {
			a, _ := r.open(id)
			send(t, a, "go")
			idle(t, a)
			must(t, r.reg.Close(t.Context(), id, agent.Cause{}))
		}
		s := spec(id)
		s.CWD = ""
		a, err := r.reg.Open(t.Context(), s, agent.OpenAny)
		must(t, err)
		if got := a.Log().Header().CWD; got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// TestFailedOpen: a store that fails once is asked again by the next Open.
func TestFailedOpen(t *testing.T) {
	r := newRig(t)
	r.store.sessions["s"] = &stored{header: session.Header{ID: "s", CWD: "/srv/dir"}, open: true}
	var inUse *session.InUseError
	if _, err := r.reg.Open(t.Context(), spec("s"), agent.OpenAny); !errors.As(err, &inUse) {
		t.Fatalf("got %v", err)
	}
	r.store.set(func() { r.store.sessions["s"].open = false })
	a, _ := r.open("s")
	send(t, a, "go")
	idle(t, a)
}

// TestChild: what the head of a delegated session says, and that the filters of
// its ancestors hold for it (spec jsonrpc 4.3, 8.4).
func TestChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, name := range []string{"read", "write", "shell"} {
			r.tool(name, "r", echo)
		}
		root := spec("root")
		root.Tools = &tool.Filter{Deny: []string{"shell"}}
		child := spec("child")
		child.Parent, child.Depth, child.Tools = "root", 1, &tool.Filter{Deny: []string{"write"}}
		grandchild := spec("grandchild")
		grandchild.Parent, grandchild.Depth = "child", 2
		for _, s := range []agent.Spec{root, child, grandchild} {
			a, err := r.reg.Open(t.Context(), s, agent.OpenAny)
			must(t, err)
			send(t, a, "go")
			idle(t, a)
		}
		want := map[string][]string{"root": {"read", "write"}, "child": {"read"}, "grandchild": {"read"}}
		got := map[string][]string{}
		for _, req := range r.model.asked() {
			for _, schema := range req.Header.Tools {
				got[req.SessionID] = append(got[req.SessionID], schema.Name)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		a, _ := r.reg.Get("grandchild")
		h := a.Log().Header()
		h.CreatedAt = 0
		if d := cmp.Diff(session.Header{ID: "grandchild", CWD: "/srv/dir", ParentSession: "child", DelegationDepth: 2, Origin: "subagent"}, h); d != "" {
			t.Error(d)
		}
	})
}

// TestHeader: it is logged when it changed, equal ones are one in memory, the
// system prompt stays, and the tools are those of the moment (spec jsonrpc 10.7).
func TestHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.model.resolve = func(to llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
			to.MaxTokens, to.ReasoningEffort = 100, "high"
			return to, sdkproto.AdapterDefaults{MaxTokens: true, ReasoningEffort: true}, llm.Info{ContextWindow: 5000}, nil
		}
		words := "one"
		must(t, r.sections.Register(r.owner, "persona", func(f prompt.Facts) string {
			return strings.Join([]string{words, f.Model, f.CWD, strings.Join(f.Tools, ",")}, " ")
		}))
		r.tool("read", "r", echo)
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		words = "two"
		o := r.owner.Child("row late")
		must(t, r.tools.Register(o, &fakeTool{spec: tool.Spec{Name: "late", Parameters: json.RawMessage(`{ }`)}, call: echo}))
		send(t, a, "go")
		idle(t, a)
		must(t, o.Close(context.Background()))
		send(t, a, "go")
		idle(t, a)
		send(t, a, "go")
		idle(t, a)
		var reasons []string
		for _, l := range rec.lines() {
			if strings.HasPrefix(l, "request/") {
				reasons = append(reasons, l)
			}
		}
		if d := cmp.Diff([]string{"request/header initial", "request/context",
			"request/header change", "request/prefix; tools added late (row late)",
			"request/header change", "request/prefix; tools removed late ()"}, reasons); d != "" {
			t.Error(d)
		}
		read := sdkproto.ToolSchema{Name: "read", Description: "does read", Parameters: json.RawMessage(`{"type":"object"}`)}
		frozen := cmpopts.IgnoreUnexported(sdkproto.Header{})
		want := sdkproto.Header{
			Config:          sdkproto.RequestConfig{Provider: "fake", Model: "m1", ReasoningEffort: "high", MaxTokens: 100},
			AdapterDefaults: &sdkproto.AdapterDefaults{ReasoningEffort: true, MaxTokens: true},
			System:          "one m1 /srv/dir read", Tools: []sdkproto.ToolSchema{read},
		}
		asked := r.model.asked()
		if d := cmp.Diff(want, asked[0].Header, frozen); d != "" {
			t.Error(d)
		}
		want.Tools = append(want.Tools, sdkproto.ToolSchema{Name: "late", Parameters: json.RawMessage(`{}`)})
		if d := cmp.Diff(want, asked[1].Header, frozen); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(asked[0].Header, asked[3].Header, frozen); d != "" {
			t.Error(d)
		}
		// A second session with an equal header shares it.
		words = "one"
		b, _ := r.open("t")
		send(t, b, "go")
		idle(t, b)
		asked = r.model.asked()
		if &asked[4].Header.Tools[0] != &asked[3].Header.Tools[0] {
			t.Error("two sessions hold two copies of one tool list")
		}
	})
}

// TestResume: a second process goes on where the first one stopped (spec
// jsonrpc 7.5, 9.6).
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		a, _ := first.open("s")
		send(t, a, "remember 42")
		idle(t, a)

		// The second process dies in a turn, with a prompt in the queue.
		second := newRigOver(t, first.store.crash())
		b, rec := second.open("s")
		want := []string{"session/end-seed"}
		if d := cmp.Diff(want, rec.lines()); d != "" {
			t.Error(d)
		}
		second.tool("wait", "", func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		second.model.on(func(_ context.Context, _ int, _ llm.Request, y yield) {
			ask(y, callBlock("c1", "wait", "{}"), callBlock("c2", "wait", "{}"))
		})
		send(t, b, "use the tool")
		send(t, b, "queued")
		synctest.Wait()
		crashed := second.store.crash()

		third := newRigOver(t, crashed)
		c, rec := third.open("s")
		want = []string{"tool/result #c1 TOOL_OUTCOME_UNKNOWN", "tool/result #c2 TOOL_NOT_STARTED", "step/end 2.1", "turn/end 2 interrupted", "session/end-seed"}
		if d := cmp.Diff(want, rec.lines()); d != "" {
			t.Error(d)
		}
		synctest.Wait()
		if c.Status() != sdkproto.StatusIdle || len(third.model.asked()) > 0 {
			t.Error("a resumed session works before it is asked to")
		}
		send(t, c, "go on")
		idle(t, c)
		want = append(want,
			`inbox next-turn at 1 -0 +["go on"]`, "running",
			"turn/start 3", "inbox next-turn at 0 -1 +[]", "step/start 3.1", "user queued", "request/header resume",
			"request/prefix; tools removed wait ()",
			"chunk block-start", "chunk text-delta", "chunk block-end", "chunk usage", "chunk finish stop", "assistant ok", "step/end 3.1", "turn/end 3 completed",
			"turn/start 4", "inbox next-turn at 0 -1 +[]", "step/start 4.1", "user go on",
			"chunk block-start", "chunk text-delta", "chunk block-end", "chunk usage", "chunk finish stop", "assistant ok", "step/end 4.1", "turn/end 4 completed",
			"idle")
		if d := cmp.Diff(want, rec.lines()); d != "" {
			t.Error(d)
		}
		whole(t, crashed.records("s"))

		// The same header again is not restated.
		must(t, third.reg.Close(t.Context(), "s", agent.Cause{}))
		d, rec := third.open("s")
		send(t, d, "more")
		idle(t, d)
		for _, l := range rec.lines() {
			if strings.HasPrefix(l, "request/") {
				t.Errorf("%s although nothing changed", l)
			}
		}
	})
}

// TestQuiesce is spec jsonrpc 2.3, 7.6 and 14 line 15: the turn is aborted, the
// queue dropped, everything on the disk, and nothing new is taken.
func TestQuiesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.model.on(func(ctx context.Context, _ int, _ llm.Request, y yield) {
			_ = begin(y, 0, sdkproto.BlockText) && text(y, 0, "some")
			<-ctx.Done()
		})
		a, rec := r.open("s")
		send(t, a, "A")
		send(t, a, "B")
		synctest.Wait()
		must(t, r.root.Quiesce(t.Context()))
		want := []string{"inbox next-turn at 0 -1 +[] canceled", "assistant some INTERRUPTED", "step/end 1.1", "turn/end 1 aborted disposed", "idle"}
		got := rec.brief()
		if d := cmp.Diff(want, got[len(got)-5:]); d != "" {
			t.Error(d)
		}
		whole(t, r.store.records("s"))
		if _, err := a.Send(t.Context(), nil, sdkproto.Source{}, sdkproto.TargetNextTurn); !errors.Is(err, agent.ErrClosing) {
			t.Errorf("send: %v", err)
		}
		for _, id := range []string{"s", "new"} {
			if _, err := r.reg.Open(t.Context(), spec(id), agent.OpenAny); !errors.Is(err, agent.ErrClosing) {
				t.Errorf("open %s: %v", id, err)
			}
		}
	})
}

// TestOwnerCloses: closing the row alone closes its agents well.
func TestOwnerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var row *kernel.Owner
		r := newRig(t, func(p *agentloop.Params) { row = p.Instance.Owner })
		r.model.on(func(ctx context.Context, _ int, _ llm.Request, _ yield) { <-ctx.Done() })
		a, rec := r.open("s")
		send(t, a, "A")
		send(t, a, "B")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, row.Close(ctx))
		want := []string{"step/end 1.1", "turn/end 1 aborted disposed", "inbox next-turn at 0 -1 +[] canceled", "idle"}
		got := rec.brief()
		if d := cmp.Diff(want, got[len(got)-4:]); d != "" {
			t.Error(d)
		}
		if r.store.sessions["s"].open {
			t.Error("the session is still held")
		}
		if _, err := r.reg.Open(t.Context(), spec("t"), agent.OpenAny); !errors.Is(err, agent.ErrClosing) {
			t.Errorf("open: %v", err)
		}
	})
}

// runner notes which sessions' programs were ended.
type runner struct {
	process.Runner
	mu    sync.Mutex
	ended []string
}

func (r *runner) EndSession(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, id)
	return nil
}

// TestEndSession: programs that a session left running go with its agent.
func TestEndSession(t *testing.T) {
	run := &runner{}
	r := newRig(t, func(p *agentloop.Params) { p.Runner = run })
	_, _ = r.open("s")
	_, _ = r.open("t")
	must(t, r.reg.Close(t.Context(), "s", agent.Cause{}))
	if !slices.Contains(run.ended, "s") || slices.Contains(run.ended, "t") {
		t.Fatalf("ended %q", run.ended)
	}
	must(t, r.root.Quiesce(t.Context()))
	if !slices.Contains(run.ended, "t") {
		t.Fatalf("ended %q", run.ended)
	}
}

// TestDeafClient is spec jsonrpc 14 line 19 for the loop: a subscriber that
// never reads stops the stream, not the end.
func TestDeafClient(t *testing.T) {
	for name, stop := range map[string]func(r *rig, a agent.Agent){
		"cancel":  func(_ *rig, a agent.Agent) { a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") },
		"close":   func(r *rig, _ agent.Agent) { must(r.t, r.reg.Close(context.Background(), "s", agent.Cause{})) },
		"quiesce": func(r *rig, _ agent.Agent) { must(r.t, r.root.Quiesce(context.Background())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				deaf := session.NewSubscription(r.owner, r.log(), "deaf", 64, func(ctx context.Context, _ session.Entry) error {
					<-ctx.Done()
					return ctx.Err()
				})
				must(t, r.reg.Watch(r.owner, func(a agent.Agent, _ agent.Spec) { a.Log().Subscribe(deaf) }))
				r.model.on(func(ctx context.Context, _ int, _ llm.Request, y yield) {
					for text(y, 0, "x") {
					}
				})
				a, err := r.reg.Open(t.Context(), spec("s"), agent.OpenAny)
				must(t, err)
				send(t, a, "go")
				synctest.Wait()
				if n := a.Log().Next(); n > 64+256 {
					t.Errorf("%d events for a client that does not read", n)
				}
				before := time.Now()
				stop(r, a)
				idle(t, a)
				if d := time.Since(before); d > 800*time.Millisecond {
					t.Errorf("it took %v", d)
				}
				records := r.store.records("s")
				whole(t, records)
				if last := line(records[len(records)-1]); !strings.HasPrefix(last, "turn/end 1 aborted") {
					t.Errorf("the log ends with %s", last)
				}
			})
		})
	}
}

// TestFailingLog: a log that cannot be written ends the turn and is told; the
// agent goes idle and nothing hangs.
func TestFailingLog(t *testing.T) {
	full := errors.New("no space left on device")
	failAt := func(typ string) func(r *rig) {
		return func(r *rig) {
			r.store.appendErr = func(records []session.Record) error {
				if slices.ContainsFunc(records, func(rd session.Record) bool { return rd.Event.Type == typ }) {
					return full
				}
				return nil
			}
		}
	}
	for name, fail := range map[string]func(r *rig){
		"turn/start": failAt(sdkproto.TypeTurnStart), "title": failAt(sdkproto.TypeSessionTitle), "chunk": failAt(sdkproto.TypeAssistantChunk),
		"message": failAt(sdkproto.TypeAssistantMessage), "call": failAt(sdkproto.TypeToolCall), "result": failAt(sdkproto.TypeToolResult),
		"step": failAt(sdkproto.TypeStepEnd), "turn/end": failAt(sdkproto.TypeTurnEnd), "fact": failAt(sdkproto.TypeTodoWrite),
		"sync": func(r *rig) { r.store.syncErr = func() error { return full } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.badDisk = true
				r.tool("todo", "p", func(_ context.Context, in tool.Invocation) (tool.Result, error) {
					err := in.Emit(session.Draft{Type: sdkproto.TypeTodoWrite, Data: sdkproto.TodoWrite{}})
					return tool.TextResult("ok"), err
				})
				r.model.on(once(callBlock("c1", "todo", "{}"), callBlock("c2", "todo", "{}")))
				a, rec := r.open("s")
				fail(r)
				_, first := a.Send(t.Context(), []sdkproto.Block{sdkproto.Text("go")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
				idle(t, a)
				_, second := a.Send(t.Context(), nil, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
				if name == "sync" && !errors.Is(first, full) || !errors.Is(second, full) {
					t.Errorf("sends gave %v, %v", first, second)
				}
				if got := rec.lines(); got[len(got)-1] != "idle" {
					t.Errorf("ends with %q", got[len(got)-1])
				}
				if !strings.Contains(r.stderr.String(), full.Error()) {
					t.Errorf("stderr does not say why:\n%s", r.stderr)
				}
			})
		})
	}
}

// TestReceiptRefused: a receipt that cannot be written leaves nothing behind.
func TestReceiptRefused(t *testing.T) {
	r := newRig(t)
	a, rec := r.open("s")
	r.store.appendErr = func([]session.Record) error { return errors.New("disk full") }
	if _, err := a.Send(t.Context(), nil, sdkproto.Source{}, sdkproto.TargetNextTurn); err == nil {
		t.Fatal("no error")
	}
	if a.Status() != sdkproto.StatusIdle || len(rec.lines()) > 0 {
		t.Fatalf("status %s after %q", a.Status(), rec.lines())
	}
}

// TestEvents reads a session whether it is live or not, and opens nothing.
func TestEvents(t *testing.T) {
	r := newRig(t)
	read := func(id string, from int64) (lines []string, err error) {
		err = r.reg.Events(t.Context(), id, from, func(rd *session.Record) error { lines = append(lines, line(rd)); return nil })
		return lines, err
	}
	if _, err := read("s", 0); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	a, rec := r.open("s")
	if got, err := read("s", 0); err != nil || len(got) > 0 {
		t.Errorf("new: %q, %v", got, err)
	}
	send(t, a, "go")
	idle(t, a)
	want := slices.DeleteFunc(rec.lines(), func(l string) bool { return l == "running" || l == "idle" })
	for range 2 {
		got, err := read("s", 3)
		must(t, err)
		if d := cmp.Diff(want[3:], got); d != "" {
			t.Error(d)
		}
		must(t, r.reg.Close(t.Context(), "s", agent.Cause{}))
	}
	if _, live := r.reg.Get("s"); live {
		t.Error("reading opened the session")
	}
	stop := errors.New("enough")
	if err := r.reg.Events(t.Context(), "s", 0, func(*session.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// TestWhenIdle gives up with its context.
func TestWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.model.on(func(ctx context.Context, _ int, _ llm.Request, _ yield) { <-ctx.Done() })
		a, _ := r.open("s")
		send(t, a, "go")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.WhenIdle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}
