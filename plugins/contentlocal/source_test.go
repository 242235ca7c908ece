package contentlocal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/kernel/settings"
)

// world is a folder with a data folder and plugins.
type world struct {
	t     *testing.T
	root  string
	owner *kernel.Owner
	log   bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, owner: kernel.NewOwner(context.Background(), "test")}
	t.Cleanup(func() {
		if err := w.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
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

func (w *world) source(folders ...string) *Source {
	c := defaults()
	for _, f := range folders {
		c.Folders = append(c.Folders, w.path(f))
	}
	return New(Params{Config: c, Self: kernel.Instance{Owner: w.owner, Home: w.path("home"), Log: slog.New(slog.NewTextHandler(&w.log, nil))}})
}

func names(s *Source) (list []string) {
	for _, p := range s.Plugins() {
		list = append(list, p.Name+" "+p.Version+" "+p.Source)
	}
	return list
}

// The parts of a plugin are where the manifest says, too, and its folder is filled in
// for its servers.
func TestLoad(t *testing.T) {
	w := newWorld(t)
	w.put("p/.claude-plugin/plugin.json", `{
		// people comment
		"name": "own", "version": "1", "commands": "./more/one.md", "agents": ["more/agents"],
		"hooks": {"Stop": []}, "mcpServers": ["./more/mcp.json"], "author": {"name": "x"},
	}`)
	w.put("p/commands/a.md", "a")
	w.put("p/more/one.md", "1")
	w.put("p/more/agents/b.md", "b")
	w.put("p/hooks/hooks.json", `{"hooks": {"Stop": [{"hooks":[]}]}}`)
	w.put("p/.mcp.json", `{"first": {"command": "${CLAUDE_PLUGIN_ROOT}/run", "env": {"A": "${CLAUDE_PLUGIN_ROOT}", "B": "${HOME}"}}}`)
	w.put("p/more/mcp.json", `{"mcpServers": {"second": {"url": "http://x/", "headers": {"K": "${KEY}"}}}}`)
	got, err := Load(w.path("p"), content.FromFlags)
	if err != nil {
		t.Fatal(err)
	}
	root := w.path("p")
	want := &content.Plugin{
		Name: "own", Version: "1", Path: root, Source: content.FromFlags,
		Commands: []string{w.path("p/commands"), w.path("p/more/one.md")}, Agents: []string{w.path("p/more/agents")},
		Hooks: []content.Hooks{{File: w.path("p/hooks/hooks.json"), Raw: []byte(`{"Stop":[{"hooks":[]}]}`)}, {File: w.path("p/.claude-plugin/plugin.json"), Raw: []byte(`{"Stop":[]}`)}},
		Servers: map[string]settings.MCPServer{
			"first":  {Command: root + "/run", Args: []string{}, Env: map[string]string{"A": root, "B": "${HOME}", "CLAUDE_PLUGIN_ROOT": root}},
			"second": {URL: "http://x/", Args: []string{}, Headers: map[string]string{"K": "${KEY}"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is wrong is said, all at once and with its file; no path leads out of the folder.
func TestLoadErrors(t *testing.T) {
	w := newWorld(t)
	w.put("secret/x.md", "x")
	for name, tc := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"no manifest's JSON": {map[string]string{".claude-plugin/plugin.json": "{"}, []string{"plugin.json:1:2"}},
		"wrong types":        {map[string]string{".claude-plugin/plugin.json": `{"name": 7}`}, []string{"plugin.json:1:2"}},
		"paths":              {map[string]string{".claude-plugin/plugin.json": `{"commands": "../secret", "agents": "/etc", "skills": "not-there", "outputStyles": {}}`}, []string{`"../secret" is no path inside`, `"/etc" is no path inside`, "no not-there", "outputStyles of a plugin is a path"}},
		"hooks":              {map[string]string{"hooks/hooks.json": `{"hooks": {"Stop": {}}}`}, []string{"hooks.json", "Stop", "not a list"}},
		"servers":            {map[string]string{".mcp.json": `{"a": {}}`}, []string{".mcp.json", `server "a" needs`}},
		"a server's type":    {map[string]string{".mcp.json": `{"mcpServers": {"a": {"command": []}}}`}, []string{`server "a"`}},
		"nothing":            {map[string]string{"README.md": "x"}, []string{"holds no plugin"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := "p-" + strings.ReplaceAll(name, " ", "-")
			for file, text := range tc.files {
				w.put(dir+"/"+file, text)
			}
			_, err := Load(w.path(dir), content.FromFlags)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range append(tc.says, dir) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
	w.put("linked/commands/a.md", "a")
	if err := os.Symlink(w.path("secret"), w.path("linked/agents")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(w.path("linked"), content.FromFlags); err == nil || !strings.Contains(err.Error(), "leads out of") {
		t.Errorf("a link that leads out: %v", err)
	}
	for name, ok := range map[string]bool{"a": true, "A-b_c.d": true, "": false, ".a": false, "a b": false, "a:b": false, "a/b": false, strings.Repeat("a", 65): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A reload is one step: what can be used takes the place of the old set, unless a plugin
// that there was has gone bad; one that never was good hinders nothing (S054).
func TestReload(t *testing.T) {
	w := newWorld(t)
	w.put("a/.claude-plugin/plugin.json", `{"name": "a", "version": "1"}`)
	w.put("bad/.claude-plugin/plugin.json", `{`)
	s := w.source("a", "bad", "gone")
	told := 0
	var fails error
	if err := s.OnReload(w.owner.Child("watcher"), "test", func(context.Context) error { told++; return fails }); err != nil {
		t.Fatal(err)
	}
	is := func(version string, problems, calls int) {
		t.Helper()
		if diff := cmp.Diff([]string{"a " + version + " inline"}, names(s)); diff != "" || len(s.Problems()) != problems || told != calls {
			t.Errorf("%d problems, told %d times (-want +got):\n%s", len(s.Problems()), told, diff)
		}
	}
	is("1", 2, 0)
	w.put("a/.claude-plugin/plugin.json", `{"name": "a", "version": "2"}`)
	is("1", 2, 0)
	if got := s.Reload(t.Context()); len(got) != 2 {
		t.Errorf("problems %v", got)
	}
	is("2", 2, 1)
	w.put("a/.claude-plugin/plugin.json", `{"name": "a", "version": "3"`)
	if got := s.Reload(t.Context()); len(got) != 3 {
		t.Errorf("problems %v", got)
	}
	is("2", 3, 1)
	if err := os.RemoveAll(w.path("a")); err != nil {
		t.Fatal(err)
	}
	if got := s.Reload(t.Context()); len(got) != 3 {
		t.Errorf("problems %v", got)
	}
	is("2", 3, 1)
	w.put("a/.claude-plugin/plugin.json", `{"name": "a", "version": "4"}`)
	fails = errors.New("cannot take it")
	if got := s.Reload(t.Context()); len(got) != 3 || !strings.Contains(got[2].Err.Error(), "test: cannot take it") {
		t.Errorf("problems %v", got)
	}
	is("4", 2, 2)
}

// What a client adds goes ahead of the row's and goes with its owner.
func TestAdd(t *testing.T) {
	w := newWorld(t)
	w.put("a/.claude-plugin/plugin.json", `{"name": "a", "version": "row"}`)
	w.put("b/.claude-plugin/plugin.json", `{"name": "a", "version": "client"}`)
	w.put("b/.mcp.json", `{"s": {"command": "c"}}`)
	w.put("home/content-plugins/c/commands/x.md", "x")
	s := w.source("a")
	told := 0
	if err := s.OnReload(w.owner, "test", func(context.Context) error { told++; return nil }); err != nil {
		t.Fatal(err)
	}
	o := w.owner.Child("client")
	problems, err := s.Add(t.Context(), o, []content.Folder{{Path: w.path("b"), NoServers: true}, {Path: w.path("none")}})
	if err != nil || len(problems) != 1 || problems[0].Path != w.path("none") {
		t.Errorf("problems %v, error %v", problems, err)
	}
	if diff := cmp.Diff([]string{"a client client", "c  installed"}, names(s)); diff != "" || told != 1 || s.Plugins()[0].Servers != nil {
		t.Errorf("told %d, servers %v (-want +got):\n%s", told, s.Plugins()[0].Servers, diff)
	}
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a row inline", "c  installed"}, names(s)); diff != "" || told != 2 {
		t.Errorf("told %d (-want +got):\n%s", told, diff)
	}
	if _, err := s.Add(t.Context(), o, []content.Folder{{Path: w.path("b")}}); !errors.Is(err, kernel.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// Installing is whole or not at all, and takes no links along.
func TestInstall(t *testing.T) {
	w := newWorld(t)
	dir := w.path("home/content-plugins")
	w.put("p/.claude-plugin/plugin.json", `{"name": "own", "version": "1"}`)
	w.put("p/run.sh", "#!/bin/sh\n")
	w.put("p/.git/HEAD", "x")
	if err := os.Chmod(w.path("p/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	one, replaced, err := Install(t.Context(), dir, w.path("p"))
	if err != nil || replaced || one.Path != filepath.Join(dir, "own") {
		t.Fatalf("%+v, replaced %v, error %v", one, replaced, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "own/run.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the program of the plugin: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "own/.git")); err == nil {
		t.Error("version control was taken along")
	}
	w.put("p/.claude-plugin/plugin.json", `{"name": "own", "version": "2"}`)
	if err := os.Symlink("/etc/hostname", w.path("p/link")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Install(t.Context(), dir, w.path("p")); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link: %v", err)
	}
	if got := names(w.source()); !cmp.Equal(got, []string{"own 1 installed"}) {
		t.Errorf("after a failure there is %v", got)
	}
	if err := os.Remove(w.path("p/link")); err != nil {
		t.Fatal(err)
	}
	if _, replaced, err := Install(t.Context(), dir, w.path("p")); err != nil || !replaced {
		t.Errorf("replaced %v, error %v", replaced, err)
	}
	if _, _, err := Install(t.Context(), dir, filepath.Join(dir, "own")); err == nil || !strings.Contains(err.Error(), "the place where it would be installed") {
		t.Errorf("onto itself: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || len(names(w.source())) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
