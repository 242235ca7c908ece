package llmanthropic

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/plugins/internal/chatwire"
)

const (
	baseURLVariable = "ANTHROPIC_BASE_URL"
	ownBaseURL      = "https://api.anthropic.com"
)

// Anthropic is an llm.Adapter.
type Anthropic struct {
	chatwire.Adapter

	owner    *kernel.Owner
	router   *llm.Router
	provider string
}

var (
	_ llm.Adapter      = (*Anthropic)(nil)
	_ llm.TokenCounter = (*Anthropic)(nil)
)

// New makes the adapter; register puts it behind its provider id. A key that is
// missing fails the requests that need it and nothing else (spec stream-json
// 12.3).
func New(p Params) (*Anthropic, error) {
	c := p.Config
	base := c.BaseURL
	if base == "" {
		base = cmp.Or(strings.TrimSpace(os.Getenv(baseURLVariable)), ownBaseURL)
		if _, err := chatwire.CheckURL(base); err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", baseURLVariable, err)
		}
	}
	credentials := p.Credentials
	if credentials == nil {
		credentials = credential.Environment(os.LookupEnv)
	}
	client, err := chatwire.NewClient(p.Self.Owner, chatwire.Options{
		Messages: &chatwire.Messages{
			Version: c.Version, Betas: c.Betas, Caching: c.PromptCaching, Budgets: c.Budgets, Display: c.ThinkingDisplay, Thinking: c.thinking,
		},
		BaseURL: base, KeyName: c.APIKeyEnv, TokenName: c.AuthTokenEnv, Credentials: credentials,
		Headers: c.Headers, UserAgent: chatwire.UserAgent,
		Idle: time.Duration(c.Idle), Connect: time.Duration(c.Connect),
	})
	if err != nil {
		return nil, err
	}
	return &Anthropic{
		Adapter: chatwire.Adapter{Catalog: c.catalog(), Client: client},
		owner:   p.Self.Owner, router: p.Router, provider: c.Provider,
	}, nil
}

func (a *Anthropic) register() error { return a.router.Register(a.owner, a.provider, a) }

// CountTokens implements llm.TokenCounter.
func (a *Anthropic) CountTokens(ctx context.Context, req llm.Request) (int64, error) {
	return a.Client.CountTokens(ctx, a.Shown(req))
}
