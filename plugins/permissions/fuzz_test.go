package permissions

import (
	"strings"
	"testing"
	"unicode/utf8"

	"dsh/kernel/approval"
	"dsh/kernel/process"
)

// FuzzRule feeds rules and commands to the judge. Whatever they are it does not
// panic, and
//
//   - a command that rules allow is not allowed any more with another behind it
//     that they do not allow;
//   - a deny rule about a command refuses every line that the command is a part
//     of, and no allow rule changes that;
//   - what is not allowed stays so when a deny rule is added.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{"Bash", "Bash(git status:*)", "Bash(npm run test*)", "Bash(* --version)", "Read(./a/**)", "Edit(*.go)", "mcp__x__*", "Bash(a\\)b)"} {
		for _, command := range []string{"git status", "npm run test x | tee y", "bash -c 'rm x'", "cat <<X\n$(x)\nX", "x=1 y", "find . -exec rm {} ;", "sed -n 1p a", "cd a && cat b", "$'\\x72m'"} {
			f.Add(rule, command)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, command string) {
		judge := func(word string, rules ...*Rule) *Judge {
			j := &Judge{Word: word, CWD: dir, Home: dir + "/home", Protected: defaults().Protected}
			j.Rules.add(rules...)
			return j
		}
		decide := func(j *Judge, command string) string {
			return j.Decide(bashSpec, args(t, map[string]any{"command": command})).Behavior
		}
		rule, err := ParseRule(text, approval.Allow, scopeProfile, "")
		if err != nil {
			return
		}
		deny, err := ParseRule("Bash(evil:*)", approval.Deny, scopeProfile, "")
		if err != nil {
			t.Fatal(err)
		}
		judge(ModeDefault, rule).Decide(readSpec, args(t, map[string]any{"file_path": command}))
		judge(ModeDefault, rule).Decide(globSpec, args(t, map[string]any{"pattern": command, "path": command}))
		judge(ModeDefault, rule).Decide(fetchSpec, args(t, map[string]any{"url": command}))
		if strings.ContainsRune(command, 0) || !utf8.ValidString(command) {
			return
		}
		before := decide(judge(ModeDefault, rule), command)
		for _, word := range []string{ModeDefault, process.WorkspaceWrite, ModeBypass} {
			if decide(judge(word, rule), command) != approval.Allow && decide(judge(word, rule, deny), command) == approval.Allow {
				t.Errorf("%q is allowed only with a deny rule", command)
			}
		}
		if before != approval.Allow || readShell(command).unseen != "" {
			return
		}
		// Joined by a new line, so that a comment or a line's end takes nothing away.
		for _, joined := range []string{command + "\nevil x", "evil x\n" + command, "{ " + command + "\n}; evil x", "(" + command + "\n)& evil"} {
			line := readShell(joined)
			if line.unseen != "" {
				continue // a heredoc or a quote that the other half closes
			}
			seen := false
			for _, p := range line.parts {
				seen = seen || p.words[0].text == "evil"
			}
			if !seen {
				continue // the other half is text of a heredoc
			}
			if rule.names(bashSpec) && !rule.bare() && ruleFor([]*Rule{rule}, shellPart{texts: []string{"evil x", "evil"}}) == nil && decide(judge(ModeDefault, rule), joined) == approval.Allow {
				t.Errorf("rule %s lets %q run", rule.Text, joined)
			}
			if got := decide(judge(ModeBypass, rule, deny), joined); got != approval.Deny {
				t.Errorf("%q under a deny rule: %s", joined, got)
			}
		}
	})
}
