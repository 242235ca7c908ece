package budget_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/plugins/budget"
	"dsh/plugins/core"
	"dsh/plugins/llmscripted"
	"dsh/plugins/sessionjsonl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  model: {use: llm-scripted}
  loop: {use: agentloop}
`

// rig is a composition with a budget in it.
type rig struct {
	*kerneltest.Booted

	t      *testing.T
	budget *budget.Budget
	agents agent.Registry
	cwd    string
}

// boot starts one with the answers of a script.
func boot(t *testing.T, script string, c budget.Config) *rig {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	b := kerneltest.Boot(t, kerneltest.Options{
		Text:    rows,
		Plugins: []kernel.Plugin{core.Plugin, sessionjsonl.Plugin, llmscripted.Plugin, agentloop.Plugin},
		Sets:    []string{"model.script=" + file, "store.dir=" + dir},
	})
	if c.LeastOutput == 0 {
		c.LeastOutput = 1
	}
	r := &rig{Booted: b, t: t, agents: kerneltest.Seam[agent.Registry](t, b), cwd: dir}
	owner := kernel.NewOwner(t.Context(), "test")
	r.budget = budget.New(budget.Options{
		Config: c, Owner: owner, Log: slog.New(slog.DiscardHandler), Router: kerneltest.Seam[*llm.Router](t, b), Agents: r.agents,
		Pipeline: kerneltest.Seam[*tool.Pipeline](t, b), Hooks: kerneltest.Seam[*agent.Hooks](t, b),
	})
	if err := r.budget.Register(); err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens a session.
func (r *rig) open(id string, mode agent.Mode) agent.Agent {
	r.t.Helper()
	a, err := r.agents.Open(r.t.Context(), agent.Spec{ID: id, CWD: r.cwd, Route: llm.Route{Provider: "scripted", Model: "m"}}, mode)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// waitsUntil waits for something that happens soon.
func waitsUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}
