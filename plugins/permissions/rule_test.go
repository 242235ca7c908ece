package permissions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// TestRuleNames: which tools a rule is about (spec stream-json 7.2; case B24).
func TestRuleNames(t *testing.T) {
	notebook := tool.Spec{Name: "nb", Subject: tool.Subject{Rule: "NotebookEdit", Kind: tool.SubjectPath, Member: "p"}}
	for _, tc := range []struct {
		rule string
		spec tool.Spec
		// allow and deny say whether a rule of that behavior is about the tool.
		allow, deny bool
	}{
		{"Bash", bashSpec, true, true}, {"bash", bashSpec, true, true}, {"BASH", bashSpec, false, false}, {"Read", bashSpec, false, false},
		{"Edit", editSpec, true, true}, {"Edit", writeSpec, true, true}, {"Edit", notebook, true, true}, {"Write", writeSpec, true, true},
		{"Write", editSpec, false, false}, {"Read", readSpec, true, true}, {"Read", grepSpec, true, true}, {"Read", globSpec, true, true}, {"Grep", readSpec, false, false},
		{"Edit", readSpec, false, false}, {"Agent", agentSpec, true, true}, {"Task", agentSpec, true, true}, {"Skill", skillSpec, true, true},
		{"mcp__db", mcpSpec, true, true}, {"mcp__db__*", mcpSpec, true, true}, {"mcp__db__query", mcpSpec, true, true}, {"mcp__db__q*", mcpSpec, true, true},
		{"mcp__d", mcpSpec, false, false}, {"mcp__db__que", mcpSpec, false, false}, {"mcp__other", mcpSpec, false, false},
		{"mcp__a__b", tool.Spec{Name: "mcp__a__b__c"}, false, true},
	} {
		for behavior, want := range map[string]bool{approval.Allow: tc.allow, approval.Deny: tc.deny} {
			r, err := ParseRule(tc.rule, behavior, scopeProfile, "")
			if err != nil {
				t.Errorf("%s: %v", tc.rule, err)
				continue
			}
			if got := r.names(tc.spec); got != want {
				t.Errorf("%s rule %s is about %s: got %v, want %v", behavior, tc.rule, tc.spec.Name, got, want)
			}
		}
	}
	for rule, specs := range map[string][]tool.Spec{"mcp__*": {mcpSpec, mcpRead}, "*": {bashSpec, readSpec, mcpSpec}, "*_fetch": {fetchSpec}} {
		r, err := ParseRule(rule, approval.Deny, scopeProfile, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range specs {
			if !r.names(s) {
				t.Errorf("deny rule %s is not about %s", rule, s.Name)
			}
		}
	}
}

// TestRuleText: how a rule is written, and what is none.
func TestRuleText(t *testing.T) {
	for _, tc := range []struct{ text, tool, content string }{
		{"Bash", "Bash", ""}, {" Bash ", "Bash", ""}, {"Bash()", "Bash", ""}, {"Bash(*)", "Bash", ""}, {"Bash(a b)", "Bash", "a b"}, {"Bash(f(x))", "Bash", "f(x)"},
		{`Bash(echo \(x\) \\ \*)`, "Bash", `echo (x) \ \*`}, {"Bash( x)", "Bash", " x"},
	} {
		r, err := ParseRule(tc.text, approval.Allow, scopeProfile, "")
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if diff := cmp.Diff([]string{tc.tool, tc.content}, []string{r.tool, r.content}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.text, diff)
		}
	}
	for _, tc := range []struct{ behavior, text, says string }{
		{approval.Allow, "", "names no tool"}, {approval.Allow, "(x)", "names no tool"}, {approval.Deny, "Bash(x", "not closed"}, {approval.Deny, "Bash(x) y", "not closed"},
		{approval.Deny, "Bash Read", "one rule for each"}, {approval.Deny, "Bash,Read", "one rule for each"}, {approval.Deny, "Bash(  )", "only spaces"},
		{approval.Allow, "*", "names its tool"}, {approval.Allow, "mcp__*", "names its tool"}, {approval.Allow, "B*", "names its tool"}, {approval.Allow, "mcp__db(x)", "leave the parentheses out"},
		{approval.Deny, "Read(!x)", "begin with !"}, {approval.Deny, "Edit(a\nb)", "one line"}, {approval.Deny, "WebFetch(example.com)", "domain:HOST"},
	} {
		_, err := ParseRule(tc.text, tc.behavior, scopeProfile, "")
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s %q: error %v, want %q", tc.behavior, tc.text, err, tc.says)
		}
	}
	for _, content := range []string{"", "a b", "f(x)", `a\b`, `\(`, `)`, `a:*`} {
		text := RuleText(approval.Rule{ToolName: "Bash", RuleContent: content})
		r, err := ParseRule(text, approval.Allow, scopeSession, "")
		if err != nil || r.content != content {
			t.Errorf("%q becomes %q and %q (%v)", content, text, r.content, err)
		}
	}
}

// TestOtherRules: URLs, names, and tools that rules cannot look into.
func TestOtherRules(t *testing.T) {
	c := newCourt(t)
	for _, tc := range []struct {
		rule  string
		spec  tool.Spec
		value string
		allow string // the outcome under an allow rule
		deny  string // and under a deny rule
	}{
		{"WebFetch(domain:example.com)", fetchSpec, "https://example.com/x", approval.Allow, approval.Deny},
		{"WebFetch(domain:example.com)", fetchSpec, "https://EXAMPLE.com.:443/x", approval.Allow, approval.Deny},
		{"WebFetch(domain:example.com)", fetchSpec, "https://a.example.com/", approval.Ask, approval.Ask},
		{"WebFetch(domain:*.example.com)", fetchSpec, "https://a.example.com/", approval.Allow, approval.Deny},
		{"WebFetch(domain:*.example.com)", fetchSpec, "https://aexample.com/", approval.Ask, approval.Ask},
		{"WebFetch(domain:example.com)", fetchSpec, "https://example.com@evil.test/", approval.Ask, approval.Ask},
		{"WebFetch(domain:example.com)", fetchSpec, "http://[bad", approval.Ask, approval.Deny},
		{"WebFetch", fetchSpec, "https://x.test", approval.Allow, approval.Deny},
		{"WebSearch", searchSpec, "", approval.Allow, approval.Deny},
		{"Skill(review)", skillSpec, "review", approval.Allow, approval.Deny},
		{"Skill(review *)", skillSpec, "review fast", approval.Allow, approval.Deny},
		{"Skill(review *)", skillSpec, "review", approval.Allow, approval.Deny},
		{"Skill(review)", skillSpec, "reviews", approval.Ask, approval.Ask}, // spec stream-json 9: Skill asks
		{"Agent(explorer)", agentSpec, "explorer", approval.Allow, approval.Deny},
		{"Agent(explorer)", agentSpec, "other", approval.Allow, approval.Allow}, // what it does is judged by itself
		{"mcp__db", mcpSpec, "", approval.Allow, approval.Deny},
		{"mcp__db__list", mcpSpec, "", approval.Ask, approval.Ask},
	} {
		wantBehavior(t, "allow "+tc.rule+" for "+tc.value, c.on(c.judge(ModeDefault, rules{allow: []string{tc.rule}}), tc.spec, tc.value), tc.allow)
		wantBehavior(t, "deny "+tc.rule+" for "+tc.value, c.on(c.judge(ModeDefault, rules{deny: []string{tc.rule}}), tc.spec, tc.value), tc.deny)
	}
	// What cannot be seen is refused rather than let through.
	wantBehavior(t, "deny by arguments", c.on(c.judge(ModeBypass, rules{deny: []string{"mcp__db__query(drop *)"}}), mcpSpec, ""), approval.Deny)
}

// TestModes: what each word allows (spec stream-json 7.1, 7.3; spec jsonrpc 11.2).
func TestModes(t *testing.T) {
	c := newCourt(t)
	c.put("a.txt")
	const (
		allow = approval.Allow
		ask   = approval.Ask
		deny  = approval.Deny
	)
	calls := []struct {
		name  string
		spec  tool.Spec
		value string
		// in the order of words(): default, acceptEdits, plan, bypassPermissions,
		// dontAsk, read-only, workspace-write, danger-full-access
		want [8]string
	}{
		{"read inside", readSpec, "a.txt", [8]string{allow, allow, allow, allow, allow, allow, allow, allow}},
		{"read outside", readSpec, "/etc/hosts", [8]string{ask, ask, ask, allow, deny, allow, allow, allow}},
		{"search inside", globSpec, "**/*.go", [8]string{allow, allow, allow, allow, allow, allow, allow, allow}},
		{"search led outside", globSpec, "../**/*.go", [8]string{ask, ask, ask, allow, deny, allow, allow, allow}},
		{"search everywhere", globSpec, "/**", [8]string{ask, ask, ask, allow, deny, allow, allow, allow}},
		{"write inside", writeSpec, "new", [8]string{ask, allow, deny, allow, deny, ask, allow, allow}},
		{"write in a further folder", writeSpec, "../more/x", [8]string{ask, allow, deny, allow, deny, ask, allow, allow}},
		{"write a temporary file", writeSpec, "../tmp/x", [8]string{ask, ask, deny, allow, deny, ask, allow, allow}},
		{"write outside", editSpec, "../out/x", [8]string{ask, ask, deny, allow, deny, ask, ask, allow}},
		{"write protected", editSpec, ".git/x", [8]string{ask, ask, deny, allow, deny, ask, ask, allow}},
		{"command that reads", bashSpec, "ls", [8]string{allow, allow, allow, allow, allow, allow, allow, allow}},
		{"command that edits", bashSpec, "touch x", [8]string{ask, allow, deny, allow, deny, ask, allow, allow}},
		{"other command", bashSpec, "make", [8]string{ask, ask, deny, allow, deny, ask, ask, allow}},
		{"MCP tool", mcpSpec, "", [8]string{ask, ask, deny, allow, deny, ask, allow, allow}},
		{"MCP tool that reads", mcpRead, "", [8]string{allow, allow, allow, allow, allow, allow, allow, allow}},
		{"web", fetchSpec, "https://x.test", [8]string{ask, ask, ask, allow, deny, allow, allow, allow}},
		{"web search", searchSpec, "", [8]string{ask, ask, ask, allow, deny, allow, allow, allow}}, // spec stream-json 9
		{"subagent", agentSpec, "x", [8]string{allow, allow, allow, allow, allow, allow, allow, allow}},
		{"skill", skillSpec, "x", [8]string{ask, ask, ask, allow, deny, allow, allow, allow}},
		{"list of steps", todoSpec, "", [8]string{allow, allow, allow, allow, allow, allow, allow, allow}},
		{"question to the user", questionSpec, "", [8]string{ask, ask, ask, ask, deny, ask, ask, ask}},
	}
	for _, tc := range calls {
		for i, word := range words() {
			j := c.judge(word, rules{})
			j.Dirs = []string{"../more"}
			v := c.on(j, tc.spec, tc.value)
			wantBehavior(t, word+": "+tc.name, v, tc.want[i])
			if v.Behavior != allow && v.Message == "" {
				t.Errorf("%s: %s: nothing is said to the model", word, tc.name)
			}
			if v.Reason == "" {
				t.Errorf("%s: %s: no reason", word, tc.name)
			}
			if word == ModePlan && v.Behavior == deny && v.Message != "Permission denied: Plan mode: write operations are not allowed" {
				t.Errorf("%s: %q", tc.name, v.Message)
			}
			// Deny and ask rules go ahead of every mode.
			bare := tc.spec.Name
			j = c.judge(word, rules{deny: []string{bare}, ask: []string{bare}, allow: []string{bare}})
			v = c.on(j, tc.spec, tc.value)
			wantBehavior(t, word+": denied "+tc.name, v, deny)
			want := "Permission to use " + tc.spec.Name + " has been denied."
			if says := v.Message == want || isPreset(word) && strings.HasPrefix(v.Message, want); !says || v.Rule != bare || v.Scope != scopeProfile {
				t.Errorf("%s: %+v", tc.name, v)
			}
			v = c.on(c.judge(word, rules{ask: []string{bare}, allow: []string{bare}}), tc.spec, tc.value)
			want = ask
			if word == ModeDontAsk || word == ModePlan && tc.want[i] == deny {
				want = deny // nobody is asked whether the mode may be broken (D7)
			}
			wantBehavior(t, word+": asked "+tc.name, v, want)
		}
	}
}

// TestConfined: under a preset a command runs when its confinement holds, and
// only then (case B102).
func TestConfined(t *testing.T) {
	c := newCourt(t)
	partial := func(*process.Confinement) process.Reached {
		return process.Reached{Level: process.ReachedPartial, Missing: "no truncate"}
	}
	for _, tc := range []struct {
		name, word, command string
		reach               func(*process.Confinement) process.Reached
		rules               rules
		strict              bool
		want                string
		// free: what was approved runs without confinement.
		free bool
	}{
		{name: "held", word: process.WorkspaceWrite, command: "make $X", reach: held, want: approval.Allow},
		{name: "read-only held", word: process.ReadOnly, command: "make $X", reach: held, want: approval.Allow},
		{name: "not held", word: process.WorkspaceWrite, command: "make", want: approval.Ask, free: true},
		{name: "held in part", word: process.WorkspaceWrite, command: "make", reach: partial, want: approval.Ask, free: true},
		{name: "read-only not held", word: process.ReadOnly, command: "make", want: approval.Ask, free: true},
		{name: "known to read", word: process.ReadOnly, command: "ls", want: approval.Allow},
		{name: "strict, held", word: process.WorkspaceWrite, command: "make", reach: held, strict: true, want: approval.Allow},
		{name: "strict, in part", word: process.WorkspaceWrite, command: "make", reach: partial, strict: true, want: approval.Deny, free: false},
		{name: "strict, none", word: process.WorkspaceWrite, command: "ls", strict: true, want: approval.Deny},
		{name: "strict does not mind the rest", word: process.FullAccess, command: "make", strict: true, want: approval.Allow},
		{name: "allowed by rule", word: process.WorkspaceWrite, command: "make", rules: rules{allow: []string{"Bash(make:*)"}}, want: approval.Allow},
		{name: "asked by rule", word: process.WorkspaceWrite, command: "make", reach: held, rules: rules{ask: []string{"Bash(make:*)"}}, want: approval.Ask},
		{name: "writes beyond", word: process.WorkspaceWrite, command: "echo x > ../out/x", reach: held, want: approval.Ask, free: true},
		{name: "writes beyond, as a copy", word: process.WorkspaceWrite, command: "cp a /usr/x", reach: held, want: approval.Ask, free: true},
		{name: "writes at all", word: process.ReadOnly, command: "touch x", reach: held, want: approval.Ask, free: true},
		{name: "writes a device", word: process.ReadOnly, command: "make > /dev/null 2>/dev/stderr", reach: held, want: approval.Allow},
		{name: "writes what is protected", word: process.WorkspaceWrite, command: "echo x > .git/hooks/post-commit", reach: held, want: approval.Ask},
		{name: "git itself", word: process.WorkspaceWrite, command: "git commit -m x", reach: held, want: approval.Allow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := c.judge(tc.word, tc.rules)
			j.Reach, j.Strict = tc.reach, tc.strict
			v := c.shell(j, tc.command)
			wantBehavior(t, tc.command, v, tc.want)
			if tc.want == approval.Ask && (v.Approved == nil) != tc.free {
				t.Errorf("what is approved runs under %+v", v.Approved)
			}
			if confined := tc.word != process.FullAccess; confined != (v.Confinement != nil) {
				t.Errorf("confinement %+v", v.Confinement)
			}
			if tc.strict && v.Confinement != nil && !v.Confinement.Strict {
				t.Error("the confinement is not strict")
			}
		})
	}
}

// TestConfinement: what each word lets programs write.
func TestConfinement(t *testing.T) {
	c := newCourt(t)
	j := c.judge(process.WorkspaceWrite, rules{})
	j.Dirs, j.Caches, j.NoNetwork = []string{"../out", "~/more", c.cwd}, []string{"/caches"}, true
	want := &process.Confinement{
		Mode: process.WorkspaceWrite, NoNetwork: true,
		Write: []string{c.cwd, c.base + "/out", c.home + "/more", c.base + "/tmp", "/caches"},
	}
	if diff := cmp.Diff(want, j.Confinement()); diff != "" {
		t.Errorf("workspace-write (-want +got):\n%s", diff)
	}
	j.Word = process.ReadOnly
	if diff := cmp.Diff(&process.Confinement{Mode: process.ReadOnly, NoNetwork: true}, j.Confinement()); diff != "" {
		t.Errorf("read-only (-want +got):\n%s", diff)
	}
	for _, word := range append(modes(), process.FullAccess) {
		if j.Word = word; j.Confinement() != nil {
			t.Errorf("%s confines to %+v", word, j.Confinement())
		}
	}
}
