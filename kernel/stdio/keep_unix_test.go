//go:build unix

package stdio

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeep: what a careless parent let slip is kept from children, whichever way
// the system offers, and the three standard descriptors are not.
func TestKeep(t *testing.T) {
	closes := func(fd int) bool {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			t.Fatal(err)
		}
		return flags&unix.FD_CLOEXEC != 0
	}
	for name, keep := range map[string]func(){"at once": keepInherited, "one by one": keepEach} {
		t.Run(name, func(t *testing.T) {
			var fds [2]int
			if err := unix.Pipe(fds[:]); err != nil {
				t.Fatal(err)
			}
			high, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD, 700)
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range append(fds[:], high) {
				if closes(fd) {
					t.Fatalf("descriptor %d would be kept from children anyway", fd)
				}
			}
			keep()
			for _, fd := range append(fds[:], high) {
				if !closes(fd) {
					t.Errorf("children would inherit descriptor %d", fd)
				}
				unix.Close(fd)
			}
			for fd := range 3 {
				if closes(fd) {
					t.Errorf("children would lack descriptor %d", fd)
				}
			}
		})
	}
}
