package settings_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	contract "dsh/kernel/settings"
	"dsh/plugins/settings"
)

func (w *world) layer(scope string) contract.Layer {
	w.t.Helper()
	layers := w.For(w.ws)
	i := slices.IndexFunc(layers, func(l contract.Layer) bool { return l.Scope == scope && !l.ServersOnly })
	if i < 0 {
		w.t.Fatalf("there is no layer %s", scope)
	}
	return layers[i]
}

// TestFlags: what --settings says is a layer above the files, trusted whatever the
// folder is, and never a file (spec stream-json 7.4).
func TestFlags(t *testing.T) {
	text := `{"model":"m","permissions":{"allow":["Bash(make:*)"],"defaultMode":"plan"},"mcpServers":{"a":{"command":"x"}},"mine":1}`
	w := start(t, func(c *settings.Config) { c.Trust, c.Flags = "never", []byte(text) })
	layers := w.For(w.ws)
	got := layers[len(layers)-1]
	want := contract.Layer{
		Scope: contract.ScopeFlag, Root: w.ws, Exists: true, Trusted: true, Raw: []byte(text),
		Permissions: contract.Permissions{Allow: []string{"Bash(make:*)"}, DefaultMode: "plan"},
		MCPServers:  map[string]contract.MCPServer{"a": {Command: "x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ text, says string }{
		{`[]`, "one JSON object"},
		{`{"permissions":{"allow":"Bash"}}`, "/permissions/allow"},
		{`{"allow":["Bash"]}`, `belongs into the object "permissions"`},
		{`{"permissions":{"alow":["Bash"]}}`, "did you mean"},
	} {
		c := *settings.Plugin.Defaults().(*settings.Config)
		c.Flags = []byte(tc.text)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), "the settings given at the start:1:") || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.text, err, tc.says)
		}
	}
	for _, text := range []string{"", "null"} {
		c := *settings.Plugin.Defaults().(*settings.Config)
		if c.Flags = []byte(text); c.Validate() != nil {
			t.Errorf("%q: %v", text, c.Validate())
		}
	}
}

// TestSources: --setting-sources says which files are read; none of them is read
// where it names none (spec stream-json 7.4). Naming the files of a project is
// consent where the profile says so, and only then.
func TestSources(t *testing.T) {
	for _, tc := range []struct {
		name    string
		sources []string
		consent bool
		// read and trusted are the scopes that are.
		read, trusted []string
	}{
		{"by default", nil, true, []string{"user", "project", "local"}, []string{"user"}},
		{"none", []string{}, true, nil, nil},
		{"user", []string{"user"}, true, []string{"user"}, []string{"user"}},
		{"project named", []string{"project"}, true, []string{"project"}, []string{"project"}},
		{"all named", []string{"user", "project", "local"}, true, []string{"user", "project", "local"}, []string{"user", "project", "local"}},
		{"named without consent", []string{"project", "local"}, false, []string{"project", "local"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, func(c *settings.Config) { c.Sources, c.TrustSources = tc.sources, tc.consent })
			for _, file := range []string{"home/settings.json", "ws/.dsh/settings.json", "ws/.dsh/settings.local.json"} {
				w.put(file, `{"permissions":{"allow":["X"]}}`)
			}
			var read, trusted []string
			for _, scope := range []string{"user", "project", "local"} {
				l := w.layer(scope)
				if l.Exists && len(l.Permissions.Allow) == 1 {
					read = append(read, scope)
				}
				if l.Trusted {
					trusted = append(trusted, scope)
				}
			}
			if diff := cmp.Diff(tc.read, read); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.trusted, trusted); diff != "" {
				t.Errorf("trusted (-want +got):\n%s", diff)
			}
			if l := w.layer("flag"); l.Exists || !l.Trusted {
				t.Errorf("flag layer %+v", l)
			}
		})
	}
}

// TestUserFolder: a variable such as CLAUDE_CONFIG_DIR moves the user's settings.
func TestUserFolder(t *testing.T) {
	w := start(t, func(c *settings.Config) { c.UserFolders, c.UserFolder = []string{"a", "b"}, "../else" })
	w.put("else/settings.json", `{"model":"m"}`)
	layers := w.For(w.ws)
	want := filepath.Join(filepath.Dir(w.home), "else", "settings.json")
	if l := layers[0]; l.File != want || !l.Exists || !l.Trusted || layers[1].Scope == "user" {
		t.Errorf("got %+v", layers[:2])
	}
}

// TestSetFlags: a client replaces the layer above the files, or empties it; whoever
// watches hears of a change at once; what is no settings object changes nothing
// (spec stream-json 4.8).
func TestSetFlags(t *testing.T) {
	w := start(t, func(c *settings.Config) { c.Flags = []byte(`{"model":"first"}`) })
	heard := make(chan struct{}, 8)
	if err := w.Watch(w.owner, func() { heard <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ text, raw, mode string }{
		{`{ "model": "second", "permissions": {"defaultMode": "plan"} }`, `{"model":"second","permissions":{"defaultMode":"plan"}}`, "plan"},
		{"", "", ""},
		{`{}`, `{}`, ""},
	} {
		if err := w.SetFlags([]byte(step.text)); err != nil {
			t.Fatalf("%s: %v", step.text, err)
		}
		<-heard
		l := w.layer("flag")
		if string(l.Raw) != step.raw || l.Permissions.DefaultMode != step.mode || l.Exists != (step.raw != "") || !l.Trusted {
			t.Errorf("%s: layer %+v", step.text, l)
		}
	}
	for _, text := range []string{`[]`, `{"permissions":{"allow":"Bash"}}`, `{`} {
		if err := w.SetFlags([]byte(text)); err == nil || string(w.layer("flag").Raw) != `{}` {
			t.Errorf("%s: %v, layer %s", text, err, w.layer("flag").Raw)
		}
	}
	select {
	case <-heard:
		t.Error("a change was heard that there was not")
	default:
	}
}
