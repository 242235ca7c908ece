//go:build unix

package sessionjsonl

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the exclusive lock of an open file, or gives errLocked. It lasts
// until the file is closed or the process ends.
func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == unix.EINTR:
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		case err != nil:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	}
}

// removeLocked removes a locked file and closes it, in this order: nobody can
// take the lock of a file that is about to go.
func removeLocked(f *os.File, path string) error {
	return errors.Join(os.Remove(path), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
