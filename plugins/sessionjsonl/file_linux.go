package sessionjsonl

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// syncData brings a file's bytes, and its length, to the disk.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// holder gives the process that holds the lock of a file, 0 when the system
// does not tell.
func holder(f *os.File) int {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		if pid := lockLine(lines.Text(), uint64(unix.Major(uint64(st.Dev))), uint64(unix.Minor(uint64(st.Dev))), uint64(st.Ino)); pid > 0 {
			return pid
		}
	}
	return 0
}

// lockLine gives the process of a line of /proc/locks such as
// "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF", if it is about the file of
// that device and inode.
func lockLine(line string, major, minor, inode uint64) int {
	f := strings.Fields(line)
	if len(f) < 6 || f[1] != "FLOCK" {
		return 0
	}
	at := strings.Split(f[5], ":")
	if len(at) != 3 || !same(at[0], 16, major) || !same(at[1], 16, minor) || !same(at[2], 10, inode) {
		return 0
	}
	pid, err := strconv.Atoi(f[4])
	if err != nil {
		return 0
	}
	return pid
}

func same(text string, base int, n uint64) bool {
	v, err := strconv.ParseUint(text, base, 64)
	return err == nil && v == n
}
