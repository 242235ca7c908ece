package external

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// A reload starts the changed plugin beside the old one, which a running turn
// keeps until it ends; then the old one ends.
func TestReload(t *testing.T) {
	b := up(t, "tools", "greeting: Old")
	old := b.pid(t)
	generation, leave := b.kernel.Root().Enter()
	p, _ := load(t, filepath.Dir(b.file), rowOf(t, "it", "tools", "greeting: New"))
	if _, err := b.kernel.Reload(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := text(b.do(t.Context(), "greet", "you")); got != "New you" {
		t.Errorf("after the reload: %q", got)
	}
	tl, ok := b.tools.View(nil).At(generation).Lookup("do")
	if !ok {
		t.Fatal("the turn has lost its tool")
	}
	r, err := tl.Call(t.Context(), invocation(`{"what":"greet","text":"you"}`))
	if err != nil || text(r) != "Old you" {
		t.Errorf("in the turn: %q, %v", text(r), err)
	}
	leave()
	eventually(t, "the old process is gone", func() bool { return !alive(old) })
	if got := text(b.do(t.Context(), "greet", "you")); got != "New you" {
		t.Errorf("after the turn: %q", got)
	}
}

// A reload to a plugin that does not start leaves the old one running when the
// row is required.
func TestReloadBroken(t *testing.T) {
	b := boot(t, strings.Replace(rowOf(t, "it", "tools", "greeting: Old"), "{use", "{required: true, use", 1))
	if err := b.kernel.Ready().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, _ := load(t, filepath.Dir(b.file), strings.Replace(rowOf(t, "it", "tools", "greting: New"), "{use", "{required: true, use", 1))
	_, err := b.kernel.Reload(context.Background(), p)
	if err == nil {
		t.Fatal("it was reloaded")
	}
	wantAll(t, err.Error(), "plugins.it.config.greting: unknown")
	if got := text(b.do(t.Context(), "greet", "you")); got != "Old you" {
		t.Errorf("got %q", got)
	}
	// The next one works.
	p, _ = load(t, filepath.Dir(b.file), strings.Replace(rowOf(t, "it", "tools", "greeting: New"), "{use", "{required: true, use", 1))
	if _, err := b.kernel.Reload(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if got := text(b.do(t.Context(), "greet", "you")); got != "New you" {
		t.Errorf("got %q", got)
	}
}
