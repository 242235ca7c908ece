//go:build unix

package settingsfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a folder, or gives errLocked. A file system without
// locks lets everybody in.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(errLocked, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing what was only read cannot lose anything
}
