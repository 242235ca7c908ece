package sessionjsonl

import (
	"errors"
	"os"
	"time"
)

// errLocked: another descriptor holds the lock.
var errLocked = errors.New("the file is locked")

// lockSoon takes the lock of a file that was just made and is nobody else's: who
// opened it meanwhile lets go as soon as it turns out to hold no session.
func lockSoon(f *os.File) error {
	const tries, pause = 100, 5 * time.Millisecond
	err := lock(f)
	for i := 0; i < tries && errors.Is(err, errLocked); i++ {
		time.Sleep(pause)
		err = lock(f)
	}
	return err
}
