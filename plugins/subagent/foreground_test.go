package subagent_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/process"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// TestForeground is the order of spec jsonrpc 8.3 with the facts of 8.4: every
// stored event of the child is heard (S126), its end is told once (S106), and its
// cap is its parent's (S123).
func TestForeground(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	if got := r.ask(root, "fg think"); got != "so I am" {
		t.Errorf("the parent got %q", got)
	}
	var order []string
	for _, line := range r.lines(r.all()) {
		if strings.HasPrefix(line, "child1 ") || strings.HasPrefix(line, "root tool/") || line == "root idle" {
			order = append(order, line)
		}
	}
	if diff := cmp.Diff([]string{
		"root tool/call",
		"child1 subagent/descriptor", "child1 session/end-seed", "child1 approval/policy",
		"child1 agent/inbox/spliced", "child1 running",
		"child1 turn/start", "child1 agent/inbox/spliced", "child1 step/start", "child1 user/message", "child1 user/message", "child1 session/title",
		"child1 request/header", "child1 request/context", "child1 assistant/message", "child1 step/end", "child1 turn/end",
		"child1 idle", "child1 settled completed",
		"root tool/result", "root idle",
	}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}

	ids := r.children()
	if len(ids) != 1 {
		t.Fatalf("children %v", ids)
	}
	id := ids[0]
	if u, err := uuid.Parse(id); err != nil || u.Version() != 4 {
		t.Errorf("the child's id is %s", id)
	}
	want := session.Settled{
		Provider: "spawn", Parent: "root", AgentID: id, Call: "call_1_1_1", StopReason: sdkproto.StopCompleted, Local: true,
		Last: []sdkproto.Block{{Type: sdkproto.BlockReasoning, Text: "I think"}, {Type: sdkproto.BlockText, Text: "so I am"}},
	}
	if ends := r.settled(1); len(ends) != 1 || ends[0].SessionID != id || !cmp.Equal(want, *ends[0].Settled, cmpopts.IgnoreUnexported(sdkproto.Block{})) {
		t.Errorf("settled (-want +got):\n%s", cmp.Diff(want, *ends[0].Settled, cmpopts.IgnoreUnexported(sdkproto.Block{})))
	}
	descriptor := sdkproto.SubagentDescriptor{Version: 2, Mode: "one-shot", Provider: "spawn", Label: "do think"}
	if diff := cmp.Diff([]sdkproto.SubagentDescriptor{descriptor}, of[sdkproto.SubagentDescriptor](r, id, sdkproto.TypeSubagentDescriptor)); diff != "" {
		t.Errorf("descriptor (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sdkproto.ApprovalPolicy{{Policy: "never", Source: "delegation"}}, of[sdkproto.ApprovalPolicy](r, id, sdkproto.TypeApprovalPolicy)); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	prompt := of[sdkproto.AgentInboxSpliced](r, id, sdkproto.TypeAgentInboxSpliced)[0].Inserted[0]
	if prompt.Source.Kind != sdkproto.SourceUser || sdkproto.TextOf(prompt.Content) != "think" {
		t.Errorf("the child's prompt is %+v", prompt)
	}
	header := of[sdkproto.RequestHeader](r, id, sdkproto.TypeRequestHeader)[0].Header
	if c := header.Config; c.Provider != "scripted" || c.Model != "m" || c.MaxTokens != 321 {
		t.Errorf("the child's route is %+v", c)
	}

	// The child is gone from memory and kept on the disk (case B89).
	if _, live := r.agents.Get(id); live {
		t.Error("the child is live after its end")
	}
	headers, err := r.agents.List(context.Background(), root.Spec().CWD)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(headers, func(h session.Header) bool { return h.ID == id })
	if i < 0 {
		t.Fatalf("the child is not stored with its parent's working directory: %v", headers)
	}
	stored := session.Header{ID: id, CWD: root.Spec().CWD, ParentSession: "root", Origin: "subagent", DelegationDepth: 1}
	if diff := cmp.Diff(stored, headers[i], cmpopts.IgnoreFields(session.Header{}, "CreatedAt")); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	heard := slices.DeleteFunc(r.all(), func(e session.Entry) bool { return e.SessionID != id || e.Record == nil })
	n := 0
	if err := r.agents.Events(context.Background(), id, 0, func(rec *session.Record) error {
		if n >= len(heard) || string(heard[n].Record.Raw) != string(rec.Raw) {
			t.Fatalf("event %d is stored as %s and was not heard so", n, rec.Raw)
		}
		n++
		return nil
	}); err != nil || n != len(heard) {
		t.Errorf("%d events are stored and %d were heard: %v", n, len(heard), err)
	}
}

// TestOutcomes is the table of spec jsonrpc 8.2: a child's failure is a result.
func TestOutcomes(t *testing.T) {
	text := func(s string) []sdkproto.Block { return []sdkproto.Block{sdkproto.Text(s)} }
	for name, tc := range map[string]struct {
		child string
		stop  string
		last  []sdkproto.Block
		code  string
		says  []string
	}{
		"an answer":                {"think", "completed", []sdkproto.Block{{Type: "reasoning", Text: "I think"}, sdkproto.Text("so I am")}, "", []string{"so I am"}},
		"only a thought":           {"muse", "completed", []sdkproto.Block{{Type: "reasoning", Text: "Only a thought"}}, "", []string{"without an answer"}},
		"a failure in the middle":  {"broken", "error", text("So far"), "SUBAGENT_FAILED", []string{"the key is not valid (AUTH)", "So far"}},
		"a failure after another":  {"twice broken", "error", text("So far"), "SUBAGENT_FAILED", []string{"So far"}},
		"a failure from the start": {"mute", "error", nil, "SUBAGENT_FAILED", []string{"the key is not valid (AUTH)"}},
		"the output limit":         {"limit", "max-tokens", text("Cut"), "SUBAGENT_MAX_TOKENS", []string{"limit of the model's output", "Cut"}},
		"too many steps": {"steps", "error", []sdkproto.Block{
			sdkproto.Text("Again"), {Type: "tool-call", ID: "call_1_5_1", Name: "todo_write", Arguments: `{"todos":[]}`},
		}, "SUBAGENT_FAILED", []string{"as many steps as a turn may have", "Again"}},
		"nothing more to say": {"dumb", "error", []sdkproto.Block{
			sdkproto.Text("Only once"), {Type: "tool-call", ID: "call_1_1_1", Name: "todo_write", Arguments: `{"todos":[]}`},
		}, "SUBAGENT_FAILED", []string{"Only once"}},
		"a refused prompt": {"forbidden", "refusal", nil, "SUBAGENT_REFUSED", []string{"its prompt was refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if err := seam[*agent.Hooks](r).OnPrompt(r.owner, 0, "test", func(_ context.Context, p agent.Prompt) (agent.Verdict, error) {
				return agent.Verdict{Block: sdkproto.TextOf(p.Message.Content) == "forbidden"}, nil
			}); err != nil {
				t.Fatal(err)
			}
			r.ask(r.open("root", nil), "fg "+tc.child)
			ends := r.settled(1)
			if len(ends) != 1 || ends[0].Settled.StopReason != tc.stop || !ends[0].Settled.Local {
				t.Errorf("settled %+v", ends[0].Settled)
			}
			if diff := cmp.Diff(tc.last, ends[0].Settled.Last, cmpopts.IgnoreUnexported(sdkproto.Block{})); diff != "" {
				t.Errorf("last (-want +got):\n%s", diff)
			}
			said, code := r.result("root")
			if code != tc.code {
				t.Errorf("code %q, want %q", code, tc.code)
			}
			for _, part := range tc.says {
				if !strings.Contains(said, part) {
					t.Errorf("%q lacks %q", said, part)
				}
			}
			if strings.Contains(said, "thought") || strings.Contains(said, "I think") {
				t.Errorf("the parent hears the child think: %q", said)
			}
			if end := of[sdkproto.TurnEnd](r, "root", sdkproto.TypeTurnEnd); end[0].Reason.Kind != sdkproto.EndCompleted {
				t.Errorf("the parent ended as %+v", end[0].Reason)
			}
		})
	}
}

// TestCancel: the cancellation of a parent reaches its children and theirs, and
// the parent has its results after they have ended.
func TestCancel(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	r.send(root, "fg fg hang")
	r.hanging(1)
	if !root.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") {
		t.Fatal("nothing was cancelled")
	}
	r.await("the parent's rest", func(all []session.Entry) bool {
		return all[len(all)-1].SessionID == "root" && all[len(all)-1].Status == sdkproto.StatusIdle
	})
	var order []string
	for _, line := range r.lines(r.all()) {
		for _, what := range []string{" settled aborted", " tool/result", " turn/end", " idle"} {
			if strings.HasSuffix(line, what) {
				order = append(order, line)
			}
		}
	}
	if diff := cmp.Diff([]string{
		"child2 turn/end", "child2 idle", "child2 settled aborted",
		"child1 tool/result", "child1 turn/end", "child1 idle", "child1 settled aborted",
		"root tool/result", "root turn/end", "root idle",
	}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for i, id := range r.children() {
		end := of[sdkproto.TurnEnd](r, id, sdkproto.TypeTurnEnd)[0].Reason
		if end.Kind != sdkproto.EndAborted || end.Reason == nil || end.Reason.Kind != sdkproto.AbortParent {
			t.Errorf("child %d ended as %+v", i+1, end)
		}
	}
	if said, code := r.result("root"); code != "ABORTED" || !strings.Contains(said, "it was stopped") {
		t.Errorf("%q %q", code, said)
	}
	if last := r.settled(2)[0].Settled.Last; sdkproto.TextOf(last) != "Here I stay" {
		t.Errorf("the grandchild's last is %v", last)
	}
}

// TestDepth: delegation ends at maxDepth, and the model is told so.
func TestDepth(t *testing.T) {
	r := newRig(t)
	got := r.ask(r.open("root", nil), "fg fg fg fg think")
	if want := "depth 3"; !strings.Contains(got, want) || strings.Count(got, "failed: ") != 1 {
		t.Errorf("the parent got %q", got)
	}
	depths := []int{}
	for _, id := range r.children() {
		depths = append(depths, r.specs[id].Depth)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, depths); diff != "" {
		t.Errorf("depths (-want +got):\n%s", diff)
	}
	if _, code := r.result(r.children()[2]); code != "SUBAGENT_DEPTH" {
		t.Errorf("code %s", code)
	}
}

// TestResumedDepth: what a session is does not change when it is resumed.
func TestResumedDepth(t *testing.T) {
	r := newRig(t, "subagent.maxDepth=1")
	r.ask(r.open("root", nil), "fg think")
	child := r.open(r.children()[0], func(s *agent.Spec) { s.CWD = "" })
	r.ask(child, "fg think")
	if _, code := r.result(child.ID()); code != "SUBAGENT_DEPTH" {
		t.Errorf("code %s", code)
	}
}

// TestTools: a root's filter binds its descendants (spec jsonrpc 4.3, case B24),
// and a call may restrict a child further; an empty list means none.
func TestTools(t *testing.T) {
	deny := &tool.Filter{Deny: []string{"todo_write"}}
	for name, tc := range map[string]struct {
		filter *tool.Filter
		prompt string
		tools  []string // of the child
		code   string   // of the child's call, "none" for no call
	}{
		"all":                 {nil, "fg todo", []string{"gate", "interrupt_agent", "list_agents", "subagent", "todo_write"}, ""},
		"the root's filter":   {deny, "fg todo", []string{"gate", "interrupt_agent", "list_agents", "subagent"}, "UNKNOWN_TOOL"},
		"one":                 {nil, "only gate think", []string{"gate"}, "none"},
		"one that is denied":  {deny, "only todo_write todo", nil, "UNKNOWN_TOOL"},
		"none":                {nil, "none todo", nil, "UNKNOWN_TOOL"},
		"a filter two levels": {deny, "fg fg todo", []string{"gate", "interrupt_agent", "list_agents", "subagent"}, "UNKNOWN_TOOL"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ask(r.open("root", func(s *agent.Spec) { s.Tools = tc.filter }), tc.prompt)
			ids := r.children()
			id := ids[len(ids)-1]
			var names []string
			for _, x := range of[sdkproto.RequestHeader](r, id, sdkproto.TypeRequestHeader)[0].Header.Tools {
				names = append(names, x.Name)
			}
			slices.Sort(names)
			if diff := cmp.Diff(tc.tools, names); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if tc.code == "none" {
				return
			}
			if _, code := r.result(id); code != tc.code {
				t.Errorf("code %q, want %q", code, tc.code)
			}
		})
	}
}

// TestRefused: what is wrong with a call is told to the model, and no child is
// made.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct{ call, code, says string }{
		"no prompt":         {`subagent {"description":"d"}`, "INVALID_ARGUMENTS", "prompt"},
		"an empty prompt":   {`subagent {"description":"d","prompt":" "}`, "INVALID_ARGUMENTS", "the prompt is empty"},
		"no description":    {`subagent {"description":"\n","prompt":"p"}`, "INVALID_ARGUMENTS", "the description is empty"},
		"an unknown tool":   {`subagent {"description":"d","prompt":"p","tools":["todo_writ"]}`, "INVALID_ARGUMENTS", `did you mean "todo_write"`},
		"an unknown member": {`subagent {"description":"d","prompt":"p","model":"x"}`, "INVALID_ARGUMENTS", "model"},
		"an unknown agent":  {`interrupt_agent {"id":"x"}`, "UNKNOWN_SUBAGENT", "list_agents"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ask(r.open("root", nil), "call "+tc.call)
			if said, code := r.result("root"); code != tc.code || !strings.Contains(said, tc.says) {
				t.Errorf("%q %q", code, said)
			}
			if ids := r.children(); len(ids) > 0 {
				t.Errorf("children %v", ids)
			}
		})
	}
}

// TestParallel: twenty children are at work at the same time, and each answer
// goes to its call.
func TestParallel(t *testing.T) {
	r := newRig(t, "loop.pool=20")
	root := r.open("root", nil)
	r.send(root, "twenty")
	r.crowd(20)
	r.gate.release()
	r.settled(20)
	if err := root.WhenIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.await("the parent's rest", func(all []session.Entry) bool { return slices.Contains(r.lines(all), "root idle") })
	results := of[sdkproto.ToolResult](r, "root", sdkproto.TypeToolResult)
	if len(results) != 20 {
		t.Fatalf("%d results", len(results))
	}
	if ends := r.settled(20); len(ends) != 20 {
		t.Errorf("%d ends", len(ends))
	}
	for i, x := range results {
		if got := sdkproto.TextOf(x.Message.Content[0].Content); got != "through" {
			t.Errorf("result %d is %q", i, got)
		}
	}
}

// TestSandbox: a child's log says how its calls are confined (spec jsonrpc 8.4).
func TestSandbox(t *testing.T) {
	r := newRig(t)
	if err := seam[*tool.Pipeline](r).Use(r.owner, tool.OrderGate, "test", func(ctx context.Context, tl tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		in.Confinement = &process.Confinement{Mode: process.ReadOnly}
		return next(ctx, tl, in)
	}); err != nil {
		t.Fatal(err)
	}
	r.ask(r.open("root", nil), "fg think")
	id := r.children()[0]
	if diff := cmp.Diff([]sdkproto.SandboxMode{{Mode: "read-only", Source: "delegation"}}, of[sdkproto.SandboxMode](r, id, sdkproto.TypeSandboxMode)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var order []string
	for _, line := range r.lines(r.all()) {
		if strings.HasPrefix(line, "child1 ") && len(order) < 4 {
			order = append(order, strings.TrimPrefix(line, "child1 "))
		}
	}
	if diff := cmp.Diff([]string{"subagent/descriptor", "session/end-seed", "sandbox/mode", "approval/policy"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestLongAnswer: the parent's model gets as much as it may, and the name of a
// file with all of it (decision D19).
func TestLongAnswer(t *testing.T) {
	r := newRig(t, "subagent.maxAnswer=1000")
	r.ask(r.open("root", nil), "fg long")
	said, _ := r.result("root")
	head, note, ok := strings.Cut(said, "\n\n[cut after 1000 of 3000 characters; all of it is in ")
	if !ok || head != strings.Repeat("é", 1000) {
		t.Fatalf("got %.200q", said)
	}
	whole, err := os.ReadFile(strings.TrimSuffix(note, "]"))
	if err != nil || string(whole) != strings.Repeat("é", 3000) {
		t.Errorf("the file has %d bytes: %v", len(whole), err)
	}
}

// TestTold: a child knows what it is, and a root is told nothing.
func TestTold(t *testing.T) {
	r := newRig(t)
	r.ask(r.open("root", nil), "fg think")
	for id, want := range map[string]int{"root": 0, r.children()[0]: 1} {
		n := 0
		for _, m := range of[sdkproto.Message](r, id, sdkproto.TypeUserMessage) {
			if m.Source.Kind == sdkproto.SourcePlugin && m.Source.Plugin == "subagent" && strings.Contains(sdkproto.TextOf(m.Content), "You are a subagent") {
				n++
			}
		}
		if n != want {
			t.Errorf("%s was told %d times, want %d", id, n, want)
		}
	}
}

// TestInfrastructure: when the child's session cannot go on, nothing is told of
// what it said (spec jsonrpc 8.1).
func TestInfrastructure(t *testing.T) {
	for name, prompt := range map[string]string{"in the first turn": "gate", "in the second turn": "then think"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.send(r.open("root", nil), "fg "+prompt)
			r.crowd(1)
			child, ok := r.agents.Get(r.children()[0])
			if !ok {
				t.Fatal("the child is not live")
			}
			if err := child.Log().Close(); err != nil {
				t.Fatal(err)
			}
			r.gate.release()
			r.idles("root", 1)
			ends := r.settled(1)
			if end := ends[len(ends)-1].Settled; end.AgentID != child.ID() || end.StopReason != sdkproto.StopError || end.Last != nil {
				t.Errorf("settled %+v", end)
			}
			if said, code := r.result("root"); code != "SUBAGENT_FAILED" || !strings.Contains(said, "its session could not go on") {
				t.Errorf("%q %q", code, said)
			}
		})
	}
}
