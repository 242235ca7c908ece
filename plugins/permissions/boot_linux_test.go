package permissions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/process"
	"dsh/kernel/profile"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/llmscripted"
	"dsh/plugins/permissions"
	"dsh/plugins/processlocal"
	"dsh/plugins/sandboxlandlock"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/settings"
	"dsh/plugins/toolbash"
	"dsh/plugins/toolfs"
	"dsh/plugins/toolsearch"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  process: {use: process-local}
  sandbox: {use: sandbox-landlock}
  model: {use: llm-scripted}
  loop: {use: agentloop}
  permissions: {use: permissions}
  settings: {use: settings, config: {trust: always, projectFolders: [.claude]}}
  fs: {use: tool-fs}
  search: {use: tool-search}
  shell: {use: tool-bash}
`

// world is a running profile with the real loop, tools and sandbox, and a
// session in a folder of its own.
type world struct {
	t    *testing.T
	k    *kernel.Kernel
	home string
	cwd  string
	// script is the file that the model follows.
	script string
	a      agent.Agent
}

// replies is a script: the model makes calls, then says that it is done.
func replies(calls ...[2]string) string {
	var b strings.Builder
	b.WriteString("rules:\n  - when: {step: 1}\n    reply:\n")
	for _, c := range calls {
		fmt.Fprintf(&b, "      - call: {tool: %s, arguments: %s}\n", c[0], wirejson.AppendString(nil, c[1]))
	}
	b.WriteString("  - reply: Done.\n")
	return b.String()
}

func bash(command string) [2]string {
	return [2]string{"bash", `{"command":` + string(wirejson.AppendString(nil, command)) + `}`}
}

func start(t *testing.T, script string, sets ...string) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: filepath.Join(base, "home"), cwd: filepath.Join(base, "ws")}
	w.script = filepath.Join(base, "model.yaml")
	if err := os.WriteFile(w.script, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.home, w.cwd} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b := kerneltest.Boot(t, kerneltest.Options{
		Home: w.home, Text: rows,
		Sets: append(sets, "model.script="+w.script),
		Plugins: []kernel.Plugin{core.Plugin, sessionjsonl.Plugin, processlocal.Plugin, sandboxlandlock.Plugin, llmscripted.Plugin,
			agentloop.Plugin, permissions.Plugin, settings.Plugin, toolfs.Plugin, toolsearch.Plugin, toolbash.Plugin},
	})
	w.k = b.Kernel
	w.a = w.open(agent.Spec{ID: "s", CWD: w.cwd, Route: llm.Route{Provider: "scripted", Model: "scripted"}})
	return w
}

func seam[T any](w *world) T {
	w.t.Helper()
	v, ok := kernel.Seam[T](w.k)
	if !ok {
		w.t.Fatal("the profile does not provide what is asked")
	}
	return v
}

func (w *world) open(spec agent.Spec) agent.Agent {
	w.t.Helper()
	agents := seam[agent.Registry](w)
	a, err := agents.Open(w.t.Context(), spec, agent.OpenNew)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// prompt runs a turn and gives its events.
func (w *world) prompt(text string) []sdkproto.Event {
	w.t.Helper()
	if _, err := w.a.Send(w.t.Context(), []sdkproto.Block{sdkproto.Text(text)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if err := w.a.WhenIdle(ctx); err != nil {
		w.t.Fatal(err)
	}
	return w.stored("s")
}

func (w *world) stored(id string) []sdkproto.Event {
	w.t.Helper()
	var events []sdkproto.Event
	err := seam[agent.Registry](w).Events(w.t.Context(), id, 0, func(r *session.Record) error {
		events = append(events, r.Event)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

func (w *world) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(w.cwd, name))
	return err == nil
}

// of decodes the events of a type.
func of[T any](t *testing.T, events []sdkproto.Event, eventType string) []T {
	t.Helper()
	var all []T
	for _, e := range events {
		if e.Type != eventType {
			continue
		}
		var v T
		if err := wirejson.Unmarshal(e.Data, &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// results gives the texts of the results of calls, in order, with their codes.
func results(t *testing.T, events []sdkproto.Event) (texts, codes []string) {
	t.Helper()
	for _, r := range of[sdkproto.ToolResult](t, events, sdkproto.TypeToolResult) {
		texts = append(texts, sdkproto.TextOf(r.Message.Content[0].Content))
		code := ""
		if r.Error != nil {
			code = r.Error.Code
		}
		codes = append(codes, code)
	}
	return texts, codes
}

// person answers questions in a test.
type person struct {
	answer func(ctx context.Context, q approval.Request) (approval.Answer, error)

	mu    sync.Mutex
	asked []approval.Request
}

func (p *person) Serves(sessionID string) bool { return sessionID == "s" }

func (p *person) Approve(ctx context.Context, q approval.Request) (approval.Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	p.mu.Unlock()
	return p.answer(ctx, q)
}

// ask puts a person behind the desk.
func (w *world) ask(answer func(context.Context, approval.Request) (approval.Answer, error)) *person {
	w.t.Helper()
	p := &person{answer: answer}
	owner := kernel.NewOwner(w.t.Context(), "person")
	w.t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	if err := seam[*approval.Desk](w).Register(owner, "person", p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func always(outcome approval.Outcome) func(context.Context, approval.Request) (approval.Answer, error) {
	return func(context.Context, approval.Request) (approval.Answer, error) {
		return approval.Answer{Outcome: outcome}, nil
	}
}

// TestEvents: every decision is in the log, between the call and its result,
// with what decided it.
func TestEvents(t *testing.T) {
	w := start(t, replies(bash("touch a"), [2]string{"read", `{"file_path":"a"}`}, bash("git push"), [2]string{"write", `{"file_path":"../x","content":"x"}`}),
		`permissions.rules={"deny":["Bash(git push:*)"]}`)
	events := w.prompt("go")
	want := []sdkproto.PermissionDecision{
		{ToolName: "bash", Behavior: "allow", Reason: "the command is confined to workspace-write", Confinement: "workspace-write", Reached: "full"},
		{ToolName: "read", Behavior: "allow", Reason: "the call only reads"},
		{ToolName: "bash", Behavior: "deny", Reason: "rule Bash(git push:*) (profile) says deny", Rule: "Bash(git push:*)", Scope: "profile", Confinement: "workspace-write", Reached: "full"},
	}
	got := of[sdkproto.PermissionDecision](t, events, sdkproto.TypePermissionDecision)
	if len(got) != 4 {
		t.Fatalf("%d decisions: %+v", len(got), got)
	}
	for i := range want {
		got[i].CallID = ""
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("decision %d (-want +got):\n%s", i, diff)
		}
	}
	if got[3].Behavior != "allow" {
		// The folder above is below the one for temporary files.
		t.Errorf("decision %+v", got[3])
	}
	var order []string
	for _, e := range events {
		switch e.Type {
		case sdkproto.TypeToolCall, sdkproto.TypePermissionDecision, sdkproto.TypeToolResult:
			order = append(order, e.Type)
		}
		if e.Type == sdkproto.TypePermissionDecision && !e.Ignorable {
			t.Error("a decision is not ignorable")
		}
		if e.Type == sdkproto.TypePermissionPreset {
			t.Error("the usual preset is recorded")
		}
	}
	if !slices.Equal(order[:3], []string{sdkproto.TypeToolCall, sdkproto.TypePermissionDecision, sdkproto.TypeToolResult}) {
		t.Errorf("order %v", order)
	}
	texts, codes := results(t, events)
	if codes[2] != "PERMISSION_DENIED" || !strings.HasPrefix(texts[2], "Permission to use bash has been denied.") {
		t.Errorf("%s: %s", codes[2], texts[2])
	}
	if !w.exists("a") {
		t.Error("an allowed command did not run")
	}
}

// B20: with nobody to ask, what nothing allows is refused at once, and the text
// says what to do; the turn goes on.
func TestB20(t *testing.T) {
	w := start(t, replies([2]string{"write", `{"file_path":".git/x","content":"x"}`}))
	begin := time.Now()
	events := w.prompt("go")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the turn took %v", took)
	}
	texts, codes := results(t, events)
	if codes[0] != "PERMISSION_DENIED" || !strings.Contains(texts[0], ".git/x is protected") || !strings.Contains(texts[0], "nobody can be asked") {
		t.Errorf("%s: %s", codes[0], texts[0])
	}
	asked := of[sdkproto.ApprovalAsked](t, events, sdkproto.TypeApprovalAsked)
	decided := of[sdkproto.ApprovalDecided](t, events, sdkproto.TypeApprovalDecided)
	if len(asked) != 1 || len(decided) != 1 || asked[0].ID != decided[0].ID || decided[0].Outcome != "unavailable" {
		t.Errorf("asked %+v, decided %+v", asked, decided)
	}
	if w.exists(".git") {
		t.Error("the call ran")
	}
	want := []approval.Denial{{ToolName: "write", ToolUseID: asked[0].CallID, ToolInput: []byte(`{"file_path":".git/x","content":"x"}`)}}
	if diff := cmp.Diff(want, seam[approval.Policy](w).Denials("s", 1)); diff != "" {
		t.Errorf("denials (-want +got):\n%s", diff)
	}
	w.prompt("and again")
	if got := seam[approval.Policy](w).Denials("s", 2); len(got) != 1 {
		t.Errorf("denials of the second turn: %+v", got)
	}
	if got := seam[approval.Policy](w).Denials("s", 1); len(got) != 0 {
		t.Errorf("the denials of the first turn are still there: %+v", got)
	}
}

// B20: a wait for an answer has a limit when the profile says so.
func TestB20Limit(t *testing.T) {
	w := start(t, replies([2]string{"write", `{"file_path":".git/x","content":"x"}`}), "permissions.answerLimitMs=50")
	w.ask(func(ctx context.Context, _ approval.Request) (approval.Answer, error) {
		<-ctx.Done()
		return approval.Answer{}, ctx.Err()
	})
	events := w.prompt("go")
	texts, _ := results(t, events)
	if !strings.Contains(texts[0], "nobody has answered within 50ms") || w.exists(".git") {
		t.Errorf("result %q", texts[0])
	}
	if decided := of[sdkproto.ApprovalDecided](t, events, sdkproto.TypeApprovalDecided); decided[0].Outcome != "unavailable" {
		t.Errorf("decided %+v", decided)
	}
}

// B21: nothing but a plain consent counts as one.
func TestB21(t *testing.T) {
	raw := func(s string) []byte { return []byte(s) }
	call := `{"command":"touch m","description":"x"}`
	for _, tc := range []struct {
		name   string
		answer approval.Answer
		err    error
		// file is what exists afterwards, "" for nothing.
		file    string
		outcome string
		says    string
	}{
		{"allowed", approval.Answer{Outcome: approval.AllowedOnce}, nil, "m", "allowed-once", ""},
		{"allowed, other arguments", approval.Answer{Outcome: approval.AllowedOnce, Arguments: raw(`{"command":"touch n"}`)}, nil, "n", "allowed-once", ""},
		{"other case", approval.Answer{Outcome: "ALLOWED-ONCE"}, nil, "", "rejected", "not understood"},
		{"unknown", approval.Answer{Outcome: "maybe"}, nil, "", "rejected", "not understood"},
		{"empty", approval.Answer{}, nil, "", "rejected", "not understood"},
		{"rejected", approval.Answer{Outcome: approval.Rejected}, nil, "", "rejected", "Permission to use bash has been denied."},
		{"rejected with words", approval.Answer{Outcome: approval.Rejected, Message: "Not today."}, nil, "", "rejected", "Not today."},
		{"unavailable", approval.Answer{Outcome: approval.Unavailable}, nil, "", "unavailable", "nobody can be asked"},
		{"an error", approval.Answer{Outcome: approval.AllowedOnce}, errors.New("lost"), "", "unavailable", "lost"},
		{"empty object", approval.Answer{Outcome: approval.AllowedOnce, Arguments: raw(`{}`)}, nil, "", "allowed-once", "command: missing"},
		{"no object", approval.Answer{Outcome: approval.AllowedOnce, Arguments: raw(`"text"`)}, nil, "", "allowed-once", "not a JSON object"},
		{"names twice (B23)", approval.Answer{Outcome: approval.AllowedOnce, Arguments: raw(`{"command":"touch n","command":"echo"}`)}, nil, "", "allowed-once", "duplicate"},
		{"other case of a name (B23)", approval.Answer{Outcome: approval.AllowedOnce, Arguments: raw(`{"Command":"touch n"}`)}, nil, "", "allowed-once", "Command: unknown"},
		{"denied by rule", approval.Answer{Outcome: approval.AllowedOnce, Arguments: raw(`{"command":"touch m; rm x"}`)}, nil, "", "allowed-once", "Permission to use bash has been denied."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, replies([2]string{"bash", call}), `permissions.rules={"ask":["Bash(touch:*)"],"deny":["Bash(rm:*)"]}`)
			p := w.ask(func(context.Context, approval.Request) (approval.Answer, error) { return tc.answer, tc.err })
			events := w.prompt("go")
			texts, _ := results(t, events)
			if len(texts) != 1 || !strings.Contains(texts[0], tc.says) {
				t.Errorf("results %q, want one with %q", texts, tc.says)
			}
			for _, name := range []string{"m", "n"} {
				if w.exists(name) != (name == tc.file) {
					t.Errorf("%s exists: %v", name, w.exists(name))
				}
			}
			if got := of[sdkproto.ApprovalDecided](t, events, sdkproto.TypeApprovalDecided); len(got) != 1 || got[0].Outcome != tc.outcome {
				t.Errorf("decided %+v, want %s", got, tc.outcome)
			}
			if len(p.asked) != 1 || string(p.asked[0].Arguments) != call || p.asked[0].ToolName != "bash" || p.asked[0].SessionID != "s" || p.asked[0].CallID == "" || p.asked[0].Reason == "" {
				t.Errorf("asked %+v", p.asked)
			}
			// S065: what ran instead is in the log.
			decisions := of[sdkproto.PermissionDecision](t, events, sdkproto.TypePermissionDecision)
			if tc.file == "n" && string(decisions[len(decisions)-1].Arguments) != string(tc.answer.Arguments) {
				t.Errorf("decisions %+v", decisions)
			}
		})
	}
}

// B22: refusing one of several calls does not stop the others, and each result
// says what happened to its call.
func TestB22(t *testing.T) {
	w := start(t, replies(bash("touch a"), bash("touch b"), bash("touch c")), `permissions.rules={"ask":["Bash(touch:*)"]}`)
	w.ask(func(_ context.Context, q approval.Request) (approval.Answer, error) {
		if strings.Contains(string(q.Arguments), "touch b") {
			return approval.Answer{Outcome: approval.Rejected, Message: "Not b."}, nil
		}
		return approval.Answer{Outcome: approval.AllowedOnce}, nil
	})
	events := w.prompt("go")
	texts, codes := results(t, events)
	if len(texts) != 3 || codes[0] != "" || texts[1] != "Not b." || codes[1] != "PERMISSION_DENIED" || codes[2] != "" {
		t.Errorf("results %q %q", texts, codes)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if w.exists(name) != want {
			t.Errorf("%s exists: %v", name, !want)
		}
	}
}

// B22: a call that was cut off while it was asked about is not told to have been
// rejected, and is no denial.
func TestB22Cut(t *testing.T) {
	w := start(t, replies(bash("touch a"), bash("touch b")), `permissions.rules={"ask":["Bash(touch:*)"]}`)
	waiting := make(chan struct{})
	w.ask(func(ctx context.Context, _ approval.Request) (approval.Answer, error) {
		close(waiting)
		<-ctx.Done()
		return approval.Answer{Outcome: approval.Rejected}, nil
	})
	if _, err := w.a.Send(t.Context(), []sdkproto.Block{sdkproto.Text("go")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		t.Fatal(err)
	}
	<-waiting
	w.a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.a.WhenIdle(ctx); err != nil {
		t.Fatal(err)
	}
	events := w.stored("s")
	_, codes := results(t, events)
	if !slices.Equal(codes, []string{"ABORTED", sdkproto.CodeAbortedBeforeDispatch}) {
		t.Errorf("codes %q", codes)
	}
	if got := of[sdkproto.ApprovalDecided](t, events, sdkproto.TypeApprovalDecided); len(got) != 1 || got[0].Outcome != "cancelled" {
		t.Errorf("decided %+v", got)
	}
	if got := seam[approval.Policy](w).Denials("s", 1); len(got) != 0 {
		t.Errorf("denials %+v", got)
	}
}

// TestEscalation: somebody who allows a write that the confinement forbids lets
// that one command run without; a rule does not.
func TestEscalation(t *testing.T) {
	// The checkout may lie in the folder for temporary files, which calls may write.
	t.Setenv("TMPDIR", t.TempDir())
	outside, err := os.MkdirTemp(".", "outside")
	if err != nil {
		t.Fatal(err)
	}
	outside, err = filepath.Abs(outside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outside) })
	hidden := bash("sh -c 'X=" + outside + "/hidden; touch $X'")
	w := start(t, replies(hidden, bash("touch "+outside+"/said"), hidden), `permissions.rules={"allow":["Bash"]}`)
	p := w.ask(always(approval.AllowedOnce))
	_, codes := results(t, w.prompt("go"))
	if len(p.asked) != 1 || !strings.Contains(p.asked[0].Reason, "/said") {
		t.Errorf("asked %+v", p.asked)
	}
	entries, err := os.ReadDir(outside)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "said" {
		t.Errorf("written outside: %v (codes %q)", entries, codes)
	}
}

// TestPresets: under read-only nothing is written; under full access everything
// runs and nobody is asked. Either is recorded once (spec jsonrpc 5.6, 11.2).
func TestPresets(t *testing.T) {
	write := [2]string{"write", `{"file_path":"w","content":"x"}`}
	for _, tc := range []struct {
		preset string
		// files exist afterwards.
		files []string
		asked int
	}{
		{"read-only", nil, 1},
		{"danger-full-access", []string{"b", "w"}, 0},
	} {
		t.Run(tc.preset, func(t *testing.T) {
			w := start(t, replies(bash("X=b; touch $X"), write, bash("git push")), "permissions.preset="+tc.preset, `permissions.rules={"ask":["Bash(git push)"]}`)
			p := w.ask(always(approval.Rejected))
			w.prompt("go")
			events := w.prompt("again")
			if got := of[sdkproto.PermissionPreset](t, events, sdkproto.TypePermissionPreset); len(got) != 1 || got[0].Preset != tc.preset {
				t.Errorf("recorded presets %+v", got)
			}
			for _, name := range []string{"b", "w"} {
				if w.exists(name) != slices.Contains(tc.files, name) {
					t.Errorf("%s exists: %v", name, w.exists(name))
				}
			}
			if (len(p.asked) > 0) != (tc.asked > 0) {
				t.Errorf("asked %+v", p.asked)
			}
		})
	}
}

// TestChildren: a delegated session asks nobody, and has what the root session
// was given (spec jsonrpc 8.4).
func TestChildren(t *testing.T) {
	w := start(t, replies([2]string{"write", `{"file_path":".git/x","content":"x"}`}, bash("touch b")))
	policy := seam[approval.Policy](w)
	if err := policy.Update("s", w.cwd, []approval.Update{{Type: approval.AddRules, Behavior: approval.Deny, Rules: []approval.Rule{{ToolName: "Bash", RuleContent: "touch b"}}}}); err != nil {
		t.Fatal(err)
	}
	w.a = w.open(agent.Spec{ID: "child", CWD: w.cwd, Parent: "s", Depth: 1, Route: llm.Route{Provider: "scripted", Model: "scripted"}})
	w.prompt("go")
	events := w.stored("child")
	texts, codes := results(t, events)
	if !slices.Equal(codes, []string{"PERMISSION_DENIED", "PERMISSION_DENIED"}) || !strings.Contains(texts[1], "Bash(touch b) (session)") {
		t.Errorf("results %q %q", texts, codes)
	}
	if len(of[sdkproto.ApprovalAsked](t, events, sdkproto.TypeApprovalAsked)) > 0 {
		t.Error("a question was put for a child")
	}
	if got := policy.Denials("s", 0); len(got) != 2 {
		t.Errorf("the root's denials are %+v", got)
	}
}

// TestUpdates: what a session was given holds from the next call on, for that
// session (spec stream-json 7.5, 7.6).
func TestUpdates(t *testing.T) {
	w := start(t, replies(bash("ls")))
	policy := seam[approval.Policy](w)
	judge := func(session, command string) string {
		b := tool.Spec{Name: "bash", Subject: tool.Subject{Rule: "Bash", Kind: tool.SubjectCommand, Member: "command"}}
		return policy.Judge(b, tool.Invocation{SessionID: session, CWD: w.cwd, Arguments: []byte(`{"command":"` + command + `"}`)}).Behavior
	}
	rule := func(kind, behavior string, contents ...string) approval.Update {
		u := approval.Update{Type: kind, Behavior: behavior}
		for _, c := range contents {
			u.Rules = append(u.Rules, approval.Rule{ToolName: "Bash", RuleContent: c})
		}
		return u
	}
	for _, tc := range []struct {
		update approval.Update
		// outcomes for make a, make b, touch x
		want [3]string
	}{
		{approval.Update{Type: approval.SetMode, Mode: "default"}, [3]string{"ask", "ask", "ask"}},
		{rule(approval.AddRules, "allow", "make a"), [3]string{"allow", "ask", "ask"}},
		{rule(approval.AddRules, "allow", "make b"), [3]string{"allow", "allow", "ask"}},
		{rule(approval.AddRules, "deny", "make b"), [3]string{"allow", "deny", "ask"}},
		{rule(approval.RemoveRules, "deny", "make b"), [3]string{"allow", "allow", "ask"}},
		{rule(approval.ReplaceRules, "allow", "make b"), [3]string{"ask", "allow", "ask"}},
		{rule(approval.ReplaceRules, "allow"), [3]string{"ask", "ask", "ask"}},
		{approval.Update{Type: approval.SetMode, Mode: "acceptEdits"}, [3]string{"ask", "ask", "allow"}},
		{approval.Update{Type: approval.SetMode, Mode: "bypassPermissions"}, [3]string{"allow", "allow", "allow"}},
		{approval.Update{Type: approval.SetMode, Mode: "plan"}, [3]string{"deny", "deny", "deny"}},
	} {
		if err := policy.Update("s", w.cwd, []approval.Update{tc.update}); err != nil {
			t.Fatal(err)
		}
		if got := [3]string{judge("s", "make a"), judge("s", "make b"), judge("s", "touch x")}; got != tc.want {
			t.Errorf("after %+v: %v, want %v", tc.update, got, tc.want)
		}
	}
	if got := policy.Mode("s", w.cwd); got != "plan" {
		t.Errorf("mode %s", got)
	}
	if got := policy.Mode("other", w.cwd); got != process.WorkspaceWrite {
		t.Errorf("another session has mode %s", got)
	}
	for _, bad := range []approval.Update{
		{Type: "x"}, {Type: approval.SetMode, Mode: "yolo"}, {Type: approval.AddRules, Behavior: "permit"}, {Type: approval.AddDirectories},
		{Type: approval.AddRules, Behavior: "allow", Rules: []approval.Rule{{ToolName: "*"}}},
	} {
		if err := policy.Update("s", w.cwd, []approval.Update{bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if err := policy.SetMode("s", w.cwd, "yolo"); err == nil || !strings.Contains(err.Error(), "acceptEdits") {
		t.Errorf("error %v", err)
	}
}

// B24: a bare deny takes a tool away, also one that comes later, and a call of it
// does not run.
func TestB24(t *testing.T) {
	w := start(t, replies(bash("touch a")), `permissions.rules={"deny":["Bash","mcp__db"]}`)
	names := func() (names []string) {
		for _, x := range seam[*tool.Registry](w).View(nil).List() {
			names = append(names, x.Spec().Name)
		}
		return names
	}
	owner := kernel.NewOwner(t.Context(), "late")
	for _, name := range []string{"mcp__db__query", "mcp__other__query"} {
		late := tool.Typed(tool.Spec{Name: name}, func(context.Context, tool.Invocation, struct{}) (tool.Result, error) { return tool.Result{}, nil })
		if err := seam[*tool.Registry](w).Register(owner, late); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"mcp__other__query", "read", "write", "edit", "glob", "grep"}, names()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if err := owner.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, codes := results(t, w.prompt("go")); !slices.Equal(codes, []string{sdkproto.CodeUnknownTool}) || w.exists("a") {
		t.Errorf("codes %q", codes)
	}
}

// TestSearch: what may not be read is in no result of a search (B18).
func TestSearch(t *testing.T) {
	w := start(t, replies([2]string{"grep", `{"pattern":"needle"}`}, [2]string{"glob", `{"pattern":"**"}`}, [2]string{"read", `{"file_path":"link"}`}),
		`permissions.rules={"deny":["Read(./secret/**)"]}`)
	for name, text := range map[string]string{"open": "needle open", "secret/key": "needle secret"} {
		path := filepath.Join(w.cwd, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("secret/key", filepath.Join(w.cwd, "link")); err != nil {
		t.Fatal(err)
	}
	texts, codes := results(t, w.prompt("go"))
	all := strings.Join(texts, "\n")
	if !strings.Contains(all, "needle open") || strings.Contains(all, "secret/key") || strings.Contains(all, "needle secret") || codes[2] != "PERMISSION_DENIED" {
		t.Errorf("results %q %q", texts, codes)
	}
}

// TestReload: another config holds for new calls; what sessions were given stays.
func TestReload(t *testing.T) {
	w := start(t, replies(bash("touch a")))
	policy := seam[approval.Policy](w)
	if err := policy.Update("s", w.cwd, []approval.Update{{Type: approval.AddRules, Behavior: approval.Deny, Rules: []approval.Rule{{ToolName: "Read"}}}}); err != nil {
		t.Fatal(err)
	}
	reload := func(set string) error {
		next, err := profile.Load(profile.Options{Name: "t", Home: w.home, Embedded: fstest.MapFS{"t.yaml": {Data: []byte(rows)}}, Sets: []string{"model.script=" + w.script, set}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.k.Reload(t.Context(), next)
		return err
	}
	if err := reload(`permissions.rules={"deny":["Bash(touch:*)"]}`); err != nil {
		t.Fatal(err)
	}
	if texts, codes := results(t, w.prompt("go")); codes[0] != "PERMISSION_DENIED" || w.exists("a") {
		t.Errorf("results %q %q", texts, codes)
	}
	if v := policy.Judge(tool.Spec{Name: "read", Subject: tool.Subject{Rule: "Read"}}, tool.Invocation{SessionID: "s", CWD: w.cwd}); v.Behavior != approval.Deny {
		t.Errorf("the session's rule is gone: %+v", v)
	}
	if err := reload(`permissions.preset="read-only"`); err != nil {
		t.Fatal(err)
	}
	if got := policy.Mode("s", w.cwd); got != process.ReadOnly {
		t.Errorf("mode %s", got)
	}
	events := w.prompt("again")
	if texts, codes := results(t, events); codes[1] != "PERMISSION_DENIED" || w.exists("a") || !strings.Contains(texts[1], "read-only") {
		t.Errorf("results %q %q", texts, codes)
	}
	if got := of[sdkproto.PermissionPreset](t, events, sdkproto.TypePermissionPreset); len(got) != 1 || got[0].Preset != process.ReadOnly {
		t.Errorf("recorded presets %+v", got)
	}
}
