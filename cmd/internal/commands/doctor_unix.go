//go:build unix

package commands

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// sharedMode says who else may look into a folder of secrets and sessions; ""
// when nobody may.
func sharedMode(mode fs.FileMode) string {
	switch {
	case mode.Perm()&0o022 != 0:
		return "others may write to it"
	case mode.Perm()&0o055 != 0:
		return "others may read in it"
	}
	return ""
}

// fewDescriptors is a limit that some thousand sessions at once, of one open
// file each, would reach.
const fewDescriptors = 4096

func checkDescriptors() check {
	c := check{Name: "open files", Status: checkOK}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		c.Status, c.Detail, c.Fix = checkWarn, err.Error(), "see what `ulimit -n` says"
		return c
	}
	c.Detail = fmt.Sprintf("up to %d at once", limit.Cur)
	if limit.Cur < fewDescriptors {
		c.Status = checkWarn
		c.Fix = fmt.Sprintf("a live session keeps one open: for thousands of them run `ulimit -n %d` first", fewDescriptors)
	}
	return c
}
