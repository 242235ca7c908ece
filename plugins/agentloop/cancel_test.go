package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// TestCancel stops a turn at every stage. The log stays paired, the turn ends
// as aborted by the one who asked, and the next prompt gets a request that
// every provider takes (case B41).
func TestCancel(t *testing.T) {
	ready := func(t *testing.T, r *rig) { synctest.Wait() }
	for name, tc := range map[string]struct {
		model func(r *rig) func(context.Context, int, llm.Request, yield)
		// until brings the turn to the stage.
		until func(t *testing.T, r *rig)
		// stuck says that the disk or the client stands still to the end.
		stuck  bool
		chunks bool     // want holds chunks, too
		want   []string // from the first event after the user message on
	}{
		"before the request": {
			stuck: true,
			model: func(r *rig) func(context.Context, int, llm.Request, yield) {
				hold := make(chan struct{})
				r.store.syncing = func() { <-hold }
				r.t.Cleanup(func() { close(hold) })
				return nil
			},
			want: []string{"step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"while the client does not read": {
			stuck: true,
			model: func(r *rig) func(context.Context, int, llm.Request, yield) {
				deaf := session.NewSubscription(r.owner, r.log(), "deaf", 1, func(ctx context.Context, e session.Entry) error {
					<-ctx.Done()
					return ctx.Err()
				})
				must(r.t, r.reg.Watch(r.owner, func(a agent.Agent, _ agent.Spec) { a.Log().Subscribe(deaf) }))
				return func(_ context.Context, _ int, _ llm.Request, y yield) { say(y, "never seen") }
			},
			want: []string{"step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"before the first chunk": {
			model: func(*rig) func(context.Context, int, llm.Request, yield) {
				return func(ctx context.Context, _ int, _ llm.Request, y yield) { <-ctx.Done(); y(sdkproto.Chunk{}, ctx.Err()) }
			},
			want: []string{"step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"in the middle of the text": {
			chunks: true,
			model: func(*rig) func(context.Context, int, llm.Request, yield) {
				return func(ctx context.Context, _ int, _ llm.Request, y yield) {
					y(sdkproto.Chunk{Type: sdkproto.ChunkReasoningDelta, Index: 0, Text: "hm"}, nil)
					text(y, 1, "hel")
					text(y, 1, "lo")
					begin(y, 2, sdkproto.BlockToolCall)
					<-ctx.Done()
					y(sdkproto.Chunk{}, ctx.Err())
				}
			},
			want: []string{"chunk reasoning-delta", "chunk text-delta", "chunk text-delta", "chunk block-start", "assistant (hm) hello INTERRUPTED",
				"step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"in the middle of a call": {
			chunks: true,
			model: func(*rig) func(context.Context, int, llm.Request, yield) {
				return func(ctx context.Context, _ int, _ llm.Request, y yield) {
					y(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: 0, ID: "c1", Name: "echo", ArgumentsDelta: `{"a`}, nil)
					<-ctx.Done()
				}
			},
			want: []string{"chunk tool-call-delta", "step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"while waiting for a retry": {
			chunks: true,
			model: func(*rig) func(context.Context, int, llm.Request, yield) {
				return func(_ context.Context, _ int, _ llm.Request, y yield) {
					_ = text(y, 0, "lost") && fails(y, llm.CodeServer)
				}
			},
			want: []string{"chunk text-delta", "chunk finish error", "llm/retry 1 SERVER", "step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"in the second attempt": {
			chunks: true,
			model: func(*rig) func(context.Context, int, llm.Request, yield) {
				return func(ctx context.Context, n int, _ llm.Request, y yield) {
					if n == 1 {
						_ = text(y, 0, "lost") && fails(y, llm.CodeServer)
						return
					}
					text(y, 0, "kept")
					<-ctx.Done()
				}
			},
			until: func(*testing.T, *rig) { time.Sleep(time.Second); synctest.Wait() },
			want: []string{"chunk text-delta", "chunk finish error", "llm/retry 1 SERVER", "llm/retry-started 1", "chunk text-delta",
				"assistant kept INTERRUPTED", "step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"before the first call": {
			stuck: true,
			model: func(r *rig) func(context.Context, int, llm.Request, yield) {
				r.tool("change", "", echo)
				hold := make(chan struct{})
				r.t.Cleanup(func() { close(hold) })
				return func(_ context.Context, _ int, _ llm.Request, y yield) {
					// The barrier before the body is the next sync.
					r.store.set(func() { r.store.syncing = func() { <-hold } })
					ask(y, callBlock("c1", "change", "{}"), callBlock("c2", "change", "{}"))
				}
			},
			want: []string{"assistant change#c1 change#c2", "tool/call change#c1", "tool/result #c1 ABORTED_BEFORE_DISPATCH",
				"tool/call change#c2", "tool/result #c2 ABORTED_BEFORE_DISPATCH", "step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"during a call": {
			model: func(r *rig) func(context.Context, int, llm.Request, yield) {
				r.tool("wait", "", func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				})
				return func(_ context.Context, _ int, _ llm.Request, y yield) {
					ask(y, callBlock("c1", "wait", "{}"), callBlock("c2", "wait", "{}"))
				}
			},
			want: []string{"assistant wait#c1 wait#c2", "tool/call wait#c1", "tool/result #c1 ABORTED",
				"tool/call wait#c2", "tool/result #c2 ABORTED_BEFORE_DISPATCH", "step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"during parallel calls beyond the pool": {
			model: func(r *rig) func(context.Context, int, llm.Request, yield) {
				r.tool("wait", "pr", func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
					if in.CallID == "c2" {
						return tool.TextResult("done"), nil
					}
					<-ctx.Done()
					return tool.TextResult("stopped"), nil
				})
				return func(_ context.Context, _ int, _ llm.Request, y yield) {
					ask(y, callBlock("c1", "wait", "{}"), callBlock("c2", "wait", "{}"), callBlock("c3", "wait", "{}"), callBlock("c4", "wait", "{}"))
				}
			},
			want: []string{"assistant wait#c1 wait#c2 wait#c3 wait#c4", "tool/call wait#c1", "tool/call wait#c2", "tool/call wait#c3",
				"tool/result #c1 stopped", "tool/result #c2 done", "tool/result #c3 stopped",
				"tool/call wait#c4", "tool/result #c4 ABORTED_BEFORE_DISPATCH", "step/end 1.1", "turn/end 1 aborted user", "idle"},
		},
		"after the calls": {
			model: func(r *rig) func(context.Context, int, llm.Request, yield) {
				r.tool("echo", "r", echo)
				return func(ctx context.Context, n int, _ llm.Request, y yield) {
					if n == 1 {
						ask(y, callBlock("c1", "echo", "{}"))
						return
					}
					<-ctx.Done()
				}
			},
			want: []string{"assistant echo#c1", "tool/call echo#c1", "tool/result #c1 {}", "step/end 1.1", "step/start 1.2",
				"step/end 1.2", "turn/end 1 aborted user", "idle"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(p *agentloop.Params) { p.Config.Pool = 2 })
				rec := r.record("s", 1<<20)
				r.model.on(tc.model(r))
				a, err := r.reg.Open(t.Context(), spec("s"), agent.OpenAny)
				must(t, err)
				sent := make(chan error, 1)
				go func() {
					_, err := a.Send(t.Context(), []sdkproto.Block{sdkproto.Text("go")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
					sent <- err
				}()
				if tc.until == nil {
					tc.until = ready
				}
				tc.until(t, r)
				if !a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") {
					t.Error("there was nothing to cancel")
				}
				idle(t, a)
				got := rec.lines()
				from := slices.Index(got, "user go") + 1
				got = slices.DeleteFunc(got[from:], func(l string) bool {
					return strings.HasPrefix(l, "request/") || strings.HasPrefix(l, "session/title") || !tc.chunks && strings.HasPrefix(l, "chunk")
				})
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Error(d)
				}
				if a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") {
					t.Error("an idle agent had something to cancel")
				}
				whole(t, r.store.records("s"))
				if tc.stuck {
					return
				}
				must(t, <-sent)
				r.model.on(nil)
				send(t, a, "continue")
				idle(t, a)
				if got := rec.brief(); got[len(got)-2] != "turn/end 2 completed" {
					t.Errorf("the next turn: %q", got)
				}
			})
		})
	}
}

// TestCancelMessage: a message that waits is dropped alone, one that runs ends
// its turn, any other is not there.
func TestCancelMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.model.on(func(ctx context.Context, n int, req llm.Request, y yield) {
			if n == 1 {
				<-ctx.Done()
				return
			}
			say(y, "re "+lastUserText(req))
		})
		a, rec := r.open("s")
		one, two, three := send(t, a, "A"), send(t, a, "B"), send(t, a, "C")
		synctest.Wait()
		user := agent.Cause{Kind: sdkproto.AbortUser}
		if !a.Cancel(user, two) || a.Cancel(user, two) || a.Cancel(user, "unknown") {
			t.Error("Cancel of a waiting message")
		}
		if !a.Cancel(agent.Cause{Kind: sdkproto.AbortHook, Reason: "no"}, one) {
			t.Error("Cancel of the running message")
		}
		idle(t, a)
		if a.Cancel(user, three) {
			t.Error("Cancel of a message that has been answered")
		}
		want := []string{
			`inbox next-turn at 0 -0 +["B"]`, `inbox next-turn at 1 -0 +["C"]`, "inbox next-turn at 0 -1 +[] canceled",
			"step/end 1.1", "turn/end 1 aborted hook",
			"turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user C", "assistant re C", "step/end 2.1", "turn/end 2 completed", "idle",
		}
		if d := cmp.Diff(want, rec.brief()[6:]); d != "" {
			t.Fatal(d)
		}
	})
}

// TestCancelAll drops the queue with the turn (decision D23).
func TestCancelAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.model.on(func(ctx context.Context, _ int, _ llm.Request, _ yield) { <-ctx.Done() })
		a, rec := r.open("s")
		for _, text := range []string{"A", "B", "C"} {
			send(t, a, text)
		}
		steer(t, a, "psst")
		synctest.Wait()
		a.Cancel(agent.Cause{Kind: sdkproto.AbortParent}, "")
		idle(t, a)
		got := rec.brief()
		want := []string{"inbox next-step at 0 -1 +[] canceled", "inbox next-turn at 0 -2 +[] canceled", "step/end 1.1", "turn/end 1 aborted parent", "idle"}
		if d := cmp.Diff(want, got[len(got)-5:]); d != "" {
			t.Fatal(d)
		}
	})
}

func steer(t *testing.T, a agent.Agent, text string) {
	t.Helper()
	_, err := a.Send(t.Context(), []sdkproto.Block{sdkproto.Text(text)}, sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: "p"}, sdkproto.TargetNextStep)
	must(t, err)
}

// TestNextStep is spec jsonrpc 7.2: what is sent to the next step enters the
// running turn, or the next one, or opens one.
func TestNextStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var a agent.Agent
		r.tool("nudge", "r", func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
			steer(t, a, "one")
			steer(t, a, "two")
			return echo(ctx, in)
		})
		r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
			switch n {
			case 1:
				ask(y, callBlock("c1", "nudge", "{}"))
			case 2:
				steer(t, a, "three")
				send(t, a, "prompt")
				say(y, "ok")
			default:
				say(y, "ok")
			}
		})
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		steer(t, a, "four")
		idle(t, a)
		want := []string{
			"step/end 1.1", "inbox next-step at 0 -2 +[]", "step/start 1.2", "user one", "user two",
			`inbox next-step at 0 -0 +["three"]`, `inbox next-turn at 0 -0 +["prompt"]`,
			"assistant ok", "step/end 1.2", "turn/end 1 completed",
			"turn/start 2", "inbox next-step at 0 -1 +[]", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user prompt", "user three",
			"assistant ok", "step/end 2.1", "turn/end 2 completed", "idle",
			`inbox next-step at 0 -0 +["four"]`, "running", "turn/start 3", "inbox next-step at 0 -1 +[]", "step/start 3.1", "user four",
			"assistant ok", "step/end 3.1", "turn/end 3 completed", "idle",
		}
		got := rec.brief()
		at := slices.Index(got, "step/end 1.1")
		if d := cmp.Diff(want, got[at:]); d != "" {
			t.Fatal(d)
		}
	})
}

// TestPromptsDuringTurn is case B94 at random times, with and without an
// interrupt: what was not dropped reaches the model once and in order, and idle
// comes after all of it.
func TestPromptsDuringTurn(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 94))
			r := newRig(t)
			r.model.on(func(ctx context.Context, n int, _ llm.Request, y yield) {
				pace := rand.New(rand.NewPCG(seed, uint64(n)))
				_ = begin(y, 0, sdkproto.BlockText)
				for range 20 {
					select {
					case <-time.After(time.Duration(pace.IntN(10)) * time.Millisecond):
					case <-ctx.Done():
						return
					}
					if !text(y, 0, "x") {
						return
					}
				}
				finish(y, sdkproto.FinishStop)
			})
			a, rec := r.open("s")
			send(t, a, "A")
			var want []string
			interrupt := rnd.IntN(5)
			for i, name := range []string{"B", "C", "D", "E"} {
				time.Sleep(time.Duration(rnd.IntN(120)) * time.Millisecond)
				if i == interrupt {
					a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
					want = nil
				}
				send(t, a, name)
				want = append(want, name)
			}
			idle(t, a)
			asked := map[string]int{}
			var order []string
			for _, req := range r.model.asked() {
				text := lastUserText(req)
				if asked[text]++; asked[text] == 1 {
					order = append(order, text)
				}
			}
			if len(order) < len(want) || !slices.Equal(order[len(order)-len(want):], want) {
				t.Errorf("seed %d: asked %q, want at the end %q", seed, order, want)
			}
			for text, n := range asked {
				if n != 1 {
					t.Errorf("seed %d: %q was asked %d times", seed, text, n)
				}
			}
			got := rec.brief()
			if got[len(got)-1] != "idle" || !strings.HasPrefix(got[len(got)-2], "turn/end") {
				t.Errorf("seed %d: ends with %q", seed, got[len(got)-2:])
			}
			whole(t, r.store.records("s"))
		})
	}
}

// TestInboxFull is decision D18; an empty prompt is one too (R14).
func TestInboxFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(p *agentloop.Params) { p.Config.MaxQueued = 3 })
		hold := make(chan struct{})
		r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
			if n == 1 {
				<-hold
			}
			say(y, "ok")
		})
		a, _ := r.open("s")
		send(t, a, "runs")
		synctest.Wait()
		for i := range 3 {
			send(t, a, fmt.Sprint(i))
		}
		before := len(r.store.records("s"))
		_, err := a.Send(t.Context(), nil, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
		if err == nil || !strings.Contains(err.Error(), agent.ErrInboxFull.Error()) {
			t.Fatalf("got %v", err)
		}
		if after := len(r.store.records("s")); after != before {
			t.Error("a refused prompt left events")
		}
		close(hold)
		idle(t, a)
		_, err = a.Send(t.Context(), nil, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
		must(t, err)
		idle(t, a)
		asked := r.model.asked()
		if got := lastUserText(asked[len(asked)-1]); got != llm.EmptyMessage {
			t.Errorf("the model got %q", got)
		}
		if _, err := a.Send(t.Context(), nil, sdkproto.Source{}, "elsewhere"); err == nil {
			t.Error("an unknown list was accepted")
		}
	})
}

// TestPost: messages of one moment have their receipts together, running comes
// directly after the first, and what does not fit is refused alone.
func TestPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(p *agentloop.Params) { p.Config.MaxQueued = 2 })
		a, rec := r.open("s")
		prompt := func(text string) agent.Message {
			return agent.Message{Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: sdkproto.TargetNextTurn}
		}
		receipts := a.Post(prompt("A"), prompt("B"), prompt("C"), agent.Message{Target: "elsewhere"})
		for i, receipt := range receipts {
			err := receipt.Wait(t.Context())
			if accepted := i < 2; accepted != (err == nil) || accepted != (receipt.ID != "") || err == nil && receipt.Wait(t.Context()) != nil {
				t.Errorf("receipt %d: %q, %v", i, receipt.ID, err)
			}
		}
		if !errors.Is(receipts[2].Err, agent.ErrInboxFull) {
			t.Errorf("got %v", receipts[2].Err)
		}
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["A"]`, "running", `inbox next-turn at 1 -0 +["B"]`,
			"turn/start 1", "inbox next-turn at 0 -1 +[]", "step/start 1.1", "user A", "assistant ok", "step/end 1.1", "turn/end 1 completed",
			"turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user B", "assistant ok", "step/end 2.1", "turn/end 2 completed", "idle",
		}
		if d := cmp.Diff(want, rec.brief()); d != "" {
			t.Error(d)
		}
		if got := a.Post(); len(got) != 0 {
			t.Errorf("nothing posted gave %v", got)
		}
	})
}
