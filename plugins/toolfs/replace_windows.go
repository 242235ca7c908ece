//go:build windows

package toolfs

import (
	"io/fs"
	"os"
)

// links is 1: the number of a file's names is not looked up on Windows.
func links(fs.FileInfo) uint64 { return 1 }

// sameOwner does nothing: a new file gets the rights of its folder.
func sameOwner(*os.File, fs.FileInfo) error { return nil }
