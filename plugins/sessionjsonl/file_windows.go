//go:build windows

package sessionjsonl

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffset is far behind the text: a locked range cannot be read by others.
const lockOffset = 0x7fffffff

// lock takes the exclusive lock of an open file, or gives errLocked. It lasts
// until the file is closed or the process ends.
func lock(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: lockOffset}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	switch {
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return errLocked
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// removeLocked closes a locked file and removes it; an open one cannot be.
func removeLocked(f *os.File, path string) error {
	return errors.Join(f.Close(), os.Remove(path))
}

// syncDir has nothing to do: the file system keeps names in order by itself.
func syncDir(string) error { return nil }
