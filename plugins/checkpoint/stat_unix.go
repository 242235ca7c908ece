//go:build unix

package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// look says what is at a path, without following a link there.
func look(path string) (item, error) {
	var st unix.Stat_t
	for {
		err := unix.Lstat(path, &st)
		switch {
		case err == nil:
			return itemOf(filepath.Base(path), &st), nil
		case !errors.Is(err, unix.EINTR):
			return item{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
	}
}

// list says what is in a folder, in no order.
func list(dir string) ([]item, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	items, fd := make([]item, 0, len(entries)), int(f.Fd())
	for _, e := range entries {
		if e.IsDir() {
			items = append(items, item{name: e.Name(), isDir: true})
			continue
		}
		var st unix.Stat_t
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == nil { // else it is gone by now
			items = append(items, itemOf(e.Name(), &st))
		}
	}
	return items, nil
}

func itemOf(name string, st *unix.Stat_t) item {
	i := item{name: name}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		i.isDir = true
	case unix.S_IFREG:
		i.kind, i.perm = regular, fs.FileMode(st.Mode)&fs.ModePerm
	case unix.S_IFLNK:
		i.kind = link
	}
	i.stamp = stamp{size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ino: st.Ino}
	return i
}

// open opens a file to read it; one that has become a link or a pipe meanwhile
// neither leads elsewhere nor blocks.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// openLinked is open for a file outside of the work tree, which may be a link.
func openLinked(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// stampOf is the stamp of an open file.
func stampOf(f *os.File) (item, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(int(f.Fd()), &st)
		switch {
		case err == nil:
			return itemOf(filepath.Base(f.Name()), &st), nil
		case !errors.Is(err, unix.EINTR):
			return item{}, &fs.PathError{Op: "fstat", Path: f.Name(), Err: err}
		}
	}
}
