package main

import (
	"fmt"
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
)

// A provider that refuses a history as too long gets a shorter one, with a summary
// in the place of what is old; the host is told; nothing is asked without end; what
// cannot be made shorter ends the turn and not the session (case B61; checklist 50;
// spec stream-json 3.10, 11.3, 11.9).
func TestB61(t *testing.T) {
	t.Parallel()
	tooLong := llmtest.JSON(400, `{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`)
	long := strings.Repeat("many words of an old answer ", 2000)
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(p.says(long))
		p.launch("--set", "compaction.keepTokens=0")
		for n := range 3 {
			p.prompt(n + 1)
		}
		before := len(p.server.Received())
		p.server.Script(tooLong, p.says("GOALS AND STATE"), p.says("after"))
		result := p.prompt(4)
		if endOf(result) != "success ok completed" || result["result"] != "after" || result["num_turns"] != 1.0 {
			t.Errorf("result %v", result)
		}
		asked := p.server.Received()[before:]
		if len(asked) != 3 {
			t.Fatalf("%d requests", len(asked))
		}
		if last := string(asked[2].Body); !strings.Contains(last, "GOALS AND STATE") || strings.Contains(last, long) || len(last) > len(asked[0].Body)/2 {
			t.Errorf("the last request has %d bytes of %d", len(last), len(asked[0].Body))
		}
		var told []string
		for _, l := range p.of("system") {
			if l["subtype"] != "init" {
				told = append(told, fmt.Sprint(l["subtype"], " ", l["status"], " ", l["compact_result"], " ", dig(l, "compact_metadata", "trigger")))
			}
		}
		if got := strings.Join(told, "; "); got != "status compacting <nil> <nil>; status <nil> success <nil>; compact_boundary <nil> <nil> auto" {
			t.Errorf("told %s", got)
		}
		for _, text := range p.texts() {
			if strings.Contains(text, "GOALS") || strings.Contains(text, "too long") {
				t.Errorf("an answer %q", text)
			}
		}
		p.goesOn(5)

		// Nothing makes it shorter.
		before = len(p.server.Received())
		p.server.Script(tooLong)
		result = p.prompt(6)
		if endOf(result) != "success error prompt_too_long" || result["result"] != "Prompt is too long" {
			t.Errorf("result %v", result)
		}
		if n := len(p.server.Received()) - before; n >= 6 {
			t.Errorf("%d requests for one event", n)
		}
		p.goesOn(7)
		session, _ := result["session_id"].(string)
		p.end()
		p.launch("--resume", session)
		p.goesOn(1)
	})
}
