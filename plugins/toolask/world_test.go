package toolask

import (
	"context"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/kerneltest"
	"dsh/kernel/tool"
	"dsh/plugins/core"
	"dsh/plugins/permissions"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rows = `
plugins:
  core: {use: core}
  permissions: {use: permissions, config: {mode: default}}
  ask: {use: tool-ask}
`

// world is the tools behind the real gate.
type world struct {
	t      *testing.T
	cwd    string
	pipe   *tool.Pipeline
	tools  *tool.Registry
	policy approval.Policy
	desk   *approval.Desk
	owner  *kernel.Owner
	// asked are the questions that came to the person.
	asked []approval.Request
}

func newWorld(t *testing.T, sets ...string) *world {
	t.Helper()
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	booted := kerneltest.Boot(t, kerneltest.Options{
		Text: rows, Sets: sets,
		Plugins: []kernel.Plugin{core.Plugin, permissions.Plugin, Plugin},
	})
	w := &world{
		t: t, cwd: cwd, pipe: seam[*tool.Pipeline](t, booted), tools: seam[*tool.Registry](t, booted),
		policy: seam[approval.Policy](t, booted), desk: seam[*approval.Desk](t, booted),
		owner: kernel.NewOwner(context.Background(), "test"),
	}
	t.Cleanup(func() {
		if err := w.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func seam[T any](t *testing.T, b *kerneltest.Booted) T {
	t.Helper()
	v, ok := kernel.Seam[T](b.Kernel)
	if !ok {
		t.Fatalf("no row provides %T", v)
	}
	return v
}

// person answers the questions of a world.
type person struct {
	w      *world
	answer func(approval.Request) approval.Answer
}

func (p *person) Serves(string) bool { return true }

func (p *person) Approve(_ context.Context, r approval.Request) (approval.Answer, error) {
	p.w.asked = append(p.w.asked, r)
	return p.answer(r), nil
}

// person puts somebody behind the desk.
func (w *world) person(answer func(approval.Request) approval.Answer) *world {
	w.t.Helper()
	if err := w.desk.Register(w.owner, "person", &person{w, answer}); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func allows(arguments string) func(approval.Request) approval.Answer {
	return func(approval.Request) approval.Answer {
		a := approval.Answer{Outcome: approval.AllowedOnce}
		if arguments != "" {
			a.Arguments = []byte(arguments)
		}
		return a
	}
}

func denies(message string) func(approval.Request) approval.Answer {
	return func(approval.Request) approval.Answer {
		return approval.Answer{Outcome: approval.Rejected, Message: message}
	}
}

// hook has a hook say something of every call, and replace its arguments unless
// they are "".
func (w *world) hook(advice tool.Advice, arguments string) *world {
	w.t.Helper()
	err := w.pipe.Use(w.owner, tool.OrderGate-5, "hook", func(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		if in.Advice = advice; arguments != "" {
			in.Arguments = []byte(arguments)
		}
		return next(ctx, t, in)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w
}

func (w *world) mode(mode string) *world {
	w.t.Helper()
	if err := w.policy.SetMode("s", w.cwd, mode); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func (w *world) call(name, arguments string) tool.Result {
	w.t.Helper()
	return w.pipe.Call(w.t.Context(), w.tools.View(nil), name, arguments, tool.Invocation{SessionID: "s", CWD: w.cwd, CallID: "c"})
}

func (w *world) tool(name string) tool.Tool {
	w.t.Helper()
	t, ok := w.tools.View(nil).Lookup(name)
	if !ok {
		w.t.Fatalf("%s is not registered", name)
	}
	return t
}

func textOf(r tool.Result) string { return sdkproto.TextOf(r.Content) }

func decoded(t *testing.T, raw string) (v any) {
	t.Helper()
	if err := wirejson.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return v
}

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(Plugin); err != nil {
		t.Error(err)
	}
}
