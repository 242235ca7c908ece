package contextfile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/plugins/internal/contextfile"
)

func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func link(t *testing.T, target string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFolder(t *testing.T) {
	user, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	home := folder(t)
	for name, want := range map[string]string{
		".": home, "skills": filepath.Join(home, "skills"), "../x": filepath.Join(filepath.Dir(home), "x"), home: home,
		"~": user, "~/.claude": filepath.Join(user, ".claude"), "~x": filepath.Join(home, "~x"),
	} {
		if got, err := contextfile.Folder(home, name); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := folder(t)
	for _, tc := range []struct {
		name, text string
		most       int
		want       string
		cut        bool
	}{
		{"whole", "hé", 10, "hé", false},
		{"as long as may be", "hé", 3, "hé", false},
		{"cut", "abc", 2, "ab", true},
		{"never inside a character", "hé", 2, "h", true},
		{"a mark", "\xef\xbb\xbfx", 1, "x", false},
		{"UTF-16", "\xff\xfeh\x00i\x00", 10, "hi", false},
		{"some bad bytes", "the caf\xe9 is open all day", 100, "the caf\ufffd is open all day", false},
		{"empty", "", 10, "", false},
		{"nothing of it", "x", 0, "", true},
	} {
		text, cut, err := contextfile.Read(put(t, tc.text, dir, "f"), tc.most)
		if text != tc.want || cut != tc.cut || err != nil {
			t.Errorf("%s: got %q, %v, %v", tc.name, text, cut, err)
		}
	}
	for name, text := range map[string]string{"binary": "a\x00b", "another encoding": "\xcf\xf0\xe8\xe2\xe5\xf2"} {
		if _, _, err := contextfile.Read(put(t, text, dir, "f"), 10); !errors.Is(err, contextfile.ErrBinary) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestFind(t *testing.T) {
	dir := folder(t)
	file := put(t, "x", dir, "f")
	for path, there := range map[string]bool{file: true, link(t, "f", dir, "l"): true, filepath.Join(dir, "none"): false, filepath.Join(file, "x"): false} {
		if info, err := contextfile.Find(path); (info != nil) != there || err != nil {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if _, err := contextfile.Find(link(t, "gone", dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("got %v", err)
	}
}

func TestRootAndInside(t *testing.T) {
	dir := folder(t)
	repo := filepath.Join(dir, "repo")
	secret := put(t, "key", dir, "secret")
	file := put(t, "x", repo, "a", "b", "f")
	put(t, "", repo, ".git")
	if got := contextfile.Root(filepath.Dir(file)); got != repo {
		t.Errorf("root %s", got)
	}
	if got := contextfile.Root(link(t, filepath.Dir(file), dir, "link")); got != repo {
		t.Errorf("root through a link %s", got)
	}
	if got := contextfile.Root(filepath.Join(dir, "none")); got != filepath.Join(dir, "none") {
		t.Errorf("root of nothing %s", got)
	}
	out, in := link(t, secret, repo, "out"), link(t, file, repo, "in")
	if real, err := contextfile.Inside(repo, in); real != file || err != nil {
		t.Errorf("got %s, %v", real, err)
	}
	if _, err := contextfile.Inside(repo, out); err == nil || !strings.Contains(err.Error(), "leads out of") {
		t.Errorf("got %v", err)
	}
	if real, err := contextfile.Inside("", out); real != secret || err != nil {
		t.Errorf("got %s, %v", real, err)
	}
	for path, want := range map[string]bool{"/a": true, "/a/b": true, "/ab": false, "/": false} {
		if got := contextfile.Below("/a", path); got != want {
			t.Errorf("%s below /a: %v", path, got)
		}
	}
	if !contextfile.Below("/", "/a") {
		t.Error("/a is not below /")
	}
}

func TestCache(t *testing.T) {
	dir := folder(t)
	file := put(t, "one", dir, "f")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	var c contextfile.Cache[string]
	loads := 0
	get := func() string {
		info, err := contextfile.Find(file)
		if err != nil {
			t.Fatal(err)
		}
		return c.Get(file, info, func() string {
			loads++
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		})
	}
	if a, b := get(), get(); a != "one" || b != "one" || loads != 1 {
		t.Errorf("%s, %s, %d loads", a, b, loads)
	}
	// One that has just changed may change again within the same tick of its clock.
	put(t, "two", dir, "f")
	if a, b := get(), get(); a != "two" || b != "two" || loads != 3 {
		t.Errorf("%s, %s, %d loads", a, b, loads)
	}
	// The same time and size, but another file.
	other := put(t, "six", dir, "g")
	for _, f := range []string{file, other} {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	get()
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != "six" {
		t.Errorf("got %s", got)
	}
}

func TestNotices(t *testing.T) {
	var b bytes.Buffer
	n := contextfile.NewNotices(slog.New(slog.NewTextHandler(&b, nil)))
	for _, text := range []string{"a", "a", "b", "a"} {
		n.Warn("msg", "/f", errors.New(text))
	}
	n.Warn("msg", "/g", errors.New("a"))
	if got := strings.Count(b.String(), "\n"); got != 4 {
		t.Errorf("%d lines:\n%s", got, b.String())
	}
}
