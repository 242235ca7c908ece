package agent_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
)

// Of one name the kind of the highest source counts, in whatever order they come and
// go (spec stream-json 11.7).
func TestSources(t *testing.T) {
	ctx := context.Background()
	owner := kernel.NewOwner(ctx, "test")
	defer func() {
		if err := owner.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	kinds := agent.NewDefinitions()
	add := func(source, text string) *kernel.Owner {
		t.Helper()
		o := owner.Child(source)
		if err := kinds.Register(o, agent.Definition{Name: "x", Description: text, Source: source}); err != nil {
			t.Fatal(err)
		}
		return o
	}
	is := func(want string) {
		t.Helper()
		got, _ := kinds.Lookup("x")
		if diff := cmp.Diff(want, got.Description); diff != "" || len(kinds.List()) != 1 {
			t.Errorf("of %d (-want +got):\n%s", len(kinds.List()), diff)
		}
	}
	add("", "unknown")
	add(agent.SourceBuiltIn, "built-in")
	is("built-in")
	client := add(agent.SourceClient, "client")
	add(agent.SourceProject, "project")
	add(agent.SourceUser, "user")
	add(agent.SourcePlugin, "plugin")
	is("client")
	later := add(agent.SourceClient, "client, later")
	is("client, later")
	if err := later.Close(ctx); err != nil {
		t.Fatal(err)
	}
	is("client")
	if err := client.Close(ctx); err != nil {
		t.Fatal(err)
	}
	is("project")
}
