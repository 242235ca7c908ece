package permissions

import (
	"strings"
	"testing"

	"dsh/kernel/approval"
)

// TestBounds: a command that is made to cost a judge his time or his stack is
// judged in bounds, and not let through.
func TestBounds(t *testing.T) {
	c := newCourt(t)
	r := rules{allow: []string{"Bash(echo:*)"}, deny: []string{"Bash(rm:*)", "Read(./secret/**)"}}
	for name, command := range map[string]string{
		"subshells":     strings.Repeat("(", 30_000),
		"substitutions": strings.Repeat("$(", 30_000),
		"closed":        strings.Repeat("(", 10_000) + "rm x" + strings.Repeat(")", 10_000),
		"closed, echo":  "echo " + strings.Repeat("$(", 10_000) + "rm x" + strings.Repeat(")", 10_000),
		"arithmetic":    strings.Repeat("$((", 20_000),
		"quotes":        strings.Repeat(`"$(`, 20_000),
		"launchers":     strings.Repeat("sudo -u ", 5_000) + "rm",
		"shells":        strings.Repeat(`bash -c "`, 5_000),
		"commands":      strings.Repeat("rm;", 20_000),
		"changes":       strings.Repeat("cd a;", 10_000) + "rm x",
		"braces":        "rm " + strings.Repeat("{a,b}", 10_000),
		"long":          "rm " + strings.Repeat("x", 1<<20),
		"heredocs":      strings.Repeat("cat <<x\n", 8_000),
		"cases":         strings.Repeat("case x in y) ", 5_000),
		"parameters":    strings.Repeat("${x:-", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			if v := c.shell(c.judge(ModeBypass, r), command); v.Behavior == approval.Allow {
				t.Errorf("%.40s… runs: %s", command, v.Reason)
			}
		})
	}
}
