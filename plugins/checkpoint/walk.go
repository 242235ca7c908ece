package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"dsh/plugins/internal/gitignore"
)

const (
	ignoreName     = ".gitignore"
	attributesName = ".gitattributes"
)

// item is something in a folder.
type item struct {
	name  string
	isDir bool
	// kind is 0 for what is never covered: sockets, pipes, devices.
	kind  byte
	perm  fs.FileMode
	stamp stamp
}

// walk goes over the files of a work tree that are not ignored.
type walk struct {
	ctx  context.Context
	top  string
	most int
	n    int
	// attributes: there is a file of attributes.
	attributes bool
	// visit gets a file by its path below top, with slashes.
	visit func(path string, i item)
}

// run walks the tree. rules are those that hold in its top folder without its own.
func (w *walk) run(rules *gitignore.Dir) error { return w.folder(w.top, "", rules) }

func (w *walk) folder(dir, rel string, rules *gitignore.Dir) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	items, err := list(dir)
	if err != nil {
		if rel == "" {
			return err
		}
		return nil // gone by now, or nobody may look into it
	}
	for _, i := range items {
		switch {
		case i.name == gitName && rel != "" && repositoryOf(dir) != "":
			return nil
		case i.name == ignoreName && i.kind == regular:
			// The rules of a folder hold for all of it, wherever its file is in the list.
			rules = rules.With(readTreeFile(filepath.Join(dir, ignoreName)))
		case i.name == attributesName:
			w.attributes = true
		}
	}
	for _, i := range items {
		if i.name == gitName || i.kind == 0 && !i.isDir || rules.Ignored(i.name, i.isDir) {
			continue
		}
		if i.isDir {
			if err := w.folder(filepath.Join(dir, i.name), rel+i.name+"/", rules.Child(i.name)); err != nil {
				return err
			}
			continue
		}
		if w.n++; w.n > w.most {
			return fmt.Errorf("the work tree has more than %d files", w.most)
		}
		w.visit(rel+i.name, i)
	}
	return nil
}

// readTreeFile reads a file of rules in a work tree. git follows no link there, and
// neither does this.
func readTreeFile(path string) []byte {
	if i, err := look(path); err != nil || i.kind != regular {
		return nil
	}
	return readSmall(path)
}

// finder looks for single files of a work tree without following links.
type finder struct {
	top string
	// dirs says which folders are there.
	dirs map[string]bool
}

func newFinder(top string) *finder { return &finder{top, map[string]bool{"": true}} }

// find says what is at a path below the top; ok is false when nothing is. An error
// says that it cannot be known.
func (f *finder) find(path string) (i item, ok bool, err error) {
	up := parentOf(path)
	if known, err := f.isDir(up); err != nil || !known {
		return item{}, false, err
	}
	i, err = look(f.abs(path))
	if errors.Is(err, fs.ErrNotExist) {
		return item{}, false, nil
	}
	return i, err == nil, err
}

func (f *finder) isDir(path string) (bool, error) {
	if is, known := f.dirs[path]; known {
		return is, nil
	}
	i, ok, err := f.find(path)
	if err != nil {
		return false, err
	}
	f.dirs[path] = ok && i.isDir
	return f.dirs[path], nil
}

func (f *finder) abs(path string) string { return filepath.Join(f.top, filepath.FromSlash(path)) }

// parentOf is the folder of a path with slashes, "" for the top.
func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }
