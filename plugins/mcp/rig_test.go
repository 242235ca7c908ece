package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/command"
	"dsh/kernel/kerneltest"
	contract "dsh/kernel/mcp"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// The test binary is its own MCP server: with serverVariable set it serves in
// that mode instead of running tests.
const (
	serverVariable = "MCP_TEST_SERVER"
	dirVariable    = "MCP_TEST_DIR"
	limit          = 20 * time.Second
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(serverVariable); mode != "" {
		serveMode(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// rig is a manager composed by hand.
type rig struct {
	*Manager
	t        *testing.T
	dir      string
	owner    *kernel.Owner
	ready    *kernel.Ready
	root     *kernel.Root
	view     *tool.View
	pipe     *tool.Pipeline
	commands *command.Registry
	desk     *approval.Desk
	sections *prompt.Sections
	log      *kerneltest.Log
}

func quick() Config {
	c := defaults()
	c.ConnectTimeout = kernel.Duration(limit)
	c.Reconnect = Reconnect{Attempts: 3, First: kernel.Duration(10 * time.Millisecond), Most: kernel.Duration(40 * time.Millisecond)}
	return c
}

// compose makes a manager and starts its servers; it does not wait for them.
func compose(t *testing.T, c Config, change ...func(*Params)) *rig {
	t.Helper()
	owner := kernel.NewOwner(context.Background(), "test")
	r := &rig{
		t: t, dir: t.TempDir(), owner: owner, root: kernel.NewRoot(owner), pipe: tool.NewPipeline(),
		commands: command.NewRegistry(), desk: approval.NewDesk(), sections: prompt.NewSections(), log: &kerneltest.Log{},
	}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.ready = kernel.NewReady(owner, log)
	tools := tool.NewRegistry()
	p := Params{
		Self:   kernel.Instance{ID: "mcp", Owner: owner.Child("row mcp"), Log: log, Ready: r.ready, Root: r.root, Home: r.dir},
		Config: c, Tools: tools, Commands: r.commands, Desk: r.desk, Sections: r.sections, Spiller: &spiller{dir: r.dir},
	}
	for _, f := range change {
		f(&p)
	}
	if err := p.Config.Validate(); err != nil {
		t.Fatal(err)
	}
	r.view = tools.View(nil)
	r.Manager = New(p)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := owner.Close(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	if err := r.Manager.register(); err != nil {
		t.Fatal(err)
	}
	return r
}

// start is compose, and waits for the load tasks.
func start(t *testing.T, c Config, change ...func(*Params)) *rig {
	t.Helper()
	r := compose(t, c, change...)
	r.loaded()
	return r
}

func (r *rig) loaded() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*limit)
	defer cancel()
	if err := r.ready.Wait(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// stdio is a server of the test binary in a mode.
func stdio(t *testing.T, mode string, env ...string) Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := Server{Command: exe, Env: map[string]string{serverVariable: mode, dirVariable: t.TempDir()}}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		s.Env[name] = value
	}
	return s
}

func servers(c Config, named map[string]Server) Config {
	c.Servers = named
	return c
}

// call calls a tool as the agent loop does.
func (r *rig) call(ctx context.Context, name string, arguments any, change ...func(*tool.Invocation)) tool.Result {
	r.t.Helper()
	raw, err := wirejson.Marshal(arguments)
	if err != nil {
		r.t.Fatal(err)
	}
	in := tool.Invocation{SessionID: "s", CWD: r.dir, CallID: "c"}
	for _, f := range change {
		f(&in)
	}
	return r.pipe.Call(ctx, r.view, name, string(raw), in)
}

// good makes a call that must succeed and gives its text.
func (r *rig) good(name string, arguments any) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	res := r.call(ctx, name, arguments)
	text := sdkproto.TextOf(res.Content)
	if res.IsError {
		r.t.Fatalf("%s: %s", name, text)
	}
	return text
}

// bad makes a call that must fail with a code and words.
func (r *rig) bad(name string, arguments any, code string, words ...string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	res := r.call(ctx, name, arguments)
	text := sdkproto.TextOf(res.Content)
	if !res.IsError || res.Error == nil || res.Error.Code != code {
		r.t.Fatalf("%s: error %v %+v, want %s: %s", name, res.IsError, res.Error, code, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			r.t.Errorf("%s: %q lacks %q", name, text, w)
		}
	}
}

func (r *rig) names() (names []string) {
	for _, t := range r.view.List() {
		names = append(names, t.Spec().Name)
	}
	return names
}

func (r *rig) state(name string) contract.Server {
	r.t.Helper()
	for _, s := range r.List() {
		if s.Name == name {
			return s
		}
	}
	r.t.Fatalf("no server %q", name)
	return contract.Server{}
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// spiller keeps files in a folder.
type spiller struct {
	dir string
	mu  sync.Mutex
	n   int
}

type spilled struct{ *os.File }

func (f spilled) Path() string { return f.Name() }

func (s *spiller) Spill(sessionID, callID string) (tool.SpillFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	f, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%s-%s-%d", sessionID, callID, s.n)))
	return spilled{f}, err
}

// images admits whatever is image/png.
type images struct{}

func (images) Admit(_ context.Context, batch []attachment.Upload) ([]sdkproto.Attachment, error) {
	var refs []sdkproto.Attachment
	for _, u := range batch {
		if u.MediaType != "image/png" {
			return nil, &attachment.Error{Code: attachment.CodeUnsupportedType, Message: "it is no PNG"}
		}
		refs = append(refs, sdkproto.Attachment{AttachmentID: "sha256:" + digest(string(u.Bytes)), MediaType: u.MediaType, Bytes: int64(len(u.Bytes))})
	}
	return refs, nil
}

func (images) Read(context.Context, string) ([]byte, error) { return nil, attachment.ErrNotFound }

// approver answers every question of a server.
type approver struct {
	answer approval.ElicitationAnswer
	takes  time.Duration
	mu     sync.Mutex
	asked  []approval.Elicitation
}

func (a *approver) Serves(string) bool { return true }

func (a *approver) Approve(context.Context, approval.Request) (approval.Answer, error) {
	return approval.Answer{Outcome: approval.Rejected}, nil
}

func (a *approver) Elicit(_ context.Context, e approval.Elicitation) (approval.ElicitationAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, e)
	time.Sleep(a.takes)
	return a.answer, nil
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
