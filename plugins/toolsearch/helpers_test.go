package toolsearch

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
	s    *Search
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
	s := newSearch(c, owner, registry)
	if err := s.register(); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, dir, tool.NewPipeline(), registry.View(nil), s}
}

type args map[string]any

func (x *fixture) callWith(ctx context.Context, name string, a args) tool.Result {
	x.t.Helper()
	raw, err := wirejson.Marshal(a)
	if err != nil {
		x.t.Fatal(err)
	}
	return x.pipe.Call(ctx, x.view, name, string(raw), tool.Invocation{SessionID: "s", CWD: x.dir, CallID: "c"})
}

func (x *fixture) good(name string, a args) string {
	x.t.Helper()
	res := x.callWith(x.t.Context(), name, a)
	if res.IsError {
		x.t.Fatalf("%s %.300v: %s", name, a, text(res))
	}
	return text(res)
}

func (x *fixture) bad(name string, a args, code string, words ...string) {
	x.t.Helper()
	res := x.callWith(x.t.Context(), name, a)
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

// files makes several files, each a second older than the one before.
func (x *fixture) files(names ...string) {
	x.t.Helper()
	now := time.Now()
	for i, name := range names {
		if err := os.Chtimes(x.put(name, "x\n"), now, now.Add(-time.Duration(i)*time.Second)); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *fixture) paths(names ...string) string {
	for i, name := range names {
		names[i] = x.path(name)
	}
	return strings.Join(names, "\n")
}

func text(r tool.Result) string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}
