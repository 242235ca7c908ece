package hooks

import (
	"testing"

	"dsh/kernel/hook"
)

// Matchers are lists of exact names, or regular expressions (spec stream-json
// 6.1; checklist 66).
func TestMatcher(t *testing.T) {
	for _, tc := range []struct {
		matcher, event, match string
		want                  bool
	}{
		{"", hook.PreToolUse, "Bash", true},
		{"*", hook.PreToolUse, "Bash", true},
		{"Bash", hook.PreToolUse, "Bash", true},
		{"Bash", hook.PreToolUse, "BashOutput", false},
		{"bash", hook.PreToolUse, "Bash", false},
		{"Edit|Write", hook.PreToolUse, "Write", true},
		{"Edit|Write", hook.PreToolUse, "NotebookEdit", false},
		{"Edit, Write", hook.PreToolUse, "Write", true},
		{"Edit|", hook.PreToolUse, "", false},
		{"mcp__app__server_time", hook.PreToolUse, "mcp__app__server_time", true},
		{"mcp__app", hook.PreToolUse, "mcp__app__server_time", false},
		{"mcp__app__.*", hook.PreToolUse, "mcp__app__server_time", true},
		{"mcp__.*__write.*", hook.PreToolUse, "mcp__fs__write_file", true},
		{"^Notebook", hook.PreToolUse, "NotebookEdit", true},
		{"Edit.*", hook.PreToolUse, "NotebookEdit", true},
		{"Task", hook.PreToolUse, "Agent", true},
		{"Agent", hook.PostToolUse, "Task", true},
		{"^Task$", hook.PermissionRequest, "Agent", true},
		{"Task", hook.SubagentStop, "Agent", false},
		{"startup", hook.SessionStart, "startup", true},
		{"startup|resume", hook.SessionStart, "clear", false},
		{"manual", hook.PreCompact, "auto", false},
		{"anything", hook.Stop, "", true},
		{"anything", hook.UserPromptSubmit, "", true},
	} {
		m, err := newMatcher(tc.matcher)
		if err != nil {
			t.Fatal(err)
		}
		names := namesOf(&hook.Input{Event: tc.event, Match: tc.match})
		if got := names == nil || m.hears(names); got != tc.want {
			t.Errorf("%q on %s %q: got %v", tc.matcher, tc.event, tc.match, got)
		}
	}
	if _, err := newMatcher("(?!x)y"); err == nil {
		t.Error("a pattern that cannot be read is taken")
	}
}
