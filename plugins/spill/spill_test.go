package spill

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestSpill(t *testing.T) {
	home := t.TempDir()
	s := New(home)
	long := strings.Repeat("x", 300)
	for _, tc := range []struct{ name, session, call, want string }{
		{"plain", "main", "call_1", "main/call_1"},
		{"the same id again", "main", "call_1", "main/call_1.2"},
		{"and again", "main", "call_1", "main/call_1.3"},
		{"separators", "a/b", "../c", "a~002Fb/..~002Fc"},
		{"only dots", "..", "..", "~002E~002E/~002E~002E"},
		{"no call id", "main", "", "main/call"},
		{"a long call id", "main", long, ""},
		{"another long one", "main", long + "y", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := s.Spill(tc.session, tc.call)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte(tc.name)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(home, "spill", filepath.FromSlash(tc.want)); tc.want != "" && f.Path() != want {
				t.Errorf("path is %s, want %s", f.Path(), want)
			}
			if name := filepath.Base(f.Path()); len(name) > 130 {
				t.Errorf("the name has %d bytes, too many for a file system", len(name))
			}
			if got, err := os.ReadFile(f.Path()); err != nil || string(got) != tc.name {
				t.Errorf("file holds %q, %v; want %q", got, err, tc.name)
			}
			if runtime.GOOS == "windows" {
				return
			}
			for path, want := range map[string]os.FileMode{f.Path(): 0o600, filepath.Dir(f.Path()): 0o700} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s has mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
				}
			}
		})
	}
}

func TestSpillRefuses(t *testing.T) {
	s := New(t.TempDir())
	for _, id := range []string{"", strings.Repeat("x", 201)} {
		if f, err := s.Spill(id, "call"); err == nil {
			t.Errorf("session %.10q: kept in %s, want an error", id, f.Path())
		}
	}
}
