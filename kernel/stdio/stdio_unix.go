//go:build unix

package stdio

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// take works on descriptors, below package os, so that C libraries, raw writes
// and children are covered too.
//
// os.Stdin and os.Stdout are left as they are on purpose. They stand for
// descriptors 0 and 1 and so follow the move. Putting other values there would
// leave the old ones to the garbage collector, whose finalizer closes the
// descriptor: 0 and 1 would be free for the next file that is opened.
func take() (*Pair, error) {
	keepInherited()
	in, err := private(0, "stdin")
	if err != nil {
		return nil, err
	}
	out, err := private(1, "stdout")
	if err != nil {
		return nil, err
	}
	terminal := isTerminal(in)

	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take stdio: open %s: %w", os.DevNull, err)
	}
	defer unix.Close(null)
	if err := redirect(null, 0); err != nil {
		return nil, fmt.Errorf("take stdio: point stdin at %s: %w", os.DevNull, err)
	}
	if err := redirect(2, 1); err != nil {
		return nil, fmt.Errorf("take stdio: point stdout at stderr: %w", err)
	}

	// The runtime turns EPIPE into death by SIGPIPE on descriptors 1 and 2 only,
	// and only while nobody asks for that signal. Nobody reads this channel. To
	// ignore the signal instead would be inherited by every child, and end the
	// pipelines of a shell with error messages.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)

	// NewFile looks whether a descriptor is in non-blocking mode and does not
	// change it, which is as it must be: the mode belongs to the open file and
	// so to the parent as well. In the usual blocking mode a Read occupies a
	// thread until there is input and cannot be interrupted.
	return &Pair{
		In:       os.NewFile(uintptr(in), "stdin"),
		Out:      os.NewFile(uintptr(out), "stdout"),
		terminal: terminal,
	}, nil
}

// private returns a copy of fd that no child inherits and that is none of the
// three standard ones.
func private(fd int, name string) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, fmt.Errorf("take stdio: copy descriptor %d (%s): %w", fd, name, err)
	}
	return dup, nil
}

// keepEach is keepInherited by a list of what is open. Go opens all of its own
// so that no child inherits it.
func keepEach() {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read counts
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil
}
