package settings_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/settings"
)

// What stands beside settings files is where those are read (spec stream-json 1.3).
func TestFolders(t *testing.T) {
	layers := []settings.Layer{
		{Scope: settings.ScopeUser, File: "/u/settings.json", Trusted: true},
		{Scope: settings.ScopeUser, File: "/v/settings.json", Trusted: true},
		{Scope: settings.ScopeProject, File: "/ws/.mcp.json", ServersOnly: true},
		{Scope: settings.ScopeProject, File: "/ws/.claude/settings.json"},
		{Scope: settings.ScopeProject, File: "/ws/.claude/settings.json"},
		{Scope: settings.ScopeLocal, File: "/ws/.claude/settings.local.json"},
		{Scope: settings.ScopeFlag, Trusted: true},
	}
	want := []settings.Folder{{"/u", settings.ScopeUser, true}, {"/v", settings.ScopeUser, true}, {"/ws/.claude", settings.ScopeProject, false}}
	if diff := cmp.Diff(want, settings.Folders(layers)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	layers[3].Unread, layers[4].Unread = true, true
	if diff := cmp.Diff(want[:2], settings.Folders(layers)); diff != "" {
		t.Errorf("without the project (-want +got):\n%s", diff)
	}
	if !settings.Reads(layers, settings.ScopeUser) || settings.Reads(layers, settings.ScopeProject) || !settings.Reads(nil, settings.ScopeUser) {
		t.Error("Reads is wrong")
	}
}

// The highest layer that counts has the word (spec stream-json 7.4).
func TestText(t *testing.T) {
	layer := func(raw string, trusted bool) settings.Layer {
		return settings.Layer{Raw: json.RawMessage(raw), Trusted: trusted}
	}
	for name, tc := range map[string]struct {
		layers []settings.Layer
		want   string
	}{
		"none":          {nil, ""},
		"the higher":    {[]settings.Layer{layer(`{"k":"a"}`, true), layer(`{"k":"b"}`, true)}, "b"},
		"says nothing":  {[]settings.Layer{layer(`{"k":"a"}`, true), layer(`{"k":""}`, true), layer(`{"k":7}`, true), layer(`{}`, true), {Trusted: true}}, "a"},
		"not trusted":   {[]settings.Layer{layer(`{"k":"a"}`, true), layer(`{"k":"b"}`, false)}, "a"},
		"cannot be had": {[]settings.Layer{layer(`{"k":"a"}`, true), {Raw: json.RawMessage(`{"k":"b"}`), Trusted: true, Err: errors.New("broken")}}, "a"},
	} {
		if got := settings.Text(tc.layers, "k"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
