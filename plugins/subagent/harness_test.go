package subagent_test

import (
	"context"
	"fmt"
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
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/llmscripted"
	"dsh/plugins/permissions"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/spill"
	"dsh/plugins/subagent"
	"dsh/plugins/tooltodo"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script delegates what stands behind the first word of a prompt.
const script = `
rules:
  - when: {matches: '^call (\S+) ?(.*)', step: 1}
    reply: [{call: {tool: "{{match 1}}", arguments: "{{match 2}}"}}]
  - when: {matches: '^fg (.+)', step: 1}
    reply: [{call: {tool: subagent, args: {description: "do {{match 1}}", prompt: "{{match 1}}", run_in_background: false}}}]
  - when: {matches: '^fg ', step: 2}
    reply: "{{if failed}}failed: {{end}}{{result}}"
  - when: {matches: '^bg (.+)', step: 1}
    reply: [{call: {tool: subagent, args: {description: "do {{match 1}}", prompt: "{{match 1}}", run_in_background: true}}}]
  - when: {matches: '^bg ', step: 2}
    reply: "{{if failed}}failed: {{end}}{{result}}"
  - when: {matches: '^bg ', step: 3}
    reply: I have been told
  - when: {matches: '^default (.+)', step: 1}
    reply: [{call: {tool: subagent, args: {description: "do {{match 1}}", prompt: "{{match 1}}"}}}]
  - when: {matches: '^only (\S+) (.+)', step: 1}
    reply: [{call: {tool: subagent, args: {description: one tool, prompt: "{{match 2}}", tools: ["{{match 1}}"]}}}]
  - when: {matches: '^none (.+)', step: 1}
    reply: [{call: {tool: subagent, args: {description: no tool, prompt: "{{match 1}}", tools: []}}}]
  - when: {matches: '^then (.+)', step: 1}
    reply: [{call: {tool: subagent, args: {description: "do {{match 1}}", prompt: "{{match 1}}", run_in_background: true}}}]
  - when: {matches: '^then ', step: 2}
    reply: I wait
  - when: {matches: '^then ', step: 3}
    reply: [{call: {tool: gate}}]
  - when: {text: todo, step: 1}
    reply: [{call: {tool: todo_write, args: {todos: []}}}]
  - when: {text: gate, step: 1}
    reply: [{text: At the gate}, {call: {tool: gate}}]
  - when: {matches: '^(call|default|only|none) |todo|gate', step: 2}
    reply: "{{result}}"
  - when: {text: think}
    reply: [{reasoning: I think}, {text: so I am}]
  - when: {text: muse}
    reply: [{reasoning: Only a thought}]
  - when: {matches: ^pause, step: 2}
    reply: I have been told
  - when: {matches: hang|^pause}
    reply: [{text: Here I stay}, {delay: 10m}]
  - when: {text: twice broken}
    times: 1
    reply: [{text: The first}, {error: {code: SERVER, status: 500}}]
  - when: {text: broken}
    reply: [{text: So far}, {error: {code: AUTH, status: 401, message: the key is not valid}}]
  - when: {text: mute}
    reply: [{error: {code: AUTH, status: 401, message: the key is not valid}}]
  - when: {text: limit}
    reply: [{text: Cut}, {finish: max-tokens}]
  - when: {text: steps}
    reply: [{text: Again}, {call: {tool: todo_write, args: {todos: []}}}]
  - when: {text: dumb, step: 1}
    reply: [{text: Only once}, {call: {tool: todo_write, args: {todos: []}}}]
  - when: {text: dumb}
    reply: [{call: {tool: todo_write, args: {todos: []}}}]
  - when: {text: long}
    reply: [{chunks: ["é"], repeat: 3000}]
  - when: {text: twenty, step: 1}
    reply:
%s  - when: {text: twenty, step: 2}
    reply: "{{range results}}{{.}} {{end}}"
`

func scriptFile(t *testing.T) string {
	t.Helper()
	var calls strings.Builder
	for i := range 20 {
		fmt.Fprintf(&calls, "      - call: {tool: subagent, args: {description: child %d, prompt: gate %d}}\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, script, calls.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  spill: {use: spill}
  model: {use: llm-scripted}
  loop: {use: agentloop, config: {maxSteps: 5, retries: {delay: 1ms, maxDelay: 1ms}}}
  todo: {use: tool-todo}
`

const row = "  subagent: {use: subagent}\n"

// rig is a composition with everything that happens in it.
type rig struct {
	*kerneltest.Booted

	t      *testing.T
	agents agent.Registry
	owner  *kernel.Owner
	gate   *gate
	sub    *session.Subscription

	mu      sync.Mutex
	entries []session.Entry
	changed chan struct{}
	specs   map[string]agent.Spec
}

// newRig boots a composition with the plugin.
func newRig(t *testing.T, sets ...string) *rig { return boot(t, rows+row, sets...) }

func boot(t *testing.T, profile string, sets ...string) *rig { return bootAt(t, "", profile, sets...) }

// bootAt boots with a home of its own, or one that there is.
func bootAt(t *testing.T, home, profile string, sets ...string) *rig {
	t.Helper()
	r := &rig{t: t, changed: make(chan struct{}), specs: map[string]agent.Spec{}, gate: &gate{open: make(chan struct{})}}
	r.Booted = kerneltest.Boot(t, kerneltest.Options{
		Home: home, Text: profile, Sets: append(sets, "model.script="+scriptFile(t)),
		Plugins: []kernel.Plugin{
			core.Plugin, sessionjsonl.Plugin, spill.Plugin, llmscripted.Plugin, agentloop.Plugin, tooltodo.Plugin, subagent.Plugin, testModels, permissions.Plugin,
		},
	})
	var ok bool
	if r.agents, ok = kernel.Seam[agent.Registry](r.Kernel); !ok {
		t.Fatal("no registry")
	}
	r.owner = kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		r.gate.release()
		if err := r.Kernel.Root().Quiesce(context.Background()); err != nil {
			t.Error(err)
		}
		if err := r.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.register(r.gate)
	r.sub = session.NewSubscription(r.owner, slog.New(slog.DiscardHandler), "test", 100_000, func(_ context.Context, e session.Entry) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.entries = append(r.entries, e)
		close(r.changed)
		r.changed = make(chan struct{})
		return nil
	})
	if err := r.agents.Watch(r.owner, func(a agent.Agent, s agent.Spec) {
		r.mu.Lock()
		r.specs[a.ID()] = s
		r.mu.Unlock()
		a.Log().Subscribe(r.sub)
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func seam[T any](r *rig) T {
	r.t.Helper()
	return kerneltest.Seam[T](r.t, r.Booted)
}

func (r *rig) register(tl tool.Tool) {
	r.t.Helper()
	if err := seam[*tool.Registry](r).Register(r.owner, tl); err != nil {
		r.t.Fatal(err)
	}
}

// open makes a root session.
func (r *rig) open(id string, change func(*agent.Spec)) agent.Agent {
	r.t.Helper()
	spec := agent.Spec{ID: id, CWD: r.t.TempDir(), Route: llm.Route{Provider: "scripted", Model: "m", MaxTokens: 321}}
	if change != nil {
		change(&spec)
	}
	a, err := r.agents.Open(context.Background(), spec, agent.OpenAny)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) send(a agent.Agent, prompt string) {
	r.t.Helper()
	if _, err := a.Send(context.Background(), []sdkproto.Block{sdkproto.Text(prompt)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		r.t.Fatal(err)
	}
}

// ask gives a prompt to a root session, waits for its end and gives the answer.
func (r *rig) ask(a agent.Agent, prompt string) string {
	r.t.Helper()
	from := r.count()
	r.send(a, prompt)
	r.await("the end of "+prompt, func(all []session.Entry) bool {
		return slices.ContainsFunc(all[from:], func(e session.Entry) bool { return e.SessionID == a.ID() && e.Status == sdkproto.StatusIdle })
	})
	answer := ""
	for _, e := range r.all()[from:] {
		if is(e, a.ID(), sdkproto.TypeAssistantMessage) {
			answer = sdkproto.TextOf(data[sdkproto.AssistantMessage](r.t, e).Message.Content)
		}
	}
	return answer
}

func (r *rig) all() []session.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

func (r *rig) count() int { return len(r.all()) }

// await waits until what has happened is enough.
func (r *rig) await(what string, enough func([]session.Entry) bool) {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		all, changed := slices.Clone(r.entries), r.changed
		r.mu.Unlock()
		if enough(all) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("%s did not come; there is:\n%s", what, strings.Join(r.lines(all), "\n"))
		}
	}
}

// hanging waits until n agents have said all they will say before they hang.
func (r *rig) hanging(n int) {
	r.t.Helper()
	r.await("an agent that hangs", func(all []session.Entry) bool {
		seen := 0
		for _, e := range all {
			if e.Record != nil && strings.Contains(string(e.Record.Raw), `"text":" stay"`) {
				seen++
			}
		}
		return seen >= n
	})
}

// settled waits for the ends of n children, and gives them in their order.
func (r *rig) settled(n int) []session.Entry {
	r.t.Helper()
	var ends []session.Entry
	r.await(fmt.Sprintf("the end of %d children", n), func(all []session.Entry) bool {
		ends = slices.DeleteFunc(slices.Clone(all), func(e session.Entry) bool { return e.Settled == nil })
		return len(ends) >= n
	})
	return ends
}

// children gives the ids of all children, in the order of their first events.
func (r *rig) children() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, e := range r.entries {
		if r.specs[e.SessionID].Parent != "" && !slices.Contains(ids, e.SessionID) {
			ids = append(ids, e.SessionID)
		}
	}
	return ids
}

// lines are entries for people, with short names for children.
func (r *rig) lines(all []session.Entry) []string {
	children := r.children()
	var lines []string
	for _, e := range all {
		name := e.SessionID
		if i := slices.Index(children, name); i >= 0 {
			name = fmt.Sprintf("child%d", i+1)
		}
		switch {
		case e.Settled != nil:
			lines = append(lines, name+" settled "+e.Settled.StopReason)
		case e.Record == nil:
			lines = append(lines, name+" "+string(e.Status))
		case e.Record.Event.Type != sdkproto.TypeAssistantChunk:
			lines = append(lines, name+" "+e.Record.Event.Type)
		}
	}
	return lines
}

func is(e session.Entry, id, typ string) bool {
	return e.SessionID == id && e.Record != nil && e.Record.Event.Type == typ
}

// of gives the payloads of one type of event of a session.
func of[T any](r *rig, id, typ string) []T {
	var found []T
	for _, e := range r.all() {
		if is(e, id, typ) {
			found = append(found, data[T](r.t, e))
		}
	}
	return found
}

func data[T any](t *testing.T, e session.Entry) T {
	t.Helper()
	v, err := session.Decode[T](e.Record)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// result is the last tool result of a session: its text and its code, "" for a
// good one.
func (r *rig) result(id string) (text, code string) {
	r.t.Helper()
	all := of[sdkproto.ToolResult](r, id, sdkproto.TypeToolResult)
	if len(all) == 0 {
		r.t.Fatalf("session %s has no tool result", id)
	}
	last := all[len(all)-1]
	block := last.Message.Content[0]
	if last.Error != nil {
		code = last.Error.Code
	}
	if block.IsError != (code != "") {
		r.t.Errorf("isError is %v, and the code %q", block.IsError, code)
	}
	return sdkproto.TextOf(block.Content), code
}

// gate is a tool that holds its calls until it is opened, whatever becomes of
// their contexts.
type gate struct {
	open chan struct{}
	once sync.Once

	mu      sync.Mutex
	waiting int
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func (g *gate) Spec() tool.Spec {
	return tool.Spec{Name: "gate", Description: "Waits.", Parameters: []byte(`{"type":"object"}`), ReadOnly: true, Parallel: true}
}

func (g *gate) Call(context.Context, tool.Invocation) (tool.Result, error) {
	g.mu.Lock()
	g.waiting++
	g.mu.Unlock()
	<-g.open
	return tool.TextResult("through"), nil
}

// crowd waits until n calls stand before the gate.
func (r *rig) crowd(n int) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.gate.count() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%d calls stand before the gate, want %d", r.gate.count(), n)
		}
	}
}
