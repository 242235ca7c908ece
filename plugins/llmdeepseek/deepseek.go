package llmdeepseek

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/plugins/internal/chatwire"
)

// Provider is the id the adapter answers for.
const Provider = "deepseek-official"

const (
	baseURLVariable = "DEEPSEEK_BASE_URL"
	ownBaseURL      = "https://api.deepseek.com"
)

// dialect is spec jsonrpc 10.2 and 10.3 with decision R16. Reasoning goes back
// also with thinking switched off, which keeps what was said before the same.
func dialect() chatwire.Dialect {
	return chatwire.Dialect{
		MaxTokens: "max_tokens", Reasoning: "reasoning_content", RequireReasoning: true, SystemRole: "system",
		StreamUsage: true, Effort: chatwire.EffortThinking, EmptyContent: chatwire.ContentEmpty,
	}
}

// DeepSeek is an llm.Adapter.
type DeepSeek struct {
	chatwire.Adapter

	owner  *kernel.Owner
	router *llm.Router
}

var _ llm.Adapter = (*DeepSeek)(nil)

// New makes the adapter; register puts it behind its provider id. A key that is
// missing fails the requests that need it and nothing else (spec jsonrpc 3.3).
func New(p Params) (*DeepSeek, error) {
	base := p.Config.BaseURL
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
		Dialect: dialect(), BaseURL: base, KeyName: p.Config.APIKeyEnv, Credentials: credentials,
		Headers: p.Config.Headers, UserAgent: chatwire.UserAgent,
		Idle: time.Duration(p.Config.Idle), Connect: time.Duration(p.Config.Connect),
	})
	if err != nil {
		return nil, err
	}
	return &DeepSeek{
		Adapter: chatwire.Adapter{Catalog: p.Config.catalog(), Client: client},
		owner:   p.Self.Owner, router: p.Router,
	}, nil
}

func (d *DeepSeek) register() error { return d.router.Register(d.owner, Provider, d) }
