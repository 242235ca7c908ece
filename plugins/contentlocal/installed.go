package contentlocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel/content"
	"dsh/plugins/internal/settingsfile"
	"dsh/sdkproto/wirejson"
)

const (
	// installedName is the folder of installed plugins in the data folder.
	installedName = "content-plugins"
	// stateName is the file beside them that says which are disabled.
	stateName = "state.json"
	// disabledKey is its list of their names.
	disabledKey = "disabled"
	// mostFiles and mostBytes bound a plugin that is installed.
	mostFiles = 10_000
	mostBytes = 256 << 20
)

// InstalledPlugin is one plugin of the data folder, good or not.
type InstalledPlugin struct {
	// Name is that of its folder, which is the plugin's.
	Name, Path string
	Disabled   bool
}

// InstalledFolder is where the plugins of a data folder are installed.
func InstalledFolder(home string) string { return filepath.Join(home, installedName) }

// Installed lists the plugins that are installed in a folder, by name.
func Installed(dir string) ([]InstalledPlugin, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	disabled, err := readDisabled(dir)
	if err != nil {
		return nil, err
	}
	var list []InstalledPlugin
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		list = append(list, InstalledPlugin{e.Name(), filepath.Join(dir, e.Name()), slices.Contains(disabled, e.Name())})
	}
	return list, nil
}

// state is what the file of the state says.
type state struct {
	Disabled []string `json:"disabled"`
}

func readDisabled(dir string) ([]string, error) {
	file := filepath.Join(dir, stateName)
	d, err := settingsfile.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list of disabled plugins: %w", err)
	}
	var s state
	if err := wirejson.Unmarshal(d.JSON(), &s); err != nil {
		return nil, fmt.Errorf("list of disabled plugins: %s:%w", file, d.Locate(err))
	}
	return s.Disabled, nil
}

// ErrNotInstalled: there is no installed plugin of that name.
var ErrNotInstalled = errors.New("no such plugin is installed")

// Enable says whether an installed plugin is used from the next start or reload
// on; changed is false when that was so already.
func Enable(ctx context.Context, dir, name string, enabled bool) (changed bool, err error) {
	if err := find(dir, name); err != nil {
		return false, err
	}
	return mark(ctx, dir, name, !enabled)
}

// mark keeps a name in the list of disabled plugins, or out of it.
func mark(ctx context.Context, dir, name string, disabled bool) (changed bool, err error) {
	if list, err := readDisabled(dir); err != nil || slices.Contains(list, name) == disabled {
		return false, err
	}
	err = settingsfile.Edit(ctx, filepath.Join(dir, stateName), 0o600, func(d *settingsfile.Document) error {
		var s state
		if err := wirejson.Unmarshal(d.JSON(), &s); err != nil {
			return d.Locate(err)
		}
		list := slices.DeleteFunc(s.Disabled, func(n string) bool { return n == name })
		if disabled {
			list = append(list, name)
		}
		changed = true
		return d.Set(append([]string{}, list...), disabledKey)
	})
	return changed, err
}

func find(dir, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fmt.Errorf("plugin %q: %w", name, ErrNotInstalled)
	}
	return err
}

// Install copies the plugin of a folder to the installed ones, in the place of one
// of its name that is there, and enables it. The folder itself is not needed any
// more then.
func Install(ctx context.Context, dir, folder string) (p *content.Plugin, replaced bool, err error) {
	if p, err = Load(folder, content.FromInstalled); err != nil {
		return nil, false, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("install plugin %s: %w", p.Name, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, false, fmt.Errorf("install plugin %s: %w", p.Name, err)
	}
	target := filepath.Join(real, p.Name)
	if rel, err := filepath.Rel(p.Path, target); err == nil && filepath.IsLocal(rel) {
		return nil, false, fmt.Errorf("install plugin %s: %s is, or holds, the place where it would be installed", p.Name, p.Path)
	}
	temp, err := os.MkdirTemp(real, ".new-")
	if err != nil {
		return nil, false, fmt.Errorf("install plugin %s: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	fresh, old := filepath.Join(temp, "new"), filepath.Join(temp, "old")
	if err := copyTree(ctx, p.Path, fresh); err != nil {
		return nil, false, fmt.Errorf("install plugin %s: %w", p.Name, err)
	}
	switch err := os.Rename(target, old); {
	case err == nil:
		replaced = true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, fmt.Errorf("install plugin %s: %w", p.Name, err)
	}
	if err := os.Rename(fresh, target); err != nil {
		err = fmt.Errorf("install plugin %s: %w", p.Name, err)
		if replaced {
			err = errors.Join(err, os.Rename(old, target))
		}
		return nil, false, err
	}
	if _, err := mark(ctx, real, p.Name, false); err != nil {
		return nil, false, err
	}
	p, err = Load(target, content.FromInstalled)
	return p, replaced, err
}

// copyTree copies folders and regular files; a link or anything else is an error,
// because it would mean something else in another place. Version control is left
// behind.
func copyTree(ctx context.Context, from, to string) error {
	files, bytes := 0, int64(0)
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if e.IsDir() {
			if e.Name() == ".git" {
				return fs.SkipDir
			}
			return os.MkdirAll(target, 0o700)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file; a plugin that is installed has only such", path)
		}
		files, bytes = files+1, bytes+info.Size()
		if files > mostFiles || bytes > mostBytes {
			return fmt.Errorf("it has more than %d files or %d bytes", mostFiles, mostBytes)
		}
		return copyFile(path, target, info.Mode().Perm()&0o755|0o600)
	})
}

func copyFile(from, to string, perm fs.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Remove takes an installed plugin away.
func Remove(ctx context.Context, dir, name string) error {
	if err := find(dir, name); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("remove plugin %s: %w", name, err)
	}
	_, err := mark(ctx, dir, name, false)
	return err
}
