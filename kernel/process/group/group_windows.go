package group

import (
	"os"
	"syscall"
)

// Apart keeps the console's interrupts away from a program. On Windows a program
// is ended alone, without what it started, until it is held in a job object
// (decision D31).
func Apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Signal ends the process when kill is set: there is no gentler way.
func Signal(group int, kill bool) {
	if !kill {
		return
	}
	if p, err := os.FindProcess(group); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

// Exists cannot tell.
func Exists(int) bool { return false }

// Of gives the process itself.
func Of(pid int) (int, error) { return pid, nil }
