package main

import (
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// The seed's Java sample, driven the way its options reach the command line:
// flags of two tokens, extra arguments as pairs, a callback that denies Bash and
// else allows without saying more, a Chinese prompt, and a standard input that
// stays open until the result has been read (S005, S078, S079).
func TestJavaSample(t *testing.T) {
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	call := func(id, name, arguments string) sdkproto.Block {
		return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: arguments}
	}
	dialect := llmtest.DeepSeek()
	server.Script(
		llmtest.Stream(dialect.Whole(call("c1", "Bash", `{"command":"rm -r src","description":"Remove"}`), call("c2", "Write", `{"file_path":"概要.md","content":"概要\n"}`))),
		llmtest.Stream(dialect.Whole(sdkproto.Text("这个项目是一个示例。"))),
	)
	r := newRoom(t).set("DEEPSEEK_API_KEY", llmtest.Key).set("DEEPSEEK_BASE_URL", server.URL)
	r.write("README.md", "# 示例\n")
	var asked []string
	h := r.run("--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
		"--model", "deepseek-flash", "--permission-mode", "default", "--permission-prompt-tool", "stdio",
		"--api-format", "deepseek", "--data-dir", r.home, "--include-partial-messages").
		answering(map[string]func(object) any{"can_use_tool": func(request object) any {
			name, _ := request["tool_name"].(string)
			asked = append(asked, name)
			if name == "Bash" {
				return object{"behavior": "deny", "message": "Bash is disabled"}
			}
			return object{"behavior": "allow"}
		}})
	if got := h.control("init-1", "initialize", nil); got["subtype"] != "success" {
		t.Fatalf("initialize: %v", got)
	}
	const prompt = "总结 README.md"
	h.user(prompt)
	result := h.result(1)
	if result["subtype"] != "success" || result["is_error"] != false || result["result"] != "这个项目是一个示例。" {
		t.Errorf("result %v", result)
	}
	if strings.Join(asked, " ") != "Bash Write" {
		t.Errorf("asked about %q", asked)
	}
	if !r.exists("概要.md") {
		t.Error("the allowed call has not run")
	}
	results := h.of("user")
	if len(results) != 2 || block(results[0])["content"] != "Bash is disabled" || block(results[0])["is_error"] != true || block(results[1])["is_error"] == true {
		t.Errorf("results %v", results)
	}
	denied, _ := result["permission_denials"].([]any)
	if len(denied) != 1 {
		t.Errorf("denials %v", denied)
	}
	requests := server.Received()
	if len(requests) != 2 || !strings.Contains(string(requests[0].Body), prompt) || !strings.Contains(string(requests[0].Body), `"model":"deepseek-`) {
		t.Errorf("%d requests", len(requests))
	}
	if len(h.of("stream_event")) == 0 {
		t.Error("nothing was streamed")
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
