package agentloop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

// A hook on the end of a turn may give the model more to do, or the turn another
// reason to end; one that fails stops nothing (spec stream-json 6.5 rule 5).
func TestStopHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hooks := newHooked(t)
		var seen []agent.Stopping
		must(t, hooks.OnStop(r.owner, 0, "broken", func(context.Context, agent.Stopping) (agent.Onward, error) {
			return agent.Onward{Prompt: "never said"}, errors.New("broken")
		}))
		must(t, hooks.OnStop(r.owner, 1, "tests", func(_ context.Context, s agent.Stopping) (agent.Onward, error) {
			seen = append(seen, s)
			switch {
			case s.Turn == 2:
				return agent.Onward{End: &sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: "enough"}}}, nil
			case s.Continued < 2:
				return agent.Onward{Prompt: "run the tests"}, nil
			}
			return agent.Onward{}, nil
		}))
		must(t, hooks.OnStop(r.owner, 2, "style", func(_ context.Context, s agent.Stopping) (agent.Onward, error) {
			if s.Continued == 0 {
				return agent.Onward{Prompt: "and the linter"}, nil
			}
			return agent.Onward{}, nil
		}))
		a, rec := r.open("s")
		send(t, a, "one")
		idle(t, a)
		send(t, a, "two")
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["one"]`, "running",
			"turn/start 1", `inbox next-turn at 0 -1 +[]`, "step/start 1.1", "user one", "assistant ok", "step/end 1.1",
			"step/start 1.2", "user run the tests\n\nand the linter", "assistant ok", "step/end 1.2",
			"step/start 1.3", "user run the tests", "assistant ok", "step/end 1.3", "turn/end 1 completed", "idle",
			`inbox next-turn at 0 -0 +["two"]`, "running",
			"turn/start 2", `inbox next-turn at 0 -1 +[]`, "step/start 2.1", "user two", "assistant ok", "step/end 2.1", "turn/end 2 blocked hook", "idle",
		}
		if diff := cmp.Diff(want, rec.brief()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if len(seen) != 4 || seen[0].Last != "ok" || seen[2].Continued != 2 || seen[3].Continued != 0 || seen[3].Step != 1 {
			t.Errorf("the hook saw %+v", seen)
		}
	})
}

// ender is a tool whose result ends the turn.
func ender(name string, end *sdkproto.TurnEndReason) tool.Tool {
	return tool.Typed(tool.Spec{Name: name}, func(context.Context, tool.Invocation, struct{}) (tool.Result, error) {
		res := tool.TextResult("last")
		res.EndTurn = end
		return res, nil
	})
}

// A result may end its turn: no further call is started, and each has a result
// (case B41).
func TestResultEndsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hook := &sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: "stop"}}
		must(t, r.tools.Register(r.owner, ender("last", hook)))
		must(t, r.tools.Register(r.owner, ender("abort", &sdkproto.TurnEndReason{Kind: sdkproto.EndAborted})))
		a, rec := r.open("s")
		for _, tc := range []struct{ tool, end, after string }{
			{"last", "turn/end 1 blocked hook", sdkproto.CodeAbortedBeforeDispatch},
			{"abort", "turn/end 2 aborted user", sdkproto.CodeAbortedBeforeDispatch},
		} {
			r.model.on(func(_ context.Context, _ int, _ llm.Request, y yield) {
				ask(y, callBlock(tc.tool+"1", tc.tool, "{}"), callBlock(tc.tool+"2", tc.tool, "{}"))
			})
			send(t, a, tc.tool)
			idle(t, a)
			lines := rec.brief()
			for _, want := range []string{"tool/result #" + tc.tool + "1 last", "tool/result #" + tc.tool + "2 " + tc.after, tc.end} {
				if !slices.Contains(lines, want) {
					t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
				}
			}
		}
		if n := len(r.model.asked()); n != 2 {
			t.Errorf("%d requests, want one a turn", n)
		}
	})
}

// What a client says about the system prompt lies over the sections (S036).
func TestSystem(t *testing.T) {
	text := func(s string) *string { return &s }
	for _, tc := range []struct {
		name   string
		system *agent.System
		want   string
	}{
		{"nothing said", nil, "section"},
		{"replaced", &agent.System{Replace: text("mine")}, "mine"},
		{"replaced by nothing", &agent.System{Replace: text("")}, ""},
		{"appended", &agent.System{Append: "more"}, "section\n\nmore"},
		{"both", &agent.System{Replace: text("mine"), Append: "more"}, "mine\n\nmore"},
		{"appended to nothing", &agent.System{Replace: text(""), Append: "more"}, "more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			must(t, r.sections.Register(r.owner, "s", func(prompt.Facts) string { return "section" }))
			s := spec("s")
			s.System = tc.system
			a, err := r.reg.Open(t.Context(), s, agent.OpenNew)
			must(t, err)
			send(t, a, "hi")
			idle(t, a)
			if got := r.model.asked()[0].Header.System; got != tc.want {
				t.Errorf("system prompt %q, want %q", got, tc.want)
			}
		})
	}
}

// An agent may have a bound of its own on the steps of a turn; the count starts
// anew with each turn (spec stream-json 11.3).
func TestOwnMaxSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		must(t, r.tools.Register(r.owner, ender("look", nil)))
		r.model.on(func(_ context.Context, _ int, _ llm.Request, y yield) {
			ask(y, callBlock("", "look", "{}"))
		})
		rec := r.record("s", 1<<20)
		s := spec("s")
		s.MaxSteps = 2
		a, err := r.reg.Open(t.Context(), s, agent.OpenNew)
		must(t, err)
		for range 2 {
			send(t, a, "go")
			idle(t, a)
		}
		lines := rec.brief()
		for _, want := range []string{"turn/end 1 max-steps", "turn/end 2 max-steps"} {
			if !slices.Contains(lines, want) {
				t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
			}
		}
		if n := len(r.model.asked()); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
}

// Another model answers from the next turn on; the turn that runs keeps its own
// (S044, S061).
func TestReroute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, _ := r.open("s")
		must(t, r.tools.Register(r.owner, tool.Typed(tool.Spec{Name: "switch"}, func(context.Context, tool.Invocation, struct{}) (tool.Result, error) {
			if err := a.Reroute(llm.Route{Provider: "fake", Model: "m2"}); err != nil {
				return tool.Result{}, err
			}
			return tool.TextResult(a.Spec().Route.Model), nil
		})))
		r.model.on(func(_ context.Context, n int, _ llm.Request, y yield) {
			if n == 1 {
				ask(y, callBlock("c", "switch", "{}"))
				return
			}
			say(y, "ok")
		})
		for range 2 {
			send(t, a, "go")
			idle(t, a)
		}
		var models []string
		for _, req := range r.model.asked() {
			models = append(models, req.Header.Config.Model)
		}
		if diff := cmp.Diff([]string{"m1", "m1", "m2"}, models); diff != "" {
			t.Errorf("models (-want +got)\n%s", diff)
		}
		if got := results(r.model.asked()[1]); len(got) != 1 || got[0] != "m1" {
			t.Errorf("in its turn the agent says it runs on %q, want m1", got)
		}
		if got := a.Spec().Route.Model; got != "m2" {
			t.Errorf("at rest the agent says it runs on %q, want m2", got)
		}
		if err := a.Reroute(llm.Route{Provider: "nobody", Model: "m3"}); err == nil {
			t.Error("a route that nobody answers for was taken")
		}
	})
}

// Where a model is overloaded, the next fallback answers for the rest of the
// turn; the turn after it begins with the model that was asked for.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(p *agentloop.Params) { p.Config.Retries.Max = 1 })
		r.model.on(func(_ context.Context, _ int, req llm.Request, y yield) {
			switch req.Header.Config.Model {
			case "m1":
				y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeServer, Status: 529, Message: "overloaded"})
			case "m2":
				y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeInvalidRequest, Status: 404, Message: "no such model"})
			default:
				say(y, "ok")
			}
		})
		rec := r.record("s", 1<<20)
		s := spec("s")
		s.Fallbacks = []llm.Route{{Provider: "fake", Model: "m2"}, {Provider: "fake", Model: "m3"}}
		a, err := r.reg.Open(t.Context(), s, agent.OpenNew)
		must(t, err)
		send(t, a, "go")
		idle(t, a)
		send(t, a, "again")
		idle(t, a)
		var models []string
		for _, req := range r.model.asked() {
			models = append(models, req.Header.Config.Model)
		}
		if diff := cmp.Diff([]string{"m1", "m1", "m2", "m3", "m1", "m1", "m2", "m3"}, models); diff != "" {
			t.Errorf("models (-want +got)\n%s", diff)
		}
		if lines := rec.brief(); !slices.Contains(lines, "turn/end 1 completed") || !slices.Contains(lines, "turn/end 2 completed") {
			t.Errorf("got\n%s", strings.Join(lines, "\n"))
		}
	})
}

// A message keeps the id its sender gave it, and an answer what its provider
// called it (S015, S077).
func TestNames(t *testing.T) {
	r := newRig(t)
	r.model.on(func(_ context.Context, _ int, _ llm.Request, y yield) {
		_ = y(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{InputTokens: 1}, MessageID: "msg_1"}, nil) &&
			begin(y, 0, sdkproto.BlockText) && text(y, 0, "no") && end(y, 0, sdkproto.Text("no")) &&
			y(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{InputTokens: 1, OutputTokens: 1}}, nil) &&
			y(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop, Native: "refusal", Sequence: "END"}}, nil)
	})
	a, rec := r.open("s")
	const id = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"
	receipt := a.Post(agent.Message{
		ID: id, Content: []sdkproto.Block{sdkproto.Text("hi")}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: sdkproto.TargetNextTurn,
	})[0]
	must(t, receipt.Wait(t.Context()))
	idle(t, a)
	rec.lines()
	var messages []string
	var answer sdkproto.AssistantMessage
	for _, e := range rec.entries {
		switch {
		case e.Record == nil:
		case e.Record.Event.Type == sdkproto.TypeUserMessage:
			messages = append(messages, decode[sdkproto.Message](e.Record).ID)
		case e.Record.Event.Type == sdkproto.TypeAssistantMessage:
			answer = decode[sdkproto.AssistantMessage](e.Record)
		}
	}
	if receipt.ID != id || !slices.Contains(messages, id) {
		t.Errorf("receipt %s, messages %v; want %s", receipt.ID, messages, id)
	}
	if answer.MessageID != "msg_1" || answer.Native != "refusal" || answer.Sequence != "END" {
		t.Errorf("answer %+v", answer)
	}
}
