package permissions

import (
	"os"
	"path/filepath"
	"testing"

	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// Specs of tools as their plugins give them.
var (
	bashSpec  = tool.Spec{Name: "bash", Destructive: true, Subject: tool.Subject{Rule: "Bash", Kind: tool.SubjectCommand, Member: "command", Dir: "workdir"}}
	readSpec  = tool.Spec{Name: "read", ReadOnly: true, Subject: tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "file_path"}}
	writeSpec = tool.Spec{Name: "write", Subject: tool.Subject{Rule: "Write", Kind: tool.SubjectPath, Member: "file_path"}}
	editSpec  = tool.Spec{Name: "edit", Subject: tool.Subject{Rule: "Edit", Kind: tool.SubjectPath, Member: "file_path"}}
	globSpec  = tool.Spec{Name: "glob", ReadOnly: true, Subject: tool.Subject{Rule: "Glob", Kind: tool.SubjectPattern, Member: "pattern", Dir: "path"}}
	grepSpec  = tool.Spec{Name: "grep", ReadOnly: true, Subject: tool.Subject{Rule: "Grep", Kind: tool.SubjectPath, Member: "path"}}
	fetchSpec = tool.Spec{Name: "web_fetch", ReadOnly: true, Subject: tool.Subject{Rule: "WebFetch", Kind: tool.SubjectURL, Member: "url"}}
	// As the tool has it: nothing in the schema for a rule to name.
	searchSpec = tool.Spec{Name: "WebSearch", ReadOnly: true, Subject: tool.Subject{Rule: "WebSearch"}}
	skillSpec  = tool.Spec{Name: "skill", ReadOnly: true, Subject: tool.Subject{Rule: "Skill", Kind: tool.SubjectText, Member: "name"}}
	agentSpec  = tool.Spec{Name: "subagent", Subject: tool.Subject{Rule: "Agent", Kind: tool.SubjectText, Member: "type"}}
	// The ones of spec stream-json 9 that are no file and no command.
	todoSpec     = tool.Spec{Name: "TodoWrite", ReadOnly: true}
	questionSpec = tool.Spec{Name: "AskUserQuestion", AsksUser: true}
	mcpSpec      = tool.Spec{Name: "mcp__db__query"}
	mcpRead      = tool.Spec{Name: "mcp__db__list", ReadOnly: true}
)

// court is a folder with a judge.
type court struct {
	t    *testing.T
	base string // holds all the others, without links in its path
	cwd  string
	home string
}

func newCourt(t *testing.T) *court {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &court{t, base, filepath.Join(base, "ws"), filepath.Join(base, "home")}
	for _, dir := range []string{c.cwd, c.home, filepath.Join(base, "out"), filepath.Join(base, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *court) put(names ...string) {
	c.t.Helper()
	for _, name := range names {
		path := filepath.Join(c.cwd, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *court) link(target, name string) {
	c.t.Helper()
	if err := os.Symlink(target, filepath.Join(c.cwd, name)); err != nil {
		c.t.Fatal(err)
	}
}

// rules are texts by behavior.
type rules struct{ allow, ask, deny []string }

func (c *court) judge(word string, r rules) *Judge {
	c.t.Helper()
	j := &Judge{
		Word: word, CWD: c.cwd, Home: c.home, State: filepath.Join(c.home, ".dsh"), Protected: defaults().Protected,
		Open: []string{filepath.Join(c.base, "tmp")},
	}
	for behavior, texts := range map[string][]string{approval.Allow: r.allow, approval.Ask: r.ask, approval.Deny: r.deny} {
		list, err := parseAll(texts, behavior, scopeProfile, "")
		if err != nil {
			c.t.Fatal(err)
		}
		j.Rules.add(list...)
	}
	return j
}

// held is a machine that can hold every confinement.
func held(*process.Confinement) process.Reached { return process.Reached{Level: process.ReachedFull} }

func args(t testing.TB, members map[string]any) []byte {
	t.Helper()
	b, err := wirejson.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c *court) shell(j *Judge, command string) approval.Verdict {
	c.t.Helper()
	return j.Decide(bashSpec, args(c.t, map[string]any{"command": command}))
}

func (c *court) on(j *Judge, s tool.Spec, value string) approval.Verdict {
	c.t.Helper()
	return j.Decide(s, args(c.t, map[string]any{s.Subject.Member: value}))
}

func wantBehavior(t *testing.T, what string, v approval.Verdict, want string) {
	t.Helper()
	if v.Behavior != want {
		t.Errorf("%s: got %s (%s; rule %q), want %s", what, v.Behavior, v.Reason, v.Rule, want)
	}
}

// B16: each part of a line needs its own allow.
func TestB16(t *testing.T) {
	c := newCourt(t)
	r := rules{allow: []string{"Bash(git status:*)"}, deny: []string{"Bash(touch:*)"}}
	for _, tc := range []struct{ command, want string }{
		{"git status", approval.Allow},
		{"git status; touch m1", approval.Deny},
		{"git status && touch m2", approval.Deny},
		{"git status || touch m3", approval.Deny},
		{"git status | touch m4", approval.Deny},
		{"git status & touch m5", approval.Deny},
		{"git status\ntouch m6", approval.Deny},
		{"git status $(touch m7)", approval.Deny},
		{"git status `touch m8`", approval.Deny},
		{"git status <(touch m9)", approval.Deny},
		{"git status > m10", approval.Ask},
		{"git status |& touch m11", approval.Deny},
	} {
		for _, word := range []string{ModeDefault, ModeDontAsk, ModeBypass, process.WorkspaceWrite, process.FullAccess} {
			want := tc.want
			switch {
			case want == approval.Ask && word == ModeDontAsk:
				want = approval.Deny
			case want == approval.Ask && word != ModeDefault:
				want = approval.Allow // these let calls write in the working directory
			}
			wantBehavior(t, word+": "+tc.command, c.shell(c.judge(word, r), tc.command), want)
		}
	}
}
