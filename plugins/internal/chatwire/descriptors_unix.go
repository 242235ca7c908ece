//go:build unix

package chatwire

import "syscall"

// descriptors is how many files and connections the process may have open; 0
// when that is not known.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
