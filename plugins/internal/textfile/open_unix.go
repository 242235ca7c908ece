//go:build unix

package textfile

import "syscall"

const nonblock = syscall.O_NONBLOCK
