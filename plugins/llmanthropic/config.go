package llmanthropic

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/plugins/internal/chatwire"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Provider is the id the adapter answers for.
	Provider string `json:"provider"`
	// BaseURL is what /v1/messages is put behind; "" is ANTHROPIC_BASE_URL of the
	// environment, or else Anthropic's own.
	BaseURL string `json:"baseUrl"`
	// APIKeyEnv names the credential that is sent as x-api-key, AuthTokenEnv one
	// that is sent as a bearer token and goes before it where it is set. A profile
	// should spell them out: children of the process do not inherit the variables
	// that profiles name.
	APIKeyEnv    string `json:"apiKeyEnv"`
	AuthTokenEnv string `json:"authTokenEnv"`
	// Version is the header anthropic-version; Betas go into anthropic-beta.
	Version string   `json:"version"`
	Betas   []string `json:"betas"`
	// PromptCaching marks the system prompt, the tools and the last two messages of
	// the user for the provider's cache.
	PromptCaching bool `json:"promptCaching"`
	// MaxTokens caps the output of a request whose route names no cap and whose
	// model has none of its own, in tokens.
	MaxTokens int64 `json:"maxTokens"`
	// Effort is the reasoning effort of a route that names none, one of Efforts; ""
	// leaves it to the model.
	Effort  string   `json:"effort"`
	Efforts []string `json:"efforts"`
	// Budgets are the tokens that a model with form budget may think, by effort; an
	// effort without one does not think. No budget is more than half the output.
	Budgets map[string]int64 `json:"budgets"`
	// ThinkingDisplay is what adaptive thinking shows: summarized, omitted, or "" for
	// the endpoint's own choice.
	ThinkingDisplay string `json:"thinkingDisplay"`
	// ContextWindow is that of models which are not listed, in tokens; Images says
	// that they take images, and Thinking how they are asked to think.
	ContextWindow int64             `json:"contextWindow"`
	Images        bool              `json:"images"`
	Thinking      chatwire.Thinking `json:"thinking"`
	// Models by id; a date behind an id, as in claude-haiku-4-5-20251001, is the same
	// model. Others are passed through. A model without a price has none that is
	// known.
	Models map[string]chatwire.Model `json:"models"`
	// ModelThinking says how listed models think, by id.
	ModelThinking map[string]chatwire.Thinking `json:"modelThinking"`
	// Aliases give models other names.
	Aliases map[string]string `json:"aliases"`
	// Headers are sent on top of those of the protocol.
	Headers map[string]string `json:"headers"`
	// Idle is how long the API may be silent, Connect how long a connection may
	// take: text such as "300s".
	Idle    kernel.Duration `json:"idle"`
	Connect kernel.Duration `json:"connect"`
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	errs := []error{
		chatwire.CheckConfig(c.BaseURL, c.Headers, c.Idle, c.Connect), c.catalog().Validate(),
		kernel.AtLeast("maxTokens", c.MaxTokens, 1),
	}
	if c.Provider == "" {
		errs = append(errs, kernel.Invalid("provider", "must name the provider id to answer for"))
	}
	if c.Version == "" {
		errs = append(errs, kernel.Invalid("version", "must name a version of the API, such as %s", version))
	}
	if err := chatwire.CheckHeaders(map[string]string{"anthropic-version": c.Version, "anthropic-beta": strings.Join(c.Betas, ",")}); err != nil {
		errs = append(errs, kernel.Invalid("betas", "%v", err))
	}
	for _, effort := range slices.Sorted(maps.Keys(c.Budgets)) {
		if c.Budgets[effort] < 0 {
			errs = append(errs, kernel.Invalid("budgets", "the budget of effort %s cannot be negative", effort))
		}
	}
	if err := c.Thinking.Validate(); err != nil {
		errs = append(errs, kernel.Invalid("thinking", "%v", err))
	}
	for _, id := range slices.Sorted(maps.Keys(c.ModelThinking)) {
		t := c.ModelThinking[id]
		if err := t.Validate(); err != nil {
			errs = append(errs, kernel.Invalid("modelThinking", "model %s: %v", id, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) catalog() *chatwire.Catalog {
	return &chatwire.Catalog{
		Provider: c.Provider, Models: c.Models, Aliases: c.Aliases, Base: undated, Window: c.ContextWindow, Images: c.Images,
		MaxTokens: c.MaxTokens, Effort: c.Effort, Efforts: c.Efforts,
	}
}

// thinking says how a model is asked to think.
func (c *Config) thinking(model string) chatwire.Thinking {
	for _, id := range []string{model, undated(model)} {
		if t, ok := c.ModelThinking[id]; ok {
			return t
		}
	}
	return c.Thinking
}

// undated gives an id without the date of its release, which is eight digits.
func undated(id string) string {
	at := strings.LastIndexByte(id, '-')
	if at < 0 || len(id)-at != len("-20251001") || strings.Trim(id[at+1:], "0123456789") != "" {
		return id
	}
	return id[:at]
}
