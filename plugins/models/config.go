package models

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/llm"
)

// Config is the table of models, by the format of their API; an empty one is
// valid and has what defaults says.
type Config struct {
	Anthropic Format `json:"anthropic"`
	DeepSeek  Format `json:"deepseek"`
	OpenAI    Format `json:"openai"`
	Mock      Format `json:"mock"`
}

// Format is what there is under one format.
type Format struct {
	// Provider is the id that the row of the adapter answers for.
	Provider string `json:"provider"`
	// APIKeyEnv and AuthTokenEnv name the credentials of the provider, either of
	// which will do; both are empty where none is needed.
	APIKeyEnv    string `json:"apiKeyEnv"`
	AuthTokenEnv string `json:"authTokenEnv"`
	// Default is the model, or an alias of one, when none is named.
	Default string `json:"default"`
	// Aliases give other names of models. They hold under their own format, and
	// those of all formats hold when no format is given, in the order anthropic,
	// deepseek, openai, mock.
	Aliases map[string]string `json:"aliases"`
	// Patterns tell ids that mean this format when none is given, as path.Match
	// has them, such as claude-*.
	Patterns []string `json:"patterns"`
	// Models are what a client is shown.
	Models []Entry `json:"models"`
}

// Entry is one model that a client is shown.
type Entry struct {
	// Value is a model id or an alias.
	Value string `json:"value"`
	// Name is for people, Description one line for them.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Efforts are the words for effort that the model takes, from low to high.
	Efforts []string `json:"efforts"`
}

// defaults fit the rows of profile stream-json. Models come and go: what the
// providers offered when this was written, and a profile can say more.
func defaults() Config {
	every := func() []string { return []string{"low", "medium", "high", "xhigh", "max"} }
	return Config{
		Anthropic: Format{
			Provider: "anthropic", APIKeyEnv: "ANTHROPIC_API_KEY", AuthTokenEnv: "ANTHROPIC_AUTH_TOKEN",
			Default: "opus",
			Aliases: map[string]string{
				"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5", "fable": "claude-fable-5-2",
			},
			Patterns: []string{"claude-*"},
			Models: []Entry{
				{Value: "opus", Name: "Opus", Description: "Claude Opus 5.5, for long and difficult work", Efforts: every()},
				{Value: "sonnet", Name: "Sonnet", Description: "Claude Sonnet 5.5, for everyday work", Efforts: every()},
				{Value: "haiku", Name: "Haiku", Description: "Claude Haiku 5.5, for quick and cheap answers", Efforts: every()},
				{Value: "fable", Name: "Fable", Description: "Claude Fable 5.2, the most capable and the most expensive", Efforts: every()},
			},
		},
		DeepSeek: Format{
			Provider: "deepseek-official", APIKeyEnv: "DEEPSEEK_API_KEY",
			Default:  "deepseek-flash",
			Patterns: []string{"deepseek-*"},
			Models: []Entry{
				{Value: "deepseek-flash", Name: "DeepSeek Flash", Description: "Fast and cheap", Efforts: every()},
				{Value: "deepseek-v4-pro", Name: "DeepSeek V4 Pro", Description: "For difficult work", Efforts: every()},
			},
		},
		OpenAI: Format{
			Provider: "openai", APIKeyEnv: "OPENAI_API_KEY",
			Default:  "gpt-6.1-sol",
			Patterns: []string{"gpt-*", "o[0-9]*", "chatgpt-*"},
			Models: []Entry{
				{Value: "gpt-6.1-sol", Name: "GPT-6.1 Sol", Description: "OpenAI's model for everyday work", Efforts: []string{"low", "medium", "high", "xhigh"}},
			},
		},
		Mock: Format{
			Provider: "scripted",
			Default:  "mock-model",
			Patterns: []string{"mock-*"},
			Models: []Entry{
				{Value: "mock-model", Name: "Mock", Description: "A script that answers at once, without a network or a key"},
			},
		},
	}
}

// named is a format with its name.
type named struct {
	name string
	Format
}

// formats lists the table in the order in which it is searched.
func (c *Config) formats() []named {
	return []named{
		{llm.FormatAnthropic, c.Anthropic}, {llm.FormatDeepSeek, c.DeepSeek},
		{llm.FormatOpenAI, c.OpenAI}, {llm.FormatMock, c.Mock},
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range c.formats() {
		bad := func(key, format string, args ...any) {
			errs = append(errs, kernel.Invalid(f.name+"/"+key, format, args...))
		}
		if f.Provider == "" {
			bad("provider", "must name the provider id that a row answers for")
		}
		if f.Default == "" || f.Default == DefaultModel {
			bad("default", "must name a model")
		}
		for _, alias := range slices.Sorted(maps.Keys(f.Aliases)) {
			if to := f.Aliases[alias]; to == "" || f.Aliases[to] != "" {
				bad("aliases", "alias %s must name a model, not %q", alias, to)
			}
		}
		for _, p := range f.Patterns {
			if _, err := path.Match(p, ""); err != nil {
				bad("patterns", "%q is not a pattern such as claude-*", p)
			}
		}
		for i, m := range f.Models {
			if strings.TrimSpace(m.Value) == "" {
				bad("models", "model %d has no value; give the id or the alias that a client says", i+1)
			}
		}
	}
	return errors.Join(errs...)
}
