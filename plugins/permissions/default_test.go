package permissions

import (
	"testing"

	"dsh/kernel/approval"
	"dsh/kernel/tool"
)

// TestDefaultSubject: a rule about what an argument means when it is left out is
// not dodged by leaving it out (case B18).
func TestDefaultSubject(t *testing.T) {
	c := newCourt(t)
	spec := tool.Spec{Name: "Agent", Subject: tool.Subject{Rule: "Agent", Kind: tool.SubjectText, Member: "subagent_type", Default: "general-purpose"}}
	j := c.judge(ModeDefault, rules{deny: []string{"Agent(general-purpose)"}})
	wantBehavior(t, "left out", j.Decide(spec, args(t, map[string]any{"prompt": "x"})), approval.Deny)
	wantBehavior(t, "named", c.on(j, spec, "general-purpose"), approval.Deny)
	wantBehavior(t, "another", c.on(j, spec, "reviewer"), approval.Allow)
}
