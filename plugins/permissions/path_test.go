package permissions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// B18: a deny rule holds for every spelling of a path; an allow rule only for
// where the path leads.
func TestB18(t *testing.T) {
	c := newCourt(t)
	c.put("secret/key.txt", "open/x")
	c.link("secret/key.txt", "ok.txt")
	c.link("secret", "okdir")
	c.link("okdir", "okdir2")
	c.link(filepath.Join(c.base, "out"), "open/away")
	c.link("secret/later.txt", "later.txt")
	spellings := []string{
		"secret/key.txt", "./secret/../secret/key.txt", filepath.Join(c.cwd, "secret/key.txt"), "ok.txt", "okdir/key.txt", "okdir2/key.txt",
		"secret//key.txt", "open/../secret/key.txt", "okdir/new.txt", "secret/sub/new.txt", "later.txt", "okdir/sub/../key.txt",
	}
	for _, word := range []string{ModeDefault, ModeBypass, ModePlan, process.WorkspaceWrite, process.FullAccess} {
		j := c.judge(word, rules{allow: []string{"Read", "Edit"}, deny: []string{"Read(./secret/**)", "Edit(./secret/**)"}})
		for _, path := range spellings {
			for _, s := range []tool.Spec{readSpec, writeSpec, editSpec, grepSpec, globSpec} {
				wantBehavior(t, word+": "+s.Name+" "+path, c.on(j, s, path), approval.Deny)
			}
			for _, command := range []string{"cat " + path, "head -1 " + path, "tail " + path, "sed -n p " + path, "grep x " + path, "cat < " + path, "xxd " + path, "cp " + path + " x"} {
				wantBehavior(t, word+": "+command, c.shell(j, command), approval.Deny)
			}
		}
		for _, command := range []string{
			"cd secret && cat key.txt", "cd okdir; cat key.txt", "cat okdir/../secret/key.txt", "cat secret/*.txt", "cat secret/k?y.txt", "bash -c 'cat secret/key.txt'",
			"find . -exec cat secret/key.txt ;", "echo x > secret/new", "touch okdir/new", "cat a secret/key.txt", "timeout 5 cat secret/key.txt", "cat 'secret'/\"key.txt\"", "rm -rf secret",
		} {
			wantBehavior(t, word+": "+command, c.shell(j, command), approval.Deny)
		}
		// What cannot be seen is asked, or, in plan mode, refused.
		for _, command := range []string{"cat $X", "cat s{ecret,x}/key.txt", "cat */key.txt", "grep -r x .", "rg x", "cat $(ls)"} {
			if v := c.shell(j, command); v.Behavior == approval.Allow {
				t.Errorf("%s: %s runs", word, command)
			}
		}
		for _, path := range []string{"open/x", "secretive/x"} {
			wantBehavior(t, word+": read "+path, c.on(j, readSpec, path), approval.Allow)
		}
	}

	// A deny of reading is one of editing, too.
	wantBehavior(t, "write", c.on(c.judge(ModeBypass, rules{deny: []string{"Read(./secret/**)"}}), writeSpec, "okdir/new.txt"), approval.Deny)
	// An allow of editing is one of reading; one of reading is none of editing.
	wantBehavior(t, "read", c.on(c.judge(ModeDefault, rules{allow: []string{"Edit(//" + c.base + "/out/**)"}}), readSpec, "../out/x"), approval.Allow)
	wantBehavior(t, "edit", c.on(c.judge(ModeDefault, rules{allow: []string{"Read(./open/**)"}}), editSpec, "open/x"), approval.Ask)

	// A link inside an allowed folder does not open the outside.
	j := c.judge(ModeDefault, rules{allow: []string{"Edit(./open/**)", "Read(./open/**)"}})
	wantBehavior(t, "inside", c.on(j, writeSpec, "open/new"), approval.Allow)
	wantBehavior(t, "new file through a linked folder", c.on(j, writeSpec, "open/away/new"), approval.Ask)
	wantBehavior(t, "read through a linked folder", c.on(j, readSpec, "open/away/x"), approval.Ask)
	// Nor does a rule that names no path.
	j = c.judge(ModeDefault, rules{allow: []string{"Edit", "Read"}})
	wantBehavior(t, "bare, inside", c.on(j, writeSpec, "open/new"), approval.Allow)
	wantBehavior(t, "bare, through a linked folder", c.on(j, writeSpec, "open/away/new"), approval.Ask)
	wantBehavior(t, "bare, outside", c.on(j, readSpec, "/etc/hosts"), approval.Ask)
}

// On a disk that does not tell case, neither do the rules that refuse (B18).
func TestB18Case(t *testing.T) {
	c := newCourt(t)
	c.put("secret/key.txt")
	for _, rule := range []string{"Read(./secret/**)", "Read(key.*)", "Read(Secret/K*)", "Read(//" + strings.ToUpper(c.cwd) + "/secret/**)"} {
		j := c.judge(ModeDefault, rules{deny: []string{rule}})
		j.Fold = true
		wantBehavior(t, rule, c.on(j, readSpec, "SECRET/Key.TXT"), approval.Deny)
	}
	wantBehavior(t, "case is told", c.on(c.judge(ModeDefault, rules{deny: []string{"Read(./secret/**)"}}), readSpec, "SECRET/key.txt"), approval.Allow)
}

// TestPathPatterns: the forms of rules on paths (spec stream-json 7.2).
func TestPathPatterns(t *testing.T) {
	c := newCourt(t)
	root := filepath.Join(c.base, "project")
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"src/**", "src/a", true}, {"src/**", "src/a/b", true}, {"src/**", "x/src/a", false}, {"src/**", "srcs/a", false},
		{"./src/**", "src/a", true}, {"src/*", "src/a", true}, {"src/*.go", "src/a.go", true}, {"src/*.go", "src/a/b.go", false},
		{"src/**/*.go", "src/a/b.go", true}, {"src/**/*.go", "src/b.go", true}, {"**/*.go", "a/b/c.go", true}, {"**", "a/b", true}, {"./**", "a", true},
		{"src", "src", true}, {"src", "src/a", true}, {"src", "x/src/a", true}, {"./src", "x/src", false}, {"./src", "src/a", true}, {"src/", "src/a", true},
		{"*.env", "x/.env", true}, {"*.env", "prod.env", true}, {".env", "x/.env", true}, {".env", ".envrc", false}, {"./.env", "x/.env", false}, {"./.env", ".env", true},
		{"#x", "#x", true}, {"a?c", "abc", true}, {"[ab]c", "bc", true}, {"[ab]c", "cc", false}, {`\*x`, "*x", true}, {`\*x`, "ax", false},
		{"//" + c.base + "/out/**", "../out/a", true}, {"//" + c.base + "/out/a", "../out/a", true}, {"//" + c.base + "/out/a", "../out/ab", false}, {"//**", "/etc/passwd", true}, {"//etc", "/etc/passwd", true},
		{"~/x/**", c.home + "/x/y", true}, {"~/x/**", c.home + "/xy", false}, {"~", c.home + "/a", true}, {"~/**", c.home + "/a", true}, {"~/*.txt", c.home + "/a.txt", true},
		{"/x/**", root + "/x/y", true}, {"/x/**", "x/y", false}, {"/*.go", root + "/a.go", true},
		{"../out/**", "../out/x", true}, {"..", "../out/x", true},
	} {
		for _, behavior := range []string{approval.Allow, approval.Deny} {
			r, err := ParseRule("Edit("+tc.pattern+")", behavior, "project", root)
			if err != nil {
				t.Errorf("%s: %v", tc.pattern, err)
				continue
			}
			j := c.judge(ModeDefault, rules{})
			j.Rules.add(r)
			want := approval.Ask
			if tc.want {
				want = behavior
			}
			wantBehavior(t, behavior+" "+tc.pattern+" for "+tc.path, c.on(j, writeSpec, tc.path), want)
		}
	}
}

// TestWays: what a pattern says by a link and what a path says by the place it
// leads to are the same.
func TestWays(t *testing.T) {
	c := newCourt(t)
	c.put("real/x")
	c.link("real", "link")
	c.link("real/x", "one")
	for _, tc := range []struct{ rule, path string }{
		{"Read(./link/**)", "real/x"}, {"Read(./link/*)", "real/x"}, {"Read(./link)", "real/x"}, {"Read(./one)", "real/x"}, {"Read(//" + c.cwd + "/one)", "link/x"},
	} {
		wantBehavior(t, tc.rule, c.on(c.judge(ModeDefault, rules{deny: []string{tc.rule}}), readSpec, tc.path), approval.Deny)
	}
	// The working directory may itself be named by a link.
	if err := os.Symlink(c.cwd, filepath.Join(c.base, "wslink")); err != nil {
		t.Fatal(err)
	}
	j := c.judge(ModeAcceptEdits, rules{deny: []string{"Read(./real/**)"}})
	j.CWD = filepath.Join(c.base, "wslink")
	for path, want := range map[string]string{"new": approval.Allow, filepath.Join(c.cwd, "new"): approval.Allow, filepath.Join(c.cwd, "real/x"): approval.Deny, "../out/x": approval.Ask} {
		wantBehavior(t, path, c.on(j, writeSpec, path), want)
	}
}

// TestFollow: links are followed as the system does, and on behind what does not
// exist.
func TestFollow(t *testing.T) {
	c := newCourt(t)
	c.put("dir/f")
	c.link("dir", "d")
	c.link("../out/new", "nowhere")
	c.link("loop", "loop")
	c.link(filepath.Join(c.cwd, "dir"), "abs")
	in := func(name string) string { return filepath.Join(c.cwd, name) }
	for path, want := range map[string]string{
		in("dir/f"): in("dir/f"), in("d/f"): in("dir/f"), in("d/new/x"): in("dir/new/x"), in("nowhere"): filepath.Join(c.base, "out/new"), in("abs/f"): in("dir/f"),
		c.cwd + "/d/../x": in("x"), c.cwd + "/abs/../../out": filepath.Join(c.base, "out"), in("loop"): in("loop"), "/": "/", "/../x": "/x",
	} {
		if got := new(disk).follow(path); got != want {
			t.Errorf("follow %s: got %s, want %s", path, got, want)
		}
	}
}

// TestHidden: a search does not find what may not be read.
func TestHidden(t *testing.T) {
	c := newCourt(t)
	c.put("secret/key", "open/x")
	c.link("../secret/key", "open/link")
	j := c.judge(process.WorkspaceWrite, rules{deny: []string{"Read(./secret/**)", "Read(*.pem)"}})
	hidden := j.Hides()
	for name, want := range map[string]bool{"secret/key": true, "secret": true, "open/x": false, "open/link": true, "a/b.pem": true} {
		if got := hidden(filepath.Join(c.cwd, name)); got != want {
			t.Errorf("%s: hidden %v, want %v", name, got, want)
		}
	}
	wantBehavior(t, "a search above it", c.on(j, grepSpec, "."), approval.Allow)
	if c.judge(process.WorkspaceWrite, rules{deny: []string{"Read", "Edit(x)"}}).Hides() != nil {
		t.Error("no rule hides files, but files are hidden")
	}
}

// TestProtected: what is protected is asked about wherever it is, unless
// everything is allowed.
func TestProtected(t *testing.T) {
	c := newCourt(t)
	c.put(".git/config", "sub/x")
	c.link(".git", "g")
	allow := rules{allow: []string{"Edit", "Edit(./**)"}}
	for _, path := range []string{".git/config", "sub/.git/hooks/x", "g/config", ".GIT/config", ".bashrc", ".claude/settings.json", ".dsh/settings.json", ".mcp.json"} {
		for _, word := range []string{ModeDefault, ModeAcceptEdits, process.WorkspaceWrite} {
			v := c.on(c.judge(word, allow), writeSpec, path)
			wantBehavior(t, word+" "+path, v, approval.Ask)
			if v.BlockedPath == "" || v.ReasonType != approval.ReasonSafety {
				t.Errorf("%s: verdict %+v", path, v)
			}
		}
		wantBehavior(t, path, c.on(c.judge(ModeBypass, rules{}), writeSpec, path), approval.Allow)
		wantBehavior(t, path, c.on(c.judge(process.FullAccess, rules{}), writeSpec, path), approval.Allow)
		wantBehavior(t, "read "+path, c.on(c.judge(ModeDefault, rules{}), readSpec, path), approval.Allow)
	}
	for _, path := range []string{".gitignore", "git/x", "x.bashrc"} {
		wantBehavior(t, path, c.on(c.judge(ModeAcceptEdits, rules{}), writeSpec, path), approval.Allow)
	}
	// dsh's own folder is protected, also where a working directory holds it.
	j := c.judge(process.WorkspaceWrite, rules{})
	j.CWD = c.base
	wantBehavior(t, "home", c.on(j, writeSpec, filepath.Join(c.home, ".dsh/trust.json")), approval.Ask)
	j = c.judge(process.WorkspaceWrite, rules{})
	j.State = filepath.Join(c.cwd, "state")
	wantBehavior(t, "state", c.on(j, writeSpec, "state/trust.json"), approval.Ask)
	wantBehavior(t, "state", c.shell(j, "echo x > state/trust.json"), approval.Ask)
	// A session may work inside of a folder of such a name.
	j = c.judge(process.WorkspaceWrite, rules{})
	j.CWD = filepath.Join(c.cwd, ".git", "work")
	wantBehavior(t, "inside", c.on(j, writeSpec, "x"), approval.Allow)
}
