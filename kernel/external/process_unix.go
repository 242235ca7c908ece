//go:build unix

package external

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// apart puts a plugin into a session, and so a process group, of its own: there
// is no terminal to ask at, and the whole group may be signalled.
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
	// A stopped process takes the signal only when it goes on.
	_ = unix.Kill(-group, unix.SIGTERM)
	_ = unix.Kill(-group, unix.SIGCONT)
}
