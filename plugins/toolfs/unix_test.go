//go:build unix

package toolfs

import (
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

func (x *fixture) mode(name string) fs.FileMode {
	x.T.Helper()
	info, err := os.Stat(x.Path(name))
	if err != nil {
		x.T.Fatal(err)
	}
	return info.Mode()
}

// changes are the ways to give the file f the content "after\n".
var changes = map[string]func(x *fixture, name string){
	"write": func(x *fixture, name string) { x.Good("write", args{"file_path": name, "content": "after\n"}) },
	"edit": func(x *fixture, name string) {
		x.Good("edit", args{"file_path": name, "old_string": "before", "new_string": "after"})
	},
}

func TestChangeKeepsTheMode(t *testing.T) {
	for how, change := range changes {
		t.Run(how, func(t *testing.T) {
			x := setUp(t, defaults())
			for _, mode := range []fs.FileMode{0o600, 0o755, 0o640, 0o666} {
				name := mode.String()
				if err := os.Chmod(x.Put(name, "before\n"), mode); err != nil {
					t.Fatal(err)
				}
				change(x, name)
				if got := x.mode(name); got != mode || x.get(name) != "after\n" {
					t.Errorf("mode %v and content %q, want %v", got, x.get(name), mode)
				}
			}
		})
	}
}

func TestNewFilesHaveTheUsualMode(t *testing.T) {
	x := setUp(t, defaults())
	usual, err := os.Create(x.Path("usual"))
	if err != nil {
		t.Fatal(err)
	}
	if err := usual.Close(); err != nil {
		t.Fatal(err)
	}
	x.Good("write", args{"file_path": "f", "content": "x"})
	if got, want := x.mode("f"), x.mode("usual"); got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
}

func TestChangeGoesThroughLinks(t *testing.T) {
	for how, change := range changes {
		t.Run(how, func(t *testing.T) {
			x := setUp(t, defaults())
			x.Put("real/f", "before\n")
			if err := os.Symlink("real/f", x.Path("link")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("link", x.Path("link2")); err != nil {
				t.Fatal(err)
			}
			change(x, "link2")
			for _, name := range []string{"link", "link2"} {
				if info, err := os.Lstat(x.Path(name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
					t.Errorf("%s is no link any more: %v %v", name, info.Mode(), err)
				}
			}
			if got := x.get("real/f"); got != "after\n" {
				t.Errorf("the target holds %q", got)
			}
		})
	}
}

func TestWriteThroughALinkToNothing(t *testing.T) {
	x := setUp(t, defaults())
	for link, to := range map[string]string{"a": "b", "b": "new/f", "loop1": "loop2", "loop2": "loop1"} {
		if err := os.Symlink(to, x.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
	x.Good("write", args{"file_path": "a", "content": "after\n"})
	if got := x.get("new/f"); got != "after\n" {
		t.Errorf("the target holds %q", got)
	}
	if to, err := os.Readlink(x.Path("a")); err != nil || to != "b" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	x.Bad("write", args{"file_path": "loop1", "content": "x"}, codeFailed, "too many links")
	x.Bad("read", args{"file_path": "loop1"}, codeFailed, "too many")
}

func TestChangeKeepsHardLinks(t *testing.T) {
	for how, change := range changes {
		t.Run(how, func(t *testing.T) {
			x := setUp(t, defaults())
			if err := os.Link(x.Put("f", "before\n"), x.Path("g")); err != nil {
				t.Fatal(err)
			}
			change(x, "f")
			if got := x.get("g"); got != "after\n" {
				t.Errorf("the other name shows %q", got)
			}
			x.onlyFiles("", "f", "g")
		})
	}
}

func TestRewriteShortens(t *testing.T) {
	x := setUp(t, defaults())
	if err := os.Link(x.Put("f", "a long text before\n"), x.Path("g")); err != nil {
		t.Fatal(err)
	}
	x.Good("write", args{"file_path": "f", "content": "x"})
	if got := x.get("g"); got != "x" {
		t.Errorf("content %q", got)
	}
}

func TestChangeKeepsTheOwner(t *testing.T) {
	x := setUp(t, defaults())
	p := x.Put("f", "before\n")
	// Only root may give files away; anybody else tests that nothing changes.
	uid := os.Getuid()
	if uid == 0 {
		uid = 12345
	}
	if err := os.Chown(p, uid, -1); err != nil {
		t.Fatal(err)
	}
	changes["edit"](x, "f")
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; int(got) != uid {
		t.Errorf("the owner is %d, want %d", got, uid)
	}
}

func TestPipesAndDevicesAreRefused(t *testing.T) {
	x := setUp(t, defaults())
	if err := syscall.Mkfifo(x.Path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"pipe", "/dev/null"} {
		x.Bad("read", args{"file_path": p}, codeNotFile, "only regular files")
		x.Bad("write", args{"file_path": p, "content": "x"}, codeNotFile, "only regular files")
		x.Bad("edit", args{"file_path": p, "old_string": "a", "new_string": "x"}, codeNotFile, "only regular files")
	}
}

// Nothing is read-only for root, but the mode stays.
func TestReadOnlyFilesAreRespected(t *testing.T) {
	x := setUp(t, defaults())
	p := x.Put("f", "before\n")
	if err := os.Chmod(p, 0o444); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		changes["edit"](x, "f")
		if got := x.mode("f"); got != 0o444 {
			t.Errorf("mode %v", got)
		}
		return
	}
	x.Bad("write", args{"file_path": "f", "content": "x"}, codeFailed, "permission denied")
	x.Bad("edit", args{"file_path": "f", "old_string": "before", "new_string": "x"}, codeFailed, "permission denied")
	if got := x.get("f"); got != "before\n" {
		t.Errorf("content %q", got)
	}
}

func TestFolderThatTakesNoNewFile(t *testing.T) {
	for how, change := range changes {
		t.Run(how, func(t *testing.T) {
			x := setUp(t, defaults())
			x.Put("d/f", "before\n")
			if err := os.Chmod(x.Path("d"), 0o555); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(x.Path("d"), 0o755)
			change(x, "d/f")
			if got := x.get("d/f"); got != "after\n" {
				t.Errorf("content %q", got)
			}
			x.onlyFiles("d", "f")
		})
	}
}

// TestDiskFull: when there is no room for what is new, the old file stays whole. The
// limit of a process on the size of files takes the place of a full disk: the write
// ends halfway in the same manner.
func TestDiskFull(t *testing.T) {
	x := setUp(t, defaults())
	old := strings.Repeat("old line\n", 100)
	if os.Getenv("TOOLFS_FULL") != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}); err != nil {
			t.Fatal(err)
		}
		x.Put("f", old)
		if err := os.Link(x.Put("linked", old), x.Path("other")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"f", "linked"} {
			x.Bad("write", args{"file_path": name, "content": strings.Repeat("new line\n", 1000)}, codeFailed, "file too large")
			x.Bad("edit", args{"file_path": name, "old_string": "old line", "new_string": strings.Repeat("new line", 10), "replace_all": true}, codeFailed, "file too large")
		}
		x.Bad("write", args{"file_path": "new", "content": strings.Repeat("new line\n", 1000)}, codeFailed, "file too large")
		for _, name := range []string{"f", "linked", "other"} {
			if got := x.get(name); got != old {
				t.Errorf("%s holds %d bytes: %.50q", name, len(got), got)
			}
		}
		x.onlyFiles("", "f", "linked", "other")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
	cmd.Env = append(os.Environ(), "TOOLFS_FULL=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDiskFull") {
		t.Errorf("%v\n%s", err, out)
	}
}
