package llmanthropic

import (
	"dsh/kernel/llm"
	"dsh/plugins/internal/chatwire"
)

const version = "2023-06-01"

// defaults hold what Anthropic publishes of its models (platform.claude.com,
// November 2026): windows, caps, forms of thinking and list prices in dollars for a
// million tokens, with the cache write of five minutes, which is the one that
// requests ask for.
func defaults() Config {
	const (
		window, output     = 1_000_000, 128_000
		window200, output4 = 200_000, 64_000
		// usual caps the output of a request: half of what the models can do is more
		// than answers need.
		usual = 64_000
	)
	price := func(input, cacheRead, cacheWrite, output float64) *llm.Price {
		return &llm.Price{Currency: "USD", Input: input, CacheRead: cacheRead, CacheWrite: cacheWrite, Output: output}
	}
	large := func(p *llm.Price) chatwire.Model {
		return chatwire.Model{ContextWindow: window, MaxTokens: usual, MaxOutput: output, Images: true, Price: p}
	}
	small := func(p *llm.Price) chatwire.Model {
		return chatwire.Model{ContextWindow: window200, MaxTokens: usual, MaxOutput: output4, Images: true, Price: p}
	}
	haiku := price(0.10, 0.01, 0.125, 0.50)
	haiku.Long = &llm.LongPrice{Above: 100_000, Input: 0.50, CacheRead: 0.05, CacheWrite: 0.625, Output: 2.50}
	sonnet46 := small(price(3, 0.30, 3.75, 15))
	sonnet46.ContextWindow = window

	adaptive := chatwire.Thinking{Form: chatwire.ThinkAdaptive, Off: chatwire.OffDisabled}
	always := chatwire.Thinking{Form: chatwire.ThinkAdaptive, Off: "low"}
	noXHigh := chatwire.Thinking{Form: chatwire.ThinkAdaptive, Off: chatwire.OffDisabled, Efforts: map[string]string{"xhigh": "high"}}
	budget := chatwire.Thinking{Form: chatwire.ThinkBudget}
	return Config{
		Provider: "anthropic", APIKeyEnv: "ANTHROPIC_API_KEY", AuthTokenEnv: "ANTHROPIC_AUTH_TOKEN", Version: version, PromptCaching: true,
		MaxTokens: 32_000,
		Efforts:   []string{chatwire.EffortOff, "low", "medium", "high", "xhigh", "max"},
		// The upper ends of the ranges of spec stream-json 4.7, as far as answers have
		// room behind them.
		Budgets:         map[string]int64{"low": 4096, "medium": 16_384, "high": 24_576, "xhigh": 28_672, "max": 32_000},
		ThinkingDisplay: "summarized",
		ContextWindow:   window200,
		Images:          true,
		Thinking:        adaptive,
		Models: map[string]chatwire.Model{
			"claude-fable-5-2":  large(price(8, 0.20, 10, 40)),
			"claude-opus-5-5":   large(price(4, 0.20, 5, 20)),
			"claude-sonnet-5-5": large(price(2, 0.10, 2.50, 10)),
			"claude-haiku-5-5":  large(haiku),
			"claude-opus-5":     large(price(5, 0.50, 6.25, 25)),
			"claude-sonnet-5":   large(price(2, 0.20, 2.50, 10)),
			"claude-opus-4-6":   large(price(5, 0.50, 6.25, 25)),
			"claude-sonnet-4-6": sonnet46,
			"claude-opus-4-5":   small(price(5, 0.50, 6.25, 25)),
			"claude-sonnet-4-5": small(price(3, 0.30, 3.75, 15)),
			"claude-haiku-4-5":  small(price(1, 0.10, 1.25, 5)),
		},
		ModelThinking: map[string]chatwire.Thinking{
			"claude-fable-5-2":  always,
			"claude-opus-5-5":   always,
			"claude-sonnet-5-5": {Form: chatwire.ThinkAdaptive, Off: chatwire.OffBetweenTools},
			"claude-haiku-5-5":  adaptive,
			"claude-opus-5":     adaptive,
			"claude-sonnet-5":   adaptive,
			"claude-opus-4-6":   noXHigh,
			"claude-sonnet-4-6": noXHigh,
			"claude-opus-4-5":   budget,
			"claude-sonnet-4-5": budget,
			"claude-haiku-4-5":  budget,
		},
		Idle:    chatwire.DefaultIdle,
		Connect: chatwire.DefaultConnect,
	}
}
