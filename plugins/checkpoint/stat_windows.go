package checkpoint

import (
	"io/fs"
	"os"
)

// look says what is at a path, without following a link there.
func look(path string) (item, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return item{}, err
	}
	return itemOf(info), nil
}

// list says what is in a folder, in no order.
func list(dir string) ([]item, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	items := make([]item, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it is gone by now
			items = append(items, itemOf(info))
		}
	}
	return items, nil
}

func itemOf(info fs.FileInfo) item {
	i := item{name: info.Name()}
	switch info.Mode().Type() {
	case fs.ModeDir:
		i.isDir = true
	case 0:
		i.kind, i.perm = regular, info.Mode().Perm()
	case fs.ModeSymlink:
		i.kind = link
	}
	i.stamp = stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	return i
}

// open opens a file to read it.
func open(path string) (*os.File, error) { return os.Open(path) }

// openLinked is open for a file outside of the work tree, which may be a link.
func openLinked(path string) (*os.File, error) { return os.Open(path) }

// stampOf is the stamp of an open file.
func stampOf(f *os.File) (item, error) {
	info, err := f.Stat()
	if err != nil {
		return item{}, err
	}
	return itemOf(info), nil
}
