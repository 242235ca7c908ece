package toolsearch

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dsh/plugins/internal/gitignore"
	"dsh/plugins/internal/textfile"
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
	return w.folder(ctx, w.base, "", entries, rulesAbove(w.cwd, w.base), w.depth)
}

// checkEvery is the number of entries between two looks at the context.
const checkEvery = 256

func (w *walk) folder(ctx context.Context, dir, rel string, entries []fs.DirEntry, rules *gitignore.Dir, depth int) error {
	for _, e := range entries {
		if e.Name() == ignoreFile && e.Type().IsRegular() {
			rules = rules.With(readIgnore(filepath.Join(dir, ignoreFile)))
			break
		}
	}
	for i, e := range entries {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := e.Name()
		if name == gitFolder || !w.hidden && strings.HasPrefix(name, ".") || rules.Ignored(name, e.IsDir()) {
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

const (
	gitFolder  = ".git"
	ignoreFile = ".gitignore"
	// maxIgnore bounds what is read of an ignore file, in bytes.
	maxIgnore = 1 << 20
)

// rulesAbove collects the rules that hold in dir, without those of its own
// ignore file.
func rulesAbove(cwd, dir string) *gitignore.Dir {
	rules := gitignore.Root()
	root, ok := workTree(dir)
	switch {
	case ok:
		rules = rules.With(readIgnore(filepath.Join(root, gitFolder, "info", "exclude")))
	case below(cwd, dir):
		root = cwd
	default:
		return rules
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return rules
	}
	for _, name := range strings.Split(rel, string(filepath.Separator)) {
		rules = rules.With(readIgnore(filepath.Join(root, ignoreFile))).Child(name)
		root = filepath.Join(root, name)
	}
	return rules
}

// workTree finds the folder above dir, or dir, that holds a .git.
func workTree(dir string) (root string, ok bool) {
	for {
		if _, err := os.Lstat(filepath.Join(dir, gitFolder)); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func below(parent, dir string) bool {
	rel, err := filepath.Rel(parent, dir)
	return err == nil && filepath.IsLocal(rel)
}

// readIgnore gives the content of an ignore file, nothing if there is none. Git
// does not follow links here either.
func readIgnore(path string) []byte {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, _, err := textfile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return nil
	}
	return b
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
