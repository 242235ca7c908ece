package toolfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile gives a file new content. old describes the file, nil for one that
// is to be created with the folders above it. path has no links at its end.
//
// The content appears at once and whole, in a new file that takes the place of
// the old one with its permissions and its owner (extended attributes are not
// carried over), and is on the disk before it does: after a crash there is one or
// the other. Three kinds of file are rewritten where they are, which is not
// atomic: those with more than one hard link, so that the others see the change;
// those in a folder that takes no new file; and those that cannot be replaced or
// given the same owner, such as a mounted file. Errors: errMoved, the disk's.
func replaceFile(ctx context.Context, path, data string, old fs.FileInfo) error {
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
			if err := unmoved(path, old); err != nil {
				return err
			}
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
		if err = unmoved(path, old); err == nil {
			err = os.Rename(temp.Name(), path)
		}
	}
	if err == nil {
		return nil
	}
	moved := errors.Is(err, errMoved)
	err = errors.Join(err, os.Remove(temp.Name()))
	if written && old != nil && !moved {
		return rewrite(path, data)
	}
	return err
}

// errMoved: a file is no more what it was when the call looked at it.
var errMoved = errors.New("changed at this moment")

// unmoved gives errMoved when a file has changed since it was described, or has
// appeared.
func unmoved(path string, old fs.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case err != nil && old == nil:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errMoved, err)
	case old == nil, !stateOf(old).same(stateOf(now)):
		return errMoved
	}
	return nil
}

// fill writes and closes a temporary file and makes it like old; written reports
// that the data found room.
func fill(temp *os.File, data string, old fs.FileInfo) (written bool, err error) {
	if _, err := temp.WriteString(data); err != nil {
		return false, errors.Join(err, temp.Close())
	}
	if old != nil {
		// What is new may be lost with the machine, what was there may not.
		if err := temp.Sync(); err != nil {
			return false, errors.Join(err, temp.Close())
		}
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

// rewrite puts data into an existing file. What is longer than the file goes first:
// if the disk is full the file stays what it was. It is shortened at the end, so that
// one who reads meanwhile does not find it empty.
func rewrite(path, data string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(overwrite(f, data), f.Close())
}

func overwrite(f *os.File, data string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := int(info.Size()); size < len(data) {
		if _, err := f.Seek(int64(size), io.SeekStart); err != nil {
			return err
		}
		if _, err := f.WriteString(data[size:]); err != nil {
			return errors.Join(err, f.Truncate(int64(size)))
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		data = data[:size]
		_, err = f.WriteString(data)
		return err
	}
	if _, err := f.WriteString(data); err != nil {
		return err
	}
	return f.Truncate(int64(len(data)))
}
