package credentials_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/profile"
	"dsh/plugins/credentials"
)

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(credentials.Plugin); err != nil {
		t.Error(err)
	}
}

// TestStart: a file that exists and cannot be used stops the start and says
// where and why, without the values in it (spec jsonrpc 11.2, case B82).
func TestStart(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		wants []string
	}{
		{"no files", nil, nil},
		{"good files", map[string]string{yamlFile: "A: sk-1", dotenv: "B=sk-2"}, nil},
		{"a name that .env may not set", map[string]string{dotenv: "A=sk-1\nDEEPSEEK_BASE_URL=https://sk-evil"}, []string{dotenv + ":2: DEEPSEEK_BASE_URL may not be set in this file"}},
		{"both are wrong", map[string]string{yamlFile: "[sk-1]", dotenv: "sk-2"}, []string{yamlFile + ":1: must be `NAME: value`", dotenv + ":1: must be NAME=value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := t.TempDir()
			for name, text := range tc.files {
				write(t, filepath.Join(home, name), text)
			}
			var got credential.Source
			user := kernel.Define("user", "Uses credentials.", func() struct{} { return struct{}{} },
				func(kernel.Instance, struct{}) fx.Option {
					return fx.Invoke(func(s credential.Source) { got = s })
				}, kernel.Needs[credential.Source]())
			p, err := profile.Load(profile.Options{
				Name: "p", Home: home,
				Embedded: fstest.MapFS{"p.yaml": {Data: []byte("plugins: {credentials: {use: credentials}, user: {use: user}}\n")}},
			})
			if err != nil {
				t.Fatal(err)
			}
			k, err := kernel.Compose(context.Background(), kernel.Options{Plugins: []kernel.Plugin{credentials.Plugin, user}, Profile: p})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = k.Stop() })
			err = k.Start(context.Background())
			if (err != nil) != (tc.wants != nil) {
				t.Fatalf("start gives %v", err)
			}
			for _, want := range tc.wants {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-") {
					t.Errorf("start gives %v, want %s", err, want)
				}
			}
			if tc.wants != nil || tc.files == nil {
				return
			}
			if s, err := got.Lookup(context.Background(), "B"); err != nil || s.Reveal() != "sk-2" {
				t.Errorf("got %q, %v", s.Reveal(), err)
			}
		})
	}
}
