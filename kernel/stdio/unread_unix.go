//go:build unix

package stdio

import "golang.org/x/sys/unix"

// unread asks the system without a wait and without a write.
func (p *Pair) unread() bool {
	raw, err := p.Out.SyscallConn()
	if err != nil {
		return false // it was closed here
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		// What ends the other side is told whatever is asked for.
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && gone
}
