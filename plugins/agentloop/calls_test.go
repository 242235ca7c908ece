package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

// once answers the first request with calls, every other with what came back.
func once(calls ...sdkproto.Block) func(context.Context, int, llm.Request, yield) {
	return func(_ context.Context, n int, req llm.Request, y yield) {
		if n == 1 {
			ask(y, calls...)
			return
		}
		say(y, strings.Join(results(req), "|"))
	}
}

// TestToolTurn holds a turn with calls to spec jsonrpc 5.3 and 14 line 10:
// parallel neighbours run together, others alone, results in the order of the
// model.
func TestToolTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		running := map[string]bool{}
		var mu sync.Mutex
		var beside []string
		slow := func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			var p struct {
				MS int `json:"ms"`
			}
			if err := json.Unmarshal(in.Arguments, &p); err != nil {
				return tool.Result{}, err
			}
			mu.Lock()
			for other := range running {
				pair := []string{in.CallID, other}
				slices.Sort(pair)
				beside = append(beside, strings.Join(pair, "+"))
			}
			running[in.CallID] = true
			mu.Unlock()
			time.Sleep(time.Duration(p.MS) * time.Millisecond)
			mu.Lock()
			delete(running, in.CallID)
			mu.Unlock()
			return tool.TextResult("r" + in.CallID), nil
		}
		r.tool("par", "pr", slow)
		r.tool("alone", "", slow)
		r.model.on(once(
			callBlock("1", "par", `{"ms":30}`), callBlock("2", "par", `{"ms":10}`), callBlock("3", "alone", `{"ms":5}`),
			callBlock("4", "missing", `{}`), callBlock("5", "par", `{"ms":20}`), callBlock("6", "par", `{"ms":10}`),
		))
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		want := []string{
			"assistant par#1 par#2 alone#3 missing#4 par#5 par#6",
			"tool/call par#1", "tool/call par#2", "tool/result #1 r1", "tool/result #2 r2",
			"tool/call alone#3", "tool/result #3 r3",
			"tool/call missing#4", "tool/result #4 UNKNOWN_TOOL",
			"tool/call par#5", "tool/call par#6", "tool/result #5 r5", "tool/result #6 r6",
			"step/end 1.1", "step/start 1.2", `assistant r1|r2|r3|Error: unknown tool "missing"|r5|r6`, "step/end 1.2", "turn/end 1 completed", "idle",
		}
		if d := cmp.Diff(want, rec.brief()[6:]); d != "" {
			t.Fatal(d)
		}
		slices.Sort(beside)
		if d := cmp.Diff([]string{"1+2", "5+6"}, beside); d != "" {
			t.Error("calls that ran beside each other:", d)
		}
		calls := map[string]int64{}
		for _, rd := range r.store.records("s") {
			switch rd.Event.Type {
			case sdkproto.TypeToolCall:
				calls[decode[sdkproto.ToolCall](rd).CallID] = rd.Event.Seq
			case sdkproto.TypeToolResult:
				id := decode[sdkproto.ToolResult](rd).Message.Source.CallID
				if d := cmp.Diff([]int64{calls[id]}, rd.Event.SourceEventSeqs); d != "" {
					t.Error(d)
				}
			}
		}
		whole(t, r.store.records("s"))
	})
}

// TestPool: no more than pool calls run at once, and the next starts when one
// ends, not when all have.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(p *agentloop.Params) { p.Config.Pool = 3 })
		var now, most atomic.Int32
		r.tool("par", "p", func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if in.CallID == "c0" {
				time.Sleep(time.Second)
			} else {
				time.Sleep(250 * time.Millisecond)
			}
			return tool.TextResult(in.CallID), nil
		})
		var calls []sdkproto.Block
		for i := range 9 {
			calls = append(calls, callBlock(fmt.Sprint("c", i), "par", "{}"))
		}
		r.model.on(once(calls...))
		a, _ := r.open("s")
		before := time.Now()
		send(t, a, "go")
		idle(t, a)
		if most.Load() != 3 {
			t.Errorf("%d calls ran at once", most.Load())
		}
		if d := time.Since(before); d != time.Second {
			t.Errorf("the calls took %v in virtual time, want 1s", d)
		}
	})
}

// TestManyParallelCalls is case B98 for one session: 20 calls that record facts
// beside each other, and prompts that come meanwhile.
func TestManyParallelCalls(t *testing.T) {
	r := newRig(t, func(p *agentloop.Params) { p.Config.Pool = 20 })
	r.tool("busy", "pr", func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		for i := range 20 {
			err := in.Emit(session.Draft{Type: sdkproto.TypeTodoWrite, Data: sdkproto.TodoWrite{Todos: []sdkproto.Todo{{Content: fmt.Sprint(in.CallID, i), Status: "pending"}}}})
			if err != nil {
				return tool.Result{}, err
			}
		}
		return tool.TextResult("r" + in.CallID), nil
	})
	var calls []sdkproto.Block
	var want []string
	for i := range 20 {
		calls = append(calls, callBlock(fmt.Sprint("c", i), "busy", "{}"))
		want = append(want, fmt.Sprint("rc", i))
	}
	r.model.on(once(calls...))
	a, rec := r.open("s")
	send(t, a, "go")
	for i := range 10 {
		send(t, a, fmt.Sprint("more ", i))
	}
	idle(t, a)
	records := r.store.records("s")
	whole(t, records)
	if got := rec.brief(); !slices.Contains(got, "assistant "+strings.Join(want, "|")) {
		t.Fatalf("no answer holds all results: %q", got)
	}
	heard, facts, ids := rec.lines(), 0, map[string]bool{}
	if len(heard) != len(records)+2 {
		t.Errorf("%d entries were heard of %d events, running and idle", len(heard), len(records))
	}
	open := map[string]bool{}
	for _, rd := range records {
		switch rd.Event.Type {
		case sdkproto.TypeToolCall:
			open[decode[sdkproto.ToolCall](rd).CallID] = true
		case sdkproto.TypeTodoWrite:
			facts++
			call, _, _ := strings.Cut(decode[sdkproto.TodoWrite](rd).Todos[0].Content, " ")
			if !slices.ContainsFunc(calls, func(c sdkproto.Block) bool { return strings.HasPrefix(call, c.ID) && open[c.ID] }) {
				t.Errorf("a fact of %s is not between its call and its result", call)
			}
		case sdkproto.TypeToolResult:
			m := decode[sdkproto.ToolResult](rd).Message
			if ids[m.ID] {
				t.Errorf("message id %s is used twice", m.ID)
			}
			ids[m.ID] = true
		}
	}
	if facts != 400 {
		t.Errorf("%d facts", facts)
	}
}

// TestRepeatedCallIDs: a model that gives two calls one id gets two results.
func TestRepeatedCallIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.tool("echo", "pr", echo)
		r.model.on(once(callBlock("x", "echo", `{"a":1}`), callBlock("x", "echo", `{"a":2}`), callBlock("", "echo", `{"a":3}`)))
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		if got := rec.brief(); !slices.Contains(got, `assistant {"a":1}|{"a":2}|{"a":3}`) {
			t.Fatalf("got %q", got)
		}
		whole(t, r.store.records("s"))
	})
}

// TestArguments: they are logged and handed on exactly as the model wrote them.
func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		`{"a": 1}`: `{"a": 1}`,
		``:         `{}`,
		`{"a":`:    "INVALID_ARGUMENTS",
		`[1]`:      "INVALID_ARGUMENTS",
	} {
		t.Run(args, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.tool("echo", "r", echo)
				r.model.on(once(callBlock("c1", "echo", args)))
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				if got := rec.brief(); !slices.Contains(got, "tool/result #c1 "+want) {
					t.Fatalf("want result %q in %q", want, got)
				}
				for _, rd := range r.store.records("s") {
					if rd.Event.Type == sdkproto.TypeToolCall && decode[sdkproto.ToolCall](rd).Arguments != args {
						t.Errorf("logged %s", rd.Raw)
					}
				}
			})
		})
	}
}

// TestOddResults: whatever a tool gives, its call gets one result.
func TestOddResults(t *testing.T) {
	for name, tc := range map[string]struct {
		result tool.Result
		err    error
		want   string
	}{
		"nothing":          {want: "tool/result #c1 "},
		"an error":         {err: errors.New("disk on fire"), want: "tool/result #c1 TOOL_FAILED"},
		"meta not JSON":    {result: tool.Result{Content: []sdkproto.Block{sdkproto.Text("ok")}, Meta: json.RawMessage("{\n")}, want: "tool/result #c1 ok"},
		"an error result":  {result: tool.ErrorResult("E", "CODE", "no"), want: "tool/result #c1 CODE"},
		"a panic in a log": {result: tool.TextResult("a\x00\xff\u2028"), want: "tool/result #c1 a\x00\ufffd\u2028"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.tool("odd", "", func(context.Context, tool.Invocation) (tool.Result, error) { return tc.result, tc.err })
				r.model.on(once(callBlock("c1", "odd", "{}")))
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				if got := rec.brief(); !slices.Contains(got, tc.want) || got[len(got)-2] != "turn/end 1 completed" {
					t.Fatalf("want %q in %q", tc.want, got)
				}
				whole(t, r.store.records("s"))
			})
		})
	}
}

// TestEmit: a tool records facts between its call and its result, never what
// belongs to the loop, and nothing afterwards.
func TestEmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var late func(...session.Draft) error
		todo := session.Draft{Type: sdkproto.TypeTodoWrite, Data: sdkproto.TodoWrite{}}
		r.tool("todo", "r", func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			late = in.Emit
			if in.SessionID != "s" || in.CWD != "/srv/dir" || in.CallID != "c1" || in.Turn != 1 || in.Step != 1 {
				t.Errorf("invocation %+v", in)
			}
			if err := in.Emit(todo); err != nil {
				return tool.Result{}, err
			}
			for _, typ := range []string{sdkproto.TypeTurnEnd, sdkproto.TypeAgentInboxSpliced, sdkproto.TypeToolResult} {
				if err := in.Emit(session.Draft{Type: typ, Data: struct{}{}}); err == nil {
					t.Errorf("a tool recorded %s", typ)
				}
			}
			return tool.TextResult("ok"), nil
		})
		r.model.on(once(callBlock("c1", "todo", "{}")))
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		if err := late(todo); err == nil {
			t.Error("a fact was recorded after the result")
		}
		want := []string{"tool/call todo#c1", "todo/write", "tool/result #c1 ok", "step/end 1.1"}
		got := rec.brief()
		at := slices.Index(got, want[0])
		if d := cmp.Diff(want, got[at:at+4]); d != "" {
			t.Fatal(d)
		}
	})
}

// TestLimits is decision D18.
func TestLimits(t *testing.T) {
	bad := func(context.Context, tool.Invocation) (tool.Result, error) {
		return tool.Result{}, errors.New("no")
	}
	for name, tc := range map[string]struct {
		reply   func(n int, y yield)
		want    string
		answers int
	}{
		"steps":        {func(_ int, y yield) { ask(y, callBlock("c", "good", "{}")) }, "turn/end 1 max-steps", 4},
		"failed calls": {func(_ int, y yield) { ask(y, callBlock("c", "bad", "{}")) }, "turn/end 1 error TOO_MANY_FAILED_CALLS", 3},
		// A refusal alone does not end a turn (spec stream-json 7.7).
		"refused calls": {func(_ int, y yield) { ask(y, callBlock("c", "refused", "{}")) }, "turn/end 1 max-steps", 4},
		"failed calls at once": {func(_ int, y yield) {
			ask(y, callBlock("a", "bad", "{}"), callBlock("b", "bad", "{}"), callBlock("c", "gone", "{}"))
		}, "turn/end 1 error TOO_MANY_FAILED_CALLS", 1},
		"a good one in between":  {func(n int, y yield) { ask(y, callBlock("c", []string{"bad", "bad", "good", "bad"}[n-1], "{}")) }, "turn/end 1 max-steps", 4},
		"the last step may stop": {func(n int, y yield) { _ = n < 4 && ask(y, callBlock("c", "good", "{}")) || n == 4 && say(y, "done") }, "turn/end 1 completed", 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(p *agentloop.Params) { p.Config.MaxSteps, p.Config.MaxFailedCalls = 4, 3 })
				r.tool("good", "r", echo)
				r.tool("bad", "r", bad)
				r.tool("refused", "r", func(context.Context, tool.Invocation) (tool.Result, error) {
					return tool.ErrorResult("PermissionError", tool.CodePermissionDenied, "no"), nil
				})
				r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) { tc.reply(n, y) })
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				got := rec.brief()
				if got[len(got)-2] != tc.want || len(r.model.asked()) != tc.answers {
					t.Fatalf("after %d answers: %q", len(r.model.asked()), got)
				}
				whole(t, r.store.records("s"))
			})
		})
	}
}

// TestStubbornTool: a body that ignores its context is left behind after a
// while with an unknown outcome, and cannot record anything any more.
func TestStubbornTool(t *testing.T) {
	for name, tc := range map[string]struct {
		stop  func(r *rig, a agent.Agent)
		limit time.Duration
	}{
		"cancel": {func(_ *rig, a agent.Agent) { a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") }, 6 * time.Second},
		"cancel, then quiesce": {func(r *rig, a agent.Agent) {
			a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
			time.Sleep(time.Second)
			must(r.t, r.root.Quiesce(context.Background()))
		}, 1800 * time.Millisecond},
		"quiesce": {func(r *rig, _ agent.Agent) { must(r.t, r.root.Quiesce(context.Background())) }, 800 * time.Millisecond},
		"close":   {func(r *rig, _ agent.Agent) { must(r.t, r.reg.Close(context.Background(), "s", agent.Cause{})) }, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				release := make(chan struct{})
				emitted := errors.New("not tried")
				r.tool("stuck", "p", func(_ context.Context, in tool.Invocation) (tool.Result, error) {
					<-release
					emitted = in.Emit(session.Draft{Type: sdkproto.TypeTodoWrite, Data: sdkproto.TodoWrite{}})
					return tool.TextResult("late"), nil
				})
				r.tool("quick", "p", func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
					<-ctx.Done()
					return tool.TextResult("stopped half way"), nil
				})
				r.model.on(once(callBlock("c1", "stuck", "{}"), callBlock("c2", "quick", "{}")))
				a, rec := r.open("s")
				send(t, a, "go")
				synctest.Wait()
				before := time.Now()
				tc.stop(r, a)
				idle(t, a)
				if d := time.Since(before); d > tc.limit {
					t.Errorf("it took %v", d)
				}
				got := rec.brief()
				if !slices.Contains(got, "tool/result #c1 TOOL_OUTCOME_UNKNOWN") || !slices.Contains(got, "tool/result #c2 stopped half way") {
					t.Errorf("got %q", got)
				}
				close(release)
				synctest.Wait()
				if emitted == nil {
					t.Error("a call that was left behind recorded a fact")
				}
				whole(t, r.store.records("s"))
			})
		})
	}
}
