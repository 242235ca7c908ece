package group

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Visible says that the system shows the environment of other processes, so that
// Marked finds them.
const Visible = true

// Marked lists the living processes, other than this one, whose environment holds
// text. One that dropped its environment, or is somebody else's, is not found.
func Marked(text string) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		// An error says that it is somebody else's, or gone.
		env, _ := os.ReadFile("/proc/" + name + "/environ")
		if bytes.Contains(env, []byte(text)) {
			found = append(found, pid)
		}
	}
	return found
}

// AwaitEnd returns when a child of ours has ended, and leaves it for somebody to
// wait for: until then nobody else can get its number. It reports whether that
// can be done here.
func AwaitEnd(pid int) bool {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}
