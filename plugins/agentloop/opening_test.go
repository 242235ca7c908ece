package agentloop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

// newHooked makes a rig whose loop has hooks.
func newHooked(t *testing.T) (*rig, *agent.Hooks) {
	hooks := agent.NewHooks()
	return newRig(t, func(p *agentloop.Params) { p.Hooks = hooks }), hooks
}

func note(kind, text string) sdkproto.Message {
	return sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: kind, Form: "instructions"}}
}

// What a session should know stands in front of the prompt, and is told again
// only when it has changed (spec jsonrpc 10.7, S137).
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hooks := newHooked(t)
		text := "be brief"
		must(t, hooks.OnContext(r.owner, 0, "instructions", func(_ context.Context, o agent.Opening) ([]sdkproto.Message, error) {
			if o.SessionID != "s" || o.CWD != "/srv/dir" || o.Route.Model != "m1" {
				t.Errorf("opening %+v", o)
			}
			return []sdkproto.Message{note("agent-instructions", text), note("date", "today")}, nil
		}))
		must(t, hooks.OnContext(r.owner, 0, "broken", func(context.Context, agent.Opening) ([]sdkproto.Message, error) {
			panic("no context")
		}))
		a, rec := r.open("s")
		for _, prompt := range []string{"one", "two"} {
			send(t, a, prompt)
			idle(t, a)
		}
		text = "be long"
		send(t, a, "three")
		idle(t, a)
		var users []string
		for _, l := range rec.lines() {
			if strings.HasPrefix(l, "user ") {
				users = append(users, l)
			}
		}
		if d := cmp.Diff([]string{"user be brief", "user today", "user one", "user two", "user be long", "user three"}, users); d != "" {
			t.Error(d)
		}
		if !strings.Contains(r.stderr.String(), "hook broken: panic: no context") {
			t.Errorf("stderr does not name the hook:\n%s", r.stderr)
		}
	})
}

// A prompt that a hook refuses ends its turn as blocked and reaches no model; the
// next one runs (spec jsonrpc 5.4).
func TestBlockedPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hooks := newHooked(t)
		must(t, hooks.OnPrompt(r.owner, 0, "guard", func(_ context.Context, p agent.Prompt) (agent.Verdict, error) {
			switch text := sdkproto.TextOf(p.Message.Content); text {
			case "bad":
				return agent.Verdict{Block: true, Reason: "no secrets"}, nil
			case "fails":
				return agent.Verdict{}, errors.New("out of order")
			default:
				return agent.Verdict{Context: []string{"said of " + text}}, nil
			}
		}))
		a, rec := r.open("s")
		a.Post(message("bad"), message("good"), message("fails"))
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["bad"]`, "running", `inbox next-turn at 1 -0 +["good"]`, `inbox next-turn at 2 -0 +["fails"]`,
			"turn/start 1", "inbox next-turn at 0 -1 +[]", "turn/end 1 blocked hook",
			"turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user good", "user said of good", "assistant ok", "step/end 2.1", "turn/end 2 completed",
			"turn/start 3", "inbox next-turn at 0 -1 +[]", "step/start 3.1", "user fails", "assistant ok", "step/end 3.1", "turn/end 3 completed",
			"idle",
		}
		if d := cmp.Diff(want, rec.brief()); d != "" {
			t.Error(d)
		}
		for _, req := range r.model.asked() {
			for _, m := range req.Messages {
				if sdkproto.TextOf(m.Content) == "bad" {
					t.Error("the model has seen the prompt that was refused")
				}
			}
		}
	})
}

func message(text string) agent.Message {
	return agent.Message{
		Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: sdkproto.TargetNextTurn,
	}
}

// A hook that does not end is cut short when its prompt is cancelled, and holds
// up no receipt.
func TestCancelDuringHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hooks := newHooked(t)
		must(t, hooks.OnPrompt(r.owner, 0, "slow", func(ctx context.Context, p agent.Prompt) (agent.Verdict, error) {
			if sdkproto.TextOf(p.Message.Content) == "quick" {
				return agent.Verdict{}, nil
			}
			<-ctx.Done()
			return agent.Verdict{}, ctx.Err()
		}))
		a, rec := r.open("s")
		send(t, a, "stuck") // returns although the hook hangs
		synctest.Wait()
		if !a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") {
			t.Error("nothing was cancelled")
		}
		idle(t, a)
		send(t, a, "quick")
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["stuck"]`, "running", "inbox next-turn at 0 -1 +[] canceled", "idle",
			`inbox next-turn at 0 -0 +["quick"]`, "running",
			"turn/start 1", "inbox next-turn at 0 -1 +[]", "step/start 1.1", "user quick", "assistant ok", "step/end 1.1", "turn/end 1 completed", "idle",
		}
		if d := cmp.Diff(want, rec.brief()); d != "" {
			t.Error(d)
		}
	})
}

// A request that is too long is made again after a keeper has made room, and
// three times at the most; what cannot be made to fit is set aside, so that the
// session stays usable (case B61 f).
func TestKeeper(t *testing.T) {
	for _, tt := range []struct {
		name string
		room func(n int) bool
		want []string
	}{
		{"makes room", func(int) bool { return true }, []string{"user shorter", "request/prefix; messages parts of the history were replaced (keeper)", "assistant ok", "turn/end 1 completed"}},
		{"makes none", func(int) bool { return false }, []string{"turn/end 1 error CONTEXT_WINDOW_EXCEEDED", "turn/end 2 completed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, hooks := newHooked(t)
				asked := 0
				must(t, hooks.OnStep(r.owner, 0, "keeper", func(_ context.Context, s agent.Step) (bool, error) {
					if s.Refused == nil {
						return false, nil
					}
					asked++
					if !tt.room(asked) {
						return false, nil
					}
					var last session.Node
					s.Agent.Log().View(func() { last = s.State.Surface.Nodes()[0] })
					m := note("plugin", "shorter")
					m.Source.Plugin, m.Role, m.ID = "keeper", sdkproto.RoleUser, last.Message.ID
					_, err := s.Agent.Log().Append(session.Draft{
						Type: sdkproto.TypeUserMessage, Data: m, Surface: session.Replace(last.Seq, last.Seq), Sources: []int64{last.Seq},
					})
					return true, err
				}))
				r.model.reply = func(_ context.Context, n int, req llm.Request, y yield) {
					if slices.ContainsFunc(req.Messages, func(m sdkproto.Message) bool { return sdkproto.TextOf(m.Content) == "long" }) {
						y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeContextWindow, Message: "too long"})
						return
					}
					say(y, "ok")
				}
				a, rec := r.open("s")
				send(t, a, "long")
				idle(t, a)
				send(t, a, "next")
				idle(t, a)
				lines := rec.lines()
				for _, w := range tt.want {
					if !slices.Contains(lines, w) {
						t.Errorf("no %q in\n%s", w, strings.Join(lines, "\n"))
					}
				}
				if asked != 1 {
					t.Errorf("the keeper was asked %d times, not once", asked)
				}
			})
		})
	}
}

// A keeper that always finds something to replace does not make a loop.
func TestKeeperWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hooks := newHooked(t)
		must(t, hooks.OnStep(r.owner, 0, "keeper", func(_ context.Context, s agent.Step) (bool, error) { return s.Refused != nil, nil }))
		r.model.reply = func(_ context.Context, _ int, _ llm.Request, y yield) {
			y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeContextWindow, Message: "too long"})
		}
		a, rec := r.open("s")
		send(t, a, "long")
		idle(t, a)
		if n := len(r.model.asked()); n != 4 {
			t.Errorf("%d requests, want one and three more", n)
		}
		if !slices.Contains(rec.lines(), "turn/end 1 error CONTEXT_WINDOW_EXCEEDED") {
			t.Error("the turn does not end with the provider's error")
		}
	})
}

// A running turn keeps what was live when it began.
func TestGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var generations []kernel.Generation
		r.tool("look", "", func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			generations = append(generations, in.Generation)
			return tool.TextResult("seen"), nil
		})
		r.model.reply = func(_ context.Context, n int, _ llm.Request, y yield) {
			if n == 1 {
				ask(y, callBlock("1", "look", "{}"))
				return
			}
			say(y, "ok")
		}
		a, rec := r.open("s")
		send(t, a, "go")
		idle(t, a)
		if d := cmp.Diff([]kernel.Generation{0}, generations); d != "" || !slices.Contains(rec.lines(), "turn/end 1 completed") {
			t.Error(d, rec.lines())
		}
	})
}
