package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/tool"
)

type named string

func (n named) Spec() tool.Spec {
	return tool.Spec{Name: string(n), Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (n named) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.TextResult("x"), nil
}

func registry(t *testing.T, names ...string) (*tool.Registry, *kernel.Owner) {
	t.Helper()
	o := kernel.NewOwner(context.Background(), "test")
	r := tool.NewRegistry()
	for _, n := range names {
		if err := r.Register(o, named(n)); err != nil {
			t.Fatal(err)
		}
	}
	return r, o
}

func names(v *tool.View) []string {
	list := []string{}
	for _, t := range v.List() {
		list = append(list, t.Spec().Name)
	}
	return list
}

// A restriction holds for every view, the agents' own filters beside it, and
// goes with its owner; an agent's own tools are exempt (spec jsonrpc 4.2).
func TestRestrict(t *testing.T) {
	r, o := registry(t, "a", "b", "c")
	plain := r.View(nil, named("own"))
	filtered := r.View([]*tool.Filter{{Deny: []string{"b"}}})
	row := o.Child("row")
	if err := r.Restrict(row, &tool.Filter{Allow: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(o, named("d")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "own"}, names(plain)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a"}, names(filtered)); diff != "" {
		t.Error(diff)
	}
	if _, ok := plain.Lookup("c"); ok {
		t.Error("c can be called")
	}
	if err := row.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "own"}, names(plain)); diff != "" {
		t.Error(diff)
	}
	if err := r.Restrict(row, &tool.Filter{AllowNone: true}); !errors.Is(err, kernel.ErrClosed) {
		t.Errorf("a closed owner: %v", err)
	}
}

// Spec jsonrpc 4.2, decision D8: the texts, for an agent's filter and for one of
// the whole registry.
func TestCheck(t *testing.T) {
	const noop = `tools.restrict({}) is a no-op: pass allow or deny with at least one tool name, or allowNone: true for no global tool at all`
	for _, tt := range []struct {
		name   string
		filter *tool.Filter
		want   string
	}{
		{"none", nil, ""},
		{"allow", &tool.Filter{Allow: []string{"bash"}}, ""},
		{"deny", &tool.Filter{Deny: []string{"read", "bash"}}, ""},
		{"allow none", &tool.Filter{AllowNone: true}, ""},
		{"empty", &tool.Filter{}, noop},
		{"empty lists", &tool.Filter{Allow: []string{}, Deny: []string{}}, noop},
		{"unknown", &tool.Filter{Allow: []string{"nope"}}, `tools.restrict() names unknown global tool "nope"; known global tools: bash, read`},
		{"unknown, but near", &tool.Filter{Deny: []string{"bahs"}}, `tools.restrict() names unknown global tool "bahs"; known global tools: bash, read; did you mean "bash"?`},
		{"several", &tool.Filter{Allow: []string{"x", "bash"}, Deny: []string{"y", "x"}}, `tools.restrict() names unknown global tools "x", "y"; known global tools: bash, read`},
		{"reserved", &tool.Filter{Deny: []string{"run_code"}}, `tools.restrict() cannot name "run_code": it is reserved`},
		{"contradiction", &tool.Filter{AllowNone: true, Allow: []string{"bash"}}, `tools.restrict() takes allowNone alone, without allow and deny`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				got := ""
				if err != nil {
					got = err.Error()
					var typed *tool.FilterError
					if !errors.As(err, &typed) {
						t.Errorf("not a *FilterError: %T", err)
					}
				}
				if got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			}
			r, o := registry(t, "read", "bash")
			check(r.Check(tt.filter))
			if tt.filter != nil {
				if err := r.Restrict(o, tt.filter); err != nil {
					t.Fatal(err)
				}
				check(r.Check(nil))
			}
		})
	}
}
