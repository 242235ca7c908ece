package permissions_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

const modeDefault = "permissions.mode=default"

// advise puts a hook's advice on every call of a tool.
func (w *world) advise(name string, advice tool.Advice) {
	w.t.Helper()
	err := seam[*tool.Pipeline](w).Use(w.owner("hook"), tool.OrderGate-10, "hook", func(ctx context.Context, x tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		if x.Spec().Name == name {
			in.Advice = advice
		}
		return next(ctx, x, in)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// owner gives one that is closed with the test.
func (w *world) owner(name string) *kernel.Owner {
	w.t.Helper()
	o := kernel.NewOwner(w.t.Context(), name)
	w.t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	return o
}

func (w *world) denials(turn int) []string {
	var names []string
	for _, d := range seam[approval.Policy](w).Denials("s", turn) {
		names = append(names, d.ToolName+" "+string(d.ToolInput))
	}
	return names
}

func ended(t *testing.T, events []sdkproto.Event) sdkproto.TurnEndReason {
	t.Helper()
	ends := of[sdkproto.TurnEnd](t, events, sdkproto.TypeTurnEnd)
	return ends[len(ends)-1].Reason
}

// TestUnknownTool: in mode plan a call of a tool that the session does not have is
// refused like one that writes, and is a denial; else there is only no such tool
// (S073, spec stream-json 7.3 rule 1, 11.11; checklist 64).
func TestUnknownTool(t *testing.T) {
	call := [2]string{"mcp__app__server_time", `{"zone":"utc"}`}
	for _, tc := range []struct {
		mode, says, code string
		denials          []string
		decisions        int
	}{
		{"plan", "Permission denied: Plan mode: write operations are not allowed", "PERMISSION_DENIED", []string{`mcp__app__server_time {"zone":"utc"}`}, 1},
		{"default", "No such tool available: mcp__app__server_time", sdkproto.CodeUnknownTool, nil, 0},
		{"dontAsk", "No such tool available: mcp__app__server_time", sdkproto.CodeUnknownTool, nil, 0},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			w := start(t, replies(call), "permissions.mode="+tc.mode, "core.unknownTool=No such tool available: {name}")
			events := w.prompt("What time is it?")
			texts, codes := results(t, events)
			if len(texts) != 1 || texts[0] != tc.says || codes[0] != tc.code {
				t.Errorf("results %q %q", texts, codes)
			}
			if diff := cmp.Diff(tc.denials, w.denials(1)); diff != "" {
				t.Errorf("denials (-want +got):\n%s", diff)
			}
			if got := of[sdkproto.PermissionDecision](t, events, sdkproto.TypePermissionDecision); len(got) != tc.decisions {
				t.Errorf("decisions %+v", got)
			}
			if end := ended(t, events); end.Kind != sdkproto.EndCompleted {
				t.Errorf("the turn ended with %+v", end)
			}
		})
	}
}

// TestDefaultMode: echo runs and touch is asked about (checklist 55).
func TestDefaultMode(t *testing.T) {
	w := start(t, replies(bash("echo hi"), bash("touch made.txt")), modeDefault)
	p := w.ask(always(approval.AllowedOnce))
	_, codes := results(t, w.prompt("go"))
	if !slices.Equal(codes, []string{"", ""}) || !w.exists("made.txt") {
		t.Errorf("codes %q", codes)
	}
	if len(p.asked) != 1 {
		t.Fatalf("asked %+v", p.asked)
	}
	q := p.asked[0]
	if q.ReasonType != approval.ReasonOther || q.Reason == "" || len(q.Suggestions) != 2 || string(q.Arguments) != `{"command":"touch made.txt"}` {
		t.Errorf("asked %+v", q)
	}
}

// TestAnswerUpdates: what an answer says about the policy holds for the second
// identical call, and is in a file where it says so (S066, checklist 61).
func TestAnswerUpdates(t *testing.T) {
	for _, tc := range []struct {
		destination string
		outcome     approval.Outcome
		file        bool
	}{
		{"session", approval.AllowedOnce, false},
		{"localSettings", approval.AllowedOnce, true},
		{"session", approval.Rejected, false},
	} {
		w := start(t, replies(bash("touch a"), bash("touch a")), modeDefault)
		p := w.ask(func(context.Context, approval.Request) (approval.Answer, error) {
			return approval.Answer{Outcome: tc.outcome, Updates: []approval.Update{
				{Type: "nonsense"},
				{Type: approval.AddRules, Behavior: "allow", Destination: tc.destination, Rules: []approval.Rule{{ToolName: "Bash", RuleContent: "touch:*"}}},
			}}, nil
		})
		events := w.prompt("go")
		if len(p.asked) != 1 {
			t.Errorf("%+v: asked %d times", tc, len(p.asked))
		}
		if _, codes := results(t, events); codes[1] != "" || (codes[0] == "") != (tc.outcome == approval.AllowedOnce) {
			t.Errorf("%+v: codes %q", tc, codes)
		}
		text, err := os.ReadFile(filepath.Join(w.cwd, ".claude", "settings.local.json"))
		if (err == nil) != tc.file || tc.file && !strings.Contains(string(text), `"Bash(touch:*)"`) {
			t.Errorf("%+v: file %q, %v", tc, text, err)
		}
	}
}

// TestAnswerCovers: a question that a change of the policy answers is withdrawn,
// and its call goes on (spec stream-json 5.1).
func TestAnswerCovers(t *testing.T) {
	outside := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("text of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) [2]string {
		return [2]string{"read", `{"file_path":"` + filepath.Join(outside, name) + `"}`}
	}
	w := start(t, replies(read("a"), read("b")), modeDefault)
	both, withdrawn := make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	w.ask(func(ctx context.Context, q approval.Request) (approval.Answer, error) {
		if asked.Add(1) == 2 {
			close(both)
		}
		<-both
		if strings.HasSuffix(q.BlockedPath, "/a") {
			return approval.Answer{Outcome: approval.AllowedOnce, Updates: q.Suggestions}, nil
		}
		select {
		case <-ctx.Done():
			close(withdrawn)
			return approval.Answer{Outcome: approval.Cancelled}, nil
		case <-time.After(10 * time.Second):
			return approval.Answer{Outcome: approval.Rejected}, nil
		}
	})
	events := w.prompt("go")
	texts, codes := results(t, events)
	if !slices.Equal(codes, []string{"", ""}) || !strings.Contains(texts[0], "text of a") || !strings.Contains(texts[1], "text of b") {
		t.Errorf("results %q %q", texts, codes)
	}
	select {
	case <-withdrawn:
	default:
		t.Error("the second question was not withdrawn")
	}
	for _, d := range of[sdkproto.ApprovalDecided](t, events, sdkproto.TypeApprovalDecided) {
		if d.Outcome != "allowed-once" {
			t.Errorf("decided %+v", d)
		}
	}
	if got := w.denials(1); got != nil {
		t.Errorf("denials %q", got)
	}
}

// TestSetModeCovers: a call that waits for an answer goes on waiting for it when
// another mode is put in force, but for the mode that asks about nothing (spec
// stream-json 4.4).
func TestSetModeCovers(t *testing.T) {
	for _, tc := range []struct {
		mode   string
		answer bool
	}{{"bypassPermissions", false}, {"acceptEdits", true}, {"plan", true}, {"dontAsk", true}} {
		w := start(t, replies(bash("touch a")), modeDefault)
		w.ask(func(ctx context.Context, _ approval.Request) (approval.Answer, error) {
			if err := seam[approval.Policy](w).SetMode("s", w.cwd, tc.mode); err != nil {
				t.Error(err)
			}
			if open := ctx.Err() == nil; open != tc.answer {
				t.Errorf("%s: the question is open: %v, want %v", tc.mode, open, tc.answer)
			}
			if !tc.answer {
				<-ctx.Done()
				return approval.Answer{}, ctx.Err()
			}
			return approval.Answer{Outcome: approval.AllowedOnce}, nil
		})
		_, codes := results(t, w.prompt("go"))
		if !w.exists("a") || codes[0] != "" || w.denials(1) != nil {
			t.Errorf("%s: codes %q, denials %q, it ran: %v", tc.mode, codes, w.denials(1), w.exists("a"))
		}
	}
}

// TestInterrupt: a refusal that interrupts ends the turn as the user would (S065,
// checklist 58); one that does not lets it go on (checklist 57).
func TestInterrupt(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer approval.Answer
		advice tool.Advice
		ends   bool
		says   string
	}{
		{"answer", approval.Answer{Outcome: approval.Rejected, Message: "Stop.", Interrupt: true}, tool.Advice{}, true, "Stop."},
		{"answer without", approval.Answer{Outcome: approval.Rejected, Message: "Not this."}, tool.Advice{}, false, "Not this."},
		{"allowed", approval.Answer{Outcome: approval.AllowedOnce, Interrupt: true}, tool.Advice{}, false, ""},
		{"hook", approval.Answer{}, tool.Advice{Behavior: "deny", Reason: "Never.", Interrupt: true}, true, "Never."},
		{"hook without", approval.Answer{}, tool.Advice{Behavior: "deny", Reason: "Never."}, false, "Never."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, replies(bash("touch a"), [2]string{"read", `{"file_path":"x"}`}), modeDefault)
			w.ask(func(context.Context, approval.Request) (approval.Answer, error) { return tc.answer, nil })
			w.advise("bash", tc.advice)
			events := w.prompt("go")
			end := ended(t, events)
			if tc.ends != (end.Kind == sdkproto.EndAborted) || tc.ends && (end.Reason == nil || end.Reason.Kind != sdkproto.AbortUser) {
				t.Errorf("the turn ended with %+v", end)
			}
			texts, codes := results(t, events)
			if tc.says != "" && (texts[0] != tc.says || codes[0] != "PERMISSION_DENIED") {
				t.Errorf("results %q %q", texts, codes)
			}
			if got := w.denials(1); (len(got) == 1) != (tc.says != "") {
				t.Errorf("denials %q", got)
			}
		})
	}
}

// TestHookDenied: a hook's refusal is recorded like any other, with what the model
// asked for; its ask is put to somebody though a rule allows the call (checklist
// 66).
func TestHookDenied(t *testing.T) {
	w := start(t, replies(bash("touch a")), modeDefault, `permissions.rules={"allow":["Bash"]}`)
	w.advise("bash", tool.Advice{Behavior: "deny", Reason: "Not on Mondays."})
	p := w.ask(always(approval.AllowedOnce))
	events := w.prompt("go")
	got := of[sdkproto.PermissionDecision](t, events, sdkproto.TypePermissionDecision)
	if len(got) != 1 || got[0].Behavior != "deny" || got[0].Scope != "hook" || got[0].Reason != "Not on Mondays." {
		t.Errorf("decisions %+v", got)
	}
	if len(p.asked) != 0 || w.exists("a") || !slices.Equal(w.denials(1), []string{`bash {"command":"touch a"}`}) {
		t.Errorf("asked %+v, denials %q", p.asked, w.denials(1))
	}

	w = start(t, replies(bash("touch a")), modeDefault, `permissions.rules={"allow":["Bash"]}`)
	w.advise("bash", tool.Advice{Behavior: "ask", Reason: "Are you sure?"})
	p = w.ask(always(approval.AllowedOnce))
	w.prompt("go")
	if len(p.asked) != 1 || p.asked[0].Reason != "Are you sure?" || p.asked[0].ReasonType != approval.ReasonHook || len(p.asked[0].Suggestions) != 0 || !w.exists("a") {
		t.Errorf("asked %+v", p.asked)
	}
}

// TestDeniedInput: a denial holds the input that the model asked for, whatever a
// hook has made of it (spec stream-json 7.8).
func TestDeniedInput(t *testing.T) {
	w := start(t, replies(bash("touch a")), modeDefault)
	err := seam[*tool.Pipeline](w).Use(w.owner("hook"), tool.OrderGate-10, "hook", func(ctx context.Context, x tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		in.Arguments = []byte(`{"command":"touch b"}`)
		return next(ctx, x, in)
	})
	if err != nil {
		t.Fatal(err)
	}
	p := w.ask(always(approval.Rejected))
	w.prompt("go")
	if len(p.asked) != 1 || string(p.asked[0].Arguments) != `{"command":"touch b"}` {
		t.Errorf("asked %+v", p.asked)
	}
	if got := w.denials(1); !slices.Equal(got, []string{`bash {"command":"touch a"}`}) {
		t.Errorf("denials %q", got)
	}
}

// TestNever: with approvals switched off nobody is asked but hooks, and the text
// says what is missing (spec stream-json 7.3 rule 10).
func TestNever(t *testing.T) {
	w := start(t, replies(bash("touch a")), modeDefault, "permissions.approvals=never")
	p := w.ask(always(approval.AllowedOnce))
	texts, _ := results(t, w.prompt("go"))
	if len(p.asked) != 0 || !strings.HasPrefix(texts[0], "Permission denied: this use of bash needs approval, and nobody can be asked here") || w.exists("a") {
		t.Errorf("asked %+v, result %q", p.asked, texts)
	}
	if strings.Contains(texts[0], "DSH_") {
		t.Errorf("the text speaks of the other wire: %q", texts[0])
	}
	hook := &person{answer: always(approval.AllowedOnce)}
	if err := seam[*approval.Desk](w).Arbitrate(w.owner("hook"), "hook", hook); err != nil {
		t.Fatal(err)
	}
	w.prompt("again")
	if len(p.asked) != 0 || len(hook.asked) != 1 || !w.exists("a") {
		t.Errorf("person %+v, hook %+v", p.asked, hook.asked)
	}
}

// prompter is a tool that answers questions about calls.
type prompter struct {
	text  string
	fails bool
	in    []string
}

func (*prompter) Spec() tool.Spec {
	return tool.Spec{Name: "mcp__ask__me", Parameters: []byte(`{"type":"object"}`)}
}

func (p *prompter) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	p.in = append(p.in, string(in.Arguments))
	res := tool.TextResult(p.text)
	res.IsError = p.fails
	return res, nil
}

// TestPromptTool: the tool of --permission-prompt-tool answers in place of the
// client (S010, spec stream-json 7.3), and only a plain consent is one (case B21).
func TestPromptTool(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		fails      bool
		// file is what exists then, "" for nothing.
		file, says string
		ends       bool
	}{
		{"allow", `{"behavior":"allow"}`, false, "a", "", false},
		{"null", ` {"behavior":"allow","updatedInput":null,"toolUseID":"x"}`, false, "a", "", false},
		{"other input", `{"behavior":"allow","updatedInput":{"command":"touch b"}}`, false, "b", "", false},
		{"input is no object", `{"behavior":"allow","updatedInput":"touch b"}`, false, "", "updatedInput is no object", false},
		{"deny", `{"behavior":"deny","message":"No."}`, false, "", "No.", false},
		{"deny without words", `{"behavior":"deny"}`, false, "", "Permission to use bash has been denied.", false},
		{"deny and stop", `{"behavior":"deny","message":"Halt.","interrupt":true}`, false, "", "Halt.", true},
		{"other case", `{"behavior":"Allow"}`, false, "", `behavior is "Allow"`, false},
		{"twice (B23)", `{"behavior":"deny","behavior":"allow"}`, false, "", "duplicate", false},
		{"no JSON", `yes`, false, "", "is not valid", false},
		{"nothing", ``, false, "", "is not valid", false},
		{"an error", `{"behavior":"allow"}`, true, "", "failed", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, replies(bash("touch a")), modeDefault, "permissions.promptTool=mcp__ask__me")
			x := &prompter{text: tc.text, fails: tc.fails}
			if err := seam[*tool.Registry](w).Register(w.owner("tool"), x); err != nil {
				t.Fatal(err)
			}
			p := w.ask(always(approval.AllowedOnce))
			events := w.prompt("go")
			if len(p.asked) != 0 {
				t.Errorf("the client was asked: %+v", p.asked)
			}
			call := of[sdkproto.ToolCall](t, events, sdkproto.TypeToolCall)[0].CallID
			if want := `{"tool_name":"bash","input":{"command":"touch a"},"tool_use_id":"` + call + `"}`; len(x.in) != 1 || x.in[0] != want {
				t.Errorf("the tool is called with %q, want %q", x.in, want)
			}
			texts, _ := results(t, events)
			if !strings.Contains(texts[0], tc.says) {
				t.Errorf("result %q, want %q", texts, tc.says)
			}
			for _, name := range []string{"a", "b"} {
				if w.exists(name) != (name == tc.file) {
					t.Errorf("%s exists: %v", name, w.exists(name))
				}
			}
			if end := ended(t, events); (end.Kind == sdkproto.EndAborted) != tc.ends {
				t.Errorf("the turn ended with %+v", end)
			}
		})
	}
	w := start(t, replies(bash("touch a")), modeDefault, "permissions.promptTool=mcp__ask__me")
	if texts, _ := results(t, w.prompt("go")); !strings.Contains(texts[0], "mcp__ask__me is not there") || w.exists("a") {
		t.Errorf("without the tool: %q", texts)
	}
	w = start(t, replies(bash("touch a")), modeDefault, "permissions.promptTool=stdio")
	if p := w.ask(always(approval.AllowedOnce)); !slices.Equal(w.codes("go"), []string{""}) || len(p.asked) != 1 {
		t.Errorf("stdio is not the client: %+v", p.asked)
	}
}

func (w *world) codes(text string) []string {
	_, codes := results(w.t, w.prompt(text))
	return codes
}

// TestDelegatedMode: a kind of agent may name its mode, which widens nothing that
// the parent's does not (spec stream-json 7.3, 11.7).
func TestDelegatedMode(t *testing.T) {
	w := start(t, replies(), modeDefault)
	kinds := seam[*agent.Definitions](w)
	for name, d := range map[string]agent.Definition{
		"planner": {PermissionMode: "plan"}, "editor": {PermissionMode: "acceptEdits"}, "free": {PermissionMode: "bypassPermissions"},
		"foreign": {PermissionMode: "bypassPermissions", Source: "project"}, "plain": {}, "odd": {PermissionMode: "yolo"},
	} {
		d.Name = name
		if err := kinds.Register(w.owner(name), d); err != nil {
			t.Fatal(err)
		}
	}
	spec := agent.Spec{CWD: w.cwd, Route: llm.Route{Provider: "scripted", Model: "scripted"}, Parent: "s", Depth: 1}
	for _, kind := range []string{"planner", "editor", "free", "foreign", "plain", "odd", "gone"} {
		spec.ID, spec.Type = "as-"+kind, kind
		w.open(spec)
	}
	spec.ID, spec.Type, spec.Parent, spec.Depth = "below", "free", "as-planner", 2
	w.open(spec)
	p := seam[approval.Policy](w)
	for mode, want := range map[string]map[string]string{
		"default": {
			"s": "default", "as-planner": "plan", "as-editor": "acceptEdits", "as-free": "bypassPermissions", "as-foreign": "default",
			"as-plain": "default", "as-odd": "default", "as-gone": "default", "below": "plan",
		},
		"plan":              {"s": "plan", "as-editor": "plan", "as-free": "plan", "below": "plan"},
		"dontAsk":           {"as-free": "dontAsk", "as-planner": "dontAsk"},
		"acceptEdits":       {"as-planner": "acceptEdits", "as-free": "acceptEdits"},
		"bypassPermissions": {"as-planner": "bypassPermissions"},
	} {
		if err := p.SetMode("s", w.cwd, mode); err != nil {
			t.Fatal(err)
		}
		for id, want := range want {
			if got := p.Mode(id, w.cwd); got != want {
				t.Errorf("%s under %s: %s, want %s", id, mode, got, want)
			}
		}
	}
	if err := p.SetMode("s", w.cwd, "default"); err != nil {
		t.Fatal(err)
	}
	in := tool.Invocation{SessionID: "as-planner", CWD: w.cwd, Arguments: []byte(`{"command":"touch a"}`)}
	bash, _ := seam[*tool.Registry](w).View(nil).Lookup("bash")
	if v := p.Judge(bash.Spec(), in); v.Behavior != approval.Deny || v.Message != "Permission denied: Plan mode: write operations are not allowed" {
		t.Errorf("verdict %+v", v)
	}
}

// anybody answers for every session.
type anybody struct{ person }

func (*anybody) Serves(string) bool { return true }

// TestInterruptBelow: a refusal that interrupts a delegated session's call ends
// the turn of the session at the root, too, and is among its denials.
func TestInterruptBelow(t *testing.T) {
	w := start(t, replies(bash("touch a")), modeDefault, "permissions.children=ask")
	rootAsks := make(chan struct{})
	p := &anybody{person{answer: func(ctx context.Context, q approval.Request) (approval.Answer, error) {
		if q.SessionID == "s" {
			close(rootAsks)
			<-ctx.Done()
			return approval.Answer{Outcome: approval.Cancelled}, nil
		}
		return approval.Answer{Outcome: approval.Rejected, Interrupt: true}, nil
	}}}
	if err := seam[*approval.Desk](w).Register(w.owner("anybody"), "anybody", p); err != nil {
		t.Fatal(err)
	}
	// A root that delegates has a policy of its own from then on.
	if err := seam[approval.Policy](w).SetMode("s", w.cwd, "default"); err != nil {
		t.Fatal(err)
	}
	child := w.open(agent.Spec{ID: "child", CWD: w.cwd, Route: llm.Route{Provider: "scripted", Model: "scripted"}, Parent: "s", Depth: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i, a := range []agent.Agent{w.a, child} {
		if _, err := a.Send(ctx, []sdkproto.Block{sdkproto.Text("go")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-rootAsks
		}
	}
	for _, a := range []agent.Agent{child, w.a} {
		if err := a.WhenIdle(ctx); err != nil {
			t.Fatal(err)
		}
		if end := ended(t, w.stored(a.ID())); end.Kind != sdkproto.EndAborted {
			t.Errorf("%s ended with %+v", a.ID(), end)
		}
	}
	if got := w.denials(1); !slices.Equal(got, []string{`bash {"command":"touch a"}`}) {
		t.Errorf("denials %q", got)
	}
}
