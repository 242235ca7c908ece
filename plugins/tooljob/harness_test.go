//go:build unix

package tooljob_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/llmscripted"
	"dsh/plugins/processlocal"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/spill"
	"dsh/plugins/subagent"
	"dsh/plugins/toolbash"
	"dsh/plugins/tooljob"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script has the model call what stands in the prompt. The id of a task that was
// started is the 13 characters behind "with the id ".
const script = `
rules:
  - when: {matches: '^bg (.+)', step: 1}
    reply: [{call: {tool: Bash, args: {command: "{{match 1}}", description: a task, run_in_background: true}}}]
  - when: {matches: '^kill (.+)', step: 1}
    reply: [{call: {tool: Bash, args: {command: "{{match 1}}", run_in_background: true}}}]
  - when: {matches: '^kill ', step: 2}
    reply: [{call: {tool: TaskStop, args: {task_id: "{{slice result 47 60}}"}}}]
  - when: {matches: '^fg (.+)', step: 1}
    reply: [{call: {tool: Bash, args: {command: "{{match 1}}"}}}]
  - when: {matches: '^(bg|fg) ', step: 2}
    reply: "{{result}}"
  - when: {matches: '^kill ', step: 3}
    reply: "{{result}}"
  - reply: I have been told
`

const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  spill: {use: spill}
  process: {use: process-local, config: {graceMs: 300}}
  model: {use: llm-scripted}
  loop: {use: agentloop}
  shell: {use: tool-bash, config: {dialect: claude}}
  jobs: {use: tool-job, config: {dialect: claude}}
`

// rig is a composition with everything that happens in it.
type rig struct {
	*kerneltest.Booted

	t      *testing.T
	agents agent.Registry
	board  *job.Board
	owner  *kernel.Owner
	cwd    string

	mu      sync.Mutex
	entries []session.Entry
	changed chan struct{}
}

func newRig(t *testing.T, sets ...string) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, cwd: t.TempDir(), changed: make(chan struct{})}
	r.Booted = kerneltest.Boot(t, kerneltest.Options{
		Text: rows, Sets: append(sets, "model.script="+file),
		Plugins: []kernel.Plugin{
			core.Plugin, sessionjsonl.Plugin, spill.Plugin, processlocal.Plugin, llmscripted.Plugin, agentloop.Plugin,
			toolbash.Plugin, subagent.Plugin, tooljob.Plugin,
		},
	})
	var ok bool
	if r.agents, ok = kernel.Seam[agent.Registry](r.Kernel); !ok {
		t.Fatal("no registry")
	}
	if r.board, ok = kernel.Seam[*job.Board](r.Kernel); !ok {
		t.Fatal("no board")
	}
	r.owner = kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		if err := r.Kernel.Root().Quiesce(context.Background()); err != nil {
			t.Error(err)
		}
		if err := r.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	sub := session.NewSubscription(r.owner, slog.New(slog.DiscardHandler), "test", 100_000, func(_ context.Context, e session.Entry) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.entries = append(r.entries, e)
		close(r.changed)
		r.changed = make(chan struct{})
		return nil
	})
	if err := r.agents.Watch(r.owner, func(a agent.Agent, _ agent.Spec) { a.Log().Subscribe(sub) }); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) open(id string) agent.Agent {
	r.t.Helper()
	a, err := r.agents.Open(context.Background(), agent.Spec{ID: id, CWD: r.cwd, Route: llm.Route{Provider: "scripted", Model: "m"}}, agent.OpenAny)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) all() []session.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

// await waits until what has happened is enough.
func (r *rig) await(what string, enough func([]session.Entry) bool) {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		all, changed := slices.Clone(r.entries), r.changed
		r.mu.Unlock()
		if enough(all) {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond): // the board changes without an entry
		case <-deadline:
			r.t.Fatalf("%s did not come; there is:\n%s", what, strings.Join(r.types("main"), "\n"))
		}
	}
}

// idles waits until a session has come to rest n times.
func (r *rig) idles(id string, n int) {
	r.t.Helper()
	r.await("rest", func(all []session.Entry) bool { return rests(all, id) >= n })
}

func rests(all []session.Entry, id string) (n int) {
	for _, e := range all {
		if e.SessionID == id && e.Status == sdkproto.StatusIdle {
			n++
		}
	}
	return n
}

// ask gives a prompt and returns with the session's next rest.
func (r *rig) ask(a agent.Agent, prompt string) {
	r.t.Helper()
	n := rests(r.all(), a.ID())
	if _, err := a.Send(context.Background(), []sdkproto.Block{sdkproto.Text(prompt)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		r.t.Fatal(err)
	}
	r.idles(a.ID(), n+1)
}

// types gives the types of a session's events, without the many small ones.
func (r *rig) types(id string) (list []string) {
	for _, e := range r.all() {
		switch {
		case e.SessionID != id || e.Record == nil || e.Record.Event.Type == sdkproto.TypeAssistantChunk:
		default:
			list = append(list, e.Record.Event.Type)
		}
	}
	return list
}

// of gives the payloads of one type of event of a session.
func of[T any](r *rig, id, typ string) (found []T) {
	r.t.Helper()
	for _, e := range r.all() {
		if e.SessionID != id || e.Record == nil || e.Record.Event.Type != typ {
			continue
		}
		v, err := session.Decode[T](e.Record)
		if err != nil {
			r.t.Fatal(err)
		}
		found = append(found, v)
	}
	return found
}

// told gives the texts of the messages that this plugin has put in front of the
// model, by their source.
func (r *rig) told(id, plugin string) (texts []string) {
	for _, m := range of[sdkproto.Message](r, id, sdkproto.TypeUserMessage) {
		if m.Source.Kind == sdkproto.SourcePlugin && m.Source.Plugin == plugin {
			texts = append(texts, sdkproto.TextOf(m.Content))
		}
	}
	return texts
}

// running gives the only task of a session in the background that runs.
func (r *rig) running(id string) job.Job {
	r.t.Helper()
	var found []job.Job
	for _, j := range r.board.List(id) {
		if j.Background && !j.Over() {
			found = append(found, j)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("tasks %v, want one", found)
	}
	return found[0]
}

func (r *rig) ended(id string) job.Job {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	j, err := r.board.Wait(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}
