//go:build unix

package stdio_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"dsh/kernel/stdio"
)

// Case B75: that nobody can read any more shows without a write, and a reader that
// only takes its time is none that has gone.
func TestUnread(t *testing.T) {
	t.Parallel()
	pipe := func(t *testing.T) (out, reader *os.File) {
		t.Helper()
		reader, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return out, reader
	}
	sockets := func(t *testing.T) (out, reader *os.File) {
		t.Helper()
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "out"), os.NewFile(uintptr(fds[1]), "reader")
	}
	for name, open := range map[string]func(t *testing.T) (out, reader *os.File){"pipe": pipe, "sockets": sockets} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, reader := open(t)
			defer out.Close()
			p := &stdio.Pair{Out: out}
			if p.Unread() {
				t.Error("unread, and the reader is there")
			}
			if _, err := out.WriteString("not read yet"); err != nil {
				t.Fatal(err)
			}
			if p.Unread() {
				t.Error("unread, and the reader takes its time")
			}
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
			if !p.Unread() {
				t.Error("the reader has gone, and it does not show")
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			if p.Unread() {
				t.Error("what is closed here has no other side")
			}
		})
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if (&stdio.Pair{Out: file}).Unread() {
		t.Error("a file is always read")
	}
}
