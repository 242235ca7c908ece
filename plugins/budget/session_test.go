package budget_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/plugins/budget"
	"dsh/sdkproto"
)

// prompt runs one turn and gives what its end was, and the codes of its results.
func (r *rig) prompt(a agent.Agent, text string) (end sdkproto.TurnEndReason, codes []string) {
	r.t.Helper()
	from := a.Log().Next()
	if _, err := a.Send(r.t.Context(), []sdkproto.Block{sdkproto.Text(text)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		r.t.Fatal(err)
	}
	if err := a.WhenIdle(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := a.Log().Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	err := r.agents.Events(r.t.Context(), a.ID(), from, func(rec *session.Record) error {
		switch rec.Event.Type {
		case sdkproto.TypeToolResult:
			v, err := session.Decode[sdkproto.ToolResult](rec)
			if err != nil {
				return err
			}
			codes = append(codes, v.Error.Code)
		case sdkproto.TypeTurnEnd:
			v, err := session.Decode[sdkproto.TurnEnd](rec)
			if err != nil {
				return err
			}
			end = v.Reason
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return end, codes
}

// exceeded gives the facts of that kind in a session's log, without what depends on
// the clock.
func (r *rig) exceeded(id string) (facts []sdkproto.BudgetExceeded) {
	r.t.Helper()
	err := r.agents.Events(r.t.Context(), id, 0, func(rec *session.Record) error {
		if rec.Event.Type != sdkproto.TypeBudgetExceeded {
			return nil
		}
		v, err := session.Decode[sdkproto.BudgetExceeded](rec)
		if v.Limit == sdkproto.BudgetTime {
			v.Spent = 0
		}
		facts = append(facts, v)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return facts
}

const (
	calling = `rules: [{reply: [{call: {tool: look, args: {}}}]}]`
	unknown = "UNKNOWN_TOOL"
	over    = "BUDGET_EXCEEDED"
)

// wantOver checks that a turn ended because of a budget.
func wantOver(t *testing.T, end sdkproto.TurnEndReason) {
	t.Helper()
	if end.Kind != sdkproto.EndError || end.Error == nil || end.Error.Code != over {
		t.Errorf("the turn ended as %+v, %+v", end, end.Error)
	}
}

// A turn has its calls, and the next one has as many again; the call beyond them gets
// its result and ends the turn (issue 7).
func TestCallsOfATurn(t *testing.T) {
	r := boot(t, calling, budget.Config{Turn: budget.Limits{ToolCalls: 2}})
	a := r.open("s", agent.OpenNew)
	for range 2 {
		end, codes := r.prompt(a, "go")
		wantOver(t, end)
		if !slices.Equal(codes, []string{unknown, unknown, over}) {
			t.Errorf("results %v", codes)
		}
	}
	want := sdkproto.BudgetExceeded{Scope: "turn", Limit: "toolCalls", Max: 2, Spent: 2}
	if diff := cmp.Diff([]sdkproto.BudgetExceeded{want, want}, r.exceeded("s")); diff != "" {
		t.Error(diff)
	}
}

// Each session has its own calls, and a stored one goes on with what is left (issue
// 7); the process has them for all. What is known of a session goes with it.
func TestCallsOfSessions(t *testing.T) {
	r := boot(t, calling, budget.Config{Session: budget.Limits{ToolCalls: 2}, Process: budget.Limits{ToolCalls: 5}})
	a, b := r.open("a", agent.OpenNew), r.open("b", agent.OpenNew)
	for _, x := range []agent.Agent{a, b} {
		if _, codes := r.prompt(x, "go"); !slices.Equal(codes, []string{unknown, unknown, over}) {
			t.Errorf("results %v", codes)
		}
	}
	if err := r.agents.Close(t.Context(), "a", agent.Cause{}); err != nil {
		t.Fatal(err)
	}
	waitsUntil(t, "forgetting a", func() bool { return r.budget.Sessions() == 1 })
	end, codes := r.prompt(r.open("a", agent.OpenResume), "go on")
	wantOver(t, end)
	if !slices.Equal(codes, []string{over}) {
		t.Errorf("results of the session that goes on: %v", codes)
	}
	if _, codes := r.prompt(r.open("c", agent.OpenNew), "go"); !slices.Equal(codes, []string{unknown, over}) {
		t.Errorf("results of the third session: %v", codes)
	}
	want := []sdkproto.BudgetExceeded{{Scope: "process", Limit: "toolCalls", Max: 5, Spent: 5}}
	if diff := cmp.Diff(want, r.exceeded("c")); diff != "" {
		t.Error(diff)
	}
}

// The tokens of a stored session count, whoever used them (issue 7; case B86).
func TestTokensOfASession(t *testing.T) {
	r := boot(t, "rules: [{reply: [{text: fine}, {usage: {inputTokens: 30000, outputTokens: 10000}}]}]", budget.Config{Session: budget.Limits{Tokens: 50_000}})
	a := r.open("s", agent.OpenNew)
	if end, _ := r.prompt(a, "go"); end.Kind != sdkproto.EndCompleted {
		t.Errorf("the turn ended as %+v", end)
	}
	if err := r.agents.Close(t.Context(), "s", agent.Cause{}); err != nil {
		t.Fatal(err)
	}
	waitsUntil(t, "forgetting s", func() bool { return r.budget.Sessions() == 0 })
	a = r.open("s", agent.OpenResume)
	if end, _ := r.prompt(a, "go on"); end.Kind != sdkproto.EndCompleted {
		t.Errorf("the second turn ended as %+v, %+v", end, end.Error) // 10000 are left, and it had to fit
	}
	end, _ := r.prompt(a, "go on")
	wantOver(t, end)
	if got := r.exceeded("s"); len(got) != 1 || got[0].Scope != "session" || got[0].Limit != "tokens" || got[0].Spent != 80_000 {
		t.Errorf("facts %+v", got)
	}
}

// A request, and a call, that is under way when the time is up is cut short, and the
// turn ends with the reason; the next turn has its own time (issue 7).
func TestTimeOfATurn(t *testing.T) {
	r := boot(t, "rules: [{when: {matches: slow}, reply: [{text: well}, {delay: 10m}]}, {reply: fine}]",
		budget.Config{Turn: budget.Limits{Time: kernel.Duration(150 * time.Millisecond)}})
	a := r.open("s", agent.OpenNew)
	end, _ := r.prompt(a, "slow")
	wantOver(t, end)
	if diff := cmp.Diff([]sdkproto.BudgetExceeded{{Scope: "turn", Limit: "time", Max: 0.15}}, r.exceeded("s")); diff != "" {
		t.Error(diff)
	}
	if end, _ := r.prompt(a, "quick"); end.Kind != sdkproto.EndCompleted {
		t.Errorf("the next turn ended as %+v", end)
	}
}

// Every limit has its place in the config, and nonsense is refused with its key.
func TestConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		config budget.Config
		want   string
	}{
		"nothing":  {budget.Config{LeastOutput: 1, Unpriced: "allow"}, ""},
		"money":    {budget.Config{LeastOutput: 1, Unpriced: "allow", Turn: budget.Limits{USD: -1}}, "/turn/usd"},
		"too much": {budget.Config{LeastOutput: 1, Unpriced: "allow", Process: budget.Limits{USD: 1e7}}, "/process/usd"},
		"tokens":   {budget.Config{LeastOutput: 1, Unpriced: "allow", Session: budget.Limits{Tokens: -1}}, "/session/tokens"},
		"calls":    {budget.Config{LeastOutput: 1, Unpriced: "allow", Subagent: budget.Limits{ToolCalls: -1}}, "/subagent/toolCalls"},
		"time":     {budget.Config{LeastOutput: 1, Unpriced: "allow", Turn: budget.Limits{Time: -1}}, "/turn/time"},
		"least":    {budget.Config{Unpriced: "allow"}, "/leastOutput"},
		"unpriced": {budget.Config{LeastOutput: 1, Unpriced: "guess"}, "/unpriced"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			err := tc.config.Validate()
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				for _, one := range joined.Unwrap() {
					if f, ok := one.(*kernel.FieldError); ok {
						got += f.Pointer
					}
				}
			}
			if got != tc.want || (err == nil) != (tc.want == "") {
				t.Errorf("%v at %q, want %q", err, got, tc.want)
			}
		})
	}
}
