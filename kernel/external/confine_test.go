package external

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/process"
)

// confiner notes what it is asked for and confines nothing.
type confiner struct {
	mu    sync.Mutex
	asked []process.Confinement
}

func (c *confiner) Start(cmd *exec.Cmd, what *process.Confinement) (process.Reached, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, *what)
	return process.Reached{Level: process.ReachedPartial, Missing: "the network"}, cmd.Start()
}

func (c *confiner) Probe(*process.Confinement) process.Reached { return process.Reached{} }

// policy asks for one confinement.
type policy struct{ asks process.Confinement }

func (p policy) Confinement(string) *process.Confinement { return &p.asks }

func provider[T any](name string, v T) kernel.Plugin {
	return kernel.Define(name, "Provides one thing.", func() struct{} { return struct{}{} },
		func(kernel.Instance, struct{}) fx.Option { return fx.Provide(func() T { return v }) }, kernel.Provides[T]())
}

// A plugin runs under the profile's policy, or what its row says, and may always
// write where its socket is.
func TestConfined(t *testing.T) {
	written := process.Confinement{Mode: process.WorkspaceWrite, Write: []string{"/only/here"}}
	for _, tc := range []struct {
		name, config string
		mode         string
		write        int
	}{
		{"policy", "", process.WorkspaceWrite, 2},
		{"row", "host: {confine: read-only}", process.ReadOnly, 1},
		{"row with a workspace", "host: {confine: workspace-write}", process.WorkspaceWrite, 3},
		{"row that is free", "host: {confine: danger-full-access}", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &confiner{}
			b := boot(t, "  c: {use: confiner}\n  p: {use: policy}\n"+rowOf(t, "it", "tools", tc.config),
				provider[process.Confiner]("confiner", c), provider[process.Policy]("policy", policy{written}))
			if err := b.ready(t, "it"); err != nil {
				t.Fatal(err)
			}
			if tc.mode == "" {
				if len(c.asked) > 0 {
					t.Errorf("it was confined: %+v", c.asked)
				}
				return
			}
			if len(c.asked) != 1 || c.asked[0].Mode != tc.mode || len(c.asked[0].Write) != tc.write {
				t.Fatalf("got %+v", c.asked)
			}
			if !slices.ContainsFunc(c.asked[0].Write, func(dir string) bool { return strings.Contains(dir, "/dsh-") }) {
				t.Errorf("it may not write its socket: %v", c.asked[0].Write)
			}
			wantAll(t, b.log.String(), fmt.Sprintf(`msg="the plugin is confined" row=it mode=%s reached=partial missing="the network"`, tc.mode))
			if len(written.Write) != 1 {
				t.Error("the policy's own confinement was changed")
			}
		})
	}
}

// Without a row that confines, what must hold keeps the plugin from starting, and
// what need not is told.
func TestUnconfined(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		strict       bool
		starts       bool
	}{
		{"asked for", "", false, true},
		{"must hold", "", true, false},
		{"the row asks", "host: {confine: read-only}", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := policy{process.Confinement{Mode: process.ReadOnly, Strict: tc.strict}}
			b := boot(t, "  p: {use: policy}\n"+rowOf(t, "it", "tools", tc.config), provider[process.Policy]("policy", p))
			err := b.ready(t, "it")
			if (err == nil) != tc.starts {
				t.Fatalf("got %v", err)
			}
			said := b.log.String()
			if err != nil {
				said = err.Error()
			}
			wantAll(t, said, "the profile has no row that confines programs; add one")
		})
	}
}
