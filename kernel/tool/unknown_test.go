package tool

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/sdkproto"
)

// TestUnknown: a call of a tool that the session does not have passes the stages,
// which may refuse it, and ends with the text that the deployment chose (spec
// stream-json 7.3 rule 1, spec jsonrpc 4.2).
func TestUnknown(t *testing.T) {
	const known, absent = "known", "mcp__app__server_time"
	for _, tc := range []struct {
		name, template, tool, arguments string
		refuse                          bool
		// seen are the arguments that a stage sees, "" when there is no call.
		seen string
		says string
		code string
	}{
		{"known", "", known, `{"a":1}`, false, `{"a":1}`, "", ""},
		{"unknown", "", absent, `{"a":1}`, false, `{"a":1}`, `Error: unknown tool "mcp__app__server_time"`, sdkproto.CodeUnknownTool},
		{"template", "No such tool available: {name}", absent, "", false, "{}", "No such tool available: mcp__app__server_time", sdkproto.CodeUnknownTool},
		{"no JSON", "", absent, `{"a"`, false, "{}", `Error: unknown tool "mcp__app__server_time"`, sdkproto.CodeUnknownTool},
		{"no object", "", absent, `[1]`, false, "{}", `Error: unknown tool "mcp__app__server_time"`, sdkproto.CodeUnknownTool},
		{"refused", "", absent, `{"a":1}`, true, `{"a":1}`, "no", "NO"},
		{"known, no JSON", "", known, `{"a"`, false, "", "", "INVALID_ARGUMENTS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			owner := kernel.NewOwner(t.Context(), "test")
			r, p := NewRegistry(), NewPipeline()
			p.Unknown = tc.template
			if err := r.Register(owner, named(known)); err != nil {
				t.Fatal(err)
			}
			seen := ""
			if err := p.Use(owner, OrderGate, "look", func(ctx context.Context, x Tool, in Invocation, next Next) (Result, error) {
				seen = string(in.Arguments)
				if string(in.Requested) != seen {
					t.Errorf("requested %s", in.Requested)
				}
				if IsUnknown(x) != (tc.tool == absent) || x.Spec().Name != tc.tool {
					t.Errorf("%s: unknown is %v", x.Spec().Name, IsUnknown(x))
				}
				if tc.refuse {
					return ErrorResult("No", "NO", "no"), nil
				}
				return next(ctx, x, in)
			}); err != nil {
				t.Fatal(err)
			}
			res := p.Call(t.Context(), r.View(nil), tc.tool, tc.arguments, Invocation{})
			if seen != tc.seen {
				t.Errorf("a stage sees %q, want %q", seen, tc.seen)
			}
			code := ""
			if res.Error != nil {
				code = res.Error.Code
			}
			if code != tc.code || tc.says != "" && sdkproto.TextOf(res.Content) != tc.says {
				t.Errorf("got %s %q, want %s %q", code, sdkproto.TextOf(res.Content), tc.code, tc.says)
			}
			if err := owner.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestHideFor: what is hidden may depend on the session that looks (case B24).
func TestHideFor(t *testing.T) {
	owner := kernel.NewOwner(t.Context(), "test")
	r := NewRegistry()
	for _, name := range []string{"a", "b", "c"} {
		if err := r.Register(owner, named(name)); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	if err := r.HideFor(owner, func(who Viewer) func(Tool) bool {
		asked++
		if who.SessionID == "" {
			return nil
		}
		return func(x Tool) bool { return x.Spec().Name == who.SessionID || "/"+x.Spec().Name == who.CWD }
	}); err != nil {
		t.Fatal(err)
	}
	all := r.View(nil)
	for _, tc := range []struct {
		name string
		view *View
		want []string
	}{
		{"nobody's", all, []string{"a", "b", "c"}},
		{"a's", all.For(Viewer{SessionID: "a"}), []string{"b", "c"}},
		{"b's in /c, of a turn", all.For(Viewer{SessionID: "b", CWD: "/c"}).At(kernel.Now), []string{"a"}},
	} {
		asked = 0
		var got []string
		for _, x := range tc.view.List() {
			got = append(got, x.Spec().Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s view (-want +got):\n%s", tc.name, diff)
		}
		if asked != 1 {
			t.Errorf("%s view: asked %d times", tc.name, asked)
		}
	}
	if err := owner.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
