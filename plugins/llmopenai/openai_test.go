package llmopenai_test

import (
	"context"
	"encoding/json"
	"os"
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
	"dsh/plugins/llmopenai"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// boot starts a profile with the given rows and gives its router.
func boot(t *testing.T, rows string) *llm.Router {
	t.Helper()
	var router *llm.Router
	plugins := []kernel.Plugin{
		llmopenai.Plugin,
		kernel.Define("registries", "Stands in for core.", func() struct{} { return struct{}{} },
			func(kernel.Instance, struct{}) fx.Option {
				return fx.Provide(
					func() *llm.Router { router = llm.NewRouter(); return router },
					func() credential.Source {
						return credential.Environment(func(name string) (string, bool) { return llmtest.Key, name == "SOME_KEY" || name == "OPENAI_API_KEY" })
					},
				)
			}, kernel.Provides[*llm.Router](), kernel.Provides[credential.Source]()),
	}
	kerneltest.Boot(t, kerneltest.Options{
		Plugins: plugins, Text: "plugins:\n  core: {use: registries}\n" + rows,
	})
	return router
}

func adapter(t *testing.T, config string) llm.Adapter {
	t.Helper()
	a, err := boot(t, "  some: {use: llm-openai, config: {provider: some, "+config+"}}\n").Lookup("some")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Every preset does with an endpoint that demands what its kind demands.
func TestAdapter(t *testing.T) {
	openai := llmtest.OpenAI()
	azure := openai
	azure.KeyHeader = "api-key"
	plain := openai
	plain.Roles, plain.MaxTokens, plain.CallIDs, plain.RequireContent = []string{"system", "user", "assistant", "tool"}, "max_tokens", nil, true
	mistral := plain
	mistral.StreamOptions, mistral.CallIDs = false, regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	openrouter := plain
	openrouter.Reasoning = "reasoning"
	for _, tc := range []struct {
		preset  string
		dialect llmtest.Dialect
	}{
		{"openai", openai}, {"azure", azure}, {"generic", plain}, {"deepseek", llmtest.DeepSeek()},
		{"openrouter", openrouter}, {"mistral", mistral}, {"ollama", plain}, {"vllm", plain},
	} {
		t.Run(tc.preset, func(t *testing.T) {
			test := llmtest.TestRequests
			if tc.preset == "openai" {
				test = llmtest.TestAdapter
			}
			test(t, tc.dialect, func(tb testing.TB, url string) llm.Adapter {
				return adapter(tb.(*testing.T), "preset: "+tc.preset+", baseUrl: '"+url+"', apiKeyEnv: SOME_KEY, maxTokens: 100, effort: low")
			})
		})
	}
}

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(llmopenai.Plugin); err != nil {
		t.Error(err)
	}
}

// TestTwoRows: endpoints side by side, each under its own provider id.
func TestTwoRows(t *testing.T) {
	one, two := llmtest.NewServer(t, llmtest.OpenAI()), llmtest.NewServer(t, llmtest.OpenAI())
	for _, s := range []*llmtest.Server{one, two} {
		s.Script(llmtest.Stream(llmtest.Text("from "+s.URL), llmtest.Finish("stop"), llmtest.Done))
	}
	router := boot(t, "  one: {use: llm-openai, config: {baseUrl: '"+one.URL+"'}}\n  two: {use: llm-openai, config: {provider: two, baseUrl: '"+two.URL+"'}}\n")
	for provider, s := range map[string]*llmtest.Server{"openai": one, "two": two} {
		a, err := router.Lookup(provider)
		if err != nil {
			t.Fatal(err)
		}
		ans := llmtest.Collect(context.Background(), t, a, llmtest.Request(t, a, llmtest.User("hello")))
		if blocks := ans.Blocks(); ans.Err != nil || len(blocks) != 1 || blocks[0].Text != "from "+s.URL {
			t.Errorf("%s: %v", provider, ans)
		}
	}
}

// TestQuirks: each goes over the preset and shows in the request.
func TestQuirks(t *testing.T) {
	history := []sdkproto.Message{
		llmtest.User("a"), llmtest.Assistant(llmtest.Thought("t"), llmtest.Called("call_1", "bash", "{}")), llmtest.Result("call_1", sdkproto.Text("r")),
	}
	for _, tc := range []struct {
		quirks, want, not string
	}{
		{"{}", `"max_completion_tokens":7`, ""},
		{"{maxTokensField: max_tokens}", `"max_tokens":7`, "completion_tokens"},
		{"{maxTokensField: ''}", `"model":`, "_tokens\""},
		{"{reasoningField: reasoning_content}", `"reasoning_content":"t"`, ""},
		{"{systemRole: system}", `{"role":"system"`, "developer"},
		{"{streamOptions: false}", `"stream":true`, "stream_options"},
		{"{effortForm: thinking}", `"thinking":{"type":"enabled"},"reasoning_effort":"low"`, ""},
		{"{effortForm: none}", `"model":`, "effort"},
		{"{emptyContent: empty}", `"content":"",`, ""},
		{"{emptyContent: omit}", `{"role":"assistant","tool_calls"`, ""},
		{"{callIdPattern: '^[a-z0-9]*$', callIdLength: 4}", `"id":"`, "call_1"},
		{"{callIdPattern: ''}", `"id":"call_1"`, ""},
	} {
		t.Run(tc.quirks, func(t *testing.T) {
			server := llmtest.NewServer(t, llmtest.OpenAI())
			server.Script(llmtest.Reply{Lenient: true, Parts: []llmtest.Part{{Text: llmtest.Text("x") + llmtest.Finish("stop") + llmtest.Done}}})
			a := adapter(t, "baseUrl: '"+server.URL+"', maxTokens: 7, effort: low, quirks: "+tc.quirks)
			if ans := llmtest.Collect(context.Background(), t, a, llmtest.Request(t, a, history...)); ans.Err != nil {
				t.Fatal(ans.Err)
			}
			body := string(server.Received()[0].Body)
			if !strings.Contains(body, tc.want) || tc.not != "" && strings.Contains(body, tc.not) || !json.Valid([]byte(body)) {
				t.Errorf("%s\nmust hold %s and must not hold %s", body, tc.want, tc.not)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	a := adapter(t, "efforts: [low, high], contextWindow: 9, models: {m: {contextWindow: 5, maxTokens: 3, images: true}}, aliases: {n: m}")
	route, defaults, info, err := a.Resolve(llm.Route{Provider: "some", Model: "n"})
	if diff := cmp.Diff([]any{
		llm.Route{Provider: "some", Model: "m", MaxTokens: 3}, sdkproto.AdapterDefaults{MaxTokens: true}, llm.Info{ContextWindow: 5, Images: true}, nil,
	}, []any{route, defaults, info, err}); diff != "" {
		t.Error(diff)
	}
	route, defaults, info, err = a.Resolve(llm.Route{Provider: "some", Model: "other", ReasoningEffort: "low"})
	if diff := cmp.Diff([]any{
		llm.Route{Provider: "some", Model: "other", ReasoningEffort: "low"}, sdkproto.AdapterDefaults{}, llm.Info{ContextWindow: 9}, nil,
	}, []any{route, defaults, info, err}); diff != "" {
		t.Error(diff)
	}
	if _, _, _, err := a.Resolve(llm.Route{Model: "m", ReasoningEffort: "max"}); err == nil {
		t.Error("an unknown effort is taken")
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct{ config, want string }{
		{"{preset: opnai}", `plugins.some.config.preset: "opnai" is not one of azure, deepseek, generic, mistral, ollama, openai, openrouter, vllm`},
		{"{preset: generic}", "plugins.some.config.baseUrl: preset generic knows no address"},
		{"{preset: azure, baseUrl: x}", "plugins.some.config.baseUrl: must begin with https://"},
		{"{provider: ''}", "plugins.some.config.provider: must name the provider id"},
		{"{quirks: {systemRole: boss}}", `plugins.some.config.quirks: systemRole "boss" is not one of`},
		{"{quirks: {callIdPattern: '('}}", "plugins.some.config.quirks: error parsing regexp"},
		{"{quirks: {callIdPattern: '^x$'}}", "plugins.some.config.quirks: callIdLength 24 makes ids that do not match ^x$"},
		{"{quirks: {keyHeader: 'a b'}}", `plugins.some.config.quirks: "a b" is not a header name`},
		{"{quirks: {maxToken: x}}", "plugins.some.config.quirks.maxToken"},
		{"{effort: max, efforts: [low]}", `plugins.some.config.effort: "max" is not one of low`},
		{"{connect: 1ms}", "plugins.some.config.connect: 1ms is too short"},
		{"{contextWindow: -1}", "plugins.some.config.contextWindow: -1 is too small"},
	} {
		t.Run(tc.config, func(t *testing.T) {
			p, err := profile.Load(profile.Options{Name: "p", Embedded: fstest.MapFS{"p.yaml": {Data: []byte("plugins: {some: {use: llm-openai, config: " + tc.config + "}}\n")}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = kernel.Compose(context.Background(), kernel.Options{Plugins: []kernel.Plugin{llmopenai.Plugin}, Profile: p})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// The README's rows are ones that work.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("no rows")
	}
	for _, b := range blocks {
		boot(t, string(b[1]))
	}
}
