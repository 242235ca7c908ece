package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
)

// delegate is a call of Agent.
func (p *provider) delegate(id string, args object) llmtest.Reply {
	return p.calls(id, "Agent", encode(args))
}

// requests gives the bodies of the model requests so far that hold a text.
func (p *provider) requests(text string) (bodies []string) {
	p.t.Helper()
	p.attempts()
	for _, r := range p.server.Received() {
		if strings.Contains(string(r.Body), text) {
			bodies = append(bodies, string(r.Body))
		}
	}
	return bodies
}

// An agent is taken up again by its id, in a later process too: it has its history,
// its kind and its model, its lines carry the id of the new call, and its frames pair
// again (issue 6; S034, S106; F13; checklist 84; spec stream-json 11.7).
func TestResumeAnAgent(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		definition := object{"agents": object{"reader": object{"description": "reads", "prompt": "You read closely.", "tools": []string{"Read"}}}}
		p.server.Script(
			p.delegate("c1", object{"description": "First look", "prompt": "remember the word heron", "subagent_type": "reader", "run_in_background": false}),
			p.says("I will"), p.says("done"),
		)
		p.launch()
		p.initialize(definition)
		result := p.prompt(1)
		started := p.of("system/task_started")[0]
		agentID, _ := started["task_id"].(string)
		p.end()

		p.server.Script(
			p.delegate("c2", object{"description": "Second look", "prompt": "which word was it?", "resume": agentID, "run_in_background": false}),
			p.calls("inner", "Read", `{"file_path":"missing.txt"}`), p.says("heron"), p.says("done"),
		)
		p.launch("--resume=" + result["session_id"].(string))
		p.initialize(object{}) // nobody says again what a reader is
		p.prompt(1)
		asked := p.requests("which word was it?")
		child := asked[slices.IndexFunc(asked, func(body string) bool { return strings.Contains(body, "You read closely.") })]
		for _, part := range []string{"remember the word heron", "I will"} {
			if !strings.Contains(child, part) {
				t.Errorf("the request of the agent lacks %q", part)
			}
		}
		if strings.Contains(child, `"Bash"`) || !strings.Contains(child, `"Read"`) {
			t.Errorf("the agent has other tools than before: %.300s", child)
		}
		var frames []object
		for _, kind := range []string{"system/task_started", "system/task_notification"} {
			for _, l := range p.of(kind) {
				frames = append(frames, object{"subtype": l["subtype"], "task_id": l["task_id"], "tool_use_id": l["tool_use_id"], "description": l["description"], "subagent_type": l["subagent_type"], "status": l["status"]})
			}
		}
		if diff := cmp.Diff([]object{
			{"subtype": "task_started", "task_id": agentID, "tool_use_id": "c2", "description": "Second look", "subagent_type": "reader", "status": nil},
			{"subtype": "task_notification", "task_id": agentID, "tool_use_id": "c2", "description": nil, "subagent_type": nil, "status": "completed"},
		}, frames); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
		inner := p.wait("the call of the agent", func(l object) bool { return l["type"] == "assistant" && l["parent_tool_use_id"] != nil })
		if inner["parent_tool_use_id"] != "c2" {
			t.Errorf("its line is %v", inner)
		}
		if text := p.toolText(0); !strings.Contains(text, "heron") || !strings.Contains(text, "agentId: "+agentID) {
			t.Errorf("the result is %q", text)
		}
		p.end()
	})
}

// toolText is the text of a result on the main thread.
func (h *host) toolText(i int) string {
	h.t.Helper()
	content := h.toolResults()[i]["content"]
	if text, ok := content.(string); ok {
		return text
	}
	text := ""
	for _, b := range content.([]any) {
		said, _ := b.(object)["text"].(string)
		text += said + "\n"
	}
	return text
}

// An agent in the background is a task: TaskOutput waits for it and gives its answer,
// TaskStop ends it, and an end by TaskStop starts no turn (S055; spec stream-json 9,
// 11.8).
func TestAgentTasks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, prompt, tool, want, status string
		turns                            int
	}{
		{"output", "sub answer", "TaskOutput", "the finding", "completed", 3},
		{"stop", "sub hang", "TaskStop", "was stopped", "stopped", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(encode(object{"rules": []any{
				object{"when": object{"text": "sub answer"}, "reply": []any{object{"delay": "300ms"}, object{"text": "the finding"}}},
				object{"when": object{"text": "sub hang"}, "reply": []any{object{"text": "here"}, object{"delay": "60s"}}},
				object{"when": object{"text": "begin", "step": 1}, "reply": []any{object{"call": object{
					"tool": "Agent", "args": object{"description": "look", "prompt": tc.prompt, "run_in_background": true},
				}}}},
				object{"when": object{"matches": `^then (\S+)`, "step": 1}, "reply": []any{object{"call": object{
					"tool": tc.tool, "args": object{"task_id": "{{match 1}}"},
				}}}},
				object{"reply": "done"},
			}})).start()
			h.user("begin")
			h.result(1)
			task, _ := h.of("system/task_started")[0]["task_id"].(string)
			h.user("then " + task)
			h.wait("the second result of a call", func(l object) bool { return l["type"] == "user" && block(l)["tool_use_id"] == "call_2_1_1" })
			if text := h.toolText(1); !strings.Contains(text, tc.want) {
				t.Errorf("%s gave %q", tc.tool, text)
			}
			h.end()
			ended := h.of("system/task_notification")
			if len(ended) != 1 || ended[0]["task_id"] != task || ended[0]["status"] != tc.status {
				t.Errorf("the task ended as %v", ended)
			}
			if n := len(h.of("result")); n != tc.turns {
				t.Errorf("%d turns, want %d", n, tc.turns)
			}
		})
	}
}

// The model that an agent asks for is one of the format that the client has named,
// where that format may know it (S079, S080); its effort is one that the model takes.
func TestAgentModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, kind, asked, effort, model, level string }{
		{"of another format's ids", "deepseek-v9", "", "", "deepseek-v9", ""},
		{"of the call", "deepseek-v9", "gpt-own", "", "gpt-own", ""},
		{"another format's alias", "sonnet", "", "", llmtest.Model, ""},
		{"with an effort", "inherit", "", "high", llmtest.Model, "high"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()[1])
			other := llmtest.NewServer(t, llmtest.DeepSeek())
			speeches()[0].env(p.room, other.URL)
			p.room.set("ANTHROPIC_API_KEY", llmtest.Key).set("ANTHROPIC_BASE_URL", other.URL)
			args := object{"description": "d", "prompt": "sub task", "subagent_type": "kind", "run_in_background": false}
			if tc.asked != "" {
				args["model"] = tc.asked
			}
			if tc.effort != "" {
				args["effort"] = tc.effort
			}
			p.server.Script(p.delegate("c1", args), p.says("found"), p.says("done"))
			p.launch()
			p.initialize(object{"agents": object{"kind": object{"description": "d", "prompt": "You are one of a kind.", "model": tc.kind}}})
			p.prompt(1)
			if got := other.Received(); len(got) > 0 {
				t.Errorf("another provider was asked: %.300s", got[0].Body)
			}
			asked := p.requests("You are one of a kind.")
			if len(asked) != 1 {
				t.Fatalf("%d requests of the agent", len(asked))
			}
			body := objectOf(asked[0])
			if body["model"] != tc.model {
				t.Errorf("the agent's model is %v", body["model"])
			}
			if tc.level != "" && body["reasoning_effort"] != tc.level {
				t.Errorf("its effort is %v", body["reasoning_effort"])
			}
			p.end()
		})
	}
}

// A kind's skills are in front of the first prompt, for a subagent and for the main
// thread, whose initial prompt is, too (S034, S035; spec stream-json 11.7).
func TestAgentBeginnings(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.room.write(".claude/skills/knots/SKILL.md", "---\nname: knots\ndescription: ties\n---\nA bowline does not slip.\n")
	kind := object{
		"description": "d", "prompt": "You are one of a kind.", "skills": []string{"knots", "not there"}, "initialPrompt": "Begin with the ropes.", "effort": 10_000,
	}
	p.server.Script(
		p.delegate("c1", object{"description": "d", "prompt": "sub task", "subagent_type": "kind", "run_in_background": false}),
		p.says("found"), p.says("done"), p.says("again"),
	)
	p.launch()
	p.initialize(object{"agents": object{"kind": kind}, "agent": "kind"})
	p.prompt(1)
	p.prompt(2)
	all := p.requests("You are one of a kind.")
	if len(all) != 4 {
		t.Fatalf("%d requests", len(all))
	}
	for i, want := range []struct {
		skills, initial int
		prompt          string
	}{{1, 1, "go 1"}, {1, 0, "sub task"}, {1, 1, "go 1"}, {1, 1, "go 2"}} {
		body := all[i]
		skills, initial := strings.Count(body, "A bowline does not slip."), strings.Count(body, "Begin with the ropes.")
		if skills != want.skills || initial != want.initial {
			t.Errorf("request %d has %d skills and %d initial prompts", i, skills, initial)
		}
		at := strings.Index(body, want.prompt)
		if strings.Index(body, "A bowline") > at || strings.Index(body, "Begin with") > at {
			t.Errorf("request %d has them behind the prompt", i)
		}
	}
	p.end()
}
