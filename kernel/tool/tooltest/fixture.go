package tooltest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Fixture is a plugin's tools on a folder of their own.
type Fixture struct {
	T testing.TB
	// Dir is the working directory of every call, without links in its path.
	Dir  string
	Pipe *tool.Pipeline
	View *tool.View
}

// Args are the arguments of a call, by name.
type Args map[string]any

// NewFixture registers tools and takes them back at the end of the test.
func NewFixture(t testing.TB, register func(*kernel.Owner, *tool.Registry) error) *Fixture {
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
	if err := register(owner, registry); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &Fixture{t, dir, tool.NewPipeline(), registry.View(nil)}
}

// Call makes a call.
func (x *Fixture) Call(ctx context.Context, name string, a Args) tool.Result {
	x.T.Helper()
	raw, err := wirejson.Marshal(a)
	if err != nil {
		x.T.Fatal(err)
	}
	return x.Pipe.Call(ctx, x.View, name, string(raw), tool.Invocation{SessionID: "s", CWD: x.Dir, CallID: "c"})
}

// Good makes a call that must succeed and gives its text.
func (x *Fixture) Good(name string, a Args) string {
	x.T.Helper()
	res := x.Call(x.T.Context(), name, a)
	text := sdkproto.TextOf(res.Content)
	if res.IsError {
		x.T.Fatalf("%s %.300v: %s", name, a, text)
	}
	return text
}

// Bad makes a call that must fail with the code and the words.
func (x *Fixture) Bad(name string, a Args, code string, words ...string) {
	x.T.Helper()
	res := x.Call(x.T.Context(), name, a)
	text := sdkproto.TextOf(res.Content)
	if !res.IsError {
		x.T.Fatalf("%s %.300v succeeded: %.300s", name, a, text)
	}
	if res.Error.Code != code {
		x.T.Errorf("%s: code %s, want %s (%s)", name, res.Error.Code, code, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			x.T.Errorf("%s: the error lacks %q: %s", name, w, text)
		}
	}
}

// Path is the path of a name in the folder.
func (x *Fixture) Path(name string) string { return filepath.Join(x.Dir, filepath.FromSlash(name)) }

// Put writes a file, with the folders above it, and gives its path.
func (x *Fixture) Put(name, content string) string {
	x.T.Helper()
	p := x.Path(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		x.T.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		x.T.Fatal(err)
	}
	return p
}
