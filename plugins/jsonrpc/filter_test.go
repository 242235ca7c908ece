package jsonrpc_test

import (
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Spec jsonrpc 4.2, 14 line 13; S111, S113; decision D8: a filter that makes no
// sense lets initialize pass, fails every prompt that would make a session, and
// leaves nothing on the disk.
func TestBadToolFilter(t *testing.T) {
	const noop = `tools.restrict({}) is a no-op: pass allow or deny with at least one tool name, or allowNone: true for no global tool at all`
	tests := []struct{ name, filter, want string }{
		{"empty", `{}`, noop},
		{"allow empty", `{allow: []}`, noop},
		{"deny empty", `{deny: []}`, noop},
		{"both empty", `{allow: [], deny: []}`, noop},
		{"unknown", `{allow: [read, nope]}`, `tools.restrict() names unknown global tool "nope"; known global tools: read, write`},
		{"unknown in deny", `{deny: [wirte]}`, `tools.restrict() names unknown global tool "wirte"; known global tools: read, write; did you mean "write"?`},
		{"two unknown", `{allow: [reed], deny: [x, reed]}`, `tools.restrict() names unknown global tools "reed", "x"; known global tools: read, write; did you mean "read"?`},
		{"reserved", `{allow: [run_code]}`, `tools.restrict() cannot name "run_code": it is reserved`},
		{"allowNone and a list", `{allowNone: true, deny: [read]}`, `tools.restrict() takes allowNone alone, without allow and deny`},
	}
	for _, tt := range tests {
		for _, row := range []string{"rpc", "toolfilter"} {
			if row == "toolfilter" && tt.filter == "{}" {
				continue // that row is off without configuration
			}
			t.Run(tt.name+" in row "+row, func(t *testing.T) {
				home := t.TempDir()
				o := composition{home: home, rpc: "{toolFilter: " + tt.filter + "}"}
				if row == "toolfilter" {
					o.rpc, o.rows = "", "  toolfilter: {use: toolfilter, config: "+tt.filter+"}\n"
				}
				c, _ := perform(t, o)
				if got := c.greet(""); !strings.Contains(got, `"result":{"serverInfo"`) {
					t.Fatalf("initialize: %s", got)
				}
				for range 2 {
					c.tell(prompt("1", "s", "x"))
					a, before := c.answer("1")
					if want := failed("1", -32603, quote(tt.want)); a != want || len(before) > 0 {
						t.Errorf("got %s behind %q\nwant %s", a, before, want)
					}
				}
				if a := c.ask("session/resume", `{"sessionId":"s"}`); !strings.Contains(a, quote(tt.want)) {
					t.Errorf("resume: %s", a)
				}
				if n := strings.Count(c.logs.String(), "level=WARN"); n != 1 {
					t.Errorf("%d warnings: %s", n, c.logs)
				}
				c.tell(shutdown)
				c.answer(`"stop"`)
				c.kernel.WaitExit(t)
				if files, err := filepath.Glob(filepath.Join(home, "sessions.d", "*")); err != nil || len(files) > 0 {
					t.Errorf("on the disk: %v, %v", files, err)
				}
			})
		}
	}
}

// Spec jsonrpc 4.2; S111, S112, S134: one projection for what the model is shown
// and what it can call, looked at anew each time.
func TestToolFilterProjection(t *testing.T) {
	tests := []struct {
		name, rpc, rows string
		// before and after a tool "late" is registered
		before, after []string
	}{
		{"none", "{}", "", []string{"read", "write"}, []string{"read", "write", "late"}},
		{"null", "{toolFilter: null}", "", []string{"read", "write"}, []string{"read", "write", "late"}},
		{"allow", "{toolFilter: {allow: [read]}}", "", []string{"read"}, []string{"read"}},
		{"deny", "{toolFilter: {deny: [read]}}", "", []string{"write"}, []string{"write", "late"}},
		{"both", "{toolFilter: {allow: [read, write], deny: [read]}}", "", []string{"write"}, []string{"write"}},
		{"allowNone", "{toolFilter: {allowNone: true}}", "", []string{}, []string{}},
		{"row off", "{}", "  toolfilter: {use: toolfilter}\n", []string{"read", "write"}, []string{"read", "write", "late"}},
		{"row allow", "{}", "  toolfilter: {use: toolfilter, config: {allow: [read]}}\n", []string{"read"}, []string{"read"}},
		{"row deny", "{}", "  toolfilter: {use: toolfilter, config: {deny: [read]}}\n", []string{"write"}, []string{"write", "late"}},
		{"row allowNone", "{}", "  toolfilter: {use: toolfilter, config: {allowNone: true}}\n", []string{}, []string{}},
		{"row and server", "{toolFilter: {allow: [read, write]}}", "  toolfilter: {use: toolfilter, config: {deny: [read]}}\n", []string{"write"}, []string{"write"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, s := perform(t, composition{rpc: tt.rpc, rows: tt.rows})
			c.greet("")
			c.said("s", "x")
			if err := s.tools.Register(s.owner, namedTool("late")); err != nil {
				t.Fatal(err)
			}
			c.said("s", "y")
			if diff := gocmp.Diff([][]string{tt.before, tt.after}, s.puppet.offers()); diff != "" {
				t.Error(diff)
			}
			for _, name := range []string{"read", "write", "late"} {
				all := strings.Join(c.said("s", "call "+name), "\n")
				visible := strings.Contains(strings.Join(tt.after, " "), name)
				if got := strings.Contains(all, "done by "+name); got != visible {
					t.Errorf("%s visible %v, want %v: %s", name, got, visible, all)
				}
				hidden := strings.Contains(all, `"text":"Error: unknown tool \"`+name+`\""`) && strings.Contains(all, `"error":{"name":"ToolNotFoundError","code":"UNKNOWN_TOOL"}`)
				if hidden == visible {
					t.Errorf("%s hidden %v: %s", name, hidden, all)
				}
				if !strings.Contains(all, "after the call") || !strings.Contains(all, `"reason":{"kind":"completed"}`) {
					t.Errorf("the turn did not go on: %s", all)
				}
			}
		})
	}
}

// S111: every root that the server makes, a resumed one too.
func TestFilterIsOfEverySession(t *testing.T) {
	c, s := perform(t, composition{rpc: "{toolFilter: {allow: [read]}}"})
	c.greet("")
	c.said("one", "x")
	c.said("two", "x")
	if a := c.ask("session/close", `{"sessionId":"one"}`); !strings.Contains(a, `"result":{}`) {
		t.Fatal(a)
	}
	c.said("one", "resumed")
	if diff := gocmp.Diff([][]string{{"read"}, {"read"}, {"read"}}, s.puppet.offers()); diff != "" {
		t.Error(diff)
	}
}
