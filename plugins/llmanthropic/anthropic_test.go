package llmanthropic_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/llm/llmtest"
	"dsh/kernel/profile"
	"dsh/plugins/llmanthropic"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment of these variables.
func env(of map[string]string) credential.Source {
	return credential.Environment(func(name string) (string, bool) { v, ok := of[name]; return v, ok })
}

// boot starts a profile with one row and gives its router.
func boot(tb testing.TB, row string, credentials credential.Source) *llm.Router {
	tb.Helper()
	var router *llm.Router
	plugins := []kernel.Plugin{
		llmanthropic.Plugin,
		kernel.Define("registries", "Stands in for core.", func() struct{} { return struct{}{} },
			func(kernel.Instance, struct{}) fx.Option {
				return fx.Provide(func() *llm.Router { router = llm.NewRouter(); return router })
			}, kernel.Provides[*llm.Router]()),
		kernel.Define("keys", "Stands in for credentials.", func() struct{} { return struct{}{} },
			func(kernel.Instance, struct{}) fx.Option {
				return fx.Provide(func() credential.Source { return credentials })
			}, kernel.Provides[credential.Source]()),
	}
	text := "plugins:\n  core: {use: registries}\n"
	if credentials != nil {
		text += "  keys: {use: keys}\n"
	}
	kerneltest.Boot(tb.(*testing.T), kerneltest.Options{Plugins: plugins, Text: text + row})
	return router
}

func lookup(tb testing.TB, r *llm.Router, provider string) llm.Adapter {
	tb.Helper()
	a, err := r.Lookup(provider)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func TestAdapter(t *testing.T) {
	llmtest.TestMessages(t, func(tb testing.TB, url string) llm.Adapter {
		router := boot(tb, "  anthropic: {use: llm-anthropic, config: {provider: "+llmtest.Provider+", baseUrl: '"+url+"'}}\n",
			env(map[string]string{"ANTHROPIC_API_KEY": llmtest.Key}))
		return lookup(tb, router, llmtest.Provider)
	})
}

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(llmanthropic.Plugin); err != nil {
		t.Error(err)
	}
}

// ask makes one request of the model at a server that takes everything.
func ask(t *testing.T, a llm.Adapter, route llm.Route) (llmtest.Answer, llm.Route) {
	t.Helper()
	route, _, _, err := a.Resolve(route)
	if err != nil {
		t.Fatal(err)
	}
	req := llmtest.Request(t, a, llmtest.User("hello"))
	req.Header.Config.Model, req.Header.Config.MaxTokens, req.Header.Config.ReasoningEffort = route.Model, route.MaxTokens, route.ReasoningEffort
	return llmtest.Collect(context.Background(), t, a, req), route
}

// lenient answers every request.
func lenient(t *testing.T) *llmtest.Server {
	t.Helper()
	server := llmtest.NewServer(t, llmtest.Messages())
	server.Script(llmtest.Reply{Lenient: true, Parts: []llmtest.Part{{Text: llmtest.Messages().Whole(sdkproto.Text("a"))}}})
	return server
}

// TestEnvironment: an empty config finds address and key in the environment, a
// token goes before a key, and the headers are those of the API.
func TestEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name, token, key string
		want             map[string]string
	}{
		{"key", "", "sk-key", map[string]string{"X-Api-Key": "sk-key"}},
		{"token", "tok", "", map[string]string{"Authorization": "Bearer tok"}},
		{"both", "tok", "sk-key", map[string]string{"Authorization": "Bearer tok"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := lenient(t)
			t.Setenv("ANTHROPIC_BASE_URL", server.URL+"/proxy/")
			t.Setenv("ANTHROPIC_AUTH_TOKEN", tc.token)
			t.Setenv("ANTHROPIC_API_KEY", tc.key)
			a := lookup(t, boot(t, "  anthropic: {use: llm-anthropic, config: {betas: [one-1, two-2]}}\n", nil), "anthropic")
			if ans, _ := ask(t, a, llm.Route{Model: "claude-opus-5-5"}); ans.Err != nil {
				t.Fatal(ans.Err)
			}
			got := server.Received()[0]
			tc.want["Content-Type"], tc.want["Accept"], tc.want["User-Agent"] = "application/json", "text/event-stream", "dsh/0.0.1"
			tc.want["Anthropic-Version"], tc.want["Anthropic-Beta"] = "2023-06-01", "one-1,two-2"
			sent := map[string]string{}
			for name := range got.Header {
				if name != "Content-Length" {
					sent[name] = got.Header.Get(name)
				}
			}
			if diff := cmp.Diff(tc.want, sent); diff != "" || got.Path != "/proxy/v1/messages" {
				t.Error(got.Path, diff)
			}
		})
	}
}

// TestMissingKey: a request fails and nothing before it, and says what to set (spec
// stream-json 12.3); a key that is refused is named.
func TestMissingKey(t *testing.T) {
	row := "  anthropic: {use: llm-anthropic, config: {baseUrl: '" + lenient(t).URL + "'}}\n"
	a := lookup(t, boot(t, row, env(nil)), "anthropic")
	ans, _ := ask(t, a, llm.Route{Model: "claude-opus-5-5"})
	if e := ans.Failure(); e == nil || e.Code != llm.CodeMissingCredential || e.Message != "the credential ANTHROPIC_API_KEY is not set; set it in the environment" {
		t.Errorf("got %v", ans.Err)
	}
	for variable, value := range map[string]string{"ANTHROPIC_API_KEY": "bad\x01key", "ANTHROPIC_AUTH_TOKEN": "bad\x01key"} {
		a = lookup(t, boot(t, row, env(map[string]string{variable: value})), "anthropic")
		ans, _ = ask(t, a, llm.Route{Model: "claude-opus-5-5"})
		if e := ans.Failure(); e == nil || e.Code != llm.CodeInvalidCredential || !strings.Contains(e.Message, variable) {
			t.Errorf("%s: got %v", variable, ans.Err)
		}
	}
	strict := llmtest.NewServer(t, llmtest.Messages())
	a = lookup(t, boot(t, "  anthropic: {use: llm-anthropic, config: {baseUrl: '"+strict.URL+"'}}\n", env(map[string]string{"ANTHROPIC_AUTH_TOKEN": "wrong"})), "anthropic")
	ans, _ = ask(t, a, llm.Route{Model: "claude-opus-5-5"})
	if e := ans.Failure(); e == nil || e.Code != llm.CodeAuth || e.Status != 401 || !strings.HasSuffix(e.Message, "; check the credential ANTHROPIC_AUTH_TOKEN") {
		t.Errorf("got %v", ans.Err)
	}
}

// TestModels: what is known of the models, and what a request of each costs; the
// figures are those of Anthropic's price list, worked out by hand for 1,000 tokens
// from no cache, 10,000 out of it, 2,000 into it and 500 said (case B87). A date
// behind an id makes no difference.
func TestModels(t *testing.T) {
	usage := &sdkproto.Usage{InputTokens: 1000, CacheReadTokens: 10_000, CacheWriteTokens: 2000, OutputTokens: 500}
	a := lookup(t, boot(t, "  anthropic: {use: llm-anthropic, config: {aliases: {fast: claude-haiku-4-5}}}\n", env(nil)), "anthropic")
	for _, tc := range []struct {
		model, id   string
		window, out int64
		cost        float64
	}{
		{"claude-fable-5-2", "claude-fable-5-2", 1_000_000, 128_000, 0.008 + 0.002 + 0.020 + 0.020},
		{"claude-opus-5-5", "claude-opus-5-5", 1_000_000, 128_000, 0.004 + 0.002 + 0.010 + 0.010},
		{"claude-sonnet-5-5", "claude-sonnet-5-5", 1_000_000, 128_000, 0.002 + 0.001 + 0.005 + 0.005},
		{"claude-haiku-5-5", "claude-haiku-5-5", 1_000_000, 128_000, 0.0001 + 0.0001 + 0.00025 + 0.00025},
		{"claude-opus-4-6", "claude-opus-4-6", 1_000_000, 128_000, 0.005 + 0.005 + 0.0125 + 0.0125},
		{"claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929", 200_000, 64_000, 0.003 + 0.003 + 0.0075 + 0.0075},
		{"fast", "claude-haiku-4-5", 200_000, 64_000, 0.001 + 0.001 + 0.0025 + 0.0025},
	} {
		t.Run(tc.model, func(t *testing.T) {
			route, defaults, info, err := a.Resolve(llm.Route{Model: tc.model})
			if err != nil || route.Model != tc.id || route.MaxTokens != 64_000 || !defaults.MaxTokens || route.ReasoningEffort != "" {
				t.Errorf("%+v, %+v, %v", route, defaults, err)
			}
			if info.ContextWindow != tc.window || info.MaxOutput != tc.out || !info.Images || info.Price == nil || info.Price.Currency != "USD" {
				t.Errorf("%+v", info)
			}
			if got := info.Price.Cost(usage); math.Abs(got-tc.cost) > 1e-12 {
				t.Errorf("costs %v, want %v", got, tc.cost)
			}
		})
	}
	for _, id := range []string{"claude-next-1", "claude-opus-5-5-2025092", "claude-opus-5-5-20250929x", "vendor/claude-opus-5-5"} {
		route, _, info, err := a.Resolve(llm.Route{Model: id})
		if diff := cmp.Diff(llm.Info{ContextWindow: 200_000, Images: true}, info); diff != "" || err != nil || route.MaxTokens != 32_000 {
			t.Errorf("%s: %v %v %s", id, route, err, diff)
		}
	}
	_, _, _, err := a.Resolve(llm.Route{Model: "claude-opus-5-5", ReasoningEffort: "extreme"})
	if e, ok := err.(*llm.Error); !ok || e.Code != llm.CodeInvalidRequest {
		t.Errorf("an unknown effort gives %v", err)
	}
}

// TestThinking: each model is asked in the form that it takes, at its default cap.
func TestThinking(t *testing.T) {
	server := lenient(t)
	a := lookup(t, boot(t, "  anthropic: {use: llm-anthropic, config: {baseUrl: '"+server.URL+"'}}\n", env(map[string]string{"ANTHROPIC_API_KEY": "k"})), "anthropic")
	const adaptive = `"thinking":{"type":"adaptive","display":"summarized"}`
	effort := func(word string) string { return adaptive + `,"output_config":{"effort":"` + word + `"}` }
	for _, tc := range []struct{ model, effort, want string }{
		{"claude-opus-5-5", "", adaptive},
		{"claude-opus-5-5", "xhigh", effort("xhigh")},
		{"claude-opus-5-5", "off", effort("low")},
		{"claude-sonnet-5-5", "off", `"thinking":{"type":"between_tools"}`},
		{"claude-haiku-5-5", "off", `"thinking":{"type":"disabled"}`},
		{"claude-opus-4-6", "xhigh", effort("high")},
		{"claude-next-1", "max", effort("max")},
		{"claude-haiku-4-5", "", ""},
		{"claude-haiku-4-5", "low", `"thinking":{"type":"enabled","budget_tokens":4096}`},
		{"claude-haiku-4-5-20251001", "max", `"thinking":{"type":"enabled","budget_tokens":32000}`},
	} {
		ans, route := ask(t, a, llm.Route{Model: tc.model, ReasoningEffort: tc.effort})
		all := server.Received()
		want := fmt.Sprintf(`{"model":%q,"max_tokens":%d,`, tc.model, route.MaxTokens)
		if tc.want != "" {
			want += tc.want + ","
		}
		if got := string(all[len(all)-1].Body); ans.Err != nil || !strings.HasPrefix(got, want+`"system":`) {
			t.Errorf("%s %q: %v\n%.300s\nwant %s", tc.model, tc.effort, ans.Err, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"base URL", "{baseUrl: api.example.com}", "plugins.anthropic.config.baseUrl: must begin with https:// or http:// and a host"},
		{"cap", "{maxTokens: 0}", "plugins.anthropic.config.maxTokens: 0 is too small; use 1 or more"},
		{"effort", "{effort: extreme}", `plugins.anthropic.config.effort: "extreme" is not one of off, low, medium, high, xhigh, max`},
		{"budget", "{budgets: {low: -1}}", "plugins.anthropic.config.budgets: the budget of effort low cannot be negative"},
		{"provider", "{provider: ''}", "plugins.anthropic.config.provider: must name the provider id"},
		{"version", "{version: ''}", "plugins.anthropic.config.version: must name a version of the API, such as 2023-06-01"},
		{"beta", "{betas: [é]}", "plugins.anthropic.config.betas: the value of header anthropic-beta holds characters"},
		{"thinking", "{thinking: {form: deep}}", `plugins.anthropic.config.thinking: form "deep" is not one of none, budget, adaptive`},
		{"no way to switch off", "{modelThinking: {m: {form: adaptive}}}", `plugins.anthropic.config.modelThinking: model m: off must say`},
		{"price", "{models: {m: {price: {cacheWrite: -1}}}}", "plugins.anthropic.config.models: model m: a price cannot be negative"},
		{"unknown key", "{apiKey: sk-1}", "apiKey"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profile.Load(profile.Options{Name: "p", Embedded: fstest.MapFS{"p.yaml": {Data: []byte("plugins: {anthropic: {use: llm-anthropic, config: " + tc.config + "}}\n")}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = kernel.Compose(context.Background(), kernel.Options{Plugins: []kernel.Plugin{llmanthropic.Plugin}, Profile: p})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
