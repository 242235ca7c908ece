package mcp

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// waitUnreaped returns when a child of ours has ended, and leaves it for
// somebody to wait for.
func waitUnreaped(pid int) bool {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}

// left gives the process groups of what came from the program and lives: all
// that carries its marker, wherever it went. One that left the group and dropped
// its environment is not found.
func (c *child) left() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return c.leftGroup()
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var groups []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil || !bytes.Contains(env, []byte(c.marker)) {
			continue // it has ended, or is not ours to see
		}
		if group, err := unix.Getpgid(pid); err == nil && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}
