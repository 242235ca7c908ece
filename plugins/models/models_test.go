package models_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/profile"
	"dsh/plugins/models"
)

// boot starts a profile with the row and these credentials and gives the
// catalogue.
func boot(t *testing.T, config string, set ...string) llm.Models {
	t.Helper()
	var catalogue llm.Models
	keys := credential.Environment(func(name string) (string, bool) {
		for _, s := range set {
			if n, value, ok := strings.Cut(s, "="); ok && n == name {
				return value, true
			}
		}
		return "", false
	})
	row := func(name string, option fx.Option, decl ...kernel.Declaration) kernel.Plugin {
		return kernel.Define(name, "Stands in for others.", func() struct{} { return struct{}{} }, func(kernel.Instance, struct{}) fx.Option { return option }, decl...)
	}
	kerneltest.Boot(t, kerneltest.Options{
		Profile: "p",
		Plugins: []kernel.Plugin{
			models.Plugin,
			row("keys", fx.Provide(func() credential.Source { return keys }), kernel.Provides[credential.Source]()),
			row("user", fx.Invoke(func(m llm.Models) { catalogue = m }), kernel.Needs[llm.Models]()),
		},
		FS: fstest.MapFS{"p.yaml": {Data: []byte("plugins:\n  keys: {use: keys}\n  user: {use: user}\n  models: {use: models, config: " + config + "}\n")}},
	})
	return catalogue
}

const (
	anthropicKey   = "ANTHROPIC_API_KEY=sk-a"
	anthropicToken = "ANTHROPIC_AUTH_TOKEN=t"
	deepseekKey    = "DEEPSEEK_API_KEY=sk-d"
	openaiKey      = "OPENAI_API_KEY=sk-o"
)

// TestResolve is the rule of S080: the format decides when it is given, else the
// id, else whichever credential is set, else the scripted model; S079:
// deepseek-flash needs nothing but a key.
func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		name, format, model string
		set                 []string
		provider, want      string
	}{
		{"nothing at all", "", "", nil, "scripted", "mock-model"},
		{"the default and nothing else", "", "default", nil, "scripted", "mock-model"},
		{"one key", "", "", []string{deepseekKey}, "deepseek-official", "deepseek-flash"},
		{"another key", "", "default", []string{anthropicKey}, "anthropic", "claude-opus-5-5"},
		{"a token", "", "", []string{anthropicToken}, "anthropic", "claude-opus-5-5"},
		{"the third key", "", "", []string{openaiKey}, "openai", "gpt-6.1-sol"},
		{"all keys", "", "", []string{openaiKey, deepseekKey, anthropicKey}, "anthropic", "claude-opus-5-5"},
		{"a blank key", "", "", []string{"ANTHROPIC_API_KEY= ", deepseekKey}, "deepseek-official", "deepseek-flash"},
		{"a key that cannot be used", "", "", []string{"ANTHROPIC_API_KEY=é", deepseekKey}, "anthropic", "claude-opus-5-5"},

		{"deepseek-flash", "", "deepseek-flash", []string{deepseekKey}, "deepseek-official", "deepseek-flash"},
		{"an id without its key", "", "deepseek-flash", nil, "deepseek-official", "deepseek-flash"},
		{"an id against the key", "", "deepseek-v9", []string{anthropicKey}, "deepseek-official", "deepseek-v9"},
		{"claude", "", "claude-next-1", []string{deepseekKey}, "anthropic", "claude-next-1"},
		{"alias", "", "haiku", []string{deepseekKey}, "anthropic", "claude-haiku-5-5"},
		{"alias that begins as another id", "", "opus", nil, "anthropic", "claude-opus-5-5"},
		{"sonnet", "", "sonnet", nil, "anthropic", "claude-sonnet-5-5"},
		{"mock", "", "mock-anything", []string{anthropicKey}, "scripted", "mock-anything"},
		{"gpt", "", "gpt-4.1", []string{anthropicKey}, "openai", "gpt-4.1"},
		{"o series", "", "o3-mini", nil, "openai", "o3-mini"},

		{"an unknown id and a key", "", "vendor/model:tag", []string{openaiKey}, "openai", "vendor/model:tag"},
		{"an unknown id and no key", "", "vendor/model:tag", nil, "anthropic", "vendor/model:tag"},
		{"an id of letters that look like a pattern", "", "[", nil, "anthropic", "["},

		{"format against the id", "openai", "deepseek-flash", []string{deepseekKey}, "openai", "deepseek-flash"},
		{"format against the key", "deepseek", "", []string{anthropicKey}, "deepseek-official", "deepseek-flash"},
		{"format alone", "anthropic", "default", nil, "anthropic", "claude-opus-5-5"},
		{"alias of the format", "anthropic", "sonnet", nil, "anthropic", "claude-sonnet-5-5"},
		{"alias of another format", "deepseek", "sonnet", nil, "deepseek-official", "sonnet"},
		{"mock format", "mock", "claude-next-1", []string{anthropicKey}, "scripted", "claude-next-1"},
		{"mock format alone", "mock", "", []string{anthropicKey}, "scripted", "mock-model"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := boot(t, "{}", tc.set...).Resolve(tc.format, tc.model)
			if want := (llm.Route{Provider: tc.provider, Model: tc.want}); got != want || err != nil {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
	for _, format := range []string{"gemini", "Anthropic", "default"} {
		_, err := boot(t, "{}").Resolve(format, "claude-opus-5-5")
		if err == nil || err.Error() != `unknown API format "`+format+`"; use one of anthropic, openai, deepseek, mock` {
			t.Errorf("%s: got %v", format, err)
		}
	}
}

// TestConfigured: a profile changes a part of the table and keeps the rest.
func TestConfigured(t *testing.T) {
	m := boot(t, `{anthropic: {provider: gateway, default: sonnet, aliases: {opus: my-opus}}, deepseek: {patterns: [ds-*]}}`, anthropicKey)
	for _, tc := range []struct {
		model string
		want  llm.Route
	}{
		{"", llm.Route{Provider: "gateway", Model: "claude-sonnet-5-5"}},
		{"opus", llm.Route{Provider: "gateway", Model: "my-opus"}},
		{"haiku", llm.Route{Provider: "gateway", Model: "claude-haiku-5-5"}},
		{"ds-1", llm.Route{Provider: "deepseek-official", Model: "ds-1"}},
		{"deepseek-flash", llm.Route{Provider: "gateway", Model: "deepseek-flash"}},
	} {
		if got, err := m.Resolve("", tc.model); got != tc.want || err != nil {
			t.Errorf("%q: got %+v, %v, want %+v", tc.model, got, err, tc.want)
		}
	}
}

func values(list []llm.Model) (values []string) {
	for _, m := range list {
		values = append(values, m.Value+"="+m.Route.Provider+"/"+m.Route.Model)
	}
	return values
}

// TestModels: the default comes first, and without a format there is what the
// credentials that are set can answer (spec stream-json 4.1).
func TestModels(t *testing.T) {
	anthropic := []string{"opus=anthropic/claude-opus-5-5", "sonnet=anthropic/claude-sonnet-5-5", "haiku=anthropic/claude-haiku-5-5", "fable=anthropic/claude-fable-5-2"}
	deepseek := []string{"deepseek-flash=deepseek-official/deepseek-flash", "deepseek-v4-pro=deepseek-official/deepseek-v4-pro"}
	for _, tc := range []struct {
		name, format string
		set          []string
		want         []string
	}{
		{"nothing set", "", nil, []string{"default=scripted/mock-model", "mock-model=scripted/mock-model"}},
		{"one key", "", []string{deepseekKey}, append([]string{"default=deepseek-official/deepseek-flash"}, deepseek...)},
		{"two keys", "", []string{deepseekKey, anthropicKey}, append(append([]string{"default=anthropic/claude-opus-5-5"}, anthropic...), deepseek...)},
		{"a format", "deepseek", []string{anthropicKey}, append([]string{"default=deepseek-official/deepseek-flash"}, deepseek...)},
		{"an unknown format", "gemini", []string{anthropicKey}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, values(boot(t, "{}", tc.set...).Models(tc.format))); diff != "" {
				t.Error(diff)
			}
		})
	}
	first := boot(t, "{}", anthropicKey).Models("")[0]
	want := llm.Model{Value: "default", Name: "Default", Description: "claude-opus-5-5", Route: llm.Route{Provider: "anthropic", Model: "claude-opus-5-5"}, Efforts: []string{"low", "medium", "high", "xhigh", "max"}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	named := boot(t, "{mock: {models: [{value: mine}]}}").Models("mock")[1]
	if diff := cmp.Diff(llm.Model{Value: "mine", Name: "mine", Description: "mine", Route: llm.Route{Provider: "scripted", Model: "mine"}}, named); diff != "" {
		t.Error(diff)
	}
}

// TestCredential are the words of apiKeySource (spec stream-json 3.2).
func TestCredential(t *testing.T) {
	for _, tc := range []struct {
		name, provider string
		set            []string
		want           string
	}{
		{"key", "anthropic", []string{anthropicKey}, "ANTHROPIC_API_KEY"},
		{"token before key, as it is sent", "anthropic", []string{anthropicKey, anthropicToken}, "ANTHROPIC_AUTH_TOKEN"},
		{"missing", "anthropic", []string{deepseekKey}, "none"},
		{"deepseek", "deepseek-official", []string{deepseekKey}, "DEEPSEEK_API_KEY"},
		{"scripted", "scripted", []string{anthropicKey}, "none"},
		{"unknown provider", "other", []string{anthropicKey}, "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := boot(t, "{}", tc.set...).Credential(llm.Route{Provider: tc.provider}); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRule(t *testing.T) {
	want := []string{
		"--api-format decides when it is given: anthropic, openai, deepseek, mock.",
		"Else the model does: fable, haiku, opus, sonnet, claude-* mean anthropic; deepseek-* mean deepseek; gpt-*, o[0-9]*, chatgpt-* mean openai; mock-* mean mock.",
		"Else the first credential that is set: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN for anthropic (claude-opus-5-5), then DEEPSEEK_API_KEY for deepseek (deepseek-flash), then OPENAI_API_KEY for openai (gpt-6.1-sol).",
		"Without a model and without a credential the scripted model mock-model answers.",
		"A named model without its key fails the turn, which says what to set.",
	}
	if diff := cmp.Diff(want, models.Rule()); diff != "" {
		t.Error(diff)
	}
}

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(models.Plugin); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"provider", "{openai: {provider: ''}}", "plugins.models.config.openai.provider: must name the provider id"},
		{"default", "{mock: {default: default}}", "plugins.models.config.mock.default: must name a model"},
		{"alias of an alias", "{anthropic: {aliases: {best: opus}}}", `plugins.models.config.anthropic.aliases: alias best must name a model, not "opus"`},
		{"pattern", "{deepseek: {patterns: ['[']}}", `plugins.models.config.deepseek.patterns: "[" is not a pattern such as claude-*`},
		{"model", "{mock: {models: [{name: X}]}}", "plugins.models.config.mock.models: model 1 has no value"},
		{"unknown format", "{gemini: {}}", "gemini"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profile.Load(profile.Options{Name: "p", Embedded: fstest.MapFS{"p.yaml": {Data: []byte("plugins: {models: {use: models, config: " + tc.config + "}}\n")}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = kernel.Compose(context.Background(), kernel.Options{Plugins: []kernel.Plugin{models.Plugin}, Profile: p})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
