package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
)

// context gives the answer to get_context_usage, and checks what has to hold of
// every one: the used categories sum up to the total, all of them to the window.
func (h *host) context(id string) object {
	h.t.Helper()
	got := h.control(id, "get_context_usage", nil)
	answer, _ := got["response"].(object)
	for _, fault := range missing(answer, "get_context_usage", "categories:objects totalTokens:int maxTokens:int rawMaxTokens:int percentage:number model:text "+
		"gridRows:array memoryFiles:objects mcpTools:objects agents:objects isAutoCompactEnabled:bool apiUsage:object|null estimatedTokens:int") {
		h.t.Errorf("%s: %s", id, fault)
	}
	used, all := 0.0, 0.0
	categories, _ := answer["categories"].([]any)
	for _, c := range categories {
		c, _ := c.(object)
		for _, fault := range missing(c, "category", "id:text name:text tokens:int color:text kind:text") {
			h.t.Errorf("%s: %s", id, fault)
		}
		tokens, _ := c["tokens"].(float64)
		all += tokens
		switch c["kind"] {
		case "used":
			used += tokens
		case "free", "buffer":
		default:
			h.t.Errorf("%s: category %v", id, c)
		}
	}
	total, _ := answer["totalTokens"].(float64)
	window, _ := answer["maxTokens"].(float64)
	if used != total || window > 0 && all != window {
		h.t.Errorf("%s: used %v of %v, all %v of %v", id, used, total, all, window)
	}
	if window > 0 {
		near(h.t, id+": percentage", answer["percentage"], total/window*100)
	}
	return answer
}

// tokens gives those of a category, -1 without it.
func tokens(answer object, id string) float64 {
	categories, _ := answer["categories"].([]any)
	for _, c := range categories {
		if c, _ := c.(object); c["id"] == id {
			n, _ := c["tokens"].(float64)
			return n
		}
	}
	return -1
}

// large has a reply tell of a request of thousands of tokens.
func large(r llmtest.Reply) llmtest.Reply {
	for i := range r.Parts {
		text := &r.Parts[i].Text
		for name, tokens := range map[string]string{"input_tokens": "20", "cache_read_input_tokens": "10", "cache_creation_input_tokens": "7"} {
			*text = strings.ReplaceAll(*text, `"`+name+`":`+tokens, `"`+name+`":`+tokens+"000")
		}
	}
	return r
}

// Checklist 36, S051, spec stream-json 4.11: what the last request held, by what it
// was made of. The total is the provider's: its uncached, cached and written tokens
// are 20, 10 and 7; before any request there is nothing, while one is under way what
// is new in it is an estimate and said to be one, and after a summary all is. A
// resumed session has what its last request held.
func TestContextUsage(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.room.write("CLAUDE.md", strings.Repeat("Be careful with the data. ", 40))
	flags := []string{"--model", "a", "--api-format", "anthropic", "--set", prices, "--json-schema", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`,
		"--append-system-prompt", strings.Repeat("Speak of numbers. ", 40)}
	p.host = p.room.start(flags...)
	answer := p.context("none")
	for _, id := range []string{"system_prompt", "system_tools", "mcp_tools", "messages", "output_schema"} {
		near(t, id, tokens(answer, id), 0)
	}
	near(t, "total", answer["totalTokens"], 0)
	near(t, "percentage", answer["percentage"], 0)
	near(t, "window", answer["maxTokens"], 200_000)
	if answer["apiUsage"] != nil || len(answer["memoryFiles"].([]any)) != 0 {
		t.Errorf("before any request: %v", answer)
	}

	p.server.Script(large(p.calls("c1", "Bash", `{"command":"touch one"}`)))
	p.user("go")
	question := p.wait("a question", func(l object) bool { return l["type"] == "control_request" })
	answer = p.context("asked")
	near(t, "total", answer["totalTokens"], 37_000)
	near(t, "estimated", answer["estimatedTokens"], 0)
	says(t, "apiUsage", answer["apiUsage"], `{"input_tokens":20000,"output_tokens":5,"cache_read_input_tokens":10000,"cache_creation_input_tokens":7000}`)
	for _, id := range []string{"system_prompt", "system_tools", "messages", "output_schema"} {
		if tokens(answer, id) <= 0 {
			t.Errorf("%s has %v tokens", id, tokens(answer, id))
		}
	}
	files, _ := answer["memoryFiles"].([]any)
	if len(files) != 1 || !strings.HasSuffix(fmt.Sprint(dig(files[0].(object), "path")), "work/CLAUDE.md") || dig(files[0].(object), "type") != "Project" ||
		dig(files[0].(object), "tokens").(float64) > tokens(answer, "messages") {
		t.Errorf("memory files %v", files)
	}
	if agents, _ := answer["agents"].([]any); len(agents) == 0 || len(missing(agents[0].(object), "agent", "agentType:text source:text tokens:int")) > 0 {
		t.Errorf("agents %v", agents)
	}

	// The second request is under way: its result of a call is in no count yet.
	big := strings.Repeat("much said ", 400)
	p.server.Script(llmtest.Reply{Parts: []llmtest.Part{{Hang: true}}})
	p.respond(question["request_id"].(string), object{"behavior": "deny", "message": big})
	p.wait("the result of the call", func(l object) bool { return l["type"] == "user" })
	for len(p.server.Received()) < 2 {
		p.control("wait", "get_session_cost", nil)
	}
	answer = p.context("under way")
	if total, estimated := answer["totalTokens"].(float64), answer["estimatedTokens"].(float64); estimated <= 0 || total != 37_000+estimated {
		t.Errorf("total %v, estimated %v", total, estimated)
	}
	p.control("stop", "interrupt", nil)
	p.result(1)

	p.server.Script(large(p.calls("c2", "StructuredOutput", `{"n":1}`)))
	session, _ := p.prompt(2)["session_id"].(string)
	answer = p.context("turn 2")
	near(t, "total", answer["totalTokens"], 37_000)
	before := answer
	p.end()
	p.host = p.room.start(append(flags, "--resume", session)...)
	p.control("i", "initialize", nil)
	p.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
	if diff := cmp.Diff(before, p.context("resumed")); diff != "" {
		t.Errorf("what a resumed session says of its last request (-want +got):\n%s", diff)
	}
	p.server.Script(p.says("the summary"))
	p.user("/compact")
	p.result(1)
	answer = p.context("compacted")
	if answer["estimatedTokens"] != answer["totalTokens"] || answer["totalTokens"] == 0.0 {
		t.Errorf("after a summary: %v", answer)
	}
}

// Spec stream-json 4.11: tools of servers are listed with their server, under the
// names that the model sees, and counted apart.
func TestContextUsageOfServers(t *testing.T) {
	t.Parallel()
	app := &sdkServer{pages: [][]object{{aTool("server_time"), aTool("other")}}}
	h := newRoom(t).start().with(&answers{mcp: app.answer})
	h.initialize(object{"sdkMcpServers": []any{"my.app"}})
	h.prompt(1)
	answer := h.context("c")
	tools, _ := answer["mcpTools"].([]any)
	if len(tools) == 0 {
		t.Fatalf("no tools in %v", answer)
	}
	sum := 0.0
	for _, one := range tools {
		one, _ := one.(object)
		if one["serverName"] != "my.app" || !strings.HasPrefix(fmt.Sprint(one["name"]), "mcp__my_app__") || one["isLoaded"] != true {
			t.Errorf("tool %v", one)
		}
		sum += one["tokens"].(float64)
	}
	if got := tokens(answer, "mcp_tools"); got != sum || sum == 0 {
		t.Errorf("mcp_tools %v, the tools %v", got, sum)
	}
}
