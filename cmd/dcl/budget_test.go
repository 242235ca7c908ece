package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// dear is a model of which a request is worth counting: 100 dollars for a million
// tokens of input, whatever the cache makes of them, and 200 for those of an answer,
// which may have 1000.
const dear = `anthropic.models={"dear":{"contextWindow":200000,"maxTokens":1000,` +
	`"price":{"currency":"USD","input":100,"cacheRead":100,"cacheWrite":100,"output":200}}}`

const dearIn, dearOut = 100e-6, 200e-6

// spender is a provider of dear.
type spender struct {
	*provider
	flags []string
}

func spend(t *testing.T, more ...string) *spender {
	p := provide(t, speeches()[2])
	return &spender{p, append(append([]string{"--model", "dear", "--api-format", "anthropic", "--set", dear}, quickRetries...), more...)}
}

// launch starts the program with a budget.
func (s *spender) launch(flags ...string) {
	s.host = s.room.start(append(append([]string{}, s.flags...), flags...)...)
}

// capped is launch with a budget of the process.
func (s *spender) capped(usd float64, flags ...string) {
	s.launch(append(flags, "--max-budget-usd", strconv.FormatFloat(usd, 'f', -1, 64))...)
}

// used is an answer that has taken so many tokens.
func (s *spender) used(input, output int, blocks ...sdkproto.Block) llmtest.Reply {
	text := s.dialect.Whole(blocks...)
	text = strings.Replace(text, `"input_tokens":20,"cache_creation_input_tokens":7,"cache_read_input_tokens":10`, fmt.Sprintf(`"input_tokens":%d`, input), 1)
	text = regexp.MustCompile(`"usage":\{"output_tokens":\d+\}`).ReplaceAllString(text, fmt.Sprintf(`"usage":{"output_tokens":%d}`, output))
	return llmtest.Stream(text)
}

// facts gives the events of one type in the log of a session.
func (s *spender) facts(result object, kind string) (list []object) {
	id, _ := result["session_id"].(string)
	for line := range strings.Lines(s.room.log(id)) {
		var e struct {
			Type string `json:"type"`
			Data object `json:"data"`
		}
		if err := wirejson.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Type == kind {
			list = append(list, e.Data)
		}
	}
	return list
}

// first is what the first request may cost when its answer is as short as it may be,
// as a budget that has no room for it says. It is not sent.
func (s *spender) first() float64 {
	s.t.Helper()
	s.capped(0.000001)
	result := s.prompt(1)
	s.over(result, 0.000001)
	if n := s.attempts(); n != 0 || result["total_cost_usd"] != 0.0 || result["num_turns"] != 0.0 {
		s.t.Fatalf("%d requests; %v", n, result)
	}
	facts := s.facts(result, sdkproto.TypeBudgetExceeded)
	if len(facts) != 1 || facts[0]["scope"] != "process" || facts[0]["limit"] != "usd" {
		s.t.Fatalf("facts %v", facts)
	}
	if code := s.end(); code != 1 {
		s.t.Errorf("exit code %d", code)
	}
	needed, _ := facts[0]["needed"].(float64)
	return needed
}

const endOver = "error_max_budget_usd error budget_exhausted"

// over checks that a turn ended for want of money.
func (s *spender) over(result object, limit float64) {
	s.t.Helper()
	text := fmt.Sprintf("Reached maximum budget ($%s)", strconv.FormatFloat(limit, 'f', -1, 64))
	if errors, _ := result["errors"].([]any); endOf(result) != endOver || len(errors) != 1 || errors[0] != text {
		s.t.Errorf("the end is %s: %v, want %s", endOf(result), result["errors"], text)
	}
}

// longest is the limit of the answer in a request.
func (s *spender) longest(i int) float64 {
	var body struct {
		MaxTokens float64 `json:"max_tokens"`
	}
	if err := wirejson.Unmarshal([]byte(s.body(i)), &body); err != nil {
		s.t.Fatal(err)
	}
	return body.MaxTokens
}

// No request is sent whose worst case would pass the cap, however long the model goes
// on: at each one, what was spent before and what it may cost fit. Later turns end at
// once (issue 7; spec stream-json 1.3, 3.7, 11.3; cases B86, B87; peers/claude 37).
func TestBudgetReserves(t *testing.T) {
	t.Parallel()
	s := spend(t)
	const limit, input, output = 20.0, 10_000, 50
	s.server.Script(s.used(input, output, llmtest.Called("c", "Bash", `{"command":"true"}`)))
	s.capped(limit)
	result := s.prompt(1)
	s.over(result, limit)
	n := s.attempts()
	const cost = input*dearIn + output*dearOut
	near(t, "total", result["total_cost_usd"], float64(n)*cost)
	for i := range n {
		if worst := float64(i)*cost + input*dearIn + s.longest(i)*dearOut; worst > limit {
			t.Errorf("request %d may bring the cost to %v", i+1, worst)
		}
	}
	if n < 15 {
		t.Errorf("only %d requests", n) // what the provider has counted is not taken for more
	}
	if got := len(s.toolResults()); got != n {
		t.Errorf("%d results of calls", got) // checklist 44
	}
	s.over(s.prompt(2), limit)
	if got := s.attempts(); got != n {
		t.Errorf("%d requests more", got-n)
	}
	if code := s.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// An answer that there is no money for in its whole length may be as long as there
// is: the request says so, the log says so, and when the answer does not end in time
// the turn ends for want of money (issue 7).
func TestBudgetShortens(t *testing.T) {
	t.Parallel()
	s := spend(t)
	limit := s.first() + 250*dearOut
	cut := llmtest.Stream(llmtest.MessageStart() + llmtest.TextBlock(0, "half an ans") + llmtest.MessageDelta("max_tokens", 5) + llmtest.MessageStop)
	s.server.Script(s.says("short"))
	s.capped(limit, "--set", "loop.verifyRequests=true")
	result := s.prompt(1)
	if got := endOf(result); got != "success ok completed" {
		t.Errorf("the end of a short answer is %s", got)
	}
	if most := s.longest(0); most < 500 || most > 510 {
		t.Errorf("the answer may have %v tokens", most)
	}
	facts := s.facts(result, sdkproto.TypeBudgetLimited)
	if len(facts) != 1 || facts[0]["maxTokens"] != s.longest(0) || facts[0]["asked"] != 1000.0 || facts[0]["limit"] != "usd" {
		t.Errorf("facts %v", facts)
	}
	s.end()
	s.server.Script(cut)
	s.capped(limit)
	result = s.prompt(1)
	s.over(result, limit)
	if n := s.attempts(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// Subagents that run side by side share the budget: what one has reserved the other
// cannot, and waits for it; what is not used is there again (issue 7).
func TestBudgetOfSubagents(t *testing.T) {
	t.Parallel()
	agents := func(s *spender) llmtest.Reply {
		args := `{"description":"look","prompt":"look","subagent_type":"general-purpose"}`
		return s.used(1000, 5, llmtest.Called("c1", "Agent", args), llmtest.Called("c2", "Agent", args))
	}
	const pause = 300 * time.Millisecond
	s := spend(t)
	// Enough for the first request, which is the largest, and for one of the subagents at
	// a time.
	limit := s.first() + 744*dearOut + 0.5
	slow := s.used(1000, 5, sdkproto.Text("found"))
	slow.Parts[0].Wait = pause
	s.server.Script(agents(s), slow, s.used(1000, 5, sdkproto.Text("found")), s.used(1000, 5, sdkproto.Text("done")))
	s.capped(limit)
	result := s.prompt(1)
	if got := endOf(result); got != "success ok completed" || result["result"] != "done" {
		t.Errorf("the end is %s: %v", got, result["result"])
	}
	near(t, "total", result["total_cost_usd"], 4*(1000*dearIn+5*dearOut))
	all := s.server.Received()
	if len(all) != 4 || all[2].At.Sub(all[1].At) < pause {
		t.Errorf("%d requests, the third not behind the answer to the second", len(all))
	}
	if found := s.facts(result, sdkproto.TypeBudgetExceeded); len(found) != 0 {
		t.Errorf("facts %v", found)
	}
	s.end()

	// What the first has used is missing for the second.
	s.server.Script(agents(s), s.used(20_000, 5, sdkproto.Text("found")), s.used(1000, 5, sdkproto.Text("done")))
	s.capped(limit)
	result = s.prompt(1)
	if got := endOf(result); got != "success ok completed" || result["result"] != "done" {
		t.Errorf("the second end is %s: %v", got, result["result"])
	}
	near(t, "total", result["total_cost_usd"], 22_000*dearIn+15*dearOut)
	refusals := 0
	for _, r := range s.toolResults() {
		if strings.Contains(fmt.Sprint(r), "process.usd") {
			refusals++
		}
	}
	if n := s.attempts() - 4; refusals != 1 || n != 3 {
		t.Errorf("%d subagents were told what is in their way; %d requests", refusals, n)
	}
}

// Requests beside the conversation, such as suggestions and summaries, are under the
// budget, too (issue 7; case B87).
func TestBudgetOfSideRequests(t *testing.T) {
	t.Parallel()
	s := spend(t, "--prompt-suggestions")
	limit := s.first() + 744*dearOut
	// The provider counts more than there can be: nothing is left, then.
	s.server.Script(s.used(int(limit/dearIn)+1, 5, sdkproto.Text("fine")))
	s.capped(limit)
	if got := endOf(s.prompt(1)); got != "success ok completed" {
		t.Errorf("the end is %s", got)
	}
	s.user("/compact")
	s.result(2)
	s.over(s.prompt(3), limit)
	s.end()
	if n := s.attempts(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A price that is not known keeps no budget of money: the request is refused and the
// remedy told, unless the config allows it (case B87).
func TestBudgetWithoutAPrice(t *testing.T) {
	t.Parallel()
	s := spend(t)
	s.server.Script(s.says("fine"))
	s.flags[1] = "c"
	s.capped(5)
	result := s.prompt(1)
	text := fmt.Sprint(result["errors"])
	if endOf(result) != "error_during_execution error budget_exhausted" || !strings.Contains(text, "price of model c") || !strings.Contains(text, "budget.unpriced") || s.attempts() != 0 {
		t.Errorf("%d requests; the end is %s: %s", s.attempts(), endOf(result), text)
	}
	s.end()
	s.capped(5, "--set", "budget.unpriced=allow")
	if got := endOf(s.prompt(1)); got != "success ok completed" {
		t.Errorf("allowed: %s", got)
	}
}

// A stored session goes on with what its budget has left, whichever process has spent
// the rest, with what its subagents have used (issue 7).
func TestBudgetOfAStoredSession(t *testing.T) {
	t.Parallel()
	s := spend(t)
	limit := s.first() + 744*dearOut + 0.5
	set := []string{"--set", fmt.Sprintf("budget.session.usd=%v", limit)}
	s.server.Script(
		s.used(10, 5, llmtest.Called("c1", "Agent", `{"description":"look","prompt":"look","subagent_type":"general-purpose"}`)),
		s.used(10_000, 5, sdkproto.Text("found")), s.used(10, 5, sdkproto.Text("done")),
	)
	s.launch(set...)
	result := s.prompt(1)
	if got := endOf(result); got != "success ok completed" {
		t.Errorf("the first end is %s", got)
	}
	s.end()
	id, _ := result["session_id"].(string)
	s.launch(append(set, "--resume", id)...)
	s.over(s.prompt(1), limit)
	s.end()
	// Another session has a budget of its own.
	s.launch(set...)
	if got := endOf(s.prompt(1)); got != "success ok completed" {
		t.Errorf("the end of another session is %s", got)
	}
	if n := s.attempts(); n != 4 {
		t.Errorf("%d requests", n)
	}
}

// Limits of a turn that are none of money: calls and time. The turn ends with the
// reason, each call has its result, and the next turn begins anew (issue 7).
func TestBudgetOfATurn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set   string
		uses  []use
		limit string
	}{
		"calls": {"budget.turn.toolCalls=1", []use{bash("true"), bash("true")}, "turn.toolCalls"},
		"time":  {"budget.turn.time=1s", []use{bash("sleep 60")}, "turn.time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(encode(object{"rules": append(steps(object{"turn": 1}, tc.uses), object{"reply": "done"})})).
				start("--set", tc.set, "--permission-mode", "bypassPermissions")
			result := h.prompt(1)
			if text := fmt.Sprint(result["errors"]); endOf(result) != "error_during_execution error budget_exhausted" || !strings.Contains(text, tc.limit) {
				t.Errorf("the end is %s: %s", endOf(result), text)
			}
			if n := len(h.toolResults()); n != len(tc.uses) {
				t.Errorf("%d results", n)
			}
			if got := endOf(h.prompt(2)); got != "success ok completed" {
				t.Errorf("the next end is %s", got)
			}
		})
	}
}
