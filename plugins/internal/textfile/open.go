// Package textfile reads files that somebody else made and that are probably
// text: it never waits for a pipe or a device, knows binaries and UTF-16 by
// their first bytes, and needs no more memory than its caller's buffer.
package textfile

import (
	"io/fs"
	"os"
)

// KindError refuses a path that names something other than a regular file.
type KindError struct {
	// Kind is what it is, with its article: "a directory", "a named pipe".
	Kind string
}

func (e *KindError) Error() string { return "it is " + e.Kind }

// DirectoryKind is the Kind of a directory.
const DirectoryKind = "a directory"

// CheckRegular gives a *KindError for all but regular files.
func CheckRegular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return &KindError{DirectoryKind}
	case mode&fs.ModeNamedPipe != 0:
		return &KindError{"a named pipe"}
	case mode&fs.ModeSocket != 0:
		return &KindError{"a socket"}
	case mode&fs.ModeDevice != 0:
		return &KindError{"a device"}
	}
	return &KindError{"not a regular file"}
}

// Open opens a regular file for reading and follows links. It does not wait
// for the other end of a pipe: a path that becomes one between the look and the
// opening is refused as well. The error is a *KindError or a *fs.PathError.
func Open(path string) (*os.File, fs.FileInfo, error) {
	// Opening a device can do something (rewind a tape), so look first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := CheckRegular(info); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = CheckRegular(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
