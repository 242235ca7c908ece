package subagent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/subagent"
)

// TestConformance: the tools are what every tool is.
func TestConformance(t *testing.T) {
	for name, o := range map[string]tooltest.Options{
		"subagent": {
			Good:     []string{`{"description":"d","prompt":"think"}`, `{"description":"d","prompt":"another task","tools":["todo_write"]}`},
			NotEmpty: []string{"description", "prompt"},
			Slow:     `{"description":"d","prompt":"hang"}`,
		},
		"list_agents": {Good: []string{`{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "subagent.maxChildren=1000", "subagent.maxDescendants=1000")
			r.open("s1", nil)
			tl, ok := seam[*tool.Registry](r).View(nil).Lookup(name)
			if !ok {
				t.Fatal("the tool is not registered")
			}
			tooltest.TestTool(t, tl, o)
		})
	}
}

// TestSpecs: several children may work side by side, the call is on the disk
// before its child is made, and rules speak of Agent.
func TestSpecs(t *testing.T) {
	r := newRig(t)
	for name, want := range map[string]tool.Spec{
		"subagent":        {Parallel: true, Subject: tool.Subject{Rule: "Agent"}},
		"list_agents":     {Parallel: true, ReadOnly: true},
		"interrupt_agent": {Parallel: true, ReadOnly: true},
	} {
		tl, ok := seam[*tool.Registry](r).View(nil).Lookup(name)
		if !ok {
			t.Fatalf("no tool %s", name)
		}
		got := tl.Spec()
		if got.Description == "" {
			t.Errorf("%s has no description", name)
		}
		got.Name, got.Description, got.Parameters = "", "", nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*subagent.Config)
		wrong  []string
	}{
		{"defaults", func(*subagent.Config) {}, nil},
		{"all wrong", func(c *subagent.Config) { *c = subagent.Config{} }, []string{
			`"" is no dialect; use dsh or claude`,
			"0 is too small; use 1 or more", "0 is too small; use 1 or more", "0 is too small; use 1 or more", "0 is too small; use 1000 or more",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := *subagent.Plugin.Defaults().(*subagent.Config)
			tc.change(&c)
			var got []string
			if err := c.Validate(); err != nil {
				got = strings.Split(fmt.Sprint(err), "\n")
			}
			if diff := cmp.Diff(tc.wrong, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	// Spec jsonrpc 8.4 and its decision on 8.3.
	if c := subagent.Plugin.Defaults().(*subagent.Config); c.MaxDepth != 3 || c.Background {
		t.Errorf("defaults %+v", c)
	}
}
