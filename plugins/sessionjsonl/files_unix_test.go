//go:build unix

package sessionjsonl_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dsh/kernel/session"
	"dsh/kernel/session/sessiontest"
)

func TestModes(t *testing.T) {
	home := filepath.Join(t.TempDir(), "new", "home")
	if err := play(t.Context(), quiet(home), func(bool, int64) {}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Dir(home), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// envLimit makes the test binary write sessions under a limit of file size, in
// the manner of a disk that is full.
const envLimit = "DSH_TEST_FULL_DISK"

// TestFullDisk: a write that goes through in part is taken back, fails the log
// for good, and names the file.
func TestFullDisk(t *testing.T) {
	if home := os.Getenv(envLimit); home != "" {
		fullDisk(t, home)
		return
	}
	home := t.TempDir()
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), envLimit+"="+home)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDisk")) {
		t.Errorf("under the limit: %v\n%s", err, out)
	}
}

func fullDisk(t *testing.T, home string) {
	signal.Ignore(unix.SIGXFSZ)
	const size = 64 << 10
	limit := unix.Rlimit{Cur: size, Max: size}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	st := quiet(home)
	big := session.Draft{Type: "vendor/big", Ignorable: true, Data: strings.Repeat("x", 40<<10)}

	h := sessiontest.Header("grown")
	w, err := st.Create(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	var state session.State
	l := session.NewLog(h, w, 0, 0, &state)
	if _, err := l.Append(big); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file(home, "grown"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Append(big, big); !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), file(home, "grown")) {
			t.Errorf("Append beyond the limit: got error %v, want %v and the file's name", err, unix.EFBIG)
		}
	}
	if l.Next() != 1 {
		t.Errorf("after the failed Append the next seq is %d, want 1", l.Next())
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	after, err := os.ReadFile(file(home, "grown"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("the failed write left %d bytes, want %d", len(after), len(before))
	}

	// A session whose first write fails leaves nothing and can be tried again.
	h = sessiontest.Header("never")
	for range 2 {
		w, err := st.Create(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		l := session.NewLog(h, w, 0, 0)
		if _, err := l.Append(big, big); !errors.Is(err, unix.EFBIG) {
			t.Errorf("the first Append: got error %v, want %v", err, unix.EFBIG)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := os.Stat(file(home, "never")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
	}
}
