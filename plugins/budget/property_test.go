package budget_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/plugins/budget"
	"dsh/sdkproto"
)

func newBudget(c budget.Config) *budget.Budget {
	if c.LeastOutput == 0 {
		c.LeastOutput = 1
	}
	if c.Unpriced == "" {
		c.Unpriced = budget.UnpricedRefuse
	}
	return budget.New(budget.Options{Config: c, Log: slog.New(slog.DiscardHandler)})
}

// request is one of a text, with a limit of its answer.
func request(text string, most int64) *llm.Request {
	return &llm.Request{
		SessionID: "s", Header: sdkproto.Header{Config: sdkproto.RequestConfig{Provider: "p", Model: "m", MaxTokens: most}},
		Messages: []sdkproto.Message{{Role: sdkproto.RoleUser, Content: []sdkproto.Block{sdkproto.Text(text)}}},
	}
}

var (
	flat = &llm.Price{Currency: "USD", Input: 3, CacheRead: 0.3, CacheWrite: 12, Output: 15}
	long = &llm.Price{Currency: "USD", Input: 0.1, CacheRead: 0.01, CacheWrite: 0.125, Output: 0.5,
		Long: &llm.LongPrice{Above: 5000, Input: 50, CacheRead: 5, CacheWrite: 62.5, Output: 250}}
)

// flight is a request that is under way.
type flight struct {
	held       llm.Reservation
	price      *llm.Price
	text, most int64
}

// worst is the dearest usage that the request can come to, with a token for each byte
// of its text.
func (f *flight) worst() *sdkproto.Usage {
	return &sdkproto.Usage{CacheWriteTokens: f.text, OutputTokens: f.most}
}

// TestNeverBeyond: whatever requests there are, side by side, and whatever they use
// up to their worst case: what is spent and what may still be spent is never more
// than the cap; what clearly fits is not refused (issue 7; spec stream-json 11.3).
func TestNeverBeyond(t *testing.T) {
	const usd, tokens = 0.2, 60_000
	rapid.Check(t, func(rt *rapid.T) {
		b := newBudget(budget.Config{Process: budget.Limits{USD: usd, Tokens: tokens}})
		var flights []*flight
		var spent, counts float64 // counts has what is not known as the budget counts it
		var used, tokensCount int64
		total := func(u *sdkproto.Usage) int64 {
			return u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens + u.OutputTokens
		}
		check := func() {
			may, all := spent, used
			for _, f := range flights {
				may += f.price.Cost(f.worst())
				all += total(f.worst())
			}
			if may > usd*(1+1e-9) || all > tokens {
				rt.Fatalf("$%v and %d tokens may be used, the caps are $%v and %d", may, all, usd, tokens)
			}
		}
		// Whoever would have to wait gives up.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": func(rt *rapid.T) {
				f := &flight{price: rapid.SampledFrom([]*llm.Price{flat, long}).Draw(rt, "price"), text: rapid.Int64Range(0, 6000).Draw(rt, "bytes")}
				asked := rapid.Int64Range(1, 12_000).Draw(rt, "asked")
				r := request(strings.Repeat("x", int(f.text)), asked)
				held, err := b.Reserve(ctx, r, llm.Info{Price: f.price})
				var refused *llm.Error
				switch {
				case errors.As(err, &refused) && refused.Code == llm.CodeBudget:
					easily := &sdkproto.Usage{CacheWriteTokens: f.text + 3000, OutputTokens: 1}
					if len(flights) == 0 && counts+f.price.Cost(easily) < usd && tokensCount+total(easily) < tokens {
						rt.Fatalf("refused, with $%v and %d tokens used: %v", counts, tokensCount, err)
					}
				case errors.Is(err, context.Canceled):
					if len(flights) == 0 {
						rt.Fatal("waits for nobody")
					}
				case err != nil:
					rt.Fatal(err)
				default:
					f.held, f.most = held, r.Header.Config.MaxTokens
					if f.most < 1 || f.most > asked {
						rt.Fatalf("asked for %d tokens, given %d", asked, f.most)
					}
					flights = append(flights, f)
				}
			},
			"settle": func(rt *rapid.T) {
				if len(flights) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(flights)-1).Draw(rt, "which")
				f := flights[i]
				flights = append(flights[:i:i], flights[i+1:]...)
				kind := rapid.SampledFrom([]string{"told", "unknown", "refused"}).Draw(rt, "kind")
				u := f.worst() // what is not known may be as bad
				if kind == "told" {
					u = &sdkproto.Usage{
						InputTokens: rapid.Int64Range(0, f.text/2).Draw(rt, "input"), CacheReadTokens: rapid.Int64Range(0, f.text/4).Draw(rt, "read"),
						CacheWriteTokens: rapid.Int64Range(0, f.text/4).Draw(rt, "write"), OutputTokens: rapid.Int64Range(0, f.most).Draw(rt, "output"),
					}
				}
				if kind != "refused" {
					spent += f.price.Cost(u)
					used += total(u)
					most := *u
					if kind != "told" {
						most.CacheWriteTokens += 3000
					}
					counts += f.price.Cost(&most)
					tokensCount += total(&most)
				}
				if kind != "told" {
					u = nil
				}
				f.held.Settle(u, kind != "refused")
			},
			"": func(*rapid.T) { check() },
		})
	})
}

// TestWaits: what fits but for requests under way is sent when they have ended (issue
// 7: those of subagents share a budget).
func TestWaits(t *testing.T) {
	b := newBudget(budget.Config{Process: budget.Limits{USD: 0.1}})
	info := llm.Info{Price: flat}
	first, err := b.Reserve(t.Context(), request("a", 100_000), info)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := b.Reserve(t.Context(), request("b", 1000), info)
		second <- err // its context ends with the test
	}()
	select {
	case err := <-second:
		t.Fatalf("the second does not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	first.Settle(&sdkproto.Usage{InputTokens: 1000, OutputTokens: 1000}, true)
	select {
	case err := <-second:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the second waits for ever")
	}
	_, err = b.Reserve(t.Context(), request(strings.Repeat("x", 30_000), 1000), info)
	var refused *llm.Error
	if !errors.As(err, &refused) || refused.Code != llm.CodeBudget || !strings.Contains(refused.Message, "process.usd") || !strings.Contains(refused.Message, "$0.018") {
		t.Errorf("beyond the budget: %v", err)
	}
}

// TestLearns: the beginning of a history that the provider has counted counts as it
// said, and no longer by its bytes; another beginning does not.
func TestLearns(t *testing.T) {
	rig := boot(t, "rules: [{reply: fine}]", budget.Config{Process: budget.Limits{Tokens: 100_000}})
	b, a := rig.budget, rig.open("s", agent.OpenNew)
	info := llm.Info{Price: flat}
	r := request(strings.Repeat("x", 60_000), 1000)
	r.SessionID = a.ID()
	held, err := b.Reserve(t.Context(), r, info)
	if err != nil {
		t.Fatal(err)
	}
	held.Settle(&sdkproto.Usage{InputTokens: 15_000, OutputTokens: 10}, true)
	// One beside the conversation is no reason to forget it.
	beside := request("aside", 1000)
	beside.SessionID, beside.Header.System = a.ID(), "another"
	if held, err = b.Reserve(t.Context(), beside, info); err != nil {
		t.Fatal(err)
	}
	held.Settle(&sdkproto.Usage{InputTokens: 90, OutputTokens: 10}, true)
	grown := *r
	grown.Messages = append(grown.Messages, sdkproto.Message{Role: sdkproto.RoleUser, Content: []sdkproto.Block{sdkproto.Text("more")}})
	other := request(strings.Repeat("y", 60_000), 1000)
	other.SessionID = a.ID()
	// 84890 are left: for an input of 15000 and a few, or of 60000 and a few.
	for name, c := range map[string]struct {
		r         llm.Request
		low, high int64
	}{"grown": {grown, 69_000, 69_890}, "another": {*other, 20_000, 24_890}} {
		c.r.Header.Config.MaxTokens = 80_000
		held, err := b.Reserve(t.Context(), &c.r, info)
		if err != nil {
			t.Fatal(err)
		}
		held.Settle(nil, false)
		if got := c.r.Header.Config.MaxTokens; got < c.low || got > c.high {
			t.Errorf("%s: %d tokens are left for the answer, want %d to %d", name, got, c.low, c.high)
		}
	}
}

// TestUnpriced: where money is limited, a price that is not known in US dollars
// refuses the request and says what to do; where it is not, or where the config
// allows it, the request is sent (case B87).
func TestUnpriced(t *testing.T) {
	for _, c := range []struct {
		name   string
		config budget.Config
		price  *llm.Price
		refuse bool
	}{
		{"no price", budget.Config{Process: budget.Limits{USD: 1}}, nil, true},
		{"another currency", budget.Config{Process: budget.Limits{USD: 1}}, &llm.Price{Currency: "CNY"}, true},
		{"free", budget.Config{Process: budget.Limits{USD: 0.000001}}, &llm.Price{Currency: "USD"}, false},
		{"allowed", budget.Config{Process: budget.Limits{USD: 1}, Unpriced: budget.UnpricedAllow}, nil, false},
		{"money is not limited", budget.Config{Process: budget.Limits{Tokens: 100_000}}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			held, err := newBudget(c.config).Reserve(t.Context(), request("x", 100), llm.Info{Price: c.price})
			if !c.refuse {
				if err != nil {
					t.Fatal(err)
				}
				held.Settle(&sdkproto.Usage{InputTokens: 1}, true)
				return
			}
			var refused *llm.Error
			if !errors.As(err, &refused) || refused.Code != llm.CodeBudget || refused.Retryable() ||
				!strings.Contains(refused.Message, "budget.unpriced") || !strings.Contains(refused.Message, "m of provider") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestSmallAnswers: an answer that a budget leaves less for than is worth a request
// is none; one that asks for less than that is sent.
func TestSmallAnswers(t *testing.T) {
	b := newBudget(budget.Config{Process: budget.Limits{Tokens: 3000}, LeastOutput: 900})
	if _, err := b.Reserve(t.Context(), request("x", 5000), llm.Info{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config budget.Config
		asked  int64
		fits   bool
	}{
		"too little is left": {budget.Config{Process: budget.Limits{Tokens: 2500}, LeastOutput: 900}, 5000, false},
		"it asks for little": {budget.Config{Process: budget.Limits{Tokens: 2500}, LeastOutput: 900}, 200, true},
		"without a limit":    {budget.Config{Process: budget.Limits{Tokens: 3000}, LeastOutput: 900}, 0, true},
	} {
		r := request("x", c.asked)
		_, err := newBudget(c.config).Reserve(t.Context(), r, llm.Info{})
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
		if c.fits && (r.Header.Config.MaxTokens < 1 || r.Header.Config.MaxTokens > 1000) {
			t.Errorf("%s: the answer may have %d tokens", name, r.Header.Config.MaxTokens)
		}
	}
}
