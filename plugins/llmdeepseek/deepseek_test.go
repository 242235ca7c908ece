package llmdeepseek_test

import (
	"context"
	"errors"
	"regexp"
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
	"dsh/plugins/llmdeepseek"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func env(name string) (string, bool) { return llmtest.Key, name == "DEEPSEEK_API_KEY" }

// boot starts a profile with one row and gives its router.
func boot(t *testing.T, row string, credentials credential.Source) (*llm.Router, *kerneltest.Booted) {
	t.Helper()
	var router *llm.Router
	plugins := []kernel.Plugin{
		llmdeepseek.Plugin,
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
	b := kerneltest.Boot(t, kerneltest.Options{
		Plugins: plugins, Text: text + row,
	})
	return router, b
}

func lookup(t testing.TB, r *llm.Router) llm.Adapter {
	t.Helper()
	a, err := r.Lookup("deepseek-official")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAdapter(t *testing.T) {
	llmtest.TestAdapter(t, llmtest.DeepSeek(), func(tb testing.TB, url string) llm.Adapter {
		router, _ := boot(tb.(*testing.T), "  deepseek: {use: llm-deepseek, config: {baseUrl: '"+url+"'}}\n", credential.Environment(env))
		return lookup(tb, router)
	})
}

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(llmdeepseek.Plugin); err != nil {
		t.Error(err)
	}
}

// specBody is the request of spec jsonrpc 10.3.
const specBody = `{"model":"deepseek-v4-flash",
 "messages":[{"role":"system","content":"..."},
  {"role":"user","content":"hello"},
  {"role":"assistant","content":"","reasoning_content":"think","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"echo hi\"}"}}]},
  {"role":"tool","tool_call_id":"call_1","content":"hi\n"}],
 "stream":true,"stream_options":{"include_usage":true},
 "thinking":{"type":"enabled"},"reasoning_effort":"high",
 "tools":[{"type":"function","function":{"name":"bash","description":"...","parameters":{"type":"object"}}}],
 "max_tokens":256000}`

// TestFallback mounts the plugin as `initialize` does (spec jsonrpc 3.3): at run
// time, with an empty config, with nothing but the environment to go by; and
// takes it away again. The request is that of 10.3.
func TestFallback(t *testing.T) {
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	server.Script(llmtest.Stream(llmtest.Text("a"), llmtest.Finish("stop"), llmtest.Done))
	t.Setenv("DEEPSEEK_BASE_URL", server.URL)
	t.Setenv("DEEPSEEK_API_KEY", llmtest.Key)
	router, b := boot(t, "", nil)
	if ids := router.Providers(); len(ids) != 0 {
		t.Fatalf("registered: %v", ids)
	}
	o, err := b.Kernel.Mount(context.Background(), profile.Entry{ID: "deepseek", Use: "llm-deepseek", Enabled: true, Config: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	a := lookup(t, router)
	route, defaults, info, err := a.Resolve(llm.Route{Provider: "deepseek-official", Model: "deepseek-v4-flash"})
	if diff := cmp.Diff([]any{
		llm.Route{Provider: "deepseek-official", Model: "deepseek-v4-flash", MaxTokens: 256000, ReasoningEffort: "high"},
		sdkproto.AdapterDefaults{MaxTokens: true, ReasoningEffort: true}, llm.Info{ContextWindow: 1_000_000, MaxOutput: 384_000}, nil,
	}, []any{route, defaults, info, err}); diff != "" {
		t.Error(diff)
	}
	req := llmtest.Request(t, a, llmtest.User("hello"), llmtest.Assistant(llmtest.Thought("think"), llmtest.Called("call_1", "bash", `{"command":"echo hi"}`)), llmtest.Result("call_1", sdkproto.Text("hi\n")))
	req.Header.Config.Model = route.Model
	req.Header.System = "..."
	req.Header.Tools = req.Header.Tools[:1]
	req.Header.Tools[0].Description = "..."
	if ans := llmtest.Collect(context.Background(), t, a, req); ans.Err != nil {
		t.Fatal(ans.Err)
	}
	got := server.Received()[0]
	if diff := cmp.Diff(regexp.MustCompile(`\n *`).ReplaceAllString(specBody, ""), string(got.Body)); diff != "" {
		t.Error(diff)
	}
	// The headers are those of 10.1 for a third party, and no others.
	want := map[string]string{
		"Authorization": "Bearer " + llmtest.Key, "Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "dsh/0.0.1",
	}
	sent := map[string]string{}
	for name := range got.Header {
		if name != "Content-Length" {
			sent[name] = got.Header.Get(name)
		}
	}
	if diff := cmp.Diff(want, sent); diff != "" || got.Path != "/chat/completions" {
		t.Error(got.Path, diff)
	}
	if err := o.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := router.Lookup("deepseek-official"); err == nil {
		t.Error("still registered")
	}
}

// A missing key fails a request and nothing before it, and says what to set.
func TestMissingKey(t *testing.T) {
	t.Setenv("DEEPSEEK_API_KEY", "")
	router, _ := boot(t, "  deepseek: {use: llm-deepseek}\n", nil)
	a := lookup(t, router)
	ans := llmtest.Collect(context.Background(), t, a, llmtest.Request(t, a, llmtest.User("hello")))
	if e := ans.Failure(); e == nil || e.Code != llm.CodeMissingCredential || e.Message != "the credential DEEPSEEK_API_KEY is not set; set it in the environment" {
		t.Errorf("got %v", ans.Err)
	}
}

func TestResolve(t *testing.T) {
	router, _ := boot(t, `  deepseek:
    use: llm-deepseek
    config:
      maxTokens: 100
      models:
        deepseek-v4-pro: {price: {currency: USD, input: 1, cacheRead: 0.1, output: 2}}
        mine: {contextWindow: 5, efforts: [deep]}
      aliases: {pro: deepseek-v4-pro}
`, nil)
	a := lookup(t, router)
	for model, want := range map[string]llm.Info{
		"deepseek-flash":               {ContextWindow: 1_000_000, MaxOutput: 384_000},
		"deepseek-v4-flash":            {ContextWindow: 1_000_000, MaxOutput: 384_000},
		"deepseek-v4-flash-vision-exp": {ContextWindow: 1_000_000, MaxOutput: 384_000, Images: true},
		"pro":                          {ContextWindow: 1_000_000, MaxOutput: 384_000, Price: &llm.Price{Currency: "USD", Input: 1, CacheRead: 0.1, Output: 2}},
		"something-new":                {ContextWindow: 1_000_000},
		"mine":                         {ContextWindow: 5},
	} {
		_, _, info, err := a.Resolve(llm.Route{Model: model})
		if diff := cmp.Diff(want, info); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", model, err, diff)
		}
	}
	for effort, ok := range map[string]bool{"": true, "low": true, "high": true, "max": true, "off": true, "medium": false, "High": false} {
		_, _, _, err := a.Resolve(llm.Route{Model: "deepseek-v4-pro", ReasoningEffort: effort})
		var e *llm.Error
		if (err == nil) != ok || err != nil && (!errors.As(err, &e) || e.Code != llm.CodeInvalidRequest) {
			t.Errorf("effort %q gives %v", effort, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name, config, want string
	}{
		{"base URL", "{baseUrl: api.example.com}", "p.yaml:1: plugins.deepseek.config.baseUrl: must begin with https:// or http:// and a host"},
		{"effort", "{effort: extreme}", `p.yaml:1: plugins.deepseek.config.effort: "extreme" is not one of low, high, max, off`},
		{"cap", "{maxTokens: -1}", "plugins.deepseek.config.maxTokens: -1 is too small; use 0 or more"},
		{"idle", "{idle: 5}", `"500ms"`},
		{"too short", "{idle: 5ms}", `plugins.deepseek.config.idle: 5ms is too short; use "1s" or more`},
		{"header", "{headers: {host: x}}", "plugins.deepseek.config.headers: header host belongs to the protocol; remove it"},
		{"unknown key", "{apiKey: sk-1}", "apiKey"},
		{"alias", "{aliases: {a: ''}}", `plugins.deepseek.config.aliases: alias a must name a model, not ""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profile.Load(profile.Options{Name: "p", Embedded: fstest.MapFS{"p.yaml": {Data: []byte("plugins: {deepseek: {use: llm-deepseek, config: " + tc.config + "}}\n")}}})
			if err != nil {
				t.Fatal(err)
			}
			e, _ := p.Entry("deepseek")
			_, err = kernel.Compose(context.Background(), kernel.Options{Plugins: []kernel.Plugin{llmdeepseek.Plugin}, Profile: p})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("row %s gives %v, want %s", e.Config, err, tc.want)
			}
		})
	}
}

func TestBadEnvironment(t *testing.T) {
	t.Setenv("DEEPSEEK_BASE_URL", "nonsense")
	_, b := boot(t, "", nil)
	_, err := b.Kernel.Mount(context.Background(), profile.Entry{ID: "deepseek", Use: "llm-deepseek", Enabled: true, Config: []byte("{}")})
	if err == nil || !strings.Contains(err.Error(), "environment variable DEEPSEEK_BASE_URL: must begin with https://") {
		t.Errorf("got %v", err)
	}
}
