package permissions

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

// layers are settings in a test; the slice may be replaced between calls.
type layers struct{ list []settings.Layer }

func (l *layers) For(string) []settings.Layer            { return l.list }
func (l *layers) Watch(o *kernel.Owner, fn func()) error { return nil }

// gate makes a gate by hand, without a process around it (S121).
func gate(t *testing.T, c Config, from settings.Source) (*Gate, *bytes.Buffer) {
	t.Helper()
	owner := kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var log bytes.Buffer
	g, err := New(Params{
		Self:   kernel.Instance{Owner: owner, Log: slog.New(slog.NewTextHandler(&log, nil)), Home: filepath.Join(t.TempDir(), "state")},
		Config: c, Pipeline: tool.NewPipeline(), Tools: tool.NewRegistry(), Desk: approval.NewDesk(), Settings: from,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.register(); err != nil {
		t.Fatal(err)
	}
	return g, &log
}

// TestSettings: rules of settings count by their layer's trust, and again when
// the file has changed.
func TestSettings(t *testing.T) {
	cwd := t.TempDir()
	src := &layers{}
	c := defaults()
	c.Mode = ModeDefault
	g, log := gate(t, c, src)
	judge := func(command string) string {
		return g.Judge(bashSpec, tool.Invocation{SessionID: "s", CWD: cwd, Arguments: args(t, map[string]any{"command": command})}).Behavior
	}
	layer := func(trusted bool, p settings.Permissions) settings.Layer {
		return settings.Layer{Scope: settings.ScopeProject, File: "f", Root: cwd, Exists: true, Trusted: trusted, Permissions: p}
	}
	all := settings.Permissions{Allow: []string{"Bash(make a)"}, Ask: []string{"Bash(ls a)"}, Deny: []string{"Bash(ls b)"}}
	for _, tc := range []struct {
		name   string
		layers []settings.Layer
		want   [4]string // make a, ls, ls a, ls b
	}{
		{"none", nil, [4]string{"ask", "allow", "allow", "allow"}},
		{"trusted", []settings.Layer{layer(true, all)}, [4]string{"allow", "allow", "ask", "deny"}},
		{"not trusted", []settings.Layer{layer(false, all)}, [4]string{"ask", "allow", "allow", "deny"}},
		{"two", []settings.Layer{layer(true, settings.Permissions{Deny: []string{"Bash(make:*)"}}), layer(true, all)}, [4]string{"deny", "allow", "ask", "deny"}},
		{"unusable", []settings.Layer{{Scope: "user", Err: errors.New("broken"), Trusted: true, Permissions: all}}, [4]string{"ask", "ask", "ask", "ask"}},
		{"mode", []settings.Layer{layer(true, settings.Permissions{DefaultMode: ModeBypass})}, [4]string{"allow", "allow", "allow", "allow"}},
		{"mode not trusted", []settings.Layer{layer(false, settings.Permissions{DefaultMode: ModeBypass})}, [4]string{"ask", "allow", "allow", "allow"}},
		{"forbidden mode", []settings.Layer{layer(true, settings.Permissions{DefaultMode: ModeBypass}), layer(false, settings.Permissions{DisableBypassPermissionsMode: "disable"})}, [4]string{"ask", "allow", "allow", "allow"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src.list = tc.layers
			if got := [4]string{judge("make a"), judge("ls"), judge("ls a"), judge("ls b")}; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}

	src.list = []settings.Layer{layer(true, settings.Permissions{Allow: []string{"*", "Bash(make a)"}, DefaultMode: "yolo"})}
	if judge("make a") != approval.Allow {
		t.Error("a bad rule takes the good one away")
	}
	for _, want := range []string{"names its tool", "yolo"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, log)
		}
	}
	if before := g.parsed[cwd]; before != g.layers(cwd) {
		t.Error("equal settings are parsed again")
	}
	src.list = []settings.Layer{layer(false, settings.Permissions{DisableBypassPermissionsMode: "disable"})}
	if err := g.SetMode("s", cwd, ModeBypass); err == nil || !strings.Contains(err.Error(), "disableBypassPermissionsMode") {
		t.Errorf("a forbidden mode is taken: %v", err)
	}
}

// TestB82: a settings file that cannot be used never counts as one without rules.
func TestB82(t *testing.T) {
	cwd := t.TempDir()
	read := tool.Spec{Name: "read", ReadOnly: true, Subject: tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "file_path"}}
	for _, tc := range []struct {
		name  string
		layer settings.Layer
		want  string
		says  string
	}{
		{"broken", settings.Layer{Err: errors.New("settings.json:3:7: unexpected comma")}, approval.Ask, "settings.json:3:7: unexpected comma"},
		{"its servers are broken", settings.Layer{Err: errors.New(".mcp.json:1: no"), ServersOnly: true}, approval.Allow, ""},
		{"a deny rule that cannot be read", settings.Layer{Permissions: settings.Permissions{Deny: []string{"Read(("}}}, approval.Ask, "cannot be used"},
		{"an ask rule that cannot be read", settings.Layer{Trusted: true, Permissions: settings.Permissions{Ask: []string{"Read(("}}}, approval.Ask, "cannot be used"},
		{"an allow rule that cannot be read", settings.Layer{Trusted: true, Permissions: settings.Permissions{Allow: []string{"Read(("}}}, approval.Allow, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.layer.Scope, tc.layer.Exists, tc.layer.Root = settings.ScopeUser, true, cwd
			for _, word := range []string{process.WorkspaceWrite, process.FullAccess} {
				c := defaults()
				c.Preset = word
				g, _ := gate(t, c, &layers{[]settings.Layer{tc.layer}})
				v := g.Judge(read, tool.Invocation{SessionID: "s", CWD: cwd, Arguments: args(t, map[string]any{"file_path": "a"})})
				if v.Behavior != tc.want || !strings.Contains(v.Reason, tc.says) {
					t.Errorf("%s: %s, because %s; want %s that says %q", word, v.Behavior, v.Reason, tc.want, tc.says)
				}
			}
		})
	}
}

// S043: every mode is accepted from any launch, unless the profile or a setting
// forbids it; an unknown one is an error.
func TestS043(t *testing.T) {
	g, _ := gate(t, defaults(), nil)
	for _, mode := range []string{"default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "manual", process.ReadOnly} {
		if err := g.SetMode("s", "/w", mode); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	c := defaults()
	c.DisableBypass = true
	g, _ = gate(t, c, nil)
	if err := g.SetMode("s", "/w", ModeBypass); err == nil {
		t.Error("a forbidden mode is taken")
	}
}

// TestDirectories: folders of the config, of settings and of a session.
func TestDirectories(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cwd := filepath.Join(base, "ws")
	c := defaults()
	c.Mode, c.AdditionalDirectories = ModeAcceptEdits, []string{"../a"}
	src := &layers{list: []settings.Layer{
		{Scope: "user", Root: base, Trusted: true, Permissions: settings.Permissions{AdditionalDirectories: []string{"./b"}}},
		{Scope: "project", Root: cwd, Permissions: settings.Permissions{AdditionalDirectories: []string{base + "/d"}}},
	}}
	g, _ := gate(t, c, src)
	if err := g.Update("s", cwd, []approval.Update{{Type: approval.AddDirectories, Directories: []string{base + "/c", base + "/e"}}, {Type: approval.RemoveDirectories, Directories: []string{base + "/e"}}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ws": "allow", "a": "allow", "b": "allow", "c": "allow", "d": "ask", "e": "ask"} {
		v := g.Judge(writeSpec, tool.Invocation{SessionID: "s", CWD: cwd, Arguments: args(t, map[string]any{"file_path": base + "/" + name + "/x"})})
		wantBehavior(t, name, v, want)
	}
}

// TestPrograms: how servers and plugins are confined.
func TestPrograms(t *testing.T) {
	cache, home, tmp := t.TempDir(), t.TempDir(), t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CACHE_HOME": cache, "TMPDIR": tmp, "GOCACHE": "", "GOMODCACHE": "", "GOPATH": ""} {
		t.Setenv(name, value)
	}
	c := defaults()
	c.Writable, c.Network, c.Strict = []string{"/data"}, false, true
	g, _ := gate(t, c, nil)
	got := confiner{g}.Confinement("/w")
	if got == nil || got.Mode != process.WorkspaceWrite || !got.NoNetwork || !got.Strict {
		t.Fatalf("confinement %+v", got)
	}
	for _, dir := range []string{"/w", os.TempDir(), "/data", home + "/.npm", home + "/go/pkg/mod"} {
		if !slices.Contains(got.Write, dir) {
			t.Errorf("%s is not open: %v", dir, got.Write)
		}
	}
	for _, dir := range got.Write {
		if _, ok := below(dir, filepath.Join(home, ".dsh"), false); ok {
			t.Errorf("%s opens dsh's own folder", dir)
		}
	}
	for _, preset := range []string{process.ReadOnly, process.FullAccess} {
		c.Preset = preset
		g, _ = gate(t, c, nil)
		switch got := (confiner{g}).Confinement("/w"); {
		case preset == process.FullAccess && got != nil, preset == process.ReadOnly && (got == nil || got.Mode != process.ReadOnly || len(got.Write) > 0):
			t.Errorf("%s: %+v", preset, got)
		}
	}
}

// TestConfig: what a profile may say.
func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		wrong  []string
	}{
		{"defaults", func(*Config) {}, nil},
		{"a preset", func(c *Config) { c.Preset = "read-only" }, nil},
		{"a mode", func(c *Config) { c.Mode = "manual" }, nil},
		{"no preset", func(c *Config) { c.Preset = "yolo" }, []string{"/preset: there is no preset \"yolo\"; use read-only, workspace-write, danger-full-access"}},
		{"no mode", func(c *Config) { c.Mode = "auto" }, []string{"/mode: there is no mode \"auto\"; use default, acceptEdits, plan, bypassPermissions, dontAsk, manual"}},
		{"both", func(c *Config) { c.Preset, c.Mode = "read-only", "plan" }, []string{"/mode: preset read-only and mode plan are two ways to say the same; take one away"}},
		{"forbidden", func(c *Config) { c.DisableBypass, c.Mode = true, ModeBypass }, []string{"/mode: disableBypass forbids mode bypassPermissions"}},
		{"rules", func(c *Config) { c.Rules = Rules{Allow: []string{"Bash", "*"}, Deny: []string{"Bash(x"}} }, []string{
			"/rules/deny/0: rule \"Bash(x\": the parenthesis is not closed; write Tool or Tool(what)",
			"/rules/allow/1: rule \"*\": an allow rule names its tool; only mcp__SERVER__* may stand for more than one",
		}},
		{"flags", func(c *Config) { c.Flags = Rules{Allow: []string{"mcp__*"}} }, []string{
			"/flags/allow/0: rule \"mcp__*\": an allow rule names its tool; only mcp__SERVER__* may stand for more than one",
		}},
		{"words", func(c *Config) { c.Approvals, c.Children = "x", "y" }, []string{"/approvals: there is no approvals \"x\"; use ask, never", "/children: there is no children \"y\"; use ask, never"}},
		{"numbers", func(c *Config) { c.AnswerLimitMs = -1 }, []string{"/answerLimitMs: -1 is too small; use 0 or more"}},
		{"empty names", func(c *Config) { c.Protected = []string{""} }, []string{"/protected: an entry is empty; take it away"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := defaults()
			tc.change(&c)
			if diff := cmp.Diff(tc.wrong, reported(c.Validate())); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// reported lists what is wrong, with its place.
func reported(err error) (all []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, reported(one)...)
		}
		return all
	}
	var f *kernel.FieldError
	if errors.As(err, &f) {
		return []string{f.Pointer + ": " + f.Msg}
	}
	return nil
}

// TestForget: what a session was given goes with it.
func TestForget(t *testing.T) {
	g, _ := gate(t, defaults(), nil)
	if err := g.SetMode("s", "/w", ModePlan); err != nil {
		t.Fatal(err)
	}
	g.forget("s", g.sessions["s"])
	if got := g.Mode("s", "/w"); got != process.WorkspaceWrite {
		t.Errorf("mode %s", got)
	}
}

// BenchmarkRead is a decision about a call that reads.
func BenchmarkRead(b *testing.B) {
	g, err := New(Params{Self: kernel.Instance{Log: slog.New(slog.DiscardHandler), Home: "/nowhere"}, Config: defaults()})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	in := tool.Invocation{SessionID: "s", CWD: dir, Arguments: args(b, map[string]any{"file_path": "a/b.txt"})}
	b.ReportAllocs()
	for b.Loop() {
		if g.Judge(readSpec, in).Behavior != approval.Allow {
			b.Fatal("refused")
		}
	}
}

// BenchmarkShell is a decision about a command under rules.
func BenchmarkShell(b *testing.B) {
	c := defaults()
	c.Rules = Rules{Allow: []string{"Bash(npm:*)", "Bash(git push)"}, Deny: []string{"Bash(rm:*)", "Read(./secret/**)", "Read(*.pem)"}}
	g, err := New(Params{Self: kernel.Instance{Log: slog.New(slog.DiscardHandler), Home: "/nowhere"}, Config: c})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	in := tool.Invocation{SessionID: "s", CWD: dir, Arguments: args(b, map[string]any{"command": "git status && npm test -- --run | head -20"})}
	b.ReportAllocs()
	for b.Loop() {
		if g.Judge(bashSpec, in).Behavior != approval.Allow {
			b.Fatal("refused")
		}
	}
}

// B102: that programs cannot be confined is said at the start.
func TestB102(t *testing.T) {
	c := defaults()
	g, log := gate(t, c, nil)
	if err := g.probe(); err != nil || !strings.Contains(log.String(), "cannot be confined") || !strings.Contains(log.String(), "no row of the profile confines programs") {
		t.Errorf("error %v, log %s", err, log)
	}
	c.Strict = true
	g, _ = gate(t, c, nil)
	if err := g.probe(); err == nil || !strings.Contains(err.Error(), "no row of the profile confines programs") {
		t.Errorf("error %v", err)
	}
	c.Preset = process.FullAccess
	g, log = gate(t, c, nil)
	if err := g.probe(); err != nil || log.Len() > 0 {
		t.Errorf("error %v, log %s", err, log)
	}
}
