//go:build unix

package mcp

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart puts a program into a session of its own, and so into a process group
// of its own: signals of a terminal do not reach it, and the whole group can be
// ended. There is no parent-death signal: it is sent when the thread that
// started the program ends, which need not be the end of the harness. The guard
// does that work.
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

func groupExists(group int) bool {
	return group > 1 && !errors.Is(unix.Kill(-group, 0), unix.ESRCH)
}
