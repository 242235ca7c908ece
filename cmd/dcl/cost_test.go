package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// prices are those of case B87 in dollars per million tokens, for the Messages
// dialect, whose usage has all four counts: a is complete, b has no prices of the
// cache, long has another price for prompts of more than 50 tokens, c is not listed.
const prices = `anthropic.models={` +
	`"a":{"contextWindow":200000,"price":{"currency":"USD","input":1,"output":2,"cacheRead":0.1,"cacheWrite":1.25}},` +
	`"b":{"contextWindow":100000,"price":{"currency":"USD","input":10,"output":20}},` +
	`"long":{"contextWindow":100000,"price":{"currency":"USD","input":1,"output":1,"long":{"above":50,"input":100,"output":100}}}}`

// What llmtest.MessageStart and Whole tell of an answer: 20 tokens in, 7 into the
// cache, 10 out of it, 5 out.
const (
	costA    = (20*1 + 5*2 + 10*0.1 + 7*1.25) / 1e6
	costB    = (20*10 + 5*20) / 1e6
	costLong = (20*1 + 5*1) / 1e6
)

func near(t *testing.T, what string, got any, want float64) {
	t.Helper()
	if f, ok := got.(float64); !ok || math.Abs(f-want) > 1e-12 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The cost adds up over the turns of a process and names each model; usage is the
// turn's; an answer counts once, however many blocks it has; a failed attempt does
// not; a model without a price costs nothing that is known, and no other's price; a
// price by length is that of one request; a resumed session begins where it was
// (checklist 49; S027; cases B86, B87; spec stream-json 3.7, 11.4; peers/claude 04).
func TestCost(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	d := p.dialect
	flags := func(model string, more ...string) []string {
		return append(append([]string{"--model", model, "--api-format", "anthropic", "--set", prices}, quickRetries...), more...)
	}
	p.server.Script(
		// Turn 1: three blocks with two calls, then text; in between an attempt that is cut.
		llmtest.Stream(d.Whole(llmtest.Thought("hm"), sdkproto.Text("both"), llmtest.Called("c1", "Bash", `{"command":"echo 1"}`), llmtest.Called("c2", "Bash", `{"command":"echo 2"}`))),
		llmtest.Reply{Parts: []llmtest.Part{{Text: d.Begun(sdkproto.Text("lost")), Cut: true}}},
		p.says("done"),
	)
	p.host = p.room.start(flags("a")...)
	usage := func(result object, requests float64) {
		t.Helper()
		u, _ := result["usage"].(object)
		for key, one := range map[string]float64{"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 7} {
			near(t, key, u[key], one*requests)
		}
	}
	result := p.prompt(1)
	near(t, "cost of turn 1", result["total_cost_usd"], 2*costA)
	usage(result, 2)
	// The lines of one answer repeat its usage under one id.
	perID := map[any]float64{}
	for _, l := range p.of("assistant") {
		perID[fmt.Sprint(dig(l, "message", "id"), block(l)["type"] == "text" && block(l)["text"] == "done")] = dig(l, "message", "usage", "output_tokens").(float64)
	}
	if len(perID) != 2 {
		t.Errorf("usage by id: %v", perID)
	}
	result = p.prompt(2)
	near(t, "cost of turn 2", result["total_cost_usd"], 3*costA)
	usage(result, 1)

	for n, model := range []string{"b", "c", "long", "a-20251001", "a"} {
		if got := p.control("m"+fmt.Sprint(n), "set_model", object{"model": model}); got["subtype"] != "success" {
			t.Fatalf("set_model: %v", got)
		}
		result = p.prompt(3 + n)
		usage(result, 1)
	}
	const total = 5*costA + costB + costLong // a date behind a name is the same model
	near(t, "total", result["total_cost_usd"], total)
	models, _ := result["modelUsage"].(object)
	sum := 0.0
	for name, want := range map[string]struct{ requests, cost, window float64 }{
		"a": {4, 4 * costA, 200_000}, "b": {1, costB, 100_000}, "c": {1, 0, -1}, "long": {1, costLong, 100_000}, "a-20251001": {1, costA, 200_000},
	} {
		m, _ := models[name].(object)
		near(t, "cost of "+name, m["costUSD"], want.cost)
		near(t, "input of "+name, m["inputTokens"], 20*want.requests)
		near(t, "output of "+name, m["outputTokens"], 5*want.requests)
		near(t, "cache of "+name, m["cacheReadInputTokens"], 10*want.requests)
		near(t, "cache of "+name, m["cacheCreationInputTokens"], 7*want.requests)
		if want.window > 0 {
			near(t, "window of "+name, m["contextWindow"], want.window)
		}
		sum += want.cost
	}
	near(t, "sum", sum, total)
	if len(models) != 5 {
		t.Errorf("models %v", models)
	}
	legacy := p.of("usage")
	near(t, "cost of the older line", legacy[len(legacy)-1]["cost_usd"], costA)

	session, _ := result["session_id"].(string)
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.host = p.room.start(flags("a", "--resume", session)...)
	result = p.prompt(1)
	usage(result, 1)
	near(t, "total of the resumed session", result["total_cost_usd"], total+costA)
}

// A subagent's cost is in the total and under its model, not in the turn's usage
// and number of requests (cases B86, B87; spec stream-json 11.4, 11.7).
func TestCostOfSubagents(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.server.Script(
		p.calls("c1", "Agent", `{"description":"look","prompt":"look","subagent_type":"general-purpose","model":"b"}`),
		p.calls("c2", "Bash", `{"command":"echo sub"}`), p.says("found"), p.says("done"),
	)
	p.host = p.room.start("--model", "a", "--api-format", "anthropic", "--set", prices)
	result := p.prompt(1)
	near(t, "total", result["total_cost_usd"], 2*costA+2*costB)
	near(t, "of the subagent's model", dig(result, "modelUsage", "b", "costUSD"), 2*costB)
	near(t, "usage", dig(result, "usage", "input_tokens"), 40)
	near(t, "num_turns", result["num_turns"], 2)
	ended := p.of("system/task_notification")
	if len(ended) != 1 {
		t.Fatalf("%d notifications", len(ended))
	}
	near(t, "tokens of the task", dig(ended[0], "usage", "total_tokens"), 2*(20+7+10+5))
	session, _ := result["session_id"].(string)
	p.end()
	p.host = p.room.start("--model", "a", "--api-format", "anthropic", "--set", prices, "--resume", session)
	near(t, "total of the resumed session", p.prompt(1)["total_cost_usd"], 3*costA+2*costB)
}

// permission_denials are those of the turn (checklist 49; S028, S074; spec
// stream-json 7.8; peers/claude 09).
func TestDenialsAreTheTurns(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(encode(object{"rules": append(steps(object{"turn": 1}, []use{bash("touch a")}), object{"reply": "done"})})).
		start().approving(deny("not now"))
	first, second := h.prompt(1), h.prompt(2)
	if diff := cmp.Diff(any([]any{object{"tool_name": "Bash", "tool_use_id": "call_1_1_1", "tool_input": object{"command": "touch a"}}}), first["permission_denials"]); diff != "" {
		t.Error(diff)
	}
	if first["is_error"] != false || first["num_turns"] != 2.0 || !cmp.Equal(second["permission_denials"], any([]any{})) {
		t.Errorf("results %v and %v", first, second)
	}
}
