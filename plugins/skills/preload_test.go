package skills

import (
	"context"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/sdkproto"
)

// A kind's skills come as one message in the order of the definition; those that
// there are not are left out and logged (spec stream-json 11.7).
func TestPreload(t *testing.T) {
	w := start(t, nil)
	w.mine("knots/SKILL.md", "---\ndescription: ties\n---\nA bowline does not slip.\n")
	w.mine("sails/SKILL.md", "---\ndescription: sets\n---\nReef early.\n")
	w.mine("other/SKILL.md", "---\ndescription: more\n---\nNot asked for.\n")
	for _, d := range []agent.Definition{
		{Name: "sailor", Skills: []string{"sails", "none\nsuch", "knots"}}, {Name: "lost", Skills: []string{"nothing"}}, {Name: "plain"},
	} {
		if err := w.kinds.Register(kernel.NewOwner(t.Context(), "test"), d); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(kind string) []sdkproto.Message {
		t.Helper()
		got, err := w.hooks.Context(context.Background(), kernel.Now, agent.Opening{SessionID: "s", CWD: w.Dir, Type: kind})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := asked("sailor")
	if len(got) != 1 || got[0].Role != "user" || got[0].Source.Kind != "plugin" || got[0].Source.Plugin != "skills" {
		t.Fatalf("got %+v", got)
	}
	text := sdkproto.TextOf(got[0].Content)
	if sails, knots := strings.Index(text, "Reef early."), strings.Index(text, "A bowline does not slip."); sails < 0 || knots < sails || strings.Contains(text, "Not asked for") {
		t.Errorf("text %q", text)
	}
	if !strings.Contains(w.log.String(), `none\nsuch`) {
		t.Errorf("the log says %s", w.log.String())
	}
	for _, kind := range []string{"lost", "plain", "unknown", ""} {
		if got := asked(kind); len(got) > 0 {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
}
