//go:build windows

package processlocal

import (
	"os"
	"syscall"
)

// On Windows a program is ended alone, without what it started, until it is
// held in a job object (decision D31).

func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func signalGroup(group int, _ bool) {
	if p, err := os.FindProcess(group); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

func groupExists(int) bool { return false }

func adopt(*program) {}

func find(programs []*program, _ string) []survivor {
	var left []survivor
	for _, p := range programs {
		if p.group > 0 && !p.gone.Load() {
			left = append(left, survivor{pid: p.group, group: p.group})
		}
	}
	return left
}

func signalName(*os.ProcessState) string { return "" }

func unread(*os.File) int { return 0 }
