package project_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// TestAccount is case B86 and case B87: the price is that of the model that
// answered, each answer counts once however many blocks it has, those of
// subagents and of compactions are in the cost and not in the usage, what has no
// price in US dollars costs nothing, and the cost goes on over the turns
// (checklist 49).
func TestAccount(t *testing.T) {
	prices := map[string]llm.Info{
		"a":     {ContextWindow: 200_000, MaxOutput: 32_000, Price: &llm.Price{Currency: "USD", Input: 1, Output: 2, CacheRead: 0.1, CacheWrite: 1.25}},
		"small": {Price: &llm.Price{Currency: "USD", Input: 0.5, Output: 1}},
		"yuan":  {Price: &llm.Price{Currency: "CNY", Input: 10, Output: 10}},
	}
	o := options()
	o.Legacy = true
	asked := map[string]int{}
	o.Info = func(_, model string) llm.Info { asked[model]++; return prices[model] }
	p := project.New(o)
	p.Begin(theTurn)
	p.Child(agent.Spec{ID: childID, ParentCall: "c1"})
	s := newScript().begin("a")
	u := &sdkproto.Usage{InputTokens: 1000, OutputTokens: 500, CacheReadTokens: 2000, CacheWriteTokens: 400}
	s.say(root, "a", u, thought("t", ""), sdkproto.Text("x"), toolCall("c1", "Agent", "{}"), toolCall("c2", "Read", "{}"))
	s.add(root, sdkproto.TypeCompactionSummary, &sdkproto.CompactionSummary{Provider: "p", Model: "a", Usage: &sdkproto.Usage{InputTokens: 100, OutputTokens: 50}})
	subagent(s)
	s.say(root, "unlisted", &sdkproto.Usage{InputTokens: 7}, sdkproto.Text("y"))
	s.say(root, "yuan", &sdkproto.Usage{InputTokens: 8}, sdkproto.Text("z"))
	s.end(kind(sdkproto.EndCompleted))
	got := show(t, p, s.entries)

	// 1000*1 + 500*2 + 2000*0.1 + 400*1.25 = 2700; 100*1 + 50*2 = 200; the subagent
	// had 210 in, 30 out: 210*0.5 + 30*1 = 135. All per million.
	const first, child = 2900e-6, 135e-6
	near := func(what string, got any, want float64) {
		t.Helper()
		if f, ok := got.(float64); !ok || math.Abs(f-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	r := got[len(got)-1]
	near("total_cost_usd", r["total_cost_usd"], first+child)
	near("cost of a", r.at("modelUsage", "a", "costUSD"), first)
	near("cost of small", r.at("modelUsage", "small", "costUSD"), child)
	near("cost of unlisted", r.at("modelUsage", "unlisted", "costUSD"), 0)
	near("cost of yuan", r.at("modelUsage", "yuan", "costUSD"), 0)
	near("legacy cost", of(got, "usage")[0]["cost_usd"], first+child)
	usage := r["usage"].(map[string]any)
	if diff := cmp.Diff(map[string]any{
		"input_tokens": 1015.0, "output_tokens": 500.0, "cache_read_input_tokens": 2000.0, "cache_creation_input_tokens": 400.0,
		"server_tool_use": map[string]any{"web_search_requests": 0.0}, "service_tier": "standard",
	}, usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	a := r.at("modelUsage", "a").(map[string]any)
	delete(a, "costUSD")
	if diff := cmp.Diff(map[string]any{
		"inputTokens": 1100.0, "outputTokens": 550.0, "cacheReadInputTokens": 2000.0, "cacheCreationInputTokens": 400.0,
		"webSearchRequests": 0.0, "contextWindow": 200000.0, "maxOutputTokens": 32000.0,
	}, a); diff != "" {
		t.Errorf("modelUsage of a (-want +got):\n%s", diff)
	}
	if r["num_turns"] != 3.0 {
		t.Errorf("num_turns %v", r["num_turns"])
	}

	p.Begin(theTurn)
	s.entries = nil
	got = show(t, p, s.post(message).open("a").say(root, "a", &sdkproto.Usage{InputTokens: 1000}, sdkproto.Text("x")).end(kind(sdkproto.EndCompleted)).entries)
	r = got[len(got)-1]
	near("total_cost_usd of the second turn", r["total_cost_usd"], first+child+1000e-6)
	near("its legacy cost", of(got, "usage")[0]["cost_usd"], 1000e-6)
	if r.at("usage", "input_tokens") != 1000.0 || r["num_turns"] != 1.0 {
		t.Errorf("the second turn: %v", r)
	}
	for model, n := range asked {
		if n != 1 {
			t.Errorf("asked %d times about %s", n, model)
		}
	}
}

// TestLongPrompts adds up what each request cost: a price that depends on the
// length of a prompt is that of one request, never of their sum (case B87).
func TestLongPrompts(t *testing.T) {
	o := options()
	o.Info = func(string, string) llm.Info {
		return llm.Info{Price: &llm.Price{Currency: "USD", Input: 1, Output: 1, Long: &llm.LongPrice{Above: 1000, Input: 100, Output: 100}}}
	}
	p := project.New(o)
	p.Begin(theTurn)
	s := newScript().begin("a")
	for range 3 {
		s.say(root, "a", &sdkproto.Usage{InputTokens: 600}, sdkproto.Text("x"))
	}
	part := sdkproto.Usage{InputTokens: 700, OutputTokens: 10}
	s.add(root, sdkproto.TypeCompactionSummary, &sdkproto.CompactionSummary{
		Provider: "p", Model: "a", Usage: &sdkproto.Usage{InputTokens: 1400, OutputTokens: 20}, Requests: []sdkproto.Usage{part, part},
	})
	s.end(kind(sdkproto.EndCompleted))
	got := show(t, p, s.entries)
	r := got[len(got)-1]
	const want = 3*600e-6 + 2*710e-6
	if cost, _ := r["total_cost_usd"].(float64); math.Abs(cost-want) > 1e-12 {
		t.Errorf("total_cost_usd %v, want %v", cost, want)
	}
	if n := r.at("modelUsage", "a", "inputTokens"); n != 3200.0 {
		t.Errorf("inputTokens %v", n)
	}
}
