//go:build !linux

package sandboxlandlock

import (
	"errors"
	"os/exec"
	"runtime"
)

func detect() system {
	why := "programs cannot be confined on " + runtime.GOOS + ", only on Linux"
	return system{noLandlock: why, noFilter: why}
}

func startBound(*exec.Cmd, rights) error {
	return errors.New("confine: only Linux can")
}
