package mcp

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	contract "dsh/kernel/mcp"
	"dsh/kernel/profile"
	"dsh/kernel/tool"
	"dsh/plugins/core"
)

// composed is what the test sees of a composed kernel.
type composed struct {
	fx.In

	Tools   *tool.Registry
	Servers contract.Servers
}

// TestComposed: the row as a profile has it, and its reload.
func TestComposed(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MCP_TEST_GIVEN", "given")
	var seen composed
	probe := kernel.Define("probe", "Shows the test what is composed.", func() struct{} { return struct{}{} },
		func(kernel.Instance, struct{}) fx.Option { return fx.Invoke(func(c composed) { seen = c }) },
		kernel.Needs[*tool.Registry](), kernel.Needs[contract.Servers]())
	server := func(mode, more string) string {
		return fmt.Sprintf("{command: %q, connectTimeout: 20s, env: {%s: %q, Mixed_Case: \"${env:MCP_TEST_GIVEN}\"}%s}", exe, serverVariable, mode, more)
	}
	write := func(rows ...string) *fstest.MapFS {
		text := "summary: Test.\nplugins:\n  core: {use: core}\n  mcp:\n    use: mcp\n    config:\n      reconnect: {attempts: 0}\n      servers:\n"
		for _, row := range rows {
			text += "        " + row + "\n"
		}
		return &fstest.MapFS{"test.yaml": {Data: []byte(text + "  probe: {use: probe}\n")}}
	}
	load := func(files *fstest.MapFS) *profile.Profile {
		p, err := profile.Load(profile.Options{Name: "test", Embedded: files, Env: os.LookupEnv})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stays, goes := "Stays: "+server("good", ""), "Goes: "+server("good", "")
	b := kerneltest.Boot(t, kerneltest.Options{Profile: "test", FS: write(stays, goes), Env: os.LookupEnv, Plugins: []kernel.Plugin{core.Plugin, Plugin, probe}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	if err := b.Kernel.Ready().Wait(ctx); err != nil {
		t.Fatal(err)
	}
	has := func(v *tool.View, name string) bool { _, ok := v.Lookup(name); return ok }
	view := seen.Tools.View(nil)
	got := tool.NewPipeline().Call(ctx, view, "mcp__Stays__env", `{"text":"Mixed_Case"}`, tool.Invocation{Generation: kernel.Now})
	if text := fmt.Sprint(got.Content); !strings.Contains(text, "given true") {
		t.Errorf("got %s", text)
	}

	// A turn begins, and the profile is reloaded: one server leaves, one changes,
	// one comes.
	generation, leave := b.Kernel.Root().Enter()
	defer leave()
	before := view.At(generation)
	if _, err := b.Kernel.Reload(ctx, load(write("Stays: "+server("good", ", deny: [slow]"), "New: "+server("good", ", required: true")))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]bool{ // in the running turn, in the next
		"mcp__Goes__echo": {true, false}, "mcp__New__echo": {false, true}, "mcp__Stays__slow": {true, false}, "mcp__Stays__echo": {true, true},
	} {
		if got := [2]bool{has(before, name), has(view, name)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if res := tool.NewPipeline().Call(ctx, before, "mcp__Goes__echo", `{"text":"still"}`, tool.Invocation{Generation: generation}); res.IsError {
		t.Errorf("the turn that runs has lost its server: %v", res.Content)
	}
	leave()
	until(t, "the old servers are gone", func() bool { return !has(before, "mcp__Goes__echo") })

	// What cannot be reached and is required leaves everything as it is.
	if _, err := b.Kernel.Reload(ctx, load(write("Stays: "+server("exit", ", required: true")))); err == nil || !strings.Contains(err.Error(), "no database here") {
		t.Errorf("got %v", err)
	}
	var states []string
	for _, s := range seen.Servers.List() {
		states = append(states, s.Name+" "+s.State)
	}
	if diff := cmp.Diff([]string{"New connected", "Stays connected"}, states); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if !has(view, "mcp__New__echo") || !has(view, "mcp__Stays__echo") {
		t.Error("the tools that were there are gone")
	}
}
