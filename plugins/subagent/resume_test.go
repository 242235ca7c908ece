package subagent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// again makes a call of subagent that takes a child up again.
func again(id, prompt, more string) string {
	return fmt.Sprintf(`call subagent {"description":"once more","prompt":%q,"resume":%q%s}`, prompt, id, more)
}

// A child goes on where it was: one log, a turn more, and all that goes with a run
// (S106, spec jsonrpc 8.1).
func TestResume(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	r.ask(root, "fg think")
	child := r.child(0)
	before := len(r.all())
	if got := r.ask(root, again(child, "muse", "")); got != "(the subagent ended without an answer)" {
		t.Errorf("in the foreground: %q", got)
	}
	spec := r.specs[child]
	want := agent.Spec{
		ID: child, CWD: spec.CWD, Route: spec.Route, Parent: "root", ParentCall: "call_2_1_1", Depth: 1, Label: "once more",
	}
	if diff := cmp.Diff(want, spec); diff != "" || spec.Route.MaxTokens != 321 {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	var order []string
	for _, line := range r.lines(r.all()[before:]) {
		if strings.HasPrefix(line, "child1 ") || strings.HasPrefix(line, "root tool/") {
			order = append(order, line)
		}
	}
	if diff := cmp.Diff([]string{
		"root tool/call",
		"child1 session/end-seed", "child1 agent/inbox/spliced", "child1 running",
		"child1 turn/start", "child1 agent/inbox/spliced", "child1 step/start", "child1 user/message",
		"child1 assistant/message", "child1 step/end", "child1 turn/end",
		"child1 idle", "child1 settled completed",
		"root tool/result",
	}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	ends := r.settled(2)
	if end := ends[1].Settled; end.Call != "call_2_1_1" || end.AgentID != child || sdkproto.TextOf(end.Last) != "" || len(end.Last) != 1 {
		t.Errorf("settled %+v", end)
	}

	if got := r.ask(root, again(child, "gate", `,"run_in_background":true`)); got != "started subagent "+child {
		t.Errorf("in the background: %q", got)
	}
	r.crowd(1)
	if got := r.ask(root, again(child, "think", "")); !strings.Contains(got, "still at work") {
		t.Errorf("while it is at work: %q", got)
	}
	if _, code := r.result("root"); code != "SUBAGENT_RUNNING" {
		t.Errorf("code %s", code)
	}
	r.gate.release()
	r.settled(3)
	if j := r.ends(child); j.Status != job.Completed || j.CallID != "call_3_1_1" {
		t.Errorf("the job is %+v", j)
	}
	if notices := r.notices("root"); len(notices) != 1 {
		t.Errorf("%d notices", len(notices))
	}
	if turns := of[sdkproto.TurnStart](r, child, sdkproto.TypeTurnStart); len(turns) != 3 || turns[2].Turn != 3 {
		t.Errorf("turns %v", turns)
	}
	if err := root.WhenIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.ask(root, "call list_agents"); got != "No subagent is at work.\n"+child+" (do think), has ended" {
		t.Errorf("list_agents: %q", got)
	}
}

// A child is there for a later process, and only for the session that it belongs to.
func TestResumeLater(t *testing.T) {
	home, cwd, child := t.TempDir(), t.TempDir(), ""
	here := func(s *agent.Spec) { s.CWD = cwd }
	t.Run("before", func(t *testing.T) {
		r := bootAt(t, home, rows+row)
		r.ask(r.open("root", here), "only gate think")
		child = r.child(0)
	})
	t.Run("after", func(t *testing.T) {
		r := bootAt(t, home, rows+row)
		if got := r.ask(r.open("other", here), again(child, "think", "")); !strings.Contains(got, "belongs to another conversation") {
			t.Errorf("another session got %q", got)
		}
		root := r.open("root", here)
		r.ask(root, again(child, "think", ""))
		if said, code := r.result("root"); said != "so I am" || code != "" {
			t.Errorf("%q %q", code, said)
		}
		if diff := cmp.Diff(&tool.Filter{Allow: []string{"gate"}}, r.specs[child].Tools); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	})
	// A tool that is gone is left out, and what is left is nothing, not all.
	t.Run("without the tool", func(t *testing.T) {
		r := bootAt(t, home, rows+row)
		r.ask(r.open("root", here), `call subagent {"description":"d","prompt":"think","tools":["todo_write"]}`)
		child = r.child(0)
	})
	t.Run("and its row", func(t *testing.T) {
		r := bootAt(t, home, strings.Replace(rows, "  todo: {use: tool-todo}\n", "", 1)+row)
		r.ask(r.open("root", here), again(child, "think", ""))
		if f := r.specs[child].Tools; f == nil || !f.AllowNone {
			t.Errorf("tools %+v", f)
		}
	})
}

// What cannot be taken up again is told to the model, and nothing is started.
func TestResumeRefused(t *testing.T) {
	r := newRig(t, "subagent.maxChildren=1")
	root, other := r.open("root", nil), r.open("other", nil)
	r.ask(root, "fg think")
	r.ask(other, "fg think")
	own, foreign := r.child(0), r.child(1)
	r.ask(root, "fg fg think")
	outer, grandchild := r.child(2), r.child(3)
	for name, tc := range map[string]struct{ call, code, says string }{
		"no id":          {again("x/../y", "think", ""), "UNKNOWN_SUBAGENT", `no subagent "x/../y"`},
		"an unknown one": {again(uuid.NewString(), "think", ""), "UNKNOWN_SUBAGENT", "there is no subagent"},
		"another's":      {again(foreign, "think", ""), "UNKNOWN_SUBAGENT", "belongs to another conversation"},
		"a grandchild":   {again(grandchild, "think", ""), "UNKNOWN_SUBAGENT", "belongs to another conversation"},
		"itself":         {again("root", "think", ""), "UNKNOWN_SUBAGENT", "there is no subagent"},
		"other tools":    {again(own, "think", `,"tools":["gate"]`), "INVALID_ARGUMENTS", "keeps its tools"},
		"no prompt":      {again(own, " ", ""), "INVALID_ARGUMENTS", "the prompt is empty"},
	} {
		from := r.count()
		r.ask(root, tc.call)
		if said, code := r.result("root"); code != tc.code || !strings.Contains(said, tc.says) {
			t.Errorf("%s: %q %q", name, code, said)
		}
		if slices.ContainsFunc(r.lines(r.all()[from:]), func(line string) bool { return strings.HasPrefix(line, "child") }) {
			t.Errorf("%s: a child is at work", name)
		}
	}
	// Somebody has it open as a session: it is left alone.
	live := r.open(own, func(s *agent.Spec) { s.CWD = "" })
	r.ask(root, again(own, "think", ""))
	if said, code := r.result("root"); code != "SUBAGENT_RUNNING" || !strings.Contains(said, "open elsewhere") {
		t.Errorf("%q %q", code, said)
	}
	if now, ok := r.agents.Get(own); !ok || now != live {
		t.Error("the session of somebody else was closed")
	}
	// Limits hold (case B90).
	r.ask(root, "bg gate")
	r.crowd(1)
	r.ask(root, again(outer, "think", ""))
	if _, code := r.result("root"); code != "SUBAGENT_LIMIT" {
		t.Errorf("code %s", code)
	}
	r.gate.release()
	r.settled(5)
}

// A kind stays what it was, when its definition has changed or gone, too.
func TestResumeKind(t *testing.T) {
	r := boot(t, rows+row+"  models: {use: test-models}\n", "subagent.dialect=claude", "models.mock=mock")
	owner := r.owner.Child("definition")
	if err := seam[*agent.Definitions](r).Register(owner, agent.Definition{
		Name: "worker", Prompt: "You work.", MaxTurns: 3, Effort: "low", Model: "scripted-a", Tools: []string{"gate"}, Background: true,
	}); err != nil {
		t.Fatal(err)
	}
	root := r.open("root", nil)
	r.task(root, "Agent", members{"description": "d", "prompt": "think", "subagent_type": "worker", "run_in_background": false})
	child := r.child(0)
	first := r.specs[child]
	if err := owner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	goOn := func(more members) {
		t.Helper()
		a := members{"description": "d", "prompt": "think", "resume": child}
		for k, v := range more {
			a[k] = v
		}
		if blocks, code, meta := r.task(root, "Agent", a); code != "" || meta["agentId"] != child || meta["agentType"] != "worker" || meta["status"] != "completed" {
			t.Fatalf("%q %v %v", code, blocks, meta)
		}
	}
	goOn(nil)
	second := r.specs[child]
	if diff := cmp.Diff(first, second, cmpopts.IgnoreFields(agent.Spec{}, "ParentCall", "Seed")); diff != "" || second.System == nil || second.Route.Model != "scripted-a" {
		t.Errorf("it was not the same (-first +second):\n%s", diff)
	}
	goOn(members{"model": "scripted-b", "effort": "high", "subagent_type": "worker"})
	if got := r.specs[child].Route; got.Model != "scripted-b" || got.ReasoningEffort != "high" || got.MaxTokens != 321 {
		t.Errorf("another model: %+v", got)
	}
	if blocks, code, _ := r.task(root, "Agent", members{"description": "d", "prompt": "think", "resume": child, "subagent_type": "general-purpose"}); code != "INVALID_ARGUMENTS" || !strings.Contains(blocks[0], "is of the kind worker") {
		t.Errorf("another kind: %q %v", code, blocks)
	}
}

// A rule against a kind holds for one that is taken up again without being named
// (spec stream-json 7.2).
func TestResumeForbidden(t *testing.T) {
	r := boot(t, rows+row+"  permissions: {use: permissions, config: {mode: bypassPermissions}}\n", "subagent.dialect=claude")
	r.define(agent.Definition{Name: "worker", Prompt: "You work."})
	root := r.open("root", nil)
	r.task(root, "Agent", members{"description": "d", "prompt": "think", "subagent_type": "worker"})
	child := r.child(0)
	if err := seam[approval.Policy](r).Update("root", root.Spec().CWD, []approval.Update{{
		Type: approval.AddRules, Behavior: approval.Deny, Rules: []approval.Rule{{ToolName: "Agent", RuleContent: "worker"}},
	}}); err != nil {
		t.Fatal(err)
	}
	if blocks, code, _ := r.task(root, "Agent", members{"description": "d", "prompt": "think", "resume": child}); code != "UNKNOWN_AGENT_TYPE" || !strings.Contains(blocks[0], "worker") {
		t.Errorf("%q %v", code, blocks)
	}
	if n := len(r.only("settled completed")); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A child that is at its end is waited for: its session is not in use any more then.
func TestResumeAtTheEnd(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	r.ask(root, "bg gate")
	r.crowd(1)
	child := r.child(0)
	live, ok := r.agents.Get(child)
	if !ok {
		t.Fatal("the child is not live")
	}
	if err := r.board().Stop(child); err != nil {
		t.Fatal(err)
	}
	<-live.Life().Done()
	from := r.count()
	r.send(root, again(child, "think", ""))
	r.await("the call", func(all []session.Entry) bool {
		return slices.ContainsFunc(all[from:], func(e session.Entry) bool { return is(e, "root", sdkproto.TypeToolCall) })
	})
	r.gate.release()
	r.idles("root", 2)
	if said, code := r.result("root"); said != "so I am" || code != "" {
		t.Errorf("%q %q", code, said)
	}
}
