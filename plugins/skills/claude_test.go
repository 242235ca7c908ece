package skills

import (
	"strings"
	"testing"

	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
)

func startClaude(t *testing.T) *world {
	t.Helper()
	return start(t, func(c *Config) { c.Dialect = "claude" })
}

func TestClaude(t *testing.T) {
	w := startClaude(t)
	// S076: the tool is there without any skill.
	w.Bad("Skill", map[string]any{"skill": "deploy"}, "UNKNOWN_SKILL", `there is no skill "deploy"; there are none`)
	w.Put(".claude/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: Brings it out\n---\nDo this.")
	tooltest.TestTool(t, w.skills.read, tooltest.Options{CWD: w.Dir, Good: []string{`{"skill":"deploy"}`, `{"skill":"deploy","args":"x"}`}, NotEmpty: []string{"skill"}})
	spec := w.skills.read.Spec()
	if got := tooltest.Inputs(t, w.skills.read); got != "args? skill" || spec.Name != "Skill" || !spec.ReadOnly ||
		spec.Subject != (tool.Subject{Rule: "Skill", Kind: tool.SubjectText, Member: "skill"}) {
		t.Errorf("inputs %s, spec %+v", got, spec)
	}
	res := w.Call(t.Context(), "Skill", map[string]any{"skill": "deploy", "args": "production"})
	if text := sdkproto.TextOf(res.Content); !strings.HasSuffix(text, "\n\nDo this.\n\nIt is to be used on: production") || string(res.Meta) != `{"success":true,"commandName":"deploy"}` {
		t.Errorf("got %q, meta %s", text, res.Meta)
	}
	// A rule names a skill; no other spelling may lead to it (case B18).
	for _, other := range []string{"/deploy", " deploy", "Deploy"} {
		res := w.Call(t.Context(), "Skill", map[string]any{"skill": other})
		if text := sdkproto.TextOf(res.Content); !res.IsError || strings.HasPrefix(text, "Error") || !strings.Contains(text, "there are deploy") {
			t.Errorf("%q: got %q", other, text)
		}
	}
}

// TestClaudeCatalogue: the message speaks of the tool as the model knows it.
func TestClaudeCatalogue(t *testing.T) {
	w := startClaude(t)
	w.Put(".claude/skills/deploy/SKILL.md", "---\ndescription: Brings it out\n---\nDo this.")
	if got := w.catalogue("Read", "skill"); len(got) > 0 {
		t.Errorf("the model is told of a tool it does not have: %v", got)
	}
	got := w.catalogue("Read", "Skill")
	if len(got) != 1 || !strings.HasPrefix(sdkproto.TextOf(got[0].Content), "These skills are there. Read one with the tool Skill when") {
		t.Errorf("got %v", got)
	}
}
