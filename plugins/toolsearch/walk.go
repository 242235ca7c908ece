package toolsearch

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dsh/plugins/internal/gitignore"
)

// walk visits the files below base in the order of their paths. It does not
// follow links, and leaves out what .gitignore files name, from the work tree's
// root (or cwd, if base is below it and in no work tree) downwards, what
// .git/info/exclude names, everything called .git, and, unless hidden is set,
// all names that begin with a dot. base itself is walked in any case. Folders
// that cannot be read are left out.
type walk struct {
	cwd, base string
	hidden    bool
	// depth is how many folders below base are entered; -1 for no bound.
	depth int
	// unread says which files and folders the call may not look at; nil for none.
	unread func(path string) bool
	// visit gets files and links, rel being the path below base with slashes. An
	// error ends the walk.
	visit func(path, rel string, e fs.DirEntry) error
}

// run gives the error of visit, of reading base, or the reason why ctx ended.
func (w *walk) run(ctx context.Context) error {
	entries, err := os.ReadDir(w.base)
	if err != nil {
		return err
	}
	return w.folder(ctx, w.base, "", entries, gitignore.Above(w.cwd, w.base), w.depth)
}

// checkEvery is the number of entries between two looks at the context.
const checkEvery = 256

func (w *walk) folder(ctx context.Context, dir, rel string, entries []fs.DirEntry, rules *gitignore.Dir, depth int) error {
	for _, e := range entries {
		if e.Name() == gitignore.File && e.Type().IsRegular() {
			rules = rules.With(gitignore.Read(filepath.Join(dir, gitignore.File)))
			break
		}
	}
	for i, e := range entries {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := e.Name()
		if name == gitignore.Folder || !w.hidden && strings.HasPrefix(name, ".") || rules.Ignored(name, e.IsDir()) {
			continue
		}
		path := filepath.Join(dir, name)
		if w.unread != nil && w.unread(path) {
			continue
		}
		if !e.IsDir() {
			if err := w.visit(path, rel+name, e); err != nil {
				return err
			}
			continue
		}
		if depth == 0 {
			continue
		}
		inside, err := os.ReadDir(path)
		if err != nil {
			continue
		}
		if err := w.folder(ctx, path, rel+name+"/", inside, rules.Child(name), depth-1); err != nil {
			return err
		}
	}
	return nil
}

// namesHidden reports whether a glob pattern has a part that begins with a dot,
// so that hidden files are meant.
func namesHidden(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '.' || i > 0 && !strings.ContainsRune(`/{,\`, rune(pattern[i-1])) {
			continue
		}
		part := pattern[i:]
		if end := strings.IndexAny(part, "/,}"); end >= 0 {
			part = part[:end]
		}
		if part != "." && part != ".." {
			return true
		}
	}
	return false
}
