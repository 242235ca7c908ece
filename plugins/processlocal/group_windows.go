//go:build windows

package processlocal

import (
	"os"
)

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
