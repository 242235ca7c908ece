package toolfilter

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/kernel/tool"
)

type readTool struct{}

func (readTool) Spec() tool.Spec {
	return tool.Spec{Name: "read", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (readTool) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.TextResult("x"), nil
}

// The row is off until it is configured; from then on what makes no sense is an
// error when an agent is made, not at start-up.
func TestConfig(t *testing.T) {
	const noop = `tools.restrict({}) is a no-op: pass allow or deny with at least one tool name, or allowNone: true for no global tool at all`
	for _, tt := range []struct {
		config  string
		visible bool
		check   string
	}{
		{`{}`, true, ""},
		{`{"allowNone":false}`, true, ""},
		{`{"allow":[]}`, true, noop},
		{`{"deny":[]}`, true, noop},
		{`{"allow":["read"]}`, true, ""},
		{`{"deny":["read"]}`, false, ""},
		{`{"allowNone":true}`, false, ""},
		{`{"allow":["raed"]}`, false, `tools.restrict() names unknown global tool "raed"; known global tools: read; did you mean "read"?`},
	} {
		t.Run(tt.config, func(t *testing.T) {
			c := defaults()
			if errs := (&profile.Entry{ID: "toolfilter", Config: []byte(tt.config)}).Decode(&c); len(errs) > 0 {
				t.Fatal(errs)
			}
			r, o := tool.NewRegistry(), kernel.NewOwner(context.Background(), "test")
			row := o.Child("row")
			if err := restrict(Params{Self: kernel.Instance{Owner: row}, Config: c, Tools: r}); err != nil {
				t.Fatal(err)
			}
			if err := r.Register(o, readTool{}); err != nil { // later than the row
				t.Fatal(err)
			}
			got := ""
			if err := r.Check(nil); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.check, got); diff != "" {
				t.Error(diff)
			}
			view := r.View(nil)
			if _, ok := view.Lookup("read"); ok != tt.visible || len(view.List()) == 1 != ok {
				t.Errorf("read: %v, list %d", ok, len(view.List()))
			}
			if err := row.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, ok := view.Lookup("read"); !ok || r.Check(nil) != nil {
				t.Error("the restriction outlives its row")
			}
		})
	}
}
