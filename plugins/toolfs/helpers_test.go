package toolfs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// fixture is the plugin's tools on a folder of their own.
type fixture struct {
	t    testing.TB
	dir  string
	pipe *tool.Pipeline
	view *tool.View
	f    *Files
}

func setUp(t testing.TB, c Config) *fixture {
	t.Helper()
	owner := kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := owner.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	registry := tool.NewRegistry()
	f := newFiles(c, owner, registry)
	if err := f.register(); err != nil {
		t.Fatal(err)
	}
	// Links in the path of the temporary folder would show in results.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, dir, tool.NewPipeline(), registry.View(nil), f}
}

type args map[string]any

func (x *fixture) call(name string, a args) tool.Result {
	x.t.Helper()
	return x.callWith(x.t.Context(), name, a)
}

func (x *fixture) callWith(ctx context.Context, name string, a args) tool.Result {
	x.t.Helper()
	raw, err := wirejson.Marshal(a)
	if err != nil {
		x.t.Fatal(err)
	}
	return x.pipe.Call(ctx, x.view, name, string(raw), tool.Invocation{SessionID: "s", CWD: x.dir, CallID: "c"})
}

// good runs a call that must succeed and gives its text.
func (x *fixture) good(name string, a args) string {
	x.t.Helper()
	res := x.call(name, a)
	if res.IsError {
		x.t.Fatalf("%s %.300v: %s", name, a, text(res))
	}
	return text(res)
}

// bad runs a call that must fail with the code and words.
func (x *fixture) bad(name string, a args, code string, words ...string) {
	x.t.Helper()
	res := x.call(name, a)
	if !res.IsError {
		x.t.Fatalf("%s %.300v succeeded: %.300s", name, a, text(res))
	}
	if res.Error.Code != code {
		x.t.Errorf("%s: code %s, want %s (%s)", name, res.Error.Code, code, text(res))
	}
	for _, w := range words {
		if !strings.Contains(text(res), w) {
			x.t.Errorf("%s: the error lacks %q: %s", name, w, text(res))
		}
	}
}

func (x *fixture) path(name string) string { return filepath.Join(x.dir, filepath.FromSlash(name)) }

func (x *fixture) put(name, content string) string {
	x.t.Helper()
	p := x.path(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		x.t.Fatal(err)
	}
	return p
}

func (x *fixture) get(name string) string {
	x.t.Helper()
	b, err := os.ReadFile(x.path(name))
	if err != nil {
		x.t.Fatal(err)
	}
	return string(b)
}

// onlyFiles checks that a folder holds these names and nothing else.
func (x *fixture) onlyFiles(dir string, want ...string) {
	x.t.Helper()
	entries, err := os.ReadDir(x.path(dir))
	if err != nil {
		x.t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		x.t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func text(r tool.Result) string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}
