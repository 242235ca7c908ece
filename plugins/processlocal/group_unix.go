//go:build unix

package processlocal

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart puts a program into a session of its own. That is a process group of
// its own, too, and more: there is no terminal to ask at (case B64), and every
// group that a descendant ever belongs to consists of descendants only, so that
// whole groups may be signalled.
//
// There is no parent-death signal: it is sent when the thread that started the
// program ends, which need not be the end of the harness, and it reaches the
// program alone and not its children. The guard does that work.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signalGroup sends TERM or KILL to a process group, which must not be our own.
func signalGroup(group int, kill bool) {
	if group <= 1 || group == unix.Getpgrp() {
		return
	}
	if kill {
		_ = unix.Kill(-group, unix.SIGKILL)
		return
	}
	// A stopped process takes the signal only when it goes on. The group may be
	// gone by now, which is what is wanted.
	_ = unix.Kill(-group, unix.SIGTERM)
	_ = unix.Kill(-group, unix.SIGCONT)
}

// groupExists says whether a group has members, dead ones included that nobody
// has waited for.
func groupExists(group int) bool {
	return group > 0 && !errors.Is(unix.Kill(-group, 0), unix.ESRCH)
}

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
		if !groupExists(p.group) || p.gone.Load() && unix.Kill(p.group, 0) == nil {
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
