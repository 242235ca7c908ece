package chatwire_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/kernel/llm/llmtest"
	"dsh/plugins/internal/chatwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func deepseek() chatwire.Dialect {
	return chatwire.Dialect{
		MaxTokens: "max_tokens", Reasoning: "reasoning_content", RequireReasoning: true, SystemRole: "system",
		StreamUsage: true, Effort: chatwire.EffortThinking, EmptyContent: chatwire.ContentEmpty,
	}
}

// open makes an adapter that lives as long as the test.
func open(tb testing.TB, url string, d chatwire.Dialect, idle time.Duration) *chatwire.Adapter {
	tb.Helper()
	o := kernel.NewOwner(context.Background(), "test")
	tb.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	c, err := chatwire.NewClient(o, chatwire.Options{
		Dialect: d, BaseURL: url, KeyName: "TEST_KEY", UserAgent: "test/1", Idle: idle, Connect: 5 * time.Second,
		Credentials: credential.Environment(func(name string) (string, bool) { return llmtest.Key, name == "TEST_KEY" }),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &chatwire.Adapter{Client: c, Catalog: &chatwire.Catalog{
		Provider: llmtest.Provider, MaxTokens: 1000, Effort: "high", Efforts: []string{"low", "high", chatwire.EffortOff},
	}}
}

func TestAdapter(t *testing.T) {
	llmtest.TestAdapter(t, llmtest.DeepSeek(), func(tb testing.TB, url string) llm.Adapter {
		return open(tb, url, deepseek(), time.Minute)
	})
}
