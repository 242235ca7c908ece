package plugins_test

import (
	"testing"

	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/plugins"
	"dsh/profiles"
)

// Every plugin is what it declares itself to be (anchors: "the declaration is
// the truth").
func TestDeclarations(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range plugins.Builtin() {
		t.Run(p.Name, func(t *testing.T) {
			if seen[p.Name] {
				t.Error("listed twice")
			}
			seen[p.Name] = true
			if err := kernel.CheckDeclaration(p); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every built-in profile composes from the built-in plugins.
func TestProfiles(t *testing.T) {
	options := profile.Options{Embedded: profiles.FS, Home: t.TempDir()}
	names, err := profile.Names(options)
	if err != nil || len(names) == 0 {
		t.Fatalf("got %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			options.Name = name
			p, err := profile.Load(options)
			if err != nil {
				t.Fatal(err)
			}
			if err := (kernel.Options{Plugins: plugins.Builtin(), Profile: p}).Check(); err != nil {
				t.Error(err)
			}
			if p.Summary == "" {
				t.Error("has no summary")
			}
		})
	}
}
