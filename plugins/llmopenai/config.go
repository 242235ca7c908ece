package llmopenai

import (
	"cmp"
	"errors"
	"regexp"
	"strings"

	"dsh/kernel"
	"dsh/plugins/internal/chatwire"
)

// Config says what a deployment may choose; an empty one is valid and speaks to
// OpenAI itself.
type Config struct {
	// Provider is the id the adapter answers for; it may be any that no other row
	// claims.
	Provider string `json:"provider"`
	// Preset is the kind of endpoint.
	Preset string `json:"preset"`
	// BaseURL is what /chat/completions is put behind; "" is the preset's.
	BaseURL string `json:"baseUrl"`
	// APIKeyEnv names the credential with the key; "" is the preset's, which for
	// all but openai is none. A profile should spell it out: children of the
	// process do not inherit the variables that profiles name.
	APIKeyEnv string `json:"apiKeyEnv"`
	// MaxTokens caps the output of a request whose route names no cap, in tokens; 0
	// leaves it to the endpoint.
	MaxTokens int64 `json:"maxTokens"`
	// Effort is the reasoning effort of a route that names none; "" sends none.
	// Efforts are those the endpoint knows; an empty list takes every word.
	Effort  string   `json:"effort"`
	Efforts []string `json:"efforts"`
	// ContextWindow is that of models which are not listed, in tokens; 0 is
	// unknown.
	ContextWindow int64 `json:"contextWindow"`
	// Images says that models which are not listed take images.
	Images bool `json:"images"`
	// Models by id; others are passed through. A model without a price has none
	// that is known.
	Models map[string]chatwire.Model `json:"models"`
	// Aliases give models other names.
	Aliases map[string]string `json:"aliases"`
	// Headers are sent on top of those of the protocol.
	Headers map[string]string `json:"headers"`
	// Idle is how long the endpoint may be silent, Connect how long a connection
	// may take: text such as "300s".
	Idle    kernel.Duration `json:"idle"`
	Connect kernel.Duration `json:"connect"`
	// Quirks go over the preset's.
	Quirks Quirks `json:"quirks"`
}

// Quirks are what an endpoint does differently; what is left out is as in the
// preset. See chatwire.Dialect.
type Quirks struct {
	// MaxTokensField is max_tokens, max_completion_tokens or "" for no cap.
	MaxTokensField *string `json:"maxTokensField"`
	// ReasoningField is reasoning_content, reasoning or "" to send none back.
	ReasoningField *string `json:"reasoningField"`
	// RequireReasoning sends it, empty, also with calls that came without.
	RequireReasoning *bool `json:"requireReasoning"`
	// SystemRole is system or developer.
	SystemRole *string `json:"systemRole"`
	// StreamOptions asks for the account of tokens by stream_options.
	StreamOptions *bool `json:"streamOptions"`
	// EffortForm is none, reasoning_effort, reasoning or thinking.
	EffortForm *string `json:"effortForm"`
	// EmptyContent is what stands beside tool calls without text: empty, null or
	// omit.
	EmptyContent *string `json:"emptyContent"`
	// CallIDPattern is a regular expression for ids of calls that are taken, ""
	// for all; others are replaced by CallIDLength letters and digits.
	CallIDPattern *string `json:"callIdPattern"`
	CallIDLength  *int    `json:"callIdLength"`
	// KeyHeader carries the key as it is; "" is authorization with "Bearer ".
	KeyHeader *string `json:"keyHeader"`
}

func defaults() Config {
	return Config{Provider: "openai", Preset: "openai", Idle: chatwire.DefaultIdle, Connect: chatwire.DefaultConnect}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	known, ok := presets()[c.Preset]
	if !ok {
		return kernel.Invalid("preset", "%q is not one of %s", c.Preset, strings.Join(presetNames(), ", "))
	}
	var errs []error
	if c.Provider == "" {
		errs = append(errs, kernel.Invalid("provider", "must name the provider id to answer for"))
	}
	base := cmp.Or(c.BaseURL, known.baseURL)
	if base == "" {
		errs = append(errs, kernel.Invalid("baseUrl", "preset %s knows no address; give the one that /chat/completions is put behind", c.Preset))
	}
	if _, err := c.dialect(); err != nil {
		errs = append(errs, kernel.Invalid("quirks", "%v", err))
	}
	return errors.Join(append(errs, chatwire.CheckConfig(base, c.Headers, c.Idle, c.Connect), c.catalog().Validate())...)
}

func (c *Config) catalog() *chatwire.Catalog {
	return &chatwire.Catalog{
		Provider: c.Provider, Models: c.Models, Aliases: c.Aliases, Window: c.ContextWindow, Images: c.Images,
		MaxTokens: c.MaxTokens, Effort: c.Effort, Efforts: c.Efforts,
	}
}

// dialect is the preset's with the quirks over it.
func (c *Config) dialect() (chatwire.Dialect, error) {
	d, q := presets()[c.Preset].dialect, c.Quirks
	over(&d.MaxTokens, q.MaxTokensField)
	over(&d.Reasoning, q.ReasoningField)
	over(&d.RequireReasoning, q.RequireReasoning)
	over(&d.SystemRole, q.SystemRole)
	over(&d.StreamUsage, q.StreamOptions)
	over(&d.Effort, q.EffortForm)
	over(&d.EmptyContent, q.EmptyContent)
	over(&d.CallIDLength, q.CallIDLength)
	over(&d.KeyHeader, q.KeyHeader)
	if q.CallIDPattern != nil {
		d.CallIDs = nil
		if *q.CallIDPattern != "" {
			pattern, err := regexp.Compile(*q.CallIDPattern)
			if err != nil {
				return d, err
			}
			d.CallIDs, d.CallIDForm = pattern.MatchString, *q.CallIDPattern
		}
	}
	if d.KeyHeader != "" {
		if err := chatwire.CheckHeaders(map[string]string{d.KeyHeader: ""}); err != nil {
			return d, err
		}
	}
	return d, d.Validate()
}

func over[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
