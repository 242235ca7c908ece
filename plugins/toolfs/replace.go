package toolfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile gives a file new content. old describes the file, nil for one that
// is to be created with the folders above it. path has no links at its end.
//
// The content appears at once and whole, in a new file that takes the place of
// the old one with its permissions and its owner (extended attributes are not
// carried over). Three kinds of file are rewritten where they are, which is not
// atomic: those with more than one hard link, so that the others see the change;
// those in a folder that takes no new file; and those that cannot be replaced or
// given the same owner, such as a mounted file.
func replaceFile(ctx context.Context, path string, data []byte, old fs.FileInfo) error {
	if err := cancelled(ctx); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if old == nil {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	} else {
		// A file that may not be written must not be replaced either, although its
		// folder would allow that.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if links(old) > 1 {
			return rewrite(path, data)
		}
	}
	temp, err := createTemp(dir)
	if err != nil {
		if old != nil && errors.Is(err, fs.ErrPermission) {
			return rewrite(path, data)
		}
		return err
	}
	written, err := fill(temp, data, old)
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, os.Remove(temp.Name()))
	if written && old != nil {
		return rewrite(path, data)
	}
	return err
}

// fill writes and closes a temporary file and makes it like old; written reports
// that the data found room.
func fill(temp *os.File, data []byte, old fs.FileInfo) (written bool, err error) {
	if _, err := temp.Write(data); err != nil {
		return false, errors.Join(err, temp.Close())
	}
	if old != nil {
		err = sameOwner(temp, old)
		if err == nil {
			err = temp.Chmod(old.Mode().Perm())
		}
	}
	return true, errors.Join(err, temp.Close())
}

// createTemp makes a file with the permissions that the process gives to new
// ones, which os.CreateTemp does not.
func createTemp(dir string) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(filepath.Join(dir, ".dsh-"+rand.Text()+".tmp"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("no free name for a temporary file in %s", dir)
}

// rewrite puts data into an existing file. The file is shortened at the end, so
// that one who reads meanwhile does not find it empty.
func rewrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	return errors.Join(err, f.Close())
}
