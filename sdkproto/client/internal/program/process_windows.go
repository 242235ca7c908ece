//go:build windows

package program

import "os"

// terminate ends a process: one without a window cannot be asked to.
func terminate(p *os.Process) error { return p.Kill() }
