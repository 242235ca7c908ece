package checkpoint

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// asidePrefix begins the name of the folder at the top of a work tree in which a
// rewind prepares new files and keeps the old ones until it has succeeded.
const asidePrefix = ".dsh-rewind-"

// restorer gives files their earlier state. What it does can be undone until the
// end.
type restorer struct {
	s *session
	// root keeps everything below the top, whatever links are made meanwhile.
	root *os.Root
	// aside is the folder for what is not at its place.
	aside string
	// never are folders that are not removed: the working directory and those above.
	never map[string]bool
	undo  []func() error
}

// restore does all of ops or nothing. If what was done cannot be undone, the error
// says where the old files are.
func (s *session) restore(ops []op, cwd string) (err error) {
	root, err := os.OpenRoot(s.tree.top)
	if err != nil {
		return err
	}
	r := &restorer{s: s, root: root, aside: asidePrefix + rand.Text(), never: map[string]bool{}}
	defer func() { err = errors.Join(err, root.Close()) }()
	if real, e := filepath.EvalSymlinks(cwd); e == nil {
		if rel, e := filepath.Rel(s.tree.real, real); e == nil && filepath.IsLocal(rel) {
			for at := filepath.ToSlash(rel); at != "." && at != ""; at = parentOf(at) {
				r.never[at] = true
			}
		}
	}
	if err := root.Mkdir(r.aside, 0o700); err != nil {
		return err
	}
	if err := r.all(ops); err != nil {
		if back := r.back(); back != nil {
			return fmt.Errorf("%w; and not everything could be put back, so look at the files and at %s: %w", err, filepath.Join(s.tree.top, r.aside), back)
		}
		return errors.Join(fmt.Errorf("%w; everything is as it was before", err), root.RemoveAll(r.aside))
	}
	return root.RemoveAll(r.aside)
}

// back undoes what was done, the last first.
func (r *restorer) back() error {
	var errs []error
	for _, undo := range slices.Backward(r.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

func (r *restorer) all(ops []op) error {
	// What needs room on the disk comes first.
	for i, o := range ops {
		if o.to == nil || isMode(o) {
			continue
		}
		if err := r.make(r.place("new", i), o.to); err != nil {
			return fmt.Errorf("prepare %s: %w", r.s.abs(o.path), err)
		}
	}
	for i, o := range ops {
		if o.to == nil {
			if err := r.away(i, o.path); err != nil {
				return fmt.Errorf("remove %s: %w", r.s.abs(o.path), err)
			}
		}
	}
	for _, o := range ops {
		if o.to == nil {
			r.empty(parentOf(o.path))
		}
	}
	for i, o := range ops {
		if o.to == nil {
			continue
		}
		if err := r.set(i, o); err != nil {
			return fmt.Errorf("restore %s: %w", r.s.abs(o.path), err)
		}
	}
	return nil
}

// isMode reports whether only the permissions differ.
func isMode(o op) bool {
	return o.now != nil && o.to != nil && o.now.kind == regular && o.to.kind == regular && o.now.id == o.to.id
}

func (r *restorer) place(what string, i int) string { return r.aside + "/" + what + strconv.Itoa(i) }

// make makes a file or link of a state.
func (r *restorer) make(at string, to *state) error {
	content, err := r.s.store.get(to.id)
	if err != nil {
		return err
	}
	if to.kind == link {
		return r.root.Symlink(string(content), at)
	}
	f, err := r.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return r.root.Chmod(at, to.perm)
}

// away moves a file out of its place.
func (r *restorer) away(i int, from string) error {
	old := r.place("old", i)
	if err := r.root.Rename(from, old); err != nil {
		return err
	}
	r.undo = append(r.undo, func() error { return r.root.Rename(old, from) })
	return nil
}

// set puts a file in its place.
func (r *restorer) set(i int, o op) error {
	if isMode(o) {
		if err := r.root.Chmod(o.path, o.to.perm); err != nil {
			return err
		}
		r.undo = append(r.undo, func() error { return r.root.Chmod(o.path, o.now.perm) })
		return nil
	}
	if err := r.folders(parentOf(o.path)); err != nil {
		return err
	}
	if err := r.clear(o.path); err != nil {
		return err
	}
	fresh := r.place("new", i)
	if o.now == nil {
		// Whatever came there meanwhile is somebody else's.
		if _, err := r.root.Lstat(o.path); !errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(err, fs.ErrExist)
		}
		if err := r.root.Rename(fresh, o.path); err != nil {
			return err
		}
		r.undo = append(r.undo, func() error { return r.root.Remove(o.path) })
		return nil
	}
	old := r.place("old", i)
	if err := r.root.Link(o.path, old); err != nil {
		// Not every file system has links; then the file is away for a moment.
		if err := r.away(i, o.path); err != nil {
			return err
		}
		if err := r.root.Rename(fresh, o.path); err != nil {
			return err
		}
		return nil
	}
	if err := r.root.Rename(fresh, o.path); err != nil {
		return err
	}
	r.undo = append(r.undo, func() error { return r.root.Rename(old, o.path) })
	return nil
}

// folders makes the folders that a file needs.
func (r *restorer) folders(dir string) error {
	if dir == "" {
		return nil
	}
	if _, err := r.root.Lstat(dir); err == nil {
		return nil // a file there makes the next step fail
	}
	if err := r.folders(parentOf(dir)); err != nil {
		return err
	}
	if err := r.root.Mkdir(dir, 0o777); err != nil {
		return err
	}
	r.undo = append(r.undo, func() error { return r.root.Remove(dir) })
	return nil
}

// clear removes a folder with nothing but folders in it from the place of a file.
func (r *restorer) clear(dir string) error {
	info, err := r.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil // the next step sees what is there
	}
	items, err := list(r.s.abs(dir))
	if err != nil {
		return err
	}
	for _, i := range items {
		if i.isDir {
			if err := r.clear(dir + "/" + i.name); err != nil {
				return err
			}
		}
	}
	return r.rmdir(dir, info)
}

func (r *restorer) rmdir(dir string, info fs.FileInfo) error {
	if err := r.root.Remove(dir); err != nil {
		return err
	}
	r.undo = append(r.undo, func() error { return r.root.Mkdir(dir, info.Mode().Perm()) })
	return nil
}

// empty removes a folder, and those above, as long as nothing is in them.
func (r *restorer) empty(dir string) {
	for ; dir != "" && !r.never[dir]; dir = parentOf(dir) {
		info, err := r.root.Lstat(dir)
		if err != nil || !info.IsDir() || r.rmdir(dir, info) != nil {
			return
		}
	}
}
