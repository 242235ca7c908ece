package external

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// reap waits for a program and ends the rest of its group. Until the leader is
// waited for, nobody else can get the group's number.
func reap(cmd *exec.Cmd) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	signalGroup(cmd.Process.Pid, true)
	_ = cmd.Wait() // says again what the state says
}

// endMarked ends what carries the marker and has left the group: nothing that a
// plugin starts may outlive it (case B76).
func endMarked(marker string) {
	for range 5 {
		left := findMarked(marker)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func findMarked(marker string) []int {
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
		if bytes.Contains(env, []byte(markerVariable+"="+marker)) {
			found = append(found, pid)
		}
	}
	return found
}
