package subagent_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
)

func newClaudeRig(t *testing.T, sets ...string) *rig {
	t.Helper()
	return newRig(t, append([]string{"subagent.dialect=claude"}, sets...)...)
}

func (r *rig) define(d agent.Definition) {
	r.t.Helper()
	if err := seam[*agent.Definitions](r).Register(r.owner, d); err != nil {
		r.t.Fatal(err)
	}
}

// last is the last tool result of a session.
func (r *rig) last(id string) (blocks []string, code string, meta map[string]any) {
	r.t.Helper()
	all := of[sdkproto.ToolResult](r, id, sdkproto.TypeToolResult)
	last := all[len(all)-1]
	for _, b := range last.Message.Content[0].Content {
		blocks = append(blocks, b.Text)
	}
	if last.Error != nil {
		code = last.Error.Code
	}
	if last.Meta != nil {
		if err := json.Unmarshal(last.Meta, &meta); err != nil {
			r.t.Fatal(err)
		}
	}
	return blocks, code, meta
}

// task makes a call of Agent, or of whatever is named, by a model.
func (r *rig) task(a agent.Agent, name string, arguments map[string]any) (blocks []string, code string, meta map[string]any) {
	r.t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ask(a, "call "+name+" "+string(raw))
	return r.last(a.ID())
}

type members = map[string]any

func TestClaudeConformance(t *testing.T) {
	r := newClaudeRig(t, "subagent.maxChildren=1000", "subagent.maxDescendants=1000")
	r.open("s1", nil)
	tl, ok := seam[*tool.Registry](r).View(nil).Lookup("Agent")
	if !ok {
		t.Fatal("Agent is not registered")
	}
	tooltest.TestTool(t, tl, tooltest.Options{
		Good:     []string{`{"description":"d","prompt":"think"}`, `{"description":"d","prompt":"think","subagent_type":"general-purpose","model":"inherit","run_in_background":false}`},
		NotEmpty: []string{"description", "prompt"},
		Slow:     `{"description":"d","prompt":"hang"}`,
	})
}

// TestClaudeSpec: spec stream-json 9 and 7.2; there is one tool, and its
// description tells the kinds.
func TestClaudeSpec(t *testing.T) {
	r := newClaudeRig(t)
	r.define(agent.Definition{Name: "reviewer", Description: "Reads\nand judges."})
	var names []string
	for _, tl := range seam[*tool.Registry](r).View(nil).List() {
		names = append(names, tl.Spec().Name)
	}
	if diff := cmp.Diff([]string{"todo_write", "Agent"}, slices.DeleteFunc(names, func(s string) bool { return s == "gate" })); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	tl, _ := seam[*tool.Registry](r).View(nil).Lookup("Task")
	spec := tl.Spec()
	if got := tooltest.Inputs(t, tl); got != "description effort? model? name? prompt resume? run_in_background? subagent_type?" {
		t.Errorf("inputs %s", got)
	}
	if want := (tool.Subject{Rule: "Agent", Kind: "text", Member: "subagent_type", Default: "general-purpose"}); spec.Name != "Agent" || spec.Subject != want || !spec.Parallel {
		t.Errorf("spec %+v", spec)
	}
	if !strings.Contains(spec.Description, "\n- general-purpose: For searching") || !strings.HasSuffix(spec.Description, "\n- reviewer: Reads and judges.") {
		t.Errorf("description %q", spec.Description)
	}
	if d, ok := seam[*agent.Definitions](r).Lookup("general-purpose"); !ok || d.Source != "built-in" {
		t.Errorf("general-purpose is %+v", d)
	}
}

// TestClaudeForeground: spec stream-json 9 and 11.7. The old name of the tool works
// as well.
func TestClaudeForeground(t *testing.T) {
	for _, name := range []string{"Agent", "Task"} {
		t.Run(name, func(t *testing.T) {
			r := newClaudeRig(t)
			root := r.open("root", nil)
			blocks, code, meta := r.task(root, name, members{"description": "do it", "prompt": "todo"})
			child := r.children()[0]
			took, _ := meta["totalDurationMs"].(float64)
			tokens, _ := meta["totalTokens"].(float64)
			usage, _ := meta["usage"].(members)
			if sum := usage["input_tokens"].(float64) + usage["output_tokens"].(float64) + usage["cache_creation_input_tokens"].(float64) + usage["cache_read_input_tokens"].(float64); sum != tokens || tokens == 0 || took < 0 {
				t.Errorf("%v tokens, usage %v, %v ms", tokens, usage, took)
			}
			var want sdkproto.Usage
			for _, m := range of[sdkproto.AssistantMessage](r, child, sdkproto.TypeAssistantMessage) {
				want.Add(m.Usage)
			}
			if usage["input_tokens"] != float64(want.InputTokens) || usage["output_tokens"] != float64(want.OutputTokens) {
				t.Errorf("usage %v, want %+v", usage, want)
			}
			const said = "The list now has 0 pending, 0 in progress, 0 completed."
			if code != "" || len(blocks) != 2 || blocks[0] != said || !strings.HasPrefix(blocks[1], "agentId: "+child+"\ntotal_tokens: ") || !strings.Contains(blocks[1], "\ntool_uses: 1\n") {
				t.Errorf("code %q, blocks %q", code, blocks)
			}
			for _, name := range []string{"totalDurationMs", "totalTokens", "usage"} {
				delete(meta, name)
			}
			if diff := cmp.Diff(members{
				"status": "completed", "agentId": child, "agentType": "general-purpose", "content": []any{members{"type": "text", "text": said}},
				"totalToolUseCount": 1.0, "prompt": "todo",
			}, meta); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
			spec := r.specs[child]
			if spec.Type != "general-purpose" || spec.ParentCall != "call_1_1_1" || spec.Parent != "root" || spec.Depth != 1 || spec.System != nil || spec.Tools != nil || spec.MaxSteps != 0 {
				t.Errorf("spec %+v", spec)
			}
			if end := r.settled(1)[0].Settled; end.Call != "call_1_1_1" {
				t.Errorf("settled %+v", end)
			}
			if policies := of[sdkproto.ApprovalPolicy](r, child, sdkproto.TypeApprovalPolicy); len(policies) > 0 {
				t.Errorf("the child is told %v, which is for the rules to say", policies)
			}
		})
	}
}

// TestClaudeKinds: a definition decides what the child is (S034).
func TestClaudeKinds(t *testing.T) {
	r := newClaudeRig(t)
	r.define(agent.Definition{
		Name: "worker", Prompt: "You work.", MaxTurns: 3, Effort: "low", Model: "inherit",
		Tools: []string{"todo_write(x:*)", "gate", "Task", "NoSuchTool"}, DisallowedTools: []string{"gate", "todo_write(y)", "Other"},
	})
	r.define(agent.Definition{Name: "idler", Tools: []string{"Nothing"}})
	r.define(agent.Definition{Name: "slow", Background: true})
	root := r.open("root", nil)
	child := func(kind string, more members) agent.Spec {
		t.Helper()
		a := members{"description": "d", "prompt": "think", "subagent_type": kind}
		for k, v := range more {
			a[k] = v
		}
		before := len(r.children())
		if blocks, code, _ := r.task(root, "Agent", a); code != "" {
			t.Fatalf("%s: %s", kind, blocks)
		}
		r.settled(before + 1)
		return r.specs[r.children()[before]]
	}
	got := child("worker", nil)
	if got.Type != "worker" || got.MaxSteps != 3 || got.Route.ReasoningEffort != "low" || got.Route.Model != "m" || got.Route.MaxTokens != 321 || got.System == nil || *got.System.Replace != "You work." {
		t.Errorf("worker: %+v", got)
	}
	if diff := cmp.Diff(&tool.Filter{Allow: []string{"gate", "todo_write", "Agent"}, Deny: []string{"gate"}}, got.Tools, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("worker's tools (-want +got):\n%s", diff)
	}
	if got := child("idler", nil); got.Tools == nil || !got.Tools.AllowNone {
		t.Errorf("idler's tools: %+v", got.Tools)
	}
	if got := child("slow", members{"run_in_background": false}); got.Type != "slow" {
		t.Errorf("slow: %+v", got)
	}
	// What a kind says of the background holds where the call says nothing.
	if _, _, meta := r.task(root, "Agent", members{"description": "d", "prompt": "think", "subagent_type": "slow"}); meta["status"] != "async_launched" {
		t.Errorf("meta %v", meta)
	}
	r.settled(4)
}

// TestClaudeRefused: a call that cannot be done says what can.
func TestClaudeRefused(t *testing.T) {
	r := newClaudeRig(t, "subagent.maxDepth=1", "subagent.maxChildren=1")
	r.define(agent.Definition{Name: "reviewer"})
	root := r.open("root", nil)
	for _, tc := range []struct {
		args members
		code string
		text string
	}{
		{members{"description": "d", "prompt": "x", "subagent_type": "nobody"}, "UNKNOWN_AGENT_TYPE", `there is no kind of agent "nobody"; there are general-purpose, reviewer`},
		{members{"description": " ", "prompt": "x"}, "INVALID_ARGUMENTS", "the description is empty; say in a few words what the subagent is to do"},
		{members{"description": "d", "prompt": " "}, "INVALID_ARGUMENTS", "the prompt is empty; describe the whole task"},
	} {
		if blocks, code, meta := r.task(root, "Agent", tc.args); code != tc.code || strings.Join(blocks, "") != tc.text || meta != nil {
			t.Errorf("%v: %q %q", tc.args, code, blocks)
		}
	}
	blocks, code, meta := r.task(root, "Agent", members{"description": "d", "prompt": "broken"})
	if code != "SUBAGENT_FAILED" || meta != nil || strings.HasPrefix(blocks[0], "Error") || !strings.Contains(blocks[0], "the key is not valid (AUTH)") || !strings.Contains(blocks[0], "So far") {
		t.Errorf("%q %q", code, blocks)
	}
	r.task(root, "Agent", members{"description": "d", "prompt": "gate", "run_in_background": true})
	r.crowd(1)
	if blocks, code, _ := r.task(root, "Agent", members{"description": "d", "prompt": "think"}); code != "SUBAGENT_LIMIT" || strings.Contains(blocks[0], "interrupt_agent") {
		t.Errorf("%q %q", code, blocks)
	}
	r.gate.release()
	r.settled(2)
}

// TestClaudeBackground: the result names a file, which holds the answer in the end.
func TestClaudeBackground(t *testing.T) {
	for prompt, want := range map[string]string{"gate": "through", "broken": "(error: the key is not valid (AUTH))\nSo far"} {
		t.Run(prompt, func(t *testing.T) {
			r := newClaudeRig(t)
			root := r.open("root", nil)
			blocks, code, meta := r.task(root, "Agent", members{"description": "do it", "prompt": prompt, "run_in_background": true})
			r.gate.release()
			r.settled(1)
			child := r.children()[0]
			file, _ := meta["outputFile"].(string)
			if diff := cmp.Diff(members{"isAsync": true, "status": "async_launched", "agentId": child, "description": "do it", "prompt": prompt, "outputFile": file}, meta); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
			if code != "" || len(blocks) != 1 || !strings.HasPrefix(blocks[0], "The agent "+child+" is at work in the background.") || !strings.Contains(blocks[0], file) {
				t.Errorf("code %q, blocks %q", code, blocks)
			}
			if kept, err := os.ReadFile(file); err != nil || string(kept) != want {
				t.Errorf("the file holds %q, %v", kept, err)
			}
			if notices := r.notices("root"); len(notices) != 1 {
				t.Errorf("%d notices", len(notices))
			}
		})
	}
}

// names is a table of models for tests: two providers, of which one has no
// credential.
type names struct{ mock string }

func (n names) Resolve(format, model string) (llm.Route, error) {
	switch {
	case format == llm.FormatMock:
		return llm.Route{Provider: n.mock, Model: model}, nil
	case strings.HasPrefix(model, "scripted-"):
		return llm.Route{Provider: "scripted", Model: model}, nil
	}
	return llm.Route{Provider: "far", Model: model}, nil
}

func (names) Models(string) []llm.Model { return nil }

func (names) Credential(r llm.Route) string {
	if r.Provider == "far" {
		return "none"
	}
	return "KEY"
}

// TestClaudeModel: the call goes before the kind, and the kind before the parent
// (S079). A model without a credential is not a reason to fail.
func TestClaudeModel(t *testing.T) {
	for name, tc := range map[string]struct {
		mock, kind, asked, want string
	}{
		"the parent's":             {"mock", "", "", "m"},
		"the kind's":               {"mock", "scripted-a", "", "scripted-a"},
		"the call's":               {"mock", "scripted-a", "scripted-b", "scripted-b"},
		"inherit of a call":        {"mock", "scripted-a", "inherit", "scripted-a"},
		"inherit of a kind":        {"mock", "inherit", "", "m"},
		"without a credential":     {"mock", "sonnet", "", "m"},
		"a session of the scripts": {"scripted", "sonnet", "", "sonnet"},
	} {
		t.Run(name, func(t *testing.T) {
			r := boot(t, rows+row+"  models: {use: test-models}\n", "subagent.dialect=claude", "models.mock="+tc.mock)
			r.define(agent.Definition{Name: "kind", Model: tc.kind})
			root := r.open("root", nil)
			a := members{"description": "d", "prompt": "think", "subagent_type": "kind"}
			if tc.asked != "" {
				a["model"] = tc.asked
			}
			if blocks, code, _ := r.task(root, "Agent", a); code != "" {
				t.Fatal(blocks)
			}
			if got := r.specs[r.children()[0]].Route; got.Provider != "scripted" || got.Model != tc.want || got.MaxTokens != 321 {
				t.Errorf("route %+v", got)
			}
		})
	}
}

// TestClaudeWhatItIs: nothing says that nobody can be asked.
func TestClaudeWhatItIs(t *testing.T) {
	r := newClaudeRig(t)
	got, err := seam[*agent.Hooks](r).Context(context.Background(), kernel.Now, agent.Opening{Depth: 1})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if text := sdkproto.TextOf(got[0].Content); strings.Contains(text, "permission") || !strings.Contains(text, "You are a subagent") {
		t.Errorf("%q", text)
	}
}
