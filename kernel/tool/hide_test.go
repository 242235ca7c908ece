package tool

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
)

type named string

func (n named) Spec() Spec { return Spec{Name: string(n)} }

func (named) Call(context.Context, Invocation) (Result, error) { return Result{}, nil }

// TestHide: what is hidden is in no view, also when it comes later, until the
// owner is closed (case B24).
func TestHide(t *testing.T) {
	r, all := NewRegistry(), kernel.NewOwner(t.Context(), "all")
	view := r.View(nil, named("mcp__own"))
	names := func() (names []string) {
		for _, x := range view.List() {
			names = append(names, x.Spec().Name)
		}
		return names
	}
	want := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, names()); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	}
	add := func(name string) {
		t.Helper()
		if err := r.Register(all, named(name)); err != nil {
			t.Fatal(err)
		}
	}
	add("read")
	add("mcp__a")
	policy := kernel.NewOwner(t.Context(), "policy")
	if err := r.Hide(policy, func(x Tool) bool { return strings.HasPrefix(x.Spec().Name, "mcp__") }); err != nil {
		t.Fatal(err)
	}
	want("read", "mcp__own")
	add("mcp__late")
	want("read", "mcp__own")
	if _, ok := view.Lookup("mcp__late"); ok {
		t.Error("a hidden tool is found")
	}
	if err := policy.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	want("read", "mcp__a", "mcp__late", "mcp__own")
	if err := all.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
