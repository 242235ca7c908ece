package agentloop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

// TestAnswers runs one prompt against one kind of answer.
func TestAnswers(t *testing.T) {
	noRetry := func(p *agentloop.Params) { p.Config.Retries.Max = 0 }
	for name, tc := range map[string]struct {
		reply func(context.Context, int, llm.Request, yield)
		want  []string // from the first chunk on
	}{
		"max tokens drops the calls": {
			func(_ context.Context, _ int, _ llm.Request, y yield) {
				_ = begin(y, 0, sdkproto.BlockText) && text(y, 0, "half") && begin(y, 1, sdkproto.BlockToolCall) &&
					end(y, 0, sdkproto.Text("half")) && end(y, 1, callBlock("c1", "echo", `{"a":`)) && finish(y, sdkproto.FinishMaxTokens)
			},
			[]string{"chunk block-start", "chunk text-delta", "chunk block-start", "chunk block-end", "chunk block-end", "chunk usage", "chunk finish max-tokens",
				"assistant half", "step/end 1.1", "turn/end 1 max-tokens", "idle"},
		},
		"stop without a block is empty": {
			func(_ context.Context, _ int, _ llm.Request, y yield) { finish(y, sdkproto.FinishStop) },
			[]string{"chunk usage", "chunk finish stop", "request/aside", "step/end 1.1", "turn/end 1 error EMPTY_RESPONSE", "idle"},
		},
		"reasoning alone is an answer": {
			func(_ context.Context, _ int, _ llm.Request, y yield) {
				_ = end(y, 0, sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "hm"}) && finish(y, sdkproto.FinishStop)
			},
			[]string{"chunk block-end", "chunk usage", "chunk finish stop", "assistant (hm)", "step/end 1.1", "turn/end 1 completed", "idle"},
		},
		"blocks from deltas alone": {
			func(_ context.Context, n int, _ llm.Request, y yield) {
				if n > 1 {
					say(y, "done")
					return
				}
				reason := func(s string) bool {
					return y(sdkproto.Chunk{Type: sdkproto.ChunkReasoningDelta, Index: 0, Text: s}, nil)
				}
				delta := func(id, name, args string) bool {
					return y(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: 2, ID: id, Name: name, ArgumentsDelta: args}, nil)
				}
				_ = reason("h") && reason("m") && text(y, 1, "a") && text(y, 1, "b") && delta("c9", "echo", `{"a"`) && delta("c9", "", `:1}`) && finish(y, sdkproto.FinishStop)
			},
			[]string{"chunk reasoning-delta", "chunk reasoning-delta", "chunk text-delta", "chunk text-delta", "chunk tool-call-delta", "chunk tool-call-delta",
				"chunk usage", "chunk finish stop", "assistant (hm) ab echo#c9", "tool/call echo#c9", `tool/result #c9 {"a":1}`, "step/end 1.1", "step/start 1.2",
				"chunk block-start", "chunk text-delta", "chunk block-end", "chunk usage", "chunk finish stop", "assistant done", "step/end 1.2", "turn/end 1 completed", "idle"},
		},
		"an error that cannot be retried": {
			func(_ context.Context, _ int, _ llm.Request, y yield) { fails(y, llm.CodeAuth) },
			[]string{"chunk finish error", "step/end 1.1", "turn/end 1 error AUTH", "idle"},
		},
		"an error told by a finish chunk": {
			func(_ context.Context, _ int, _ llm.Request, y yield) {
				y(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishError, Failure: &sdkproto.Failure{Code: "QUOTA"}}}, nil)
			},
			[]string{"chunk finish error", "step/end 1.1", "turn/end 1 error QUOTA", "idle"},
		},
		"no finish": {
			func(_ context.Context, _ int, _ llm.Request, y yield) { text(y, 0, "x") },
			[]string{"chunk text-delta", "chunk finish error", "step/end 1.1", "turn/end 1 error STREAM_CLOSED", "idle"},
		},
		"unknown finish": {
			func(_ context.Context, _ int, _ llm.Request, y yield) { _ = text(y, 0, "x") && finish(y, "tired") },
			[]string{"chunk text-delta", "chunk usage", "chunk finish tired", "request/aside", "step/end 1.1", "turn/end 1 error MALFORMED_RESPONSE", "idle"},
		},
		"block-end without block": {
			func(_ context.Context, _ int, _ llm.Request, y yield) {
				y(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd}, nil)
			},
			[]string{"chunk finish error", "step/end 1.1", "turn/end 1 error MALFORMED_RESPONSE", "idle"},
		},
		"replay state that is not JSON": {
			func(_ context.Context, _ int, _ llm.Request, y yield) {
				y(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop}, ReplayState: []byte("{\n")}, nil)
			},
			[]string{"chunk finish error", "step/end 1.1", "turn/end 1 error MALFORMED_RESPONSE", "idle"},
		},
		"panic": {
			func(_ context.Context, _ int, _ llm.Request, y yield) { text(y, 0, "x"); panic("boom") },
			[]string{"chunk text-delta", "chunk finish error", "step/end 1.1", "turn/end 1 error INTERNAL", "idle"},
		},
		"chunks after the finish are not taken": {
			func(_ context.Context, _ int, _ llm.Request, y yield) {
				if say(y, "ok") {
					panic("asked for more after the finish")
				}
			},
			[]string{"chunk block-start", "chunk text-delta", "chunk block-end", "chunk usage", "chunk finish stop", "assistant ok", "step/end 1.1", "turn/end 1 completed", "idle"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, noRetry)
				r.tool("echo", "r", echo)
				r.model.on(tc.reply)
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				got := rec.lines()
				from := slices.IndexFunc(got, func(l string) bool { return strings.HasPrefix(l, "chunk") })
				if d := cmp.Diff(tc.want, got[from:]); d != "" {
					t.Fatal(d, r.stderr)
				}
				whole(t, r.store.records("s"))
				// One failing prompt ends only its own turn (spec jsonrpc 7.3).
				r.model.on(nil)
				send(t, a, "next")
				idle(t, a)
				if got := rec.brief(); got[len(got)-2] != "turn/end 2 completed" {
					t.Fatalf("the next turn ended with %q", got[len(got)-2])
				}
			})
		})
	}
}

// TestErrorTurnThenQueued is spec jsonrpc 14 line 8.
func TestErrorTurnThenQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := make(chan struct{})
		r.model.on(func(_ context.Context, n int, req llm.Request, y yield) {
			if n == 1 {
				<-hold
				fails(y, llm.CodeInvalidRequest)
				return
			}
			say(y, "re "+lastUserText(req))
		})
		a, rec := r.open("s")
		send(t, a, "A")
		send(t, a, "B")
		close(hold)
		idle(t, a)
		want := []string{"step/end 1.1", "turn/end 1 error INVALID_REQUEST", "turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user B", "assistant re B", "step/end 2.1", "turn/end 2 completed", "idle"}
		got := rec.brief()
		if d := cmp.Diff(want, got[len(got)-len(want):]); d != "" {
			t.Fatal(d)
		}
	})
}

// TestRetry is spec jsonrpc 10.6 and 14 line 11.
func TestRetry(t *testing.T) {
	for name, tc := range map[string]struct {
		reply func(n int, y yield)
		waits []time.Duration // least waits before each further attempt, at most 22 % more
		want  []string        // from the first attempt on, chunks left out
	}{
		"500 twice, then success": {
			func(n int, y yield) {
				if n <= 2 {
					fails(y, llm.CodeServer)
				} else {
					say(y, "after")
				}
			},
			[]time.Duration{450 * time.Millisecond, 900 * time.Millisecond},
			[]string{"llm/retry 1 SERVER", "llm/retry-started 1", "llm/retry 2 SERVER", "llm/retry-started 2", "assistant after", "step/end 1.1", "turn/end 1 completed", "idle"},
		},
		"after chunks nothing of the failed attempt is kept": {
			func(n int, y yield) {
				if n == 1 {
					_ = begin(y, 0, sdkproto.BlockText) && text(y, 0, "lost") && fails(y, llm.CodeStreamClosed)
				} else {
					say(y, "kept")
				}
			},
			[]time.Duration{450 * time.Millisecond},
			[]string{"llm/retry 1 STREAM_CLOSED", "llm/retry-started 1", "assistant kept", "step/end 1.1", "turn/end 1 completed", "idle"},
		},
		"an empty answer": {
			func(n int, y yield) {
				if n == 1 {
					finish(y, sdkproto.FinishStop)
				} else {
					say(y, "full")
				}
			},
			[]time.Duration{450 * time.Millisecond},
			[]string{"llm/retry 1 EMPTY_RESPONSE", "llm/retry-started 1", "assistant full", "step/end 1.1", "turn/end 1 completed", "idle"},
		},
		"five retries and no more": {
			func(_ int, y yield) { fails(y, llm.CodeTransport) },
			[]time.Duration{450 * time.Millisecond, 900 * time.Millisecond, 1800 * time.Millisecond, 3600 * time.Millisecond, 7200 * time.Millisecond},
			[]string{"llm/retry 1 TRANSPORT", "llm/retry-started 1", "llm/retry 2 TRANSPORT", "llm/retry-started 2", "llm/retry 3 TRANSPORT", "llm/retry-started 3",
				"llm/retry 4 TRANSPORT", "llm/retry-started 4", "llm/retry 5 TRANSPORT", "llm/retry-started 5", "step/end 1.1", "turn/end 1 error TRANSPORT", "idle"},
		},
		"the provider's wait is kept": {
			func(n int, y yield) {
				if n == 1 {
					y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeRateLimit, RetryAfter: 7 * time.Second})
				} else {
					say(y, "ok")
				}
			},
			[]time.Duration{7 * time.Second},
			[]string{"llm/retry 1 RATE_LIMIT", "llm/retry-started 1", "assistant ok", "step/end 1.1", "turn/end 1 completed", "idle"},
		},
		"a longer one ends retrying": {
			func(_ int, y yield) {
				y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeRateLimit, RetryAfter: 11 * time.Second})
			},
			nil,
			[]string{"step/end 1.1", "turn/end 1 error RATE_LIMIT", "idle"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var at []time.Time
				r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
					at = append(at, time.Now())
					tc.reply(n, y)
				})
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				got := rec.brief()
				if d := cmp.Diff(tc.want, got[6:]); d != "" {
					t.Fatal(d)
				}
				if len(at) != len(tc.waits)+1 {
					t.Fatalf("%d attempts", len(at))
				}
				for i, least := range tc.waits {
					if wait := at[i+1].Sub(at[i]); wait < least || wait > least*123/100 {
						t.Errorf("wait %d was %v, want about %v", i+1, wait, least)
					}
				}
				// All attempts of a request are one retry, and the message cites the
				// chunks of the good attempt alone.
				ids := map[string]bool{}
				var good []int64
				for _, rd := range r.store.records("s") {
					switch rd.Event.Type {
					case sdkproto.TypeLLMRetry:
						l := decode[sdkproto.LLMRetry](rd)
						ids[l.RetryID] = true
						if l.Mode != "normal" || l.Provider != "fake" || l.MaxRetries != 5 || l.Failure.Code == "" {
							t.Errorf("llm/retry %+v", l)
						}
					case sdkproto.TypeLLMRetryStarted:
						ids[decode[sdkproto.LLMRetryStarted](rd).RetryID] = true
						good = nil
					case sdkproto.TypeAssistantChunk:
						good = append(good, rd.Event.Seq)
					case sdkproto.TypeAssistantMessage:
						if d := cmp.Diff(good, rd.Event.SourceEventSeqs); d != "" {
							t.Error(d)
						}
					}
				}
				if len(tc.waits) > 0 && len(ids) != 1 {
					t.Errorf("retry ids %v", ids)
				}
				whole(t, r.store.records("s"))
			})
		})
	}
}

// TestFailure checks what a turn/end tells of a failed request.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(p *agentloop.Params) { p.Config.Retries.Max = 0 })
		r.model.on(func(_ context.Context, _ int, _ llm.Request, y yield) {
			y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeServer, Message: "boom", Status: 503, RetryAfter: 2 * time.Second, RequestID: "rid-1"})
		})
		a, _ := r.open("s")
		send(t, a, "go")
		idle(t, a)
		records := r.store.records("s")
		want := sdkproto.TurnEnd{Turn: 1, Reason: sdkproto.TurnEndReason{Kind: "error", Error: &sdkproto.Failure{
			Message: "boom", Code: "SERVER", Status: 503, ProviderRetryAfterMs: 2000, RequestID: "rid-1",
		}}}
		if d := cmp.Diff(want, decode[sdkproto.TurnEnd](records[len(records)-1])); d != "" {
			t.Fatal(d)
		}
	})
}

// TestForeignPanics: a panic in somebody else's code ends one turn or one
// call, and the log stays whole.
func TestForeignPanics(t *testing.T) {
	for name, tc := range map[string]struct {
		sabotage func(r *rig)
		want     string
	}{
		"resolve": {func(r *rig) {
			calls := 0
			r.model.resolve = func(to llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
				if calls++; calls > 1 { // the first is that of Open
					panic("boom")
				}
				return to, sdkproto.AdapterDefaults{}, llm.Info{}, nil
			}
		}, "turn/end 1 error INTERNAL"},
		"section": {func(r *rig) {
			must(r.t, r.sections.Register(r.owner, "bad", func(prompt.Facts) string { panic("boom") }))
		}, "turn/end 1 error INTERNAL"},
		"tool": {func(r *rig) {
			r.tool("bad", "", func(context.Context, tool.Invocation) (tool.Result, error) { panic("boom") })
		}, "tool/result #c1 TOOL_FAILED"},
		"stage": {func(r *rig) {
			r.tool("bad", "", echo)
			must(r.t, r.pipeline.Use(r.owner, tool.OrderGate, "gate", func(context.Context, tool.Tool, tool.Invocation, tool.Next) (tool.Result, error) {
				panic("boom")
			}))
		}, "tool/result #c1 TOOL_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				tc.sabotage(r)
				r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
					if n == 1 {
						ask(y, callBlock("c1", "bad", "{}"))
					} else {
						say(y, "ok")
					}
				})
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				if got := rec.brief(); !slices.Contains(got, tc.want) || got[len(got)-1] != "idle" {
					t.Fatalf("want %q in %q", tc.want, got)
				}
				whole(t, r.store.records("s"))
			})
		})
	}
	t.Run("store, during a call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.tool("echo", "", echo)
			panicOnce(r, sdkproto.TypeToolCall)
			r.model.on(once(callBlock("c1", "echo", "{}"), callBlock("c2", "echo", "{}")))
			a, rec := r.open("s")
			send(t, a, "go")
			idle(t, a)
			want := []string{"assistant echo#c1 echo#c2", "tool/result #c1 TOOL_NOT_STARTED", "tool/result #c2 TOOL_NOT_STARTED", "step/end 1.1", "turn/end 1 error INTERNAL", "idle"}
			if d := cmp.Diff(want, rec.brief()[6:]); d != "" {
				t.Error(d)
			}
			whole(t, r.store.records("s"))
			send(t, a, "next")
			idle(t, a)
		})
	})
	for name, typ := range map[string]string{"store, at a turn's start": sdkproto.TypeTurnStart, "store, at a turn's end": sdkproto.TypeTurnEnd} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				panicOnce(r, typ)
				a, rec := r.open("s")
				send(t, a, "go")
				idle(t, a)
				if got := rec.brief(); got[len(got)-1] != "idle" {
					t.Errorf("got %q", got)
				}
				if _, err := a.Send(t.Context(), nil, sdkproto.Source{}, sdkproto.TargetNextTurn); !errors.Is(err, session.ErrClosed) {
					t.Errorf("the session took a message: %v", err)
				}
				// Nothing is lost: the next load repairs it.
				must(t, r.reg.Close(t.Context(), "s", agent.Cause{}))
				a, _ = r.open("s")
				send(t, a, "next")
				idle(t, a)
				whole(t, r.store.records("s"))
			})
		})
	}
	t.Run("watcher", func(t *testing.T) {
		r := newRig(t)
		must(t, r.reg.Watch(r.owner, func(agent.Agent, agent.Spec) { panic("boom") }))
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		if got := rec.brief(); got[len(got)-2] != "turn/end 1 completed" {
			t.Fatalf("got %q", got)
		}
	})
}

func panicOnce(r *rig, typ string) {
	done := false
	r.store.appendErr = func(records []session.Record) error {
		if !done && slices.ContainsFunc(records, func(rd session.Record) bool { return rd.Event.Type == typ }) {
			done = true
			panic("boom")
		}
		return nil
	}
}

// TestVerifyRequests: a log that does not read back as it was written keeps the
// request from being sent.
func TestVerifyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store.tamper = func(raw []byte) []byte { return []byte(strings.ReplaceAll(string(raw), "secret", "public")) }
		a, rec := r.open("s")
		send(t, a, "secret")
		idle(t, a)
		if got := rec.brief(); got[len(got)-2] != "turn/end 1 error INTERNAL" {
			t.Fatalf("got %q", got)
		}
		if n := len(r.model.asked()); n > 0 {
			t.Fatalf("%d requests were sent", n)
		}
		records := r.store.records("s")
		if msg := decode[sdkproto.TurnEnd](records[len(records)-1]).Reason.Error.Message; !strings.Contains(msg, "message 0 of the history") {
			t.Fatalf("the difference is not named: %s", msg)
		}
	})
}

// TestBarriers is decision D3: on the disk before the request, before a body
// that changes something, and at the turn's end; and performance rule 6: one
// sync for a receipt and its request.
func TestBarriers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		syncs := map[string]int{}
		note := func(what string) { syncs[what] = r.store.syncCount() }
		r.tool("look", "r", func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
			note("look")
			return echo(ctx, in)
		})
		r.tool("change", "", func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
			note("change")
			return echo(ctx, in)
		})
		r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
			switch n {
			case 1:
				synctest.Wait()
				note("request 1")
				ask(y, callBlock("c1", "look", "{}"), callBlock("c2", "change", "{}"))
			case 2:
				note("request 2")
				say(y, "ok")
			}
		})
		a, _ := r.open("s")
		send(t, a, "go")
		idle(t, a)
		synctest.Wait()
		note("end")
		want := map[string]int{"request 1": 1, "look": 1, "change": 2, "request 2": 3, "end": 4}
		if d := cmp.Diff(want, syncs); d != "" {
			t.Fatal(d)
		}
	})
}

// TestSilentModel is case B95: a model that says nothing holds up nobody else.
func TestSilentModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.model.on(func(ctx context.Context, _ int, req llm.Request, y yield) {
			if req.SessionID == "silent" {
				<-ctx.Done()
				return
			}
			say(y, "from "+req.SessionID)
		})
		silent, _ := r.open("silent")
		send(t, silent, "go")
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		if got := rec.brief(); got[len(got)-4] != "assistant from s" {
			t.Fatalf("got %q", got)
		}
		if silent.Status() != sdkproto.StatusRunning {
			t.Fatal("the silent session is not running")
		}
	})
}

// TestTwoSessions is spec jsonrpc 14 line 9.
func TestTwoSessions(t *testing.T) {
	r := newRig(t)
	r.model.on(func(_ context.Context, _ int, req llm.Request, y yield) {
		_ = begin(y, 0, sdkproto.BlockText)
		for range 50 {
			if !text(y, 0, req.SessionID+" ") {
				return
			}
		}
		_ = end(y, 0, sdkproto.Text(req.SessionID+": "+lastUserText(req))) && finish(y, sdkproto.FinishStop)
	})
	agents := map[string]agent.Agent{}
	for _, id := range []string{"one", "two"} {
		agents[id], _ = r.open(id)
	}
	for range 20 {
		for id, a := range agents {
			send(t, a, "to "+id)
		}
	}
	for id, a := range agents {
		idle(t, a)
		records := r.store.records(id)
		whole(t, records)
		answers := 0
		for _, rd := range records {
			if l := line(rd); strings.HasPrefix(l, "assistant ") {
				answers++
				if l != "assistant "+id+": to "+id {
					t.Fatalf("session %s holds %q", id, l)
				}
			}
		}
		if answers != 20 {
			t.Fatalf("session %s has %d answers", id, answers)
		}
	}
}

// TestStubbornAdapter: an adapter that does not end with its context holds up
// neither the turn nor the next prompt; its owner names it.
func TestStubbornAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
			if n == 1 {
				_ = begin(y, 0, sdkproto.BlockText) && text(y, 0, "par")
				<-release
				return
			}
			say(y, "ok")
		})
		a, rec := r.open("s")
		send(t, a, "go")
		synctest.Wait()
		before := time.Now()
		a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
		idle(t, a)
		if d := time.Since(before); d > 0 {
			t.Errorf("the turn took %v to end", d)
		}
		send(t, a, "next")
		idle(t, a)
		if got := rec.brief(); !slices.Contains(got, "assistant par INTERRUPTED") || got[len(got)-2] != "turn/end 2 completed" {
			t.Fatalf("got %q", got)
		}
		must(t, r.reg.Close(t.Context(), "s", agent.Cause{Kind: sdkproto.AbortUser}))
		if !strings.Contains(r.stderr.String(), "model request") {
			t.Errorf("what is stuck is not named:\n%s", r.stderr)
		}
		close(release)
	})
}

// TestNoAdapter: a route whose adapter went away fails the turn, not the agent.
func TestNoAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		o := r.owner.Child("adapter")
		must(t, r.router.Register(o, "passing", r.model))
		if _, err := r.reg.CheckRoute(llm.Route{Provider: "nobody"}); !errors.As(err, new(*llm.NoAdapterError)) {
			t.Fatalf("got %v", err)
		}
		s := spec("s")
		s.Route.Provider = "passing"
		rec := r.record("s", 1000)
		a, err := r.reg.Open(t.Context(), s, agent.OpenAny)
		must(t, err)
		must(t, o.Close(context.Background()))
		send(t, a, "go")
		idle(t, a)
		must(t, r.router.Register(r.owner, "passing", r.model))
		send(t, a, "again")
		idle(t, a)
		got := rec.brief()
		if !slices.Contains(got, "turn/end 1 error "+agentloop.CodeNoAdapter) || got[len(got)-2] != "turn/end 2 completed" {
			t.Fatalf("got %q", got)
		}
	})
}
