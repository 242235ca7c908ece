package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// suggestions are the lines so far that say what the user may say next.
func (h *host) suggestions() (list []string) {
	for _, l := range h.of("prompt_suggestion") {
		text, _ := l["suggestion"].(string)
		list = append(list, text)
	}
	return list
}

// suggestion waits for the n-th, from 1.
func (h *host) suggestion(n int) string {
	h.t.Helper()
	count := 0
	line := h.wait("prompt_suggestion", func(l object) bool {
		if l["type"] == "prompt_suggestion" {
			count++
			return count == n
		}
		return false
	})
	text, _ := line["suggestion"].(string)
	return text
}

// waitsUntil waits for what no line tells.
func waitsUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come about", what)
		}
	}
}

// hangs never answers.
func (p *provider) hangs() llmtest.Reply {
	return llmtest.Reply{Parts: []llmtest.Part{{Text: p.dialect.Begun(sdkproto.Text("Ru")), Hang: true}}}
}

// TestSuggestion: where it is asked for, by flag or in initialize, a line follows
// the result of each turn that succeeded, one, and nothing of it is in the history
// (S029, checklist 51, spec stream-json 3.9).
func TestSuggestion(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		flags []string
		init  object
		want  int
	}{
		"by flag":       {[]string{"--prompt-suggestions"}, object{}, 2},
		"in initialize": {nil, object{"promptSuggestions": true}, 2},
		"not asked for": {nil, object{"promptSuggestions": false}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).start(how.flags...)
			h.control("i", "initialize", how.init)
			for n := 1; n <= 2; n++ {
				h.user("hello")
				h.result(n)
				if how.want > 0 {
					if got := h.suggestion(n); got != "Tell me more about that." {
						t.Errorf("suggestion %q", got)
					}
				}
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			var order []string
			for _, l := range h.all() {
				if l["type"] == "result" || l["type"] == "prompt_suggestion" {
					order = append(order, l["type"].(string))
				}
			}
			want := []string{"result", "result"}
			if how.want > 0 {
				want = []string{"result", "prompt_suggestion", "result", "prompt_suggestion"}
			}
			if diff := cmp.Diff(want, order); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSuggestionRequest: the model is shown what was said, without tools and their
// calls, and asked for a bounded answer; the session's own requests do not change.
func TestSuggestionRequest(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(
			llmtest.Stream(p.dialect.Whole(sdkproto.Text("I look"), llmtest.Called("c1", "Bash", `{"command":"echo printed"}`))),
			p.says("all good"), p.says("\n \"Paint the shed\"\nand more"), p.says("bye"), p.says("NONE"))
		p.launch("--prompt-suggestions")
		p.user("what is here?")
		p.result(1)
		if got := p.suggestion(1); got != "Paint the shed" {
			t.Errorf("suggestion %q", got)
		}
		p.user("thanks")
		p.result(2)
		waitsUntil(t, "the second suggestion", func() bool { return p.attempts() == 5 })
		if code := p.end(); code != 0 || len(p.suggestions()) != 1 {
			t.Errorf("exit %d, suggestions %q", code, p.suggestions())
		}
		asked := p.body(2)
		request := objectOf(asked)
		if request["tools"] != nil || strings.Contains(asked, "printed") || len(messages(t, []byte(asked))) > 4 {
			t.Errorf("the request: %.3000s", asked)
		}
		for _, part := range []string{"what is here?", "I look", "all good", "most likely send next"} {
			if !strings.Contains(asked, part) {
				t.Errorf("%q is not in the request: %.3000s", part, asked)
			}
		}
		limit, _ := request["max_tokens"].(float64)
		if more, _ := request["max_completion_tokens"].(float64); limit+more <= 0 || limit+more > 1000 {
			t.Errorf("the answer may have %v tokens", limit+more)
		}
		for _, i := range []int{0, 1, 3} {
			if strings.Contains(p.body(i), "most likely send next") || strings.Contains(p.body(i), "Paint the shed") {
				t.Errorf("request %d tells of the suggestion: %.2000s", i+1, p.body(i))
			}
		}
	})
}

// TestNoSuggestion: nothing follows a turn that failed, was interrupted or needed
// no model, and nothing is written when no good answer comes (S029).
func TestNoSuggestion(t *testing.T) {
	t.Parallel()
	const failing = "rules:\n  - when: {suggestion: true}\n    reply: %\n  - when: {text: fail}\n    reply: [{error: {code: INVALID_REQUEST, status: 400}}]\n" +
		"  - when: {text: hang}\n    reply: [{text: x}, {delay: 10m}]\n  - reply: fine\n"
	for name, tc := range map[string]struct{ reply, prompt string }{
		"a failed turn":         {"Never", "fail"},
		"an interrupted turn":   {"Never", "hang"},
		"an error":              {"[{error: {code: SERVER}}]", "go"},
		"nothing":               {"[]", "go"},
		"blank":                 {"' '", "go"},
		"none":                  {"none.", "go"},
		"cut off":               {"[{text: Run the}, {finish: max-tokens}]", "go"},
		"a call":                {"[{text: Run it}, {call: {tool: Bash, args: {command: touch made}}}]", "go"},
		"as long as an article": {"[{text: 'words and ', repeat: 40}]", "go"},
		"without an end":        {"[{text: 'words and words ', repeat: 2000}]", "go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(strings.Replace(failing, "%", tc.reply, 1))
			h := r.start("--prompt-suggestions")
			h.user(tc.prompt)
			if tc.prompt == "hang" {
				h.wait("the answer's begin", func(l object) bool { return l["type"] == "system" })
				time.Sleep(50 * time.Millisecond)
				h.control("x", "interrupt", nil)
			}
			h.result(1)
			h.end()
			if got := h.suggestions(); len(got) != 0 || r.exists("made") {
				t.Errorf("suggestions %q", got)
			}
		})
	}
}

// TestSuggestionWithoutModel: nothing follows a turn that needed no model, though
// there was one before.
func TestSuggestionWithoutModel(t *testing.T) {
	t.Parallel()
	h := newRoom(t).start("--prompt-suggestions")
	h.user("hello")
	h.suggestion(1)
	for n, text := range []string{"/nothing", " "} {
		h.user(text)
		if got := h.result(n + 2); got["num_turns"] != 0.0 {
			t.Errorf("result %v", got)
		}
	}
	h.end()
	if got := h.suggestions(); len(got) != 1 {
		t.Errorf("suggestions %q", got)
	}
}

// TestSuggestionOvertaken: the next message or an interrupt ends the request, and
// no line comes; the result has not waited for it (S029).
func TestSuggestionOvertaken(t *testing.T) {
	t.Parallel()
	for name, overtake := range map[string]func(p *provider){
		"by a message": func(p *provider) {
			p.server.Script(p.says("two"), p.says("NONE"))
			if got := p.prompt(2); got["result"] != "two" {
				p.t.Errorf("the next turn: %v", got)
			}
		},
		"by an interrupt": func(p *provider) { p.control("x", "interrupt", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()[2])
			p.server.Script(p.says("fine"), p.hangs())
			p.launch("--prompt-suggestions")
			p.prompt(1)
			waitsUntil(t, "the request", func() bool { return p.attempts() == 2 })
			deadline := time.Now().Add(8 * time.Second) // by itself it ends after ten
			overtake(p)
			waitsUntil(t, "the end of the request", func() bool { return p.server.Gone() == 1 })
			if time.Now().After(deadline) {
				t.Error("the request was not ended")
			}
			if code := p.end(); code != 0 || len(p.suggestions()) != 0 {
				t.Errorf("exit %d, suggestions %q", code, p.suggestions())
			}
		})
	}
}

// TestSuggestionQueued: with a message in the queue nobody is asked.
func TestSuggestionQueued(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.server.Script(p.says("one"), p.says("two"), p.says("Paint the shed"))
	p.launch("--prompt-suggestions")
	p.send(strings.TrimSuffix(asks("a")+asks("b"), "\n"))
	p.result(2)
	if got := p.suggestion(1); got != "Paint the shed" || p.attempts() != 3 {
		t.Errorf("suggestion %q after %d requests", got, p.attempts())
	}
}

// TestSuggestionAtEnd: one that is under way when the input ends is still written,
// before the exit, unless it takes too long (spec stream-json 3.9).
func TestSuggestionAtEnd(t *testing.T) {
	t.Parallel()
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).script("rules:\n  - when: {suggestion: true}\n    reply: [{delay: 300ms}, {text: Paint the shed}]\n  - reply: fine\n").start("--prompt-suggestions")
		h.user("go")
		_ = h.stdin.Close()
		h.result(1)
		if code := h.exit(); code != 0 || !slices.Equal(h.suggestions(), []string{"Paint the shed"}) {
			t.Errorf("exit %d, suggestions %q", code, h.suggestions())
		}
	})
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).script("rules:\n  - when: {suggestion: true}\n    reply: [{delay: 10m}, {text: Paint the shed}]\n  - reply: fine\n").start("--prompt-suggestions", "--set", "front.suggestionLimit=1s")
		h.user("go")
		h.result(1)
		if code := h.end(); code != 0 || len(h.suggestions()) != 0 {
			t.Errorf("exit %d, suggestions %q", code, h.suggestions())
		}
	})
}

// TestSuggestionCost: what it used counts in the results to come, by model and in
// the total, also of a session that goes on in another process; the usage of a turn
// is the turn's (S027, S029, checklist 49).
func TestSuggestionCost(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	flags := append([]string{"--model", "a", "--api-format", "anthropic", "--set", prices, "--prompt-suggestions"}, quickRetries...)
	p.server.Script(p.says("one"), p.says("Paint the shed"), p.says("two"), p.says("NONE"))
	p.host = p.room.start(flags...)
	first := p.prompt(1)
	near(t, "cost of turn 1", first["total_cost_usd"], costA)
	p.suggestion(1)
	second := p.prompt(2)
	near(t, "cost of turn 2", second["total_cost_usd"], 3*costA)
	near(t, "cost by model", dig(second, "modelUsage", "a", "costUSD"), 3*costA)
	near(t, "tokens of the turn", dig(second, "usage", "output_tokens"), 5)
	waitsUntil(t, "the second suggestion", func() bool { return p.attempts() == 4 })
	p.end()

	id, _ := first["session_id"].(string)
	p.server.Script(p.says("three"), p.says("NONE"))
	p.host = p.room.start(append(slices.Clone(flags), "--resume", id)...)
	near(t, "cost of the session that goes on", p.prompt(1)["total_cost_usd"], 5*costA)
}
