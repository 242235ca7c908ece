package llmopenai

import (
	"cmp"
	"os"
	"time"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/plugins/internal/chatwire"
)

// OpenAI is an llm.Adapter.
type OpenAI struct {
	chatwire.Adapter

	owner  *kernel.Owner
	router *llm.Router
}

var _ llm.Adapter = (*OpenAI)(nil)

// New makes the adapter; register puts it behind its provider id. A key that is
// missing fails the requests that need it and nothing else.
func New(p Params) (*OpenAI, error) {
	dialect, err := p.Config.dialect()
	if err != nil {
		return nil, err
	}
	credentials := p.Credentials
	if credentials == nil {
		credentials = credential.Environment(os.LookupEnv)
	}
	known := presets()[p.Config.Preset]
	client, err := chatwire.NewClient(p.Self.Owner, chatwire.Options{
		Dialect: dialect, BaseURL: cmp.Or(p.Config.BaseURL, known.baseURL),
		KeyName: cmp.Or(p.Config.APIKeyEnv, known.apiKeyEnv), Credentials: credentials,
		Headers: p.Config.Headers, UserAgent: chatwire.UserAgent,
		Idle: time.Duration(p.Config.Idle), Connect: time.Duration(p.Config.Connect),
	})
	if err != nil {
		return nil, err
	}
	return &OpenAI{
		Adapter: chatwire.Adapter{Catalog: p.Config.catalog(), Client: client},
		owner:   p.Self.Owner, router: p.Router,
	}, nil
}

func (a *OpenAI) register() error { return a.router.Register(a.owner, a.Catalog.Provider, a) }
