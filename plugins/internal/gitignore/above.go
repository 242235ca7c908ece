package gitignore

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"dsh/plugins/internal/textfile"
)

const (
	// Folder is that of git itself, which belongs to no walk.
	Folder = ".git"
	// File is the name of the files with rules.
	File = ".gitignore"
	// maxFile bounds what is read of one, in bytes.
	maxFile = 1 << 20
)

// Above collects the rules that hold in an absolute folder, without those of its
// own ignore file: from the root of the work tree that it is in downwards, or else
// from cwd, if it is below that.
func Above(cwd, dir string) *Dir {
	rules := Root()
	root, ok := workTree(dir)
	switch {
	case ok:
		rules = rules.With(Read(filepath.Join(root, Folder, "info", "exclude")))
	case below(cwd, dir):
		root = cwd
	default:
		return rules
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return rules
	}
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		rules = rules.With(Read(filepath.Join(root, File))).Child(name)
		root = filepath.Join(root, name)
	}
	return rules
}

// workTree finds the folder above dir, or dir, that holds a .git.
func workTree(dir string) (root string, ok bool) {
	for {
		if _, err := os.Lstat(filepath.Join(dir, Folder)); err == nil {
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

// Read gives the content of an ignore file, nothing if there is none. Git does not
// follow links here either.
func Read(path string) []byte {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, _, err := textfile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil
	}
	return b
}
