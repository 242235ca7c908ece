package main

import (
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
)

// The flag decides which API a model is asked through; without it the model's name
// does, then the first credential that is set, and without a model and without a
// credential the scripted model answers (S080, S075; spec stream-json 1.3, 3.2, 12.3).
// Each provider is a server of its own, so that the request shows which was asked.
func TestRoute(t *testing.T) {
	t.Parallel()
	const all = "anthropic deepseek openai"
	for _, tc := range []struct {
		name  string
		keys  string // of the formats that have one
		flags []string
		// asked is the format that is asked for model; source the apiKeySource.
		asked, model, source string
	}{
		{"the flag is anthropic", all, []string{"--api-format", "anthropic", "--model", "deepseek-flash"}, "anthropic", "deepseek-flash", "ANTHROPIC_API_KEY"},
		{"the flag is openai", all, []string{"--api-format=openai", "--model", "claude-x"}, "openai", "claude-x", "OPENAI_API_KEY"},
		{"the flag is deepseek", all, []string{"--api-format", "deepseek", "--model", "gpt-x"}, "deepseek", "gpt-x", "DEEPSEEK_API_KEY"},
		{"the flag is mock", all, []string{"--api-format", "mock", "--model", "claude-x"}, "mock", "claude-x", "none"},
		{"the flag alone has its default", all, []string{"--api-format", "deepseek"}, "deepseek", "deepseek-flash", "DEEPSEEK_API_KEY"},
		{"default is the flag's default", all, []string{"--api-format", "deepseek", "--model", "default"}, "deepseek", "deepseek-flash", "DEEPSEEK_API_KEY"},
		{"claude means anthropic", all, []string{"--model", "claude-x-1"}, "anthropic", "claude-x-1", "ANTHROPIC_API_KEY"},
		{"an alias means anthropic", all, []string{"--model", "sonnet"}, "anthropic", "claude-sonnet-", "ANTHROPIC_API_KEY"},
		{"deepseek means deepseek", all, []string{"--model", "deepseek-flash"}, "deepseek", "deepseek-flash", "DEEPSEEK_API_KEY"},
		{"gpt means openai", all, []string{"--model", "gpt-x"}, "openai", "gpt-x", "OPENAI_API_KEY"},
		{"o3 means openai", all, []string{"--model", "o3-x"}, "openai", "o3-x", "OPENAI_API_KEY"},
		{"mock means the script", all, []string{"--model", "mock-model"}, "mock", "mock-model", "none"},
		{"another name goes to the first key", all, []string{"--model", "my-model"}, "anthropic", "my-model", "ANTHROPIC_API_KEY"},
		{"another name goes to the only key", "openai", []string{"--model", "my-model"}, "openai", "my-model", "OPENAI_API_KEY"},
		{"no model goes to the first key", "deepseek openai", nil, "deepseek", "deepseek-flash", "DEEPSEEK_API_KEY"},
		{"no model, only the key of openai", "openai", nil, "openai", "gpt-", "OPENAI_API_KEY"},
		{"no model and no key", "", nil, "mock", "mock-model", "none"},
		{"a name whose provider has no key", "openai", []string{"--model", "claude-x"}, "", "claude-x", "none"},
		{"another name without any key", "", []string{"--model", "my-model"}, "", "my-model", "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script("rules: [{reply: hi}]")
			servers := map[string]*llmtest.Server{}
			variable := map[string]string{"anthropic": "ANTHROPIC", "deepseek": "DEEPSEEK", "openai": "OPENAI"}
			for _, s := range speeches() {
				p := &provider{speech: s}
				servers[s.format] = llmtest.NewServer(t, s.dialect)
				servers[s.format].Script(p.says("hi"))
				r.set(variable[s.format]+"_BASE_URL", servers[s.format].URL)
				if strings.Contains(tc.keys, s.format) {
					r.set(variable[s.format]+"_API_KEY", llmtest.Key)
				}
			}
			h := r.start(tc.flags...)
			result := h.prompt(1)
			for format, server := range servers {
				got := server.Received()
				if want := format == tc.asked; want != (len(got) == 1) || len(got) > 1 {
					t.Errorf("%s got %d requests", format, len(got))
				}
				if format == tc.asked && !strings.Contains(string(got[0].Body), `"model":"`+tc.model) {
					t.Errorf("asked %.300s", got[0].Body)
				}
			}
			init := h.of("system/init")[0]
			if model, _ := init["model"].(string); !strings.HasPrefix(model, tc.model) || init["apiKeySource"] != tc.source {
				t.Errorf("init has model %v, apiKeySource %v", init["model"], init["apiKeySource"])
			}
			if tc.asked != "" {
				if result["result"] != "hi" || h.errorOutput() != "" {
					t.Errorf("result %v, standard error %q", result, h.errorOutput())
				}
				if model, _ := dig(h.of("assistant")[0], "message", "model").(string); !strings.HasPrefix(model, tc.model) {
					t.Errorf("the answer is of %q", model)
				}
				return
			}
			if text, _ := result["result"].(string); endOf(result) != "success error api_error" || !strings.Contains(text, "_API_KEY") {
				t.Errorf("result %v", result)
			}
		})
	}
}

// A model that is overloaded for good is answered for by the fallback model, which
// the client is told, and the answer names it (spec stream-json 1.3, 12.3).
func TestFallbackModel(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		busy := llmtest.JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		p.server.Script(busy, busy, busy, busy, p.says("from the other"))
		p.launch("--fallback-model", "second")
		result := p.prompt(1)
		if endOf(result) != "success ok completed" || result["result"] != "from the other" {
			t.Errorf("result %v", result)
		}
		if model := dig(p.of("assistant")[0], "message", "model"); model != "second" {
			t.Errorf("the answer is of %v", model)
		}
		if told := p.of("system/informational"); len(told) != 1 || !strings.Contains(told[0]["content"].(string), "second") {
			t.Errorf("told %v", told)
		}
		all := p.server.Received()
		if !strings.Contains(string(all[len(all)-1].Body), `"model":"second"`) {
			t.Error("the last request names another model")
		}
	})
}
