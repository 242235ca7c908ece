//go:build unix

package credentials

import (
	"fmt"
	"io/fs"
)

func checkPrivate(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s can be used by others than its owner (mode %04o); run: chmod 600 '%s'", path, mode, path)
	}
	return nil
}
