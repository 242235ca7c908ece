package permissions

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// TestAdvice: what hooks say of a call goes over the mode and allow rules, and
// under deny rules, ask rules and safety checks (spec stream-json 6.5 rule 2, 7.3;
// checklist 62, 66; case B26).
func TestAdvice(t *testing.T) {
	c := newCourt(t)
	c.put("a.txt")
	const (
		allow = approval.Allow
		ask   = approval.Ask
		deny  = approval.Deny
	)
	calls := []struct {
		name  string
		word  string
		rules rules
		spec  tool.Spec
		value string
		// want are the outcomes without advice, and under advice allow, ask and deny.
		want [4]string
	}{
		{"nothing allows it", ModeDefault, rules{}, bashSpec, "touch x", [4]string{ask, allow, ask, deny}},
		{"an MCP tool", ModeDefault, rules{}, mcpSpec, "", [4]string{ask, allow, ask, deny}},
		{"outside of the folders", ModeDefault, rules{}, readSpec, "/etc/hosts", [4]string{ask, allow, ask, deny}},
		{"it only reads", ModeDefault, rules{}, readSpec, "a.txt", [4]string{allow, allow, ask, deny}},
		{"a rule allows it", ModeDefault, rules{allow: []string{"Bash"}}, bashSpec, "touch x", [4]string{allow, allow, ask, deny}},
		{"a rule asks", ModeDefault, rules{ask: []string{"Bash(touch:*)"}}, bashSpec, "touch x", [4]string{ask, ask, ask, deny}},
		{"a rule may ask", ModeDefault, rules{ask: []string{"Bash(touch:*)"}}, bashSpec, "$X x", [4]string{ask, ask, ask, deny}},
		{"a rule denies", ModeDefault, rules{deny: []string{"Bash(touch:*)"}}, bashSpec, "touch x", [4]string{deny, deny, deny, deny}},
		{"it is protected", ModeDefault, rules{}, writeSpec, ".git/x", [4]string{ask, ask, ask, deny}},
		{"edits are accepted", ModeAcceptEdits, rules{}, writeSpec, "x", [4]string{allow, allow, ask, deny}},
		{"plan", ModePlan, rules{}, writeSpec, "x", [4]string{deny, deny, deny, deny}},
		{"bypass", ModeBypass, rules{}, bashSpec, "make", [4]string{allow, allow, ask, deny}},
		{"bypass, a rule asks", ModeBypass, rules{ask: []string{"Bash"}}, bashSpec, "make", [4]string{ask, ask, ask, deny}},
		{"bypass, a rule denies", ModeBypass, rules{deny: []string{"Bash"}}, bashSpec, "make", [4]string{deny, deny, deny, deny}},
		{"dontAsk", ModeDontAsk, rules{}, bashSpec, "make", [4]string{deny, allow, deny, deny}},
		{"dontAsk, it only reads", ModeDontAsk, rules{}, readSpec, "a.txt", [4]string{allow, allow, deny, deny}},
		{"a confinement in the way", process.WorkspaceWrite, rules{}, bashSpec, "touch /usr/x", [4]string{ask, ask, ask, deny}},
	}
	for _, tc := range calls {
		for i, behavior := range []string{"", allow, ask, deny} {
			j := c.judge(tc.word, tc.rules)
			j.Reach = held
			r := j.rule(tc.spec, args(t, map[string]any{tc.spec.Subject.Member: tc.value}), tool.Advice{Behavior: behavior, Reason: "the hook says so"})
			wantBehavior(t, tc.name+", advice "+behavior, r.Verdict, tc.want[i])
			switch {
			case behavior == deny && (r.Message != "the hook says so" || r.Scope != "hook" || r.ReasonType != approval.ReasonHook):
				t.Errorf("%s: refused with %+v", tc.name, r.Verdict)
			case r.Behavior == allow && behavior == allow && tc.want[0] != allow && (r.Scope != "hook" || r.Rule != ""):
				t.Errorf("%s: allowed with %+v", tc.name, r.Verdict)
			case r.Behavior == ask && tc.want[0] == allow && r.Reason != "the hook says so":
				t.Errorf("%s: asked with %+v", tc.name, r.Verdict)
			}
		}
	}
	r := c.judge(ModeDefault, rules{}).rule(mcpSpec, []byte("{}"), tool.Advice{Behavior: deny})
	if want := "Permission to use mcp__db__query has been denied."; r.Message != want {
		t.Errorf("without a reason: %q, want %q", r.Message, want)
	}
}

// TestSuggestions: what is offered with a question spares the next one like it
// (spec stream-json 7.6, 5.1).
func TestSuggestions(t *testing.T) {
	c := newCourt(t)
	c.put("a.txt")
	rule := func(tool string, contents ...string) approval.Update {
		u := approval.Update{Type: approval.AddRules, Behavior: approval.Allow, Destination: "localSettings"}
		for _, content := range contents {
			u.Rules = append(u.Rules, approval.Rule{ToolName: tool, RuleContent: content})
		}
		return u
	}
	dir := func(dir string) approval.Update {
		return approval.Update{Type: approval.AddDirectories, Directories: []string{dir}, Destination: "session"}
	}
	edits := approval.Update{Type: approval.SetMode, Mode: ModeAcceptEdits, Destination: "session"}
	for _, tc := range []struct {
		name, word string
		rules      rules
		spec       tool.Spec
		value      string
		want       []approval.Update
		blocked    string
	}{
		{"subcommand", ModeDefault, rules{}, bashSpec, "npm test", []approval.Update{rule("Bash", "npm test:*")}, ""},
		{"script", ModeDefault, rules{}, bashSpec, "npm run build --all", []approval.Update{rule("Bash", "npm run build:*")}, ""},
		{"file", ModeDefault, rules{}, bashSpec, "touch made.txt", []approval.Update{rule("Bash", "touch made.txt:*"), edits}, ""},
		{"several", ModeDefault, rules{allow: []string{"Bash(make:*)"}}, bashSpec, "ls && make && go vet ./x && timeout 5 npm ci", []approval.Update{rule("Bash", "go vet:*", "npm ci:*")}, ""},
		{"cannot be said", ModeDefault, rules{}, bashSpec, "make $X", nil, ""},
		{"cannot be read", ModeDefault, rules{}, bashSpec, "make (", nil, ""},
		{"reads outside", ModeDefault, rules{}, bashSpec, "cat ../out/x", []approval.Update{rule("Bash", "cat ../out/x:*"), dir(c.base + "/out")}, c.base + "/out/x"},
		{"edit", ModeDefault, rules{}, writeSpec, "new", []approval.Update{edits}, ""},
		{"edit outside", ModeDefault, rules{}, writeSpec, "../out/x", []approval.Update{dir(c.base + "/out"), edits}, c.base + "/out/x"},
		{"edit outside, accepted", ModeAcceptEdits, rules{}, writeSpec, "../out/x", []approval.Update{dir(c.base + "/out")}, c.base + "/out/x"},
		{"read outside", ModeDefault, rules{}, readSpec, "../out/x", []approval.Update{dir(c.base + "/out")}, c.base + "/out/x"},
		{"search outside", ModePlan, rules{}, grepSpec, "../out", []approval.Update{dir(c.base + "/out")}, c.base + "/out"},
		{"the whole machine", ModeDefault, rules{}, grepSpec, "/", nil, "/"},
		{"the whole home", ModeDefault, rules{}, grepSpec, c.home, nil, c.home},
		{"MCP tool", ModeDefault, rules{}, mcpSpec, "", []approval.Update{rule("mcp__db__query", "")}, ""},
		{"web", ModeDefault, rules{}, fetchSpec, "https://example.com/x", []approval.Update{rule("WebFetch", "domain:example.com")}, ""},
		{"skill", ModeDefault, rules{}, skillSpec, "review", []approval.Update{rule("Skill", "review")}, ""},
		{"ask rule", ModeDefault, rules{ask: []string{"Bash"}}, bashSpec, "npm test", nil, ""},
		{"protected", ModeDefault, rules{}, writeSpec, ".git/x", nil, c.cwd + "/.git/x"},
		{"question to the user", ModeDefault, rules{}, questionSpec, "", nil, ""},
		{"preset", process.ReadOnly, rules{}, writeSpec, "new", nil, c.cwd + "/new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := c.judge(tc.word, tc.rules)
			a := args(t, map[string]any{tc.spec.Subject.Member: tc.value})
			r := j.rule(tc.spec, a, tool.Advice{})
			wantBehavior(t, tc.value, r.Verdict, approval.Ask)
			got := j.suggestions(tc.spec, a, r)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !isPreset(tc.word) && r.BlockedPath != tc.blocked {
				t.Errorf("blocked path %q, want %q", r.BlockedPath, tc.blocked)
			}
			if len(got) == 0 {
				return
			}
			// With all of them, the same call is not asked about again.
			after := sessionState{word: tc.word}
			for _, u := range got {
				rules, err := parseAll(ruleTexts(u.Rules), u.Behavior, scopeSession, "")
				if err != nil {
					t.Fatal(err)
				}
				after.apply(u, scopeSession, rules, &edition{}, after.word)
			}
			next := c.judge(after.word, tc.rules)
			next.Dirs, next.Rules.Allow = after.dirs, append(next.Rules.Allow, after.rules.Allow...)
			wantBehavior(t, tc.value+" after that", next.Decide(tc.spec, a), approval.Allow)
		})
	}
}
