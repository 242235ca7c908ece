package mcp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/command"
	contract "dsh/kernel/mcp"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// S120: when the load tasks have ended the tools are there.
func TestToolsAreThereAfterLoading(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good"), "another": stdio(t, "fixed:"+listFile(t, `[`+named("x")+`]`))}))
	want := []string{
		"mcp__another__x",
		"mcp__good__ask", "mcp__good__echo", "mcp__good__env", "mcp__good__grow", "mcp__good__log",
		"mcp__good__shrink", "mcp__good__slow", "mcp__good__transfer",
		"list_mcp_resources", "read_mcp_resource",
	}
	if diff := cmp.Diff(want, r.names()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got := r.good("mcp__good__echo", map[string]string{"text": "a"}); got != "echo a" {
		t.Errorf("got %q", got)
	}
	good := r.state("good")
	if good.State != contract.Connected || good.Version != "good 1.2" || good.Transport != "stdio" || good.Scope != "profile" || len(good.Tools) != 8 {
		t.Errorf("status %+v", good)
	}
	if got := []string{r.List()[0].Name, r.List()[1].Name}; !slices.Equal(got, []string{"another", "good"}) {
		t.Errorf("order %q", got)
	}
}

// Annotations say whether calls may run side by side and what they risk.
func TestAnnotations(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good")}))
	for name, want := range map[string][3]bool{ // ReadOnly, Parallel, Destructive
		"mcp__good__echo": {true, true, false},
		"mcp__good__env":  {false, false, false},
		"mcp__good__slow": {false, false, true}, // the protocol's own default
	} {
		tl, ok := r.view.Lookup(name)
		if !ok {
			t.Fatalf("no tool %s", name)
		}
		spec := tl.Spec()
		if got := [3]bool{spec.ReadOnly, spec.Parallel, spec.Destructive}; got != want || spec.Subject != (tool.Subject{}) {
			t.Errorf("%s: %v %+v, want %v", name, got, spec.Subject, want)
		}
	}
}

// D28: programs get the environment without credentials, and what is granted.
func TestEnvironment(t *testing.T) {
	t.Setenv("MCP_TEST_PLAIN", "plain")
	t.Setenv("MCP_TEST_SECRET", "secret-value")
	t.Setenv("MCP_TEST_GRANTED", "granted")
	s := stdio(t, "good", "Path_X=1")
	s.EnvFrom = []string{"MCP_TEST_GRANTED"}
	r := start(t, servers(quick(), map[string]Server{"good": s}), func(p *Params) {
		p.Self.CredentialEnv = kernel.NewCredentialEnv("MCP_TEST_SECRET", "MCP_TEST_GRANTED")
	})
	for name, want := range map[string]string{
		"MCP_TEST_PLAIN": "plain true", "MCP_TEST_SECRET": " false", "MCP_TEST_GRANTED": "granted true",
		"Path_X": "1 true", "PATH_X": " false", // case B81: names keep their case
	} {
		if got := r.good("mcp__good__env", map[string]string{"text": name}); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// A secret that a server is given is in nothing that is shown, though the server
// prints it.
func TestSecretsAreNotShown(t *testing.T) {
	t.Setenv("MCP_TEST_TOKEN", "granted-value")
	granted := stdio(t, "exit")
	granted.EnvFrom = []string{"MCP_TEST_TOKEN"}
	r := start(t, servers(quick(), map[string]Server{"set": stdio(t, "exit", "MCP_TEST_TOKEN=set-value"), "granted": granted}))
	for _, name := range []string{"set", "granted"} {
		if got := r.state(name).Error; !strings.Contains(got, "no database here [secret]") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if log := r.log.String(); strings.Contains(log, "granted-value") || strings.Contains(log, "set-value") {
		t.Error("a secret is in the log")
	}
}

func TestProgressAndCancellation(t *testing.T) {
	s := stdio(t, "good")
	r := start(t, servers(quick(), map[string]Server{"good": s}))
	var mu sync.Mutex
	var told []string
	progress := func(in *tool.Invocation) {
		in.Progress = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, text)
		}
	}
	if res := r.call(t.Context(), "mcp__good__slow", map[string]string{"text": "2"}, progress); res.IsError {
		t.Fatal(sdkproto.TextOf(res.Content))
	}
	if diff := cmp.Diff([]string{"step (1/2)", "step (2/2)"}, told); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if res := r.call(ctx, "mcp__good__slow", map[string]string{"text": "1000"}); res.Error == nil || res.Error.Code != "ABORTED" {
		t.Errorf("got %+v", res)
	}
	until(t, "the server hears of the cancellation", func() bool { return marks(t, s, "cancelled") == 1 })
	if got := r.good("mcp__good__echo", map[string]string{"text": "b"}); got != "echo b" {
		t.Errorf("got %q", got)
	}
}

// A call without any sign of life ends; progress is a sign of life.
func TestCallLimit(t *testing.T) {
	s := stdio(t, "good")
	s.Timeout = kernel.Duration(600 * time.Millisecond)
	deaf := stdio(t, "deaf")
	deaf.Timeout = kernel.Duration(200 * time.Millisecond)
	r := start(t, servers(quick(), map[string]Server{"good": s, "deaf": deaf}))
	if got := r.good("mcp__good__slow", map[string]string{"text": "8"}); got != "slept" {
		t.Errorf("got %q", got)
	}
	r.bad("mcp__deaf__echo", map[string]string{}, codeTimeout, `"deaf"`, "200ms", "not known")
	// Not even its input is read any more: nobody waits for it longer.
	r.bad("mcp__deaf__echo", map[string]string{"text": strings.Repeat("a", 1<<20)}, codeTimeout)
	r.bad("mcp__deaf__echo", map[string]string{"text": strings.Repeat("a", 1<<20)}, codeTimeout)
	if got := r.good("mcp__good__echo", map[string]string{"text": "c"}); got != "echo c" {
		t.Errorf("got %q", got)
	}
}

// S069: a question goes to whoever answers for the session of the call.
func TestElicitation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer *approval.ElicitationAnswer
		want   string
	}{
		{"accept", &approval.ElicitationAnswer{Action: "accept", Content: []byte(`{"pick":"blue"}`)}, "accept blue"},
		{"decline", &approval.ElicitationAnswer{Action: "decline"}, "decline <nil>"},
		{"nobody there", nil, "cancel <nil>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good")}))
			a := &approver{}
			if tc.answer != nil {
				a.answer = *tc.answer
				if err := r.desk.Register(r.owner, "test", a); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.good("mcp__good__ask", map[string]string{}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.answer != nil {
				e := a.asked[0]
				if e.SessionID != "s" || e.Server != "good" || e.Message != "Which one?" || !strings.Contains(string(e.Schema), "pick") {
					t.Errorf("asked %+v", e)
				}
			}
		})
	}
}

// While somebody thinks about a question, the call that led to it does not run
// out of time.
func TestThinkingIsNotSilence(t *testing.T) {
	s := stdio(t, "good")
	s.Timeout = kernel.Duration(300 * time.Millisecond)
	r := start(t, servers(quick(), map[string]Server{"good": s}))
	a := &approver{takes: 700 * time.Millisecond, answer: approval.ElicitationAnswer{Action: "decline"}}
	if err := r.desk.Register(r.owner, "test", a); err != nil {
		t.Fatal(err)
	}
	if got := r.good("mcp__good__ask", map[string]string{}); got != "decline <nil>" {
		t.Errorf("got %q", got)
	}
}

func TestResources(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good"), "plain": stdio(t, "fixed:"+listFile(t, `[]`))}))
	if got, want := r.good("list_mcp_resources", map[string]string{}), `[{"server":"good","uri":"test://readme","name":"readme","mimeType":"text/plain"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.good("read_mcp_resource", map[string]string{"server": "good", "uri": "test://readme"}); got != "read me" {
		t.Errorf("got %q", got)
	}
	r.bad("read_mcp_resource", map[string]string{"server": "goood", "uri": "x"}, "INVALID_ARGUMENTS", "good, plain")
	r.bad("read_mcp_resource", map[string]string{"server": "good", "uri": "test://none"}, codeAnswer, `"good"`)
	if err := r.Enable(t.Context(), "good", false); err != nil {
		t.Fatal(err)
	}
	if got := r.names(); len(got) != 0 {
		t.Errorf("tools %q stay", got)
	}
}

func TestPrompts(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good")}))
	c, args, ok := r.commands.Parse(`/mcp__good__review "main file.go" odd corners`)
	if !ok || c.Description != "Reviews." || c.ArgumentHint != "<file> [focus]" {
		t.Fatalf("command %+v %v", c, ok)
	}
	blocks, err := c.Expand(t.Context(), command.Invocation{SessionID: "s", CWD: r.dir, Args: args})
	if got := sdkproto.TextOf(blocks); err != nil || got != `review main file.go for "odd corners"` {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := c.Expand(t.Context(), command.Invocation{}); err == nil || !strings.Contains(err.Error(), "it needs file") {
		t.Errorf("got %v", err)
	}
}

func TestInstructions(t *testing.T) {
	s := stdio(t, "good")
	r := start(t, servers(quick(), map[string]Server{"good": s}))
	if got := r.sections.System(prompt.Facts{}); got != "" {
		t.Errorf("nobody asked for %q", got)
	}
	s.Instructions = true
	r = start(t, servers(quick(), map[string]Server{"good": s}))
	if got := r.sections.System(prompt.Facts{}); !strings.Contains(got, "Echo before you leap.") {
		t.Errorf("got %q", got)
	}
}

func TestServersLogAndStderr(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good")}))
	until(t, "both lines are logged", func() bool {
		r.good("mcp__good__log", map[string]string{"text": "hear me"})
		log := r.log.String()
		return strings.Contains(log, `level=INFO msg="mcp server says" server=good text="stderr hear me"`) &&
			strings.Contains(log, `level=WARN msg="mcp server logs" server=good text="hear me"`)
	})
}

// S052, S053: servers can be stopped, started and restarted.
func TestEnableAndReconnect(t *testing.T) {
	off := stdio(t, "good")
	off.Disabled = true
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good"), "off": off}))
	if got := r.state("off"); got.State != contract.Disabled || len(got.Tools) != 0 {
		t.Errorf("status %+v", got)
	}
	if err := r.Reconnect(t.Context(), "off"); err == nil || !strings.Contains(err.Error(), "disabled") {
		t.Errorf("got %v", err)
	}
	if err := r.Enable(t.Context(), "off", true); err != nil {
		t.Fatal(err)
	}
	if got := r.good("mcp__off__echo", map[string]string{"text": "d"}); got != "echo d" {
		t.Errorf("got %q", got)
	}
	if err := r.Enable(t.Context(), "off", false); err != nil {
		t.Fatal(err)
	}
	if got := r.state("off"); got.State != contract.Disabled {
		t.Errorf("status %+v", got)
	}
	if slices.ContainsFunc(r.names(), func(n string) bool { return strings.HasPrefix(n, "mcp__off__") }) {
		t.Error("the tools of a stopped server stay")
	}
	if err := r.Reconnect(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	if got := r.good("mcp__good__echo", map[string]string{"text": "e"}); got != "echo e" {
		t.Errorf("got %q", got)
	}
	for _, f := range []func() error{
		func() error { return r.Reconnect(t.Context(), "god") },
		func() error { return r.Enable(t.Context(), "god", true) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), `"god"`) {
			t.Errorf("got %v", err)
		}
	}
}

// A required server that cannot be reached fails initialize; any other is a
// state.
func TestRequired(t *testing.T) {
	for _, required := range []bool{false, true} {
		s := stdio(t, "exit")
		s.Required = required
		r := compose(t, servers(quick(), map[string]Server{"bad": s}))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := r.ready.Wait(ctx)
		cancel()
		if (err != nil) != required {
			t.Errorf("required %v: got %v", required, err)
		}
		if required && !strings.Contains(err.Error(), "no database here") {
			t.Errorf("%v does not say why", err)
		}
	}
}

func TestAllowDeny(t *testing.T) {
	s := stdio(t, "good")
	s.Allow, s.Deny = []string{"e*", "slow"}, []string{"*v"}
	r := start(t, servers(quick(), map[string]Server{"good": s}))
	if diff := cmp.Diff([]string{"mcp__good__echo", "mcp__good__slow"}, r.state("good").Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// A server that knows only the newest protocol is spoken to in it.
func TestNewestProtocol(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"modern": stdio(t, "modern")}))
	if got := r.good("mcp__modern__echo", map[string]string{}); got != "modern" {
		t.Errorf("got %q", got)
	}
}

func TestNoSuchProgram(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"gone": {Command: "/no/such/program"}, "lost": {Command: "ls", CWD: "/no/such/folder"}}))
	for name, word := range map[string]string{"gone": "/no/such/program", "lost": "/no/such/folder"} {
		if got := r.state(name); got.State != contract.Failed || !strings.Contains(got.Error, word) {
			t.Errorf("status %+v", got)
		}
	}
}

// A panic of whoever takes progress harms nobody.
func TestPanicsAreContained(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good")}))
	res := r.call(t.Context(), "mcp__good__slow", map[string]string{"text": "1"}, func(in *tool.Invocation) {
		in.Progress = func(string) { panic("ouch") }
	})
	if res.IsError || !strings.Contains(r.log.String(), "ouch") {
		t.Errorf("got %s", sdkproto.TextOf(res.Content))
	}
}

func listFile(t *testing.T, list string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// marks counts the lines of a server's file.
func marks(t *testing.T, s Server, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Env[dirVariable], name))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}
