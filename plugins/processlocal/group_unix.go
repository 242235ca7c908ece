//go:build unix

package processlocal

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"dsh/kernel/process/group"
)

// adopt waits for dead members of the program's group that became children of
// ours, which happens when the harness is the first process of a container.
func adopt(p *program) {
	if !p.gone.Load() {
		return // the program itself is waited for elsewhere
	}
	for {
		pid, err := unix.Wait4(-p.group, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// findByGroup is find where processes cannot be listed: a group counts as one
// survivor.
func findByGroup(programs []*program) []survivor {
	var left []survivor
	for _, p := range programs {
		// While a group has members, no new process gets its number. A process that
		// has it after the leader is gone is a stranger.
		if !group.Exists(p.group) || p.gone.Load() && unix.Kill(p.group, 0) == nil {
			continue
		}
		left = append(left, survivor{pid: p.group, group: p.group, session: p.group})
	}
	return left
}

func signalName(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return unix.SignalName(w.Signal())
	}
	return ""
}

// unread is how many bytes wait in a pipe, 0 also when that cannot be seen.
func unread(pipe *os.File) (n int) {
	if conn, err := pipe.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { // fails when the pipe is closed, with n at 0
			n, _ = unix.IoctlGetInt(int(fd), fionread)
		})
	}
	return n
}
