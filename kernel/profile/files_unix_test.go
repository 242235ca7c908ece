//go:build unix

package profile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dsh/kernel/profile"
)

// TestB82Unix has the files of case B82 that only Unix knows.
func TestB82Unix(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(path string) error
		want string
	}{
		"dangling link": {func(path string) error { return os.Symlink("nowhere", path) }, ": the file is a link that leads nowhere; repair or remove it"},
		"pipe":          {func(path string) error { return syscall.Mkfifo(path, 0o600) }, ": this is not a regular file"},
		"device":        {func(path string) error { return os.Symlink(os.DevNull, path) }, ": this is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, "profile.yaml")
			if err := tc.make(file); err != nil {
				t.Fatal(err)
			}
			_, err := profile.Load(profile.Options{Name: "sdk", Embedded: builtin(), Home: home})
			if got := messages(t, err); len(got) != 1 || got[0] != file+tc.want {
				t.Fatalf("got %q, want %q", got, file+tc.want)
			}
		})
	}
	t.Run("no read right", func(t *testing.T) {
		home := t.TempDir()
		file := write(t, filepath.Join(home, "profile.yaml"), "plugins: {rpc: {config: {deny: [WebFetch]}}}")
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
		// A user who may read everything gets the rule, everybody else an error.
		p, err := profile.Load(profile.Options{Name: "sdk", Embedded: builtin(), Home: home})
		if err != nil {
			if !strings.HasPrefix(err.Error(), file+": permission denied") {
				t.Fatal(err)
			}
			return
		}
		if rpc, _ := p.Entry("rpc"); string(rpc.Config) != `{"deny":["WebFetch"]}` {
			t.Fatalf("the deny rule is lost: %s", rpc.Config)
		}
	})
}
