package main

import (
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// What hooks say reaches the model in its very next request (checklist 67, case B26;
// spec stream-json 6.3, 6.5): context of SessionStart and UserPromptSubmit beside
// the prompt, the reason of a refusal and context of PreToolUse and PostToolUse
// beside the result, the reason of Stop as a message. A blocked prompt reaches it
// never (6.5 rule 6).
func TestModelHearsHooks(t *testing.T) {
	t.Parallel()
	dialect := llmtest.DeepSeek()
	server := llmtest.NewServer(t, dialect)
	call := func(id, command string) sdkproto.Block {
		return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: "Bash", Arguments: encode(object{"command": command})}
	}
	server.Script(
		llmtest.Stream(dialect.Whole(call("c1", "echo one"), call("c2", "touch made"))),
		llmtest.Stream(dialect.Whole(sdkproto.Text("I stop"))),
		llmtest.Stream(dialect.Whole(sdkproto.Text("now I do"))),
	)
	r := newRoom(t).set("DEEPSEEK_API_KEY", llmtest.Key).set("DEEPSEEK_BASE_URL", server.URL)
	stops := 0
	h := r.start("--model", "deepseek-flash").with(&answers{hook: func(_ string, in object) any {
		switch in["hook_event_name"] {
		case "UserPromptSubmit":
			if in["prompt"] == "go 1" {
				return object{"decision": "block", "reason": "no"}
			}
			return adds("UserPromptSubmit", "context-of-prompt")
		case "SessionStart":
			return adds("SessionStart", "context-of-start")
		case "PreToolUse":
			if in["tool_use_id"] == "c2" {
				return decides("deny", object{"permissionDecisionReason": "reason-of-denial"})
			}
			return decides("allow", object{"additionalContext": "context-before"})
		case "PostToolUse":
			return adds("PostToolUse", "context-after")
		case "Stop":
			if stops++; stops == 1 {
				return object{"decision": "block", "reason": "reason-to-go-on"}
			}
		}
		return object{}
	}})
	h.initialize(hooksOf(nil, "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"))
	h.prompt(1)
	h.user("the-real-prompt")
	if result := h.result(2); result["result"] != "now I do" || result["num_turns"] != 3.0 {
		t.Errorf("result %v", result)
	}
	requests := server.Received()
	if len(requests) != 3 {
		t.Fatalf("%d requests", len(requests))
	}
	// What is new in each request: the ones before hold none of it.
	for i, words := range [][]string{
		{"the-real-prompt", "context-of-start", "context-of-prompt"},
		{"context-before", "context-after", "reason-of-denial"},
		{"reason-to-go-on"},
	} {
		for _, word := range words {
			if !strings.Contains(string(requests[i].Body), word) {
				t.Errorf("request %d has no %s", i+1, word)
			}
			if i > 0 && strings.Contains(string(requests[i-1].Body), word) {
				t.Errorf("request %d has %s already", i, word)
			}
		}
	}
	for i := range requests {
		if strings.Contains(string(requests[i].Body), "go 1") {
			t.Error("the blocked prompt is in a request")
		}
	}
}
