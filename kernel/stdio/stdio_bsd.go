//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package stdio

import "golang.org/x/sys/unix"

const getTermios = unix.TIOCGETA

// redirect makes descriptor to, which children inherit, a copy of from.
func redirect(from, to int) error { return unix.Dup2(from, to) }

// keepInherited keeps the descriptors above 2 that are open now from children.
func keepInherited() { keepEach() }
