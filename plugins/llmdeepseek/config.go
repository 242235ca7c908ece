package llmdeepseek

import (
	"errors"

	"dsh/kernel"
	"dsh/plugins/internal/chatwire"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// BaseURL is what /chat/completions is put behind; "" is DEEPSEEK_BASE_URL of
	// the environment, or else DeepSeek's own (spec jsonrpc 10.1).
	BaseURL string `json:"baseUrl"`
	// APIKeyEnv names the credential with the key. A profile should spell it out:
	// children of the process do not inherit the variables that profiles name.
	APIKeyEnv string `json:"apiKeyEnv"`
	// MaxTokens caps the output of a request whose route names no cap, in tokens.
	MaxTokens int64 `json:"maxTokens"`
	// Effort is the reasoning effort of a route that names none, one of Efforts.
	Effort  string   `json:"effort"`
	Efforts []string `json:"efforts"`
	// ContextWindow is that of models which are not listed, in tokens.
	ContextWindow int64 `json:"contextWindow"`
	// Models by id; others are passed through. A model without a price has none
	// that is known: DeepSeek's depend on the time of day.
	Models map[string]chatwire.Model `json:"models"`
	// Aliases give models other names.
	Aliases map[string]string `json:"aliases"`
	// Headers are sent on top of those of the protocol.
	Headers map[string]string `json:"headers"`
	// Idle is how long the API may be silent, Connect how long a connection may
	// take: text such as "300s".
	Idle    kernel.Duration `json:"idle"`
	Connect kernel.Duration `json:"connect"`
}

// defaults are those of spec jsonrpc 10.1 and 10.2 and decision R18.
func defaults() Config {
	const window, output = 1_000_000, 384_000
	return Config{
		APIKeyEnv: "DEEPSEEK_API_KEY",
		MaxTokens: 256_000,
		Effort:    "high",
		Efforts:   []string{"low", "high", "max", chatwire.EffortOff},
		Models: map[string]chatwire.Model{
			"deepseek-flash":               {ContextWindow: window, MaxOutput: output},
			"deepseek-v4-flash":            {ContextWindow: window, MaxOutput: output},
			"deepseek-v4-pro":              {ContextWindow: window, MaxOutput: output},
			"deepseek-v4-flash-vision-exp": {ContextWindow: window, MaxOutput: output, Images: true},
		},
		ContextWindow: window,
		Idle:          chatwire.DefaultIdle,
		Connect:       chatwire.DefaultConnect,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(chatwire.CheckConfig(c.BaseURL, c.Headers, c.Idle, c.Connect), c.catalog().Validate())
}

func (c *Config) catalog() *chatwire.Catalog {
	return &chatwire.Catalog{
		Provider: Provider, Models: c.Models, Aliases: c.Aliases, Window: c.ContextWindow,
		MaxTokens: c.MaxTokens, Effort: c.Effort, Efforts: c.Efforts,
	}
}
