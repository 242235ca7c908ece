package project_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// summary is what tells the ends of turns apart.
type summary struct {
	Subtype, Result, Stop, Reason string
	IsError                       bool
	Turns                         int
	// Error is the category of the answer that the harness made, Lines the kinds of
	// the lines from the end of the turn on but for the result.
	Error string
	Lines []string
}

func summarise(lines []line) summary {
	r := lines[len(lines)-1]
	s := summary{Subtype: r.str("subtype"), Result: r.str("result"), Stop: r.str("stop_reason"), Reason: r.str("terminal_reason"), IsError: r["is_error"] == true}
	s.Turns = int(r["num_turns"].(float64))
	for _, l := range lines[:len(lines)-1] {
		if l.str("error") != "" && l.str("type") == "assistant" {
			s.Error = l.str("error")
		}
	}
	return s
}

// TestEnds are the ways in which a turn ends (spec stream-json 3.7, 6.3, 6.6,
// 11.2, 11.3, 12.1; case B80; checklist 50, 80, 82, 86).
func TestEnds(t *testing.T) {
	aborted := func(by string) sdkproto.TurnEndReason {
		return sdkproto.TurnEndReason{Kind: sdkproto.EndAborted, Reason: &sdkproto.AbortReason{Kind: by}}
	}
	hook := func(why string) sdkproto.TurnEndReason {
		return sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: why}}
	}
	calls := func(s *script) {
		s.say(root, "m", nil, sdkproto.Text("I look."), toolCall("c1", "Read", `{"file_path":"/a"}`)).call(root, "c1", "Read", `{"file_path":"/a"}`)
	}
	called := func(s *script) {
		calls(s)
		s.result(root, "c1", sdkproto.ToolResult{}, sdkproto.Text("content"))
	}
	says := func(s *script) { s.say(root, "m", nil, sdkproto.Text("Here it is.")) }
	for name, tc := range map[string]struct {
		turn func(*script)
		why  sdkproto.TurnEndReason
		want summary
		tail []string
	}{
		"a text": {says, kind(sdkproto.EndCompleted), summary{Subtype: "success", Result: "Here it is.", Stop: "end_turn", Reason: "completed", Turns: 1}, nil},
		"blank at last": {func(s *script) { s.say(root, "m", nil, sdkproto.Text("first"), sdkproto.Text("\n\n")) }, kind(sdkproto.EndCompleted),
			summary{Subtype: "success", Result: "first", Stop: "end_turn", Reason: "completed", Turns: 1}, nil},
		"no text": {func(s *script) { s.say(root, "m", nil, thought("t", "")) }, kind(sdkproto.EndCompleted),
			summary{Subtype: "success", Stop: "end_turn", Reason: "completed", Turns: 1}, nil},
		"the provider's word": {func(s *script) {
			s.commit(root, sdkproto.AssistantMessage{Native: "refusal", Message: sdkproto.Message{
				Content: []sdkproto.Block{sdkproto.Text("No.")}, Source: sdkproto.Source{Model: "m"},
			}})
		}, kind(sdkproto.EndCompleted), summary{Subtype: "success", Result: "No.", Stop: "refusal", Reason: "completed", Turns: 1}, nil},
		"output limit": {says, kind(sdkproto.EndMaxTokens), summary{Subtype: "success", Result: "Here it is.", Stop: "max_tokens", Reason: "completed", Turns: 1}, nil},
		"turn limit": {called, kind(sdkproto.EndMaxSteps),
			summary{Subtype: "error_max_turns", Result: "Reached maximum number of turns (1)", Stop: "tool_use", Reason: "max_turns", IsError: true, Turns: 1}, nil},
		"cut off before anything came": {func(*script) {}, aborted(sdkproto.AbortUser),
			summary{Subtype: "error_during_execution", Result: "Request was aborted.", Reason: "aborted_streaming", IsError: true, Turns: 1}, []string{"user text"}},
		"cut off in the answer": {func(s *script) {
			s.commit(root, sdkproto.AssistantMessage{Interrupted: true, Message: sdkproto.Message{
				Content: []sdkproto.Block{sdkproto.Text("w0 w1")}, Source: sdkproto.Source{Model: "m"},
			}})
		}, aborted(sdkproto.AbortUser),
			summary{Subtype: "error_during_execution", Result: "Request was aborted.", Reason: "aborted_streaming", IsError: true, Turns: 1}, []string{"user text"}},
		"cut off in a call": {func(s *script) {
			calls(s)
			s.result(root, "c1", sdkproto.ToolResult{Error: &sdkproto.ToolError{Name: "AbortError", Code: "ABORTED"}}, sdkproto.Text("Error: Read was cancelled"))
		}, aborted(sdkproto.AbortUser),
			summary{Subtype: "error_during_execution", Result: "Request was aborted.", Stop: "tool_use", Reason: "aborted_tools", IsError: true, Turns: 1}, []string{"user text"}},
		"a call without a result": {calls, aborted(sdkproto.AbortUser),
			summary{Subtype: "error_during_execution", Result: "Request was aborted.", Stop: "tool_use", Reason: "aborted_tools", IsError: true, Turns: 1},
			[]string{"user tool_result", "user text"}},
		"the process ends": {func(*script) {}, aborted(sdkproto.AbortDisposed),
			summary{Subtype: "error_during_execution", Result: "Request was aborted.", Reason: "aborted_streaming", IsError: true, Turns: 1}, nil},
		"a hook after a call": {called, hook("enough"), summary{Subtype: "success", Result: "I look.", Stop: "tool_use", Reason: "hook_stopped", Turns: 1}, nil},
		"a hook at the end":   {says, hook("enough"), summary{Subtype: "success", Result: "Here it is.", Stop: "end_turn", Reason: "stop_hook_prevented", Turns: 1}, nil},
		"put off": {func(s *script) {
			calls(s)
			s.result(root, "c1", sdkproto.ToolResult{Error: &sdkproto.ToolError{Name: "DeferredError", Code: "TOOL_DEFERRED"}}, sdkproto.Text("put off"))
		}, kind(sdkproto.EndDeferred), summary{Subtype: "success", Result: "I look.", Stop: "tool_deferred", Reason: "tool_deferred", Turns: 1}, nil},
		"overloaded": {func(*script) {}, failure(llm.CodeServer, 529, "Overloaded"),
			summary{Subtype: "success", Result: "API Error: 529 Overloaded", Reason: "api_error", IsError: true, Turns: 1, Error: "overloaded"}, []string{"assistant text"}},
		"bad request after a call": {func(s *script) { called(s); s.next() }, failure(llm.CodeInvalidRequest, 400, "400 no such field"),
			summary{Subtype: "success", Result: "API Error: 400 no such field", Stop: "tool_use", Reason: "api_error", IsError: true, Turns: 2, Error: "invalid_request"}, []string{"assistant text"}},
		"no key": {func(*script) {}, failure(llm.CodeMissingCredential, 0, "set ANTHROPIC_API_KEY"),
			summary{Subtype: "success", Result: "API Error: set ANTHROPIC_API_KEY", Reason: "api_error", IsError: true, Turns: 1, Error: "authentication_failed"}, []string{"assistant text"}},
		"too long": {func(*script) {}, failure(llm.CodeContextWindow, 400, "200001 tokens > 200000"),
			summary{Subtype: "success", Result: "Prompt is too long", Reason: "prompt_too_long", IsError: true, Turns: 1, Error: "invalid_request"}, []string{"assistant text"}},
		"the harness fails": {func(*script) {}, failure(llm.CodeInternal, 0, "no adapter registered for provider \"x\""),
			summary{Subtype: "error_during_execution", Result: "no adapter registered for provider \"x\"", IsError: true}, nil},
		"failed calls": {called, failure("TOO_MANY_FAILED_CALLS", 0, "8 tool calls in a row failed"),
			summary{Subtype: "error_during_execution", Result: "8 tool calls in a row failed", Stop: "tool_use", IsError: true, Turns: 1}, nil},
		"no money": {func(s *script) { called(s); exceeded(s, sdkproto.BudgetTurn, sdkproto.BudgetUSD, 0.25) }, failure(llm.CodeBudget, 0, "all spent"),
			summary{Subtype: "error_max_budget_usd", Result: "Reached maximum budget ($0.25)", Stop: "tool_use", Reason: "budget_exhausted", IsError: true, Turns: 1}, nil},
		"no calls left": {func(s *script) { called(s); exceeded(s, sdkproto.BudgetProcess, sdkproto.BudgetToolCalls, 3) }, failure(llm.CodeBudget, 0, "3 calls"),
			summary{Subtype: "error_during_execution", Result: "3 calls", Stop: "tool_use", Reason: "budget_exhausted", IsError: true, Turns: 1}, nil},
		"no price": {called, failure(llm.CodeBudget, 0, "no price is known"),
			summary{Subtype: "error_during_execution", Result: "no price is known", Stop: "tool_use", Reason: "budget_exhausted", IsError: true, Turns: 1}, nil},
		"too little money for the whole answer": {func(s *script) { limited(s, sdkproto.BudgetUSD); says(s) }, kind(sdkproto.EndMaxTokens),
			summary{Subtype: "error_max_budget_usd", Result: "Reached maximum budget ($0.25)", Stop: "end_turn", Reason: "budget_exhausted", IsError: true, Turns: 1}, nil},
		"too few tokens for the whole answer": {func(s *script) { limited(s, sdkproto.BudgetTokens); says(s) }, kind(sdkproto.EndMaxTokens),
			summary{Subtype: "error_during_execution", Result: "the answer was cut off after 300 tokens by the budget session.tokens", Stop: "end_turn", Reason: "budget_exhausted", IsError: true, Turns: 1}, nil},
		"a newer kind": {says, kind("melted"), summary{Subtype: "error_during_execution", Result: "The turn ended as melted.", Stop: "end_turn", IsError: true, Turns: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, legacy := range []bool{false, true} {
				o := options()
				o.Legacy = legacy
				p := project.New(o)
				p.Begin(theTurn)
				s := newScript().begin("m")
				tc.turn(s)
				before := len(s.entries)
				s.end(tc.why)
				var c checker
				for i, e := range s.entries {
					lines, end := p.Entry(t.Context(), e)
					c.add(t, lines, end)
					if i == before-1 {
						before = len(c.lines)
					}
				}
				c.balanced(t)
				c.answered(t)
				got := c.lines
				if diff := cmp.Diff(tc.want, summarise(got)); diff != "" {
					t.Errorf("end (-want +got):\n%s", diff)
				}
				tail := kinds(got[before : len(got)-1])
				want := slices.Clone(tc.tail)
				if legacy {
					switch {
					case tc.want.Error != "":
						want = append(want, "text")
					case name == "a call without a result":
						want = slices.Insert(want, 1, "tool_result")
					}
					want = append(want, "usage") // before each result (S031)
				}
				if !slices.Equal(want, tail) {
					t.Errorf("lines before the result: %v, want %v", tail, want)
				}
			}
		})
	}
}

// TestEndDetails are members that only some results have.
func TestEndDetails(t *testing.T) {
	run := func(f func(*script)) line {
		p := project.New(options())
		p.Begin(project.Turn{UUID: message, Began: time.UnixMilli(began), Origin: json.RawMessage(`{"kind":"x", "n":[1,2]}`)})
		s := newScript().begin("m")
		f(s)
		got := show(t, p, s.entries)
		return got[len(got)-1]
	}
	r := run(func(s *script) { s.end(failure(llm.CodeServer, 500, "broken")) })
	if r["api_error_status"] != 500.0 {
		t.Errorf("api_error_status %v", r["api_error_status"])
	}
	if diff := cmp.Diff(map[string]any{"kind": "x", "n": []any{1.0, 2.0}}, r["origin"]); diff != "" {
		t.Errorf("origin %s", diff)
	}
	r = run(func(s *script) { s.end(failure(llm.CodeTransport, 0, "no route")) })
	if v, there := r["api_error_status"]; !there || v != nil {
		t.Errorf("api_error_status %v without a status", v)
	}
	r = run(func(s *script) { s.end(kind(sdkproto.EndCompleted)) })
	if _, there := r["api_error_status"]; there {
		t.Error("api_error_status without an error")
	}
	r = run(func(s *script) {
		s.say(root, "m", nil, toolCall("a", "Write", `{"x":1}`), toolCall("b", "Read", ""))
		s.result(root, "a", sdkproto.ToolResult{Error: &sdkproto.ToolError{Code: "TOOL_DEFERRED"}}, sdkproto.Text("put off"))
		s.result(root, "b", sdkproto.ToolResult{Error: &sdkproto.ToolError{Code: "ABORTED_BEFORE_DISPATCH"}}, sdkproto.Text("not run"))
		s.end(kind(sdkproto.EndDeferred))
	})
	if diff := cmp.Diff(map[string]any{"id": "a", "name": "Write", "input": map[string]any{"x": 1.0}}, r["deferred_tool_use"]); diff != "" {
		t.Errorf("deferred_tool_use %s", diff)
	}
}

// TestBlockedPrompt: a prompt that a hook refuses is a success without a request
// whose text is the reason (spec stream-json 6.3).
func TestBlockedPrompt(t *testing.T) {
	p := project.New(options())
	p.Begin(theTurn)
	s := newScript().post(message)
	s.add(root, sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: 1})
	s.add(root, sdkproto.TypeAgentInboxSpliced, &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, RemovedCount: 1})
	s.add(root, sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: 1, Reason: sdkproto.TurnEndReason{
		Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: "the lab blocks this prompt"},
	}})
	if diff := cmp.Diff(summary{Subtype: "success", Result: "the lab blocks this prompt"}, summarise(show(t, p, s.entries))); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
}

// TestDropped: a message that is dropped before its turn has begun gets its
// result; one that nobody waits for does not, and the next turn is its own.
func TestDropped(t *testing.T) {
	drop := &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, RemovedCount: 1, Outcome: sdkproto.OutcomeCanceled}
	p := project.New(options())
	p.Begin(theTurn)
	got := show(t, p, newScript().post(message).add(root, sdkproto.TypeAgentInboxSpliced, drop).entries)
	if diff := cmp.Diff(summary{Subtype: "error_during_execution", Result: "Request was aborted.", Reason: "aborted_streaming", IsError: true}, summarise(got)); diff != "" || len(got) != 1 {
		t.Errorf("end (-want +got):\n%s%v", diff, got)
	}
	if got := show(t, p, newScript().post("other").add(root, sdkproto.TypeAgentInboxSpliced, drop).entries); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestUnasked: a turn that nobody asked for has a result too, and does not take
// the place of the message that waits behind it (spec stream-json 11.1).
func TestUnasked(t *testing.T) {
	s := newScript().post("notice")
	s.add(root, sdkproto.TypeAgentInboxSpliced, &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, Start: 1, Inserted: []sdkproto.Message{{ID: message}}})
	s.open("m").say(root, "m", nil, sdkproto.Text("I have been told.")).end(kind(sdkproto.EndCompleted))
	s.open("m").say(root, "m", nil, sdkproto.Text("Yes?")).end(kind(sdkproto.EndCompleted))
	for name, entries := range map[string][]session.Entry{"it came": s.entries, "it was there before": s.entries[1:]} {
		p := project.New(options())
		p.Begin(theTurn)
		results := of(show(t, p, entries), "result success")
		if len(results) != 2 {
			t.Fatalf("%s: %d results", name, len(results))
		}
		if diff := cmp.Diff(map[string]any{"kind": "task-notification"}, results[0]["origin"]); diff != "" || results[0].str("user_message_uuid") != "" {
			t.Errorf("%s: the first is %v", name, results[0])
		}
		if results[1]["origin"] != nil || results[1].str("user_message_uuid") != message || results[1].str("result") != "Yes?" {
			t.Errorf("%s: the second is %v", name, results[1])
		}
	}
}

// TestRepairs: what the load of a broken log adds is no turn of this process.
func TestRepairs(t *testing.T) {
	s := newScript()
	s.result(root, "c", sdkproto.ToolResult{Error: &sdkproto.ToolError{Name: "InterruptedError", Code: "TOOL_NOT_STARTED"}}, sdkproto.Text("not started"))
	s.add(root, sdkproto.TypeCompactionEnd, &sdkproto.CompactionEnd{CompactionID: "k", Error: "stopped"})
	s.end(kind(sdkproto.EndInterrupted))
	if got := show(t, project.New(options()), s.entries); len(got) > 0 {
		t.Errorf("%v", kinds(got))
	}
}

// exceeded and limited are what a budget tells.
func exceeded(s *script, scope, limit string, most float64) {
	s.add(root, sdkproto.TypeBudgetExceeded, &sdkproto.BudgetExceeded{Scope: scope, Limit: limit, Max: most})
}

func limited(s *script, limit string) {
	s.add(root, sdkproto.TypeBudgetLimited, &sdkproto.BudgetLimited{Scope: sdkproto.BudgetSession, Limit: limit, Max: 0.25, MaxTokens: 300, Asked: 900})
}

// TestOverspent: the turn for which the money of the process does not reach says so,
// and so does every later one that the front end refuses; of other budgets none does
// (spec stream-json 11.3).
func TestOverspent(t *testing.T) {
	for scope, want := range map[string]string{sdkproto.BudgetProcess: "Reached maximum budget ($0.01)", sdkproto.BudgetSession: "", sdkproto.BudgetTurn: ""} {
		p := project.New(options())
		p.Begin(theTurn)
		s := newScript().begin("m").say(root, "m", nil, sdkproto.Text("dear"))
		exceeded(s, scope, sdkproto.BudgetUSD, 0.01)
		var end *project.End
		for _, e := range s.end(failure(llm.CodeBudget, 0, "dear")).entries {
			if _, ended := p.Entry(t.Context(), e); ended != nil {
				end = ended
			}
		}
		if end == nil || end.Overspent != want {
			t.Errorf("%s: the end is %+v, want %q", scope, end, want)
		}
	}
	p := project.New(options())
	p.Overspent("Reached maximum budget ($0.01)")
	var c checker
	c.add(t, nil, p.Local(theTurn, "whatever", true))
	over := summary{Subtype: "error_max_budget_usd", Result: "Reached maximum budget ($0.01)", Reason: "budget_exhausted", IsError: true}
	if diff := cmp.Diff(over, summarise(c.lines)); diff != "" {
		t.Errorf("the next (-want +got):\n%s", diff)
	}
}

// TestLocal: an answer without a model counts nothing.
func TestLocal(t *testing.T) {
	o := options()
	o.Legacy = true
	p := project.New(o)
	for failed, expected := range map[bool]summary{
		false: {Subtype: "success", Result: "text", Reason: "completed"},
		true:  {Subtype: "error_during_execution", Result: "text", IsError: true},
	} {
		var c checker
		c.add(t, nil, p.Local(theTurn, "text", failed))
		if diff := cmp.Diff(expected, summarise(c.lines)); diff != "" {
			t.Errorf("end (-want +got):\n%s", diff)
		}
		if d := c.lines[len(c.lines)-1]["duration_ms"]; d != 50.0 {
			t.Errorf("duration_ms %v", d)
		}
		if got := kinds(c.lines); len(got) != 2 || got[0] != "usage" {
			t.Errorf("failed %v: %v", failed, got)
		}
	}
}
