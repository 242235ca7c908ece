package agentfiles

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
	"dsh/kernel/settings"
	"dsh/plugins/internal/frontmatter"
)

// world is a user's folder and a project, which is the working directory.
type world struct {
	t       *testing.T
	root    string
	trusted bool
	unread  string
	kinds   *agent.Definitions
	agents  *Agents
	log     bytes.Buffer
}

// For implements settings.Source.
func (w *world) For(string) []settings.Layer {
	return []settings.Layer{
		{Scope: settings.ScopeUser, File: filepath.Join(w.root, "user", "settings.json"), Trusted: true, Unread: w.unread == settings.ScopeUser},
		{Scope: settings.ScopeProject, File: filepath.Join(w.root, "ws", ".claude", "settings.json"), Trusted: w.trusted, Unread: w.unread == settings.ScopeProject},
		{Scope: settings.ScopeLocal, File: filepath.Join(w.root, "ws", ".claude", "settings.local.json")},
	}
}

func (*world) Watch(*kernel.Owner, func()) error { return nil }

func start(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, kinds: agent.NewDefinitions()}
	w.put("ws/x", "")
	t.Chdir(filepath.Join(root, "ws"))
	owner := kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := w.kinds.List(); len(left) > 0 {
			t.Errorf("still registered: %v", left)
		}
	})
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	w.agents, err = New(Params{
		Self:   kernel.Instance{Owner: owner, Home: filepath.Join(root, "home"), Log: log, Ready: kernel.NewReady(owner, log)},
		Config: defaults(), Definitions: w.kinds, Settings: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) put(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) load() {
	w.t.Helper()
	if err := w.agents.load(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// kinds gives name to source and mode.
func (w *world) found() map[string]string {
	got := map[string]string{}
	for _, d := range w.kinds.List() {
		got[d.Name] = strings.TrimSpace(d.Source + " " + d.PermissionMode)
	}
	return got
}

func head(lines ...string) string {
	return "---\ndescription: d\n" + strings.Join(lines, "\n") + "\n---\nYou are.\n"
}

// What a file of a project widens counts where the folder is trusted, what it narrows
// everywhere (spec stream-json 7.4, 11.7).
func TestTrust(t *testing.T) {
	w := start(t)
	w.put("home/agents/a.md", head("permissionMode: bypassPermissions"))
	w.put("user/agents/b.md", head("permissionMode: acceptEdits"))
	w.put("ws/.claude/agents/c.md", head("permissionMode: bypassPermissions"))
	w.put("ws/.claude/agents/d.md", head("permissionMode: plan"))
	w.load()
	want := map[string]string{"a": "user bypassPermissions", "b": "user acceptEdits", "c": "project", "d": "project plan"}
	if diff := cmp.Diff(want, w.found()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if said := w.log.String(); strings.Count(said, "permissionMode") != 1 || !strings.Contains(said, "c.md") {
		t.Errorf("the log says %s", said)
	}
	w.trusted = true
	w.load()
	want["c"] = "project bypassPermissions"
	if diff := cmp.Diff(want, w.found()); diff != "" {
		t.Errorf("trusted (-want +got):\n%s", diff)
	}
	for scope, left := range map[string][]string{settings.ScopeUser: {"c", "d"}, settings.ScopeProject: {"a", "b"}} {
		w.unread = scope
		w.load()
		if got := w.found(); len(got) != 2 || got[left[0]] == "" || got[left[1]] == "" {
			t.Errorf("without %s: %v", scope, got)
		}
	}
}

// Files are taken as they are now; what is no good is left out and named once; a link
// out of the project is not followed.
func TestFiles(t *testing.T) {
	w := start(t)
	w.put("ws/.git/HEAD", "")
	w.put("secret.md", head())
	w.put("ws/.claude/agents/good.md", head())
	w.put("ws/.claude/agents/nothing.md", "---\ndescription: d\n---\n \n")
	w.put("ws/.claude/agents/notes.txt", head())
	if err := os.Symlink(filepath.Join(w.root, "secret.md"), filepath.Join(w.root, "ws/.claude/agents/link.md")); err != nil {
		t.Fatal(err)
	}
	w.load()
	w.load()
	if diff := cmp.Diff(map[string]string{"good": "project"}, w.found()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"nothing.md", "link.md"} {
		if strings.Count(w.log.String(), name+" error") != 1 {
			t.Errorf("the log does not name %s once: %s", name, w.log.String())
		}
	}
	w.put("ws/.claude/agents/more.md", head())
	if err := os.Remove(filepath.Join(w.root, "ws/.claude/agents/good.md")); err != nil {
		t.Fatal(err)
	}
	w.load()
	if diff := cmp.Diff(map[string]string{"more": "project"}, w.found()); diff != "" {
		t.Errorf("later (-want +got):\n%s", diff)
	}
}

// The head of a file has the members of spec stream-json 11.7.
func TestDefinition(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		want  agent.Definition
		wrong string
	}{
		"everything": {
			"---\nname: x\ndescription: does it\ntools: Read, Bash(git:*, ls), Grep\ndisallowedTools: [Write]\nmodel: sonnet\neffort: high\nmaxTurns: 7\n" +
				"permissionMode: plan\nbackground: true\ninitialPrompt: Begin.\nskills:\n- a\n- b\ncolor: red\nmcpServers: {a: {}}\n---\n\nYou are x.\n",
			agent.Definition{
				Name: "x", Description: "does it", Prompt: "You are x.", Tools: []string{"Read", "Bash(git:*, ls)", "Grep"}, DisallowedTools: []string{"Write"},
				Model: "sonnet", Effort: "high", MaxTurns: 7, PermissionMode: "plan", Background: true, InitialPrompt: "Begin.", Skills: []string{"a", "b"},
			}, "",
		},
		"little":          {"---\ndescription: d\n---\nYou.", agent.Definition{Name: "stem", Description: "d", Prompt: "You."}, ""},
		"no tools at all": {"---\ndescription: d\ntools: []\n---\nYou.", agent.Definition{Name: "stem", Description: "d", Prompt: "You.", Tools: []string{}}, ""},
		"no head":         {"You.", agent.Definition{}, "needs a description"},
		"no prompt":       {"---\ndescription: d\n---\n", agent.Definition{}, "needs a prompt"},
		"a plugin's name": {"---\nname: a:b\ndescription: d\n---\nYou.", agent.Definition{}, "no name of an agent"},
		"effort":          {"---\ndescription: d\neffort: hihg\n---\nYou.", agent.Definition{}, `did you mean "high"`},
		"mode":            {"---\ndescription: d\npermissionMode: yolo\n---\nYou.", agent.Definition{}, "permissionMode"},
		"turns":           {"---\ndescription: d\nmaxTurns: 0\n---\nYou.", agent.Definition{}, "maxTurns"},
		"background":      {"---\ndescription: d\nbackground: 1\n---\nYou.", agent.Definition{}, "background"},
	} {
		t.Run(name, func(t *testing.T) {
			m, body, err := frontmatter.Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := definition(m, "stem", body)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
