package instructions_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/plugins/instructions"
	"dsh/sdkproto"
)

// world is a folder with a home and a repository, and the row over them.
type world struct {
	t     *testing.T
	root  string
	log   bytes.Buffer
	owner *kernel.Owner
	hooks *agent.Hooks
}

func start(t *testing.T, change func(*instructions.Config)) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, owner: kernel.NewOwner(context.Background(), "test"), hooks: agent.NewHooks()}
	t.Cleanup(func() {
		if err := w.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.put("repo/.git", "")
	w.put("repo/sub/deep/x", "")
	c := *instructions.Plugin.Defaults().(*instructions.Config)
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	_, err = instructions.Start(instructions.Params{
		Self: kernel.Instance{Owner: w.owner, Home: w.path("home"), Log: slog.New(slog.NewTextHandler(&w.log, nil))}, Config: c, Hooks: w.hooks,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.root, filepath.FromSlash(name)) }

func (w *world) put(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(target, name string) {
	w.t.Helper()
	if err := os.Symlink(target, w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) messages(cwd string, depth int) []sdkproto.Message {
	w.t.Helper()
	got, err := w.hooks.Context(context.Background(), kernel.Now, agent.Opening{SessionID: "s", CWD: w.path(cwd), Depth: depth})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// told gives each message's file, below the root, and the text behind its first
// line.
func (w *world) told(cwd string) []string {
	w.t.Helper()
	all := []string{}
	for _, m := range w.messages(cwd, 0) {
		rel, err := filepath.Rel(w.root, m.Source.Plugin)
		if err != nil {
			w.t.Fatal(err)
		}
		head, text, ok := strings.Cut(sdkproto.TextOf(m.Content), "\n\n")
		if !ok || !strings.Contains(head, m.Source.Plugin) {
			w.t.Errorf("the head %q does not name %s", head, m.Source.Plugin)
		}
		all = append(all, filepath.ToSlash(rel)+": "+text)
	}
	return all
}

func (w *world) want(cwd string, want ...string) {
	w.t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, w.told(cwd)); diff != "" {
		w.t.Errorf("(-want +got):\n%s", diff)
	}
}

// Files from general to specific, each a message of its own (spec jsonrpc 6 and
// 10.7), for children, too.
func TestOrder(t *testing.T) {
	w := start(t, nil)
	w.want("repo/sub/deep")
	w.put("home/AGENTS.md", "mine")
	w.put("AGENTS.md", "above the repository")
	w.put("repo/CLAUDE.md", "root, claude\n")
	w.put("repo/AGENTS.md", "\nroot\n")
	w.put("repo/sub/AGENTS.md", "sub")
	w.put("repo/sub/deep/CLAUDE.md", "deep")
	w.put("repo/other/AGENTS.md", "beside")
	w.put("repo/sub/deep/AGENTS.md", " \n")
	w.want("repo/sub/deep", "home/AGENTS.md: mine", "repo/AGENTS.md: root", "repo/CLAUDE.md: root, claude", "repo/sub/AGENTS.md: sub", "repo/sub/deep/CLAUDE.md: deep")
	w.want("repo", "home/AGENTS.md: mine", "repo/AGENTS.md: root", "repo/CLAUDE.md: root, claude")
	messages := w.messages("repo", 0)
	if diff := cmp.Diff(messages, w.messages("repo", 3), cmp.AllowUnexported(sdkproto.Message{}, sdkproto.Block{}, sdkproto.Source{})); diff != "" {
		t.Errorf("a child gets something else:\n%s", diff)
	}
	for _, m := range messages {
		if m.Source.Kind != "agent-instructions" || m.Source.Form != "instructions" || m.Role != "user" {
			t.Errorf("got %+v", m)
		}
	}
	if w.log.Len() > 0 {
		t.Errorf("the log says %s", w.log.String())
	}
	if err := w.owner.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.want("repo")
}

// Without a repository only the working directory counts.
func TestWithoutRepository(t *testing.T) {
	w := start(t, nil)
	w.put("plain/AGENTS.md", "above")
	w.put("plain/sub/AGENTS.md", "here")
	w.want("plain/sub", "plain/sub/AGENTS.md: here")
}

// One file under two names is told once; a link may not lead out of the
// repository, but the user's own may lead anywhere.
func TestLinks(t *testing.T) {
	w := start(t, nil)
	w.put("secret", "key")
	w.put("repo/AGENTS.md", "root")
	w.link("AGENTS.md", "repo/CLAUDE.md")
	w.link("../../secret", "repo/sub/AGENTS.md")
	w.link("../AGENTS.md", "repo/sub/CLAUDE.md")
	w.link("gone", "repo/sub/deep/AGENTS.md")
	w.put("dotfiles/a.md", "mine")
	w.put("home/x", "")
	w.link("../dotfiles/a.md", "home/AGENTS.md")
	for range 2 {
		w.want("repo/sub/deep", "home/AGENTS.md: mine", "repo/AGENTS.md: root")
	}
	if got := w.log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "leads out of") || !strings.Contains(got, "leads nowhere") {
		t.Errorf("the log says %s", got)
	}
}

// What cannot be read is named in the log; the rest is told.
func TestUnreadable(t *testing.T) {
	w := start(t, nil)
	w.put("repo/AGENTS.md", "a\x00b")
	w.put("repo/CLAUDE.md/x", "")
	w.put("repo/sub/AGENTS.md", "\xff\xfeh\x00i\x00")
	w.put("repo/sub/CLAUDE.md", "the caf\xe9 is open")
	w.want("repo/sub", "repo/sub/AGENTS.md: hi", "repo/sub/CLAUDE.md: the caf\ufffd is open")
	if got := w.log.String(); strings.Count(got, "left out") != 2 || !strings.Contains(got, "no text file") || !strings.Contains(got, "directory") {
		t.Errorf("the log says %s", got)
	}
}

func TestLimits(t *testing.T) {
	w := start(t, func(c *instructions.Config) { c.MaxBytes, c.MaxTotalBytes = 100, 150 })
	w.put("repo/AGENTS.md", strings.Repeat("a", 90))
	w.put("repo/sub/AGENTS.md", strings.Repeat("b", 101))
	w.put("repo/sub/deep/AGENTS.md", strings.Repeat("c", 100))
	const note = "\n\n[cut here: instructions are limited to 100 bytes a file and 150 in all]"
	w.want("repo/sub", "repo/AGENTS.md: [cut here: instructions are limited to 100 bytes a file and 150 in all]",
		"repo/sub/AGENTS.md: "+strings.Repeat("b", 100)+note)
	w.want("repo/sub/deep", "repo/AGENTS.md: [cut here: instructions are limited to 100 bytes a file and 150 in all]",
		"repo/sub/AGENTS.md: "+strings.Repeat("b", 50)+note, "repo/sub/deep/AGENTS.md: "+strings.Repeat("c", 100))
}

func TestImports(t *testing.T) {
	w := start(t, func(c *instructions.Config) { c.ImportDepth = 2 })
	w.put("secret", "key")
	w.put("repo/AGENTS.md", "agents")
	w.put("repo/docs/a.md", "A, see @b.md.")
	w.put("repo/docs/b.md", "B, see @c.md and @a.md")
	w.put("repo/docs/c.md", "too deep")
	w.link("../../secret", "repo/docs/out.md")
	text := "@AGENTS.md\nSee @docs/a.md, (@docs/b.md) me@docs/c.md `@docs/c.md` @nobody @~/x @../secret @docs/out.md @docs\n```\n@docs/c.md\n```\n~~~~\n```\n@docs/c.md\n~~~~"
	w.put("repo/CLAUDE.md", text)
	w.want("repo", "repo/AGENTS.md: agents", "repo/CLAUDE.md: "+text+
		"\n\nThe file "+w.path("repo/docs/a.md")+", which is imported above:\n\nA, see @b.md."+
		"\n\nThe file "+w.path("repo/docs/b.md")+", which is imported above:\n\nB, see @c.md and @a.md")
	if got := w.log.String(); strings.Count(got, "leads out of") != 2 || strings.Contains(got, "key") {
		t.Errorf("the log says %s", got)
	}
	none := start(t, func(c *instructions.Config) { c.ImportDepth = 0 })
	none.put("repo/x.md", "X")
	none.put("repo/AGENTS.md", "@x.md")
	none.want("repo", "repo/AGENTS.md: @x.md")
	small := start(t, func(c *instructions.Config) { c.MaxBytes = 20 })
	small.put("repo/x.md", strings.Repeat("x", 30))
	small.put("repo/AGENTS.md", "@x.md")
	small.want("repo", "repo/AGENTS.md: @x.md\n\nThe file "+small.path("repo/x.md")+", which is imported above:\n\n"+strings.Repeat("x", 15)+
		"\n\n[cut here: instructions are limited to 20 bytes a file and 262144 in all]")
}

func TestConfig(t *testing.T) {
	c := instructions.Config{Files: []string{"../x"}, UserFolders: []string{""}, ImportDepth: -1}
	err := c.Validate()
	for _, want := range []string{`"../x" is no name of a file`, "must not be empty", "0 is too small; use 1", "-1 is too small; use 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
