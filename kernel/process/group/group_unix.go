//go:build unix

package group

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Apart puts a program into a session of its own. That is a process group of its
// own, too, and more: there is no terminal to ask at (case B64), and every group
// that a descendant ever belongs to consists of descendants only, so that whole
// groups may be signalled.
//
// There is no parent-death signal: it is sent when the thread that started the
// program ends, which need not be the end of the harness, and it reaches the
// program alone and not its children. A Guard does that work.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Signal sends TERM or KILL to a process group, which must not be our own.
func Signal(group int, kill bool) {
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

// Exists says whether a group has members, dead ones included that nobody has
// waited for.
func Exists(group int) bool {
	return group > 1 && !errors.Is(unix.Kill(-group, 0), unix.ESRCH)
}

// Of gives the group of a process.
func Of(pid int) (int, error) { return unix.Getpgid(pid) }
