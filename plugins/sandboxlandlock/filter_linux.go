package sandboxlandlock

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arch is what system calls of this binary's own kind say they are, 0 where
// filters are not made for it.
func arch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	}
	return 0
}

// Places in struct seccomp_data (man 2 seccomp); the first argument is read by
// its low half, which is all that socket looks at.
const (
	callNumber    = 0
	callArch      = 4
	firstArgument = 16
)

// filterSockets takes from the calling thread, for ever, all sockets but those
// that stay on this machine. io_uring, which makes sockets past the filter,
// seems not to be there, and neither do the system calls of 32-bit programs,
// which have other numbers.
func filterSockets() error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		give  = unix.BPF_RET | unix.BPF_K
		// x32 is the second set of numbers that amd64 has.
		x32 = 0x40000000
	)
	// Jt and Jf are how many lines are skipped.
	lines := []unix.SockFilter{
		0:  {Code: load, K: callArch},
		1:  {Code: equal, K: arch(), Jf: 9},
		2:  {Code: load, K: callNumber},
		3:  {Code: least, K: x32, Jt: 7},
		4:  {Code: equal, K: unix.SYS_IO_URING_SETUP, Jt: 6},
		5:  {Code: equal, K: unix.SYS_SOCKET, Jf: 3},
		6:  {Code: load, K: firstArgument},
		7:  {Code: equal, K: unix.AF_UNIX, Jt: 1},
		8:  {Code: equal, K: unix.AF_NETLINK, Jf: 1},
		9:  {Code: give, K: unix.SECCOMP_RET_ALLOW},
		10: {Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		11: {Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
	program := unix.SockFprog{Len: uint16(len(lines)), Filter: &lines[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
