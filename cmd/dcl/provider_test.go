package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// speech is one way to speak to a model over HTTP: a format of the product, and a
// fake provider that refuses what the real one refuses.
type speech struct {
	format  string
	dialect llmtest.Dialect
	env     func(r *room, url string)
}

func speeches() []speech {
	return []speech{
		{"deepseek", llmtest.DeepSeek(), func(r *room, url string) {
			r.set("DEEPSEEK_API_KEY", llmtest.Key).set("DEEPSEEK_BASE_URL", url)
		}},
		{"openai", llmtest.OpenAI(), func(r *room, url string) {
			r.set("OPENAI_API_KEY", llmtest.Key).set("OPENAI_BASE_URL", url)
		}},
		{"anthropic", llmtest.Messages(), func(r *room, url string) {
			r.set("ANTHROPIC_API_KEY", llmtest.Key).set("ANTHROPIC_BASE_URL", url)
		}},
	}
}

// provider is a program whose model is a fake provider.
type provider struct {
	*host
	speech
	t      *testing.T
	room   *room
	server *llmtest.Server
}

// eachSpeech runs a test with every dialect.
func eachSpeech(t *testing.T, test func(t *testing.T, p *provider)) {
	t.Helper()
	for _, s := range speeches() {
		t.Run(s.format, func(t *testing.T) {
			t.Parallel()
			test(t, provide(t, s))
		})
	}
}

// provide prepares one; launch starts it.
func provide(t *testing.T, s speech) *provider {
	t.Helper()
	p := &provider{speech: s, t: t, room: newRoom(t), server: llmtest.NewServer(t, s.dialect)}
	s.env(p.room, p.server.URL)
	return p
}

// quickRetries are three retries at once.
var quickRetries = []string{"--set", "loop.retries={\"max\":3,\"delay\":\"1ms\",\"maxDelay\":\"5s\",\"jitter\":0}"}

// launch starts the program with quick retries, and with requests compared with
// the log. The model's name is the one whose thoughts the server knows.
func (p *provider) launch(flags ...string) *provider {
	p.t.Helper()
	common := append([]string{"--model", llmtest.Model, "--api-format", p.format, "--set", "loop.verifyRequests=true"}, quickRetries...)
	p.host = p.room.start(append(common, flags...)...)
	return p
}

// row is the id of the adapter's row.
func (p *provider) row() string { return p.format }

// says is a good answer of text, calls one that makes a call.
func (p *provider) says(text string) llmtest.Reply {
	return llmtest.Stream(p.dialect.Whole(sdkproto.Text(text)))
}

func (p *provider) calls(id, tool, arguments string) llmtest.Reply {
	return llmtest.Stream(p.dialect.Whole(llmtest.Called(id, tool, arguments)))
}

// attempts is how many requests came so far; none of them may have been refused
// for its form.
func (p *provider) attempts() int {
	p.t.Helper()
	all := p.server.Received()
	for i, r := range all {
		if r.Refused != "" {
			p.t.Errorf("the provider refused request %d: %s\n%.2000s", i+1, r.Refused, r.Body)
		}
	}
	return len(all)
}

// body gives request i, from 0.
func (p *provider) body(i int) string { return string(p.server.Received()[i].Body) }

// texts gives the texts of the assistant lines of the model so far, and of none
// that the program made.
func (h *host) texts() (list []string) {
	for _, l := range h.of("assistant") {
		if b := block(l); b["type"] == "text" && dig(l, "message", "model") != "<synthetic>" && l["parent_tool_use_id"] == nil {
			text, _ := b["text"].(string)
			list = append(list, text)
		}
	}
	return list
}

// synthetic gives the assistant lines that the program made.
func (h *host) synthetic() (list []object) {
	for _, l := range h.of("assistant") {
		if dig(l, "message", "model") == "<synthetic>" {
			list = append(list, l)
		}
	}
	return list
}

// messages gives those of a request in the dialect.
func messages(t *testing.T, body []byte) (list []object) {
	t.Helper()
	var request struct {
		Messages []object `json:"messages"`
	}
	if err := wirejson.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	return request.Messages
}

// paired checks rule 1 of the bug log in one request: each call is followed at
// once by exactly one result for it, in order, and no result lacks its call.
func paired(t *testing.T, body []byte) {
	t.Helper()
	var open []string
	settle := func(id any) {
		if len(open) == 0 || open[0] != id {
			t.Errorf("a result for %v, open are %q: %.3000s", id, open, body)
			return
		}
		open = open[1:]
	}
	for _, m := range messages(t, body) {
		if m["role"] == "tool" {
			settle(m["tool_call_id"])
			continue
		}
		blocks, _ := m["content"].([]any)
		for _, v := range blocks {
			if b, _ := v.(object); b["type"] == "tool_result" {
				settle(b["tool_use_id"])
			}
		}
		if len(open) > 0 {
			t.Errorf("no result for %q: %.3000s", open, body)
			open = nil
		}
		uses, _ := m["tool_calls"].([]any)
		for _, v := range append(slices.Clone(uses), blocks...) {
			if b, _ := v.(object); b["type"] == "tool_use" || b["type"] == "function" {
				id, _ := b["id"].(string)
				open = append(open, id)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("no result for %q at the end: %.3000s", open, body)
	}
}

// quoted is a text as it stands in JSON.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// goesOn checks that the turn's ending left the session as good as before: a plain
// prompt succeeds, and every request so far was paired.
func (p *provider) goesOn(n int) {
	p.t.Helper()
	p.server.Script(p.says("fine"))
	result := p.prompt(n)
	if result["subtype"] != "success" || result["is_error"] != false || result["result"] != "fine" {
		p.t.Errorf("the next prompt: %v", result)
	}
	for _, r := range p.server.Received() {
		paired(p.t, r.Body)
	}
}

// endOf gives of a result what its end is.
func endOf(result object) string {
	subtype, _ := result["subtype"].(string)
	reason, _ := result["terminal_reason"].(string)
	word := "ok"
	if result["is_error"] == true {
		word = "error"
	}
	return strings.Join([]string{subtype, word, reason}, " ")
}
