//go:build linux

package stdio

import (
	"math"

	"golang.org/x/sys/unix"
)

const getTermios = unix.TCGETS

// redirect makes descriptor to, which children inherit, a copy of from. Linux
// on arm64 and riscv64 has no dup2.
func redirect(from, to int) error { return unix.Dup3(from, to, 0) }

// keepInherited keeps the descriptors above 2 that are open now from children.
func keepInherited() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		keepEach() // Linux before 5.11
	}
}
