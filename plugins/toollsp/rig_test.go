package toollsp

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(scriptVariable); text != "" {
		serve(text)
		return
	}
	if os.Getenv(sleeperVariable) != "" {
		time.Sleep(time.Hour)
		return
	}
	goleak.VerifyTestMain(m)
}

// rig is the tool with a language server for .x files, on a folder of its own.
type rig struct {
	*tooltest.Fixture
	l   *LSP
	log string
}

// config is one with the scripted server in it.
func config(t testing.TB, sc script) (Config, string) {
	t.Helper()
	if sc.Log == "" {
		sc.Log = filepath.Join(t.TempDir(), "log")
	}
	text, err := json.Marshal(sc)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	c.Servers = map[string]Server{"x": {Command: self, Extensions: []string{".x"}, Env: map[string]string{scriptVariable: string(text)}}}
	return c, sc.Log
}

func setUp(t testing.TB, sc script, change ...func(*Config)) *rig {
	t.Helper()
	c, log := config(t, sc)
	for _, f := range change {
		f(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return compose(t, Params{Config: c}, log)
}

func compose(t testing.TB, p Params, log string) *rig {
	t.Helper()
	x := &rig{log: log}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) error {
		p.Self.ID, p.Self.Owner, p.Self.Log, p.Tools = "lsp", o, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})), r
		x.l = New(p)
		return x.l.register()
	})
	return x
}

type args = tooltest.Args

func at(op, file string, line, character int) args {
	return args{"operation": op, "filePath": file, "line": line, "character": character}
}

// sent gives the parameters of the messages of a method that servers got.
func (x *rig) sent(method string) []string {
	var all []string
	for _, m := range got(x.log) {
		if m.Method == method {
			all = append(all, string(m.Params))
		}
	}
	return all
}

// starts is how often a server was started.
func (x *rig) starts() int {
	data, _ := os.ReadFile(x.log)
	return strings.Count(string(data), `"started":`)
}

// eventually waits until f holds.
func (x *rig) eventually(what string, f func() bool) {
	x.T.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.T.Fatalf("not so after a long time: %s", what)
		}
	}
}

func (x *rig) text(res tool.Result) string { return sdkproto.TextOf(res.Content) }

// invoke makes a call with an invocation of the test's own.
func (x *rig) invoke(ctx context.Context, a args, in tool.Invocation) tool.Result {
	x.T.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		x.T.Fatal(err)
	}
	in.SessionID, in.CWD, in.CallID = "s", x.Dir, "c"
	return x.Pipe.Call(ctx, x.View, "LSP", string(raw), in)
}
