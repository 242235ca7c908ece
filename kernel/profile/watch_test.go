package profile_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"dsh/kernel/profile"
)

func TestWatch(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	patch := filepath.Join(other, "patch.yaml")
	write := func(file, text string) {
		t.Helper()
		// As editors do: a new file takes the place of the old one.
		if err := os.WriteFile(file+"~", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"~", file); err != nil {
			t.Fatal(err)
		}
	}
	write(patch, "plugins: {a: {use: x}}\n")
	p, err := profile.Load(profile.Options{
		Name: "test", Home: home, Patches: []string{patch},
		Embedded: fstest.MapFS{"test.yaml": {Data: []byte("settings: {reload: change}\nplugins: {}\n")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.Settings.Reload != profile.ReloadOnChange {
		t.Errorf("settings.reload is %q", p.Settings.Reload)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- p.Watch(ctx, func() { changed <- struct{}{} }) }()
	seen := func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Errorf("%s was not told", what)
		}
	}
	// Until the watch is there nothing can be seen: try until it is.
	for up := false; !up; {
		write(patch, "plugins: {a: {use: y}}\n")
		select {
		case <-changed:
			up = true
		case <-time.After(time.Second):
		}
	}
	write(filepath.Join(home, "profile.yaml"), "plugins: {}\n")
	seen("a file of the home folder that was not there")
	if err := os.Remove(filepath.Join(home, "profile.yaml")); err != nil {
		t.Fatal(err)
	}
	seen("the end of a file")
	write(filepath.Join(other, "other.yaml"), "plugins: {}\n")
	select {
	case <-changed:
		t.Error("a file that is not the profile's was told as a change")
	case <-time.After(time.Second):
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
