package llm_test

import (
	"math"
	"testing"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// TestCost: the members of a usage are disjoint and each has its price; a long
// prompt has another price, which counts what came from and went to the cache
// (cases B86, B87).
func TestCost(t *testing.T) {
	flat := &llm.Price{Input: 4, CacheRead: 0.2, CacheWrite: 5, Output: 20}
	tiered := &llm.Price{Input: 0.1, CacheRead: 0.01, CacheWrite: 0.125, Output: 0.5, Long: &llm.LongPrice{Above: 100_000, Input: 0.5, CacheRead: 0.05, CacheWrite: 0.625, Output: 2.5}}
	for _, tc := range []struct {
		name  string
		price *llm.Price
		usage *sdkproto.Usage
		want  float64
	}{
		{"unknown", nil, &sdkproto.Usage{InputTokens: 5}, 0},
		{"no usage", flat, nil, 0},
		{"every kind", flat, &sdkproto.Usage{InputTokens: 1000, CacheReadTokens: 10_000, CacheWriteTokens: 2000, OutputTokens: 300, ReasoningTokens: 200}, 0.004 + 0.002 + 0.01 + 0.006},
		{"free", &llm.Price{}, &sdkproto.Usage{InputTokens: 1000, OutputTokens: 300}, 0},
		{"as long as the short price goes", tiered, &sdkproto.Usage{InputTokens: 40_000, CacheReadTokens: 50_000, CacheWriteTokens: 10_000, OutputTokens: 1000}, 0.004 + 0.0005 + 0.00125 + 0.0005},
		{"long", tiered, &sdkproto.Usage{InputTokens: 40_001, CacheReadTokens: 50_000, CacheWriteTokens: 10_000, OutputTokens: 1000}, 0.0200005 + 0.0025 + 0.00625 + 0.0025},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.price.Cost(tc.usage); math.Abs(got-tc.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
