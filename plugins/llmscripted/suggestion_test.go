package llmscripted

import (
	"strings"
	"testing"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// TestSuggestion: the question what the user may say next is answered without a
// rule, by none that does not ask for it, and counts as no attempt of the
// session's own request (S029).
func TestSuggestion(t *testing.T) {
	const general = "rules:\n  - when: {step: 1}\n    times: 1\n    reply: [{error: {code: SERVER}}]\n  - reply: 'general {{user}}'\n"
	for name, tc := range map[string]struct{ script, want string }{
		"without a rule": {general, "Tell me more about that."},
		"with a rule": {"rules:\n  - when: {suggestion: true, text: hello}\n    reply: 'after {{user}}'\n" + strings.TrimPrefix(general, "rules:\n"),
			"after hello"},
		"a rule that does not match": {"rules:\n  - when: {suggestion: true, text: bye}\n    reply: no\n  - reply: general\n", "Tell me more about that."},
	} {
		t.Run(name, func(t *testing.T) {
			a := play(t, write(t, tc.script))
			var c talk
			c.user("hello")
			first := c.request()
			if got := lines(t, a, first); strings.Contains(general, tc.script) && len(got) != 1 {
				t.Errorf("the first attempt: %q", got)
			}
			c.assistant(sdkproto.Text("hi"))
			c.add(sdkproto.RoleUser, sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: llm.SuggestionPlugin}, sdkproto.Text("which?"))
			if got := strings.Join(lines(t, a, c.request()), "\n"); !strings.Contains(got, `"text":"`+tc.want+`"`) {
				t.Errorf("got %s, want %q", got, tc.want)
			}
			// The second attempt of the request is still that.
			if got := strings.Join(lines(t, a, first), "\n"); !strings.Contains(got, "general") {
				t.Errorf("the second attempt: %s", got)
			}
		})
	}
}

// TestAside: the other requests beside the conversation are answered like it, each
// by rules of its own or else with a fixed text (S038).
func TestAside(t *testing.T) {
	const general = "rules:\n  - when: {aside: summary, text: hello}\n    reply: 'busy with {{user}}'\n  - reply: general\n"
	for plugin, want := range map[string]string{
		sdkproto.AsideSummary: "busy with hello", sdkproto.AsideTitle: "A conversation with a script", sdkproto.AsideQuestion: "The script does not say.",
		llm.SuggestionPlugin: "Tell me more about that.", "other": "general",
	} {
		var c talk
		c.user("hello")
		c.assistant(sdkproto.Text("hi"))
		c.add(sdkproto.RoleUser, sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: plugin}, sdkproto.Text("which?"))
		if got := strings.Join(lines(t, play(t, write(t, general)), c.request()), "\n"); !strings.Contains(got, `"text":"`+want+`"`) {
			t.Errorf("%s: got %s, want %q", plugin, got, want)
		}
	}
}
