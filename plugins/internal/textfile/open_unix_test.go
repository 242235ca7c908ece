//go:build unix

package textfile

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestOpenDoesNotWait(t *testing.T) {
	// A socket's path has a small limit, so the folder is not that of the test.
	dir, err := os.MkdirTemp("", "tf")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, kind string }{
		{pipe, "a named pipe"}, {link, "a named pipe"}, {socket, "a socket"}, {"/dev/null", "a device"}, {"/dev/zero", "a device"},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			done := make(chan error, 1)
			go func() { _, _, err := Open(c.path); done <- err }()
			select {
			case err := <-done:
				var kind *KindError
				if !errors.As(err, &kind) || kind.Kind != c.kind {
					t.Errorf("open %s: %v, want that it is %s", c.path, err, c.kind)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("open %s waits", c.path)
			}
		})
	}
}
