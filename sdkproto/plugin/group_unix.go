//go:build unix

package plugin

import (
	"os"
	"os/signal"
	"syscall"
)

// outliveHarness keeps a write to a harness that is gone from ending the process
// before it has ended what it started. Nobody need take the signal; to ignore it
// instead would ignore it for children, too.
func outliveHarness() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// endGroup ends the process group when it is the plugin's own: with all that the
// plugin started.
func endGroup() {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
}
