package main

import (
	"strings"
	"testing"

	"dsh/sdkproto"
)

// A budget of a profile ends a turn over JSON-RPC with its code, and says in the log
// which one it was; no request is sent that may pass it, by whichever session; the
// next prompt is served as the budget allows (issue 7, S104).
func TestBudget(t *testing.T) {
	t.Parallel()
	const prices = `, models: {m: {contextWindow: 100000, maxTokens: 1000, price: {currency: USD, input: 1, cacheRead: 1, output: 1}}}`
	for name, sp := range speeches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, sp, settings{adapter: prices, rows: "budget: {config: {turn: {usd: 0.00001}, session: {tokens: 50000000}}}"})
			for range 2 {
				p.ask("s", "go")
				p.event("s", sdkproto.TypeBudgetExceeded, `{"scope":"turn","limit":"usd","max":0.00001,"spent":0}`)
				p.ended("s", `{"kind":"error","error":{"code":"BUDGET_EXCEEDED"}}`)
			}
			if n := p.attempts(); n != 0 {
				t.Errorf("%d requests", n)
			}
			p.end("s")
		})
		t.Run(name+", enough", func(t *testing.T) {
			t.Parallel()
			p := provide(t, sp, settings{adapter: prices, rows: "budget: {config: {turn: {usd: 0.5}}}"})
			p.server.Script(says("fine"))
			p.turn("s", "go")
			if n := p.attempts(); n != 1 || !strings.Contains(string(p.server.Received()[0].Body), `":1000`) {
				t.Errorf("%d requests", n)
			}
			p.end("s")
		})
	}
}
