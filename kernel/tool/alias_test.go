package tool_test

import (
	"context"
	"testing"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// An alias is a way to call a tool and nothing else (spec stream-json 9: Task for
// Agent).
func TestAlias(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "test")
	defer o.Close(context.Background())
	registry, pipeline := tool.NewRegistry(), tool.NewPipeline()
	named := func(name string, aliases ...string) tool.Tool {
		return tool.Typed(tool.Spec{Name: name, Aliases: aliases, Description: "x"}, func(context.Context, tool.Invocation, struct{}) (tool.Result, error) {
			return tool.TextResult(name), nil
		})
	}
	if err := registry.Register(o, named("Agent", "Task")); err != nil {
		t.Fatal(err)
	}
	call := func(v *tool.View, name string) string {
		return sdkproto.TextOf(pipeline.Call(context.Background(), v, name, "{}", tool.Invocation{}).Content)
	}
	view := registry.View(nil)
	if got := call(view, "Task"); got != "Agent" {
		t.Errorf("a call of the alias gave %q", got)
	}
	if list := view.List(); len(list) != 1 || list[0].Spec().Name != "Agent" {
		t.Errorf("the list has %d tools", len(list))
	}
	if _, ok := registry.View([]*tool.Filter{{Deny: []string{"Agent"}}}).Lookup("Task"); ok {
		t.Error("an alias leads around a filter")
	}
	if err := registry.Register(o, named("Task")); err != nil {
		t.Fatal(err)
	}
	if got := call(view, "Task"); got != "Task" {
		t.Errorf("a tool of the alias's name is not the one that is called, but %q", got)
	}
}
