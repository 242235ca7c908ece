package transcript

import (
	"os"
	"path/filepath"
	"strings"
)

// maxHead bounds what is read of the files of a work tree, in bytes.
const maxHead = 4096

// Branch is the branch that is checked out in the work tree of a folder: "HEAD"
// for none, "" outside of work trees. It reads two small files and starts nothing.
func Branch(dir string) string {
	for {
		git := filepath.Join(dir, ".git")
		if info, err := os.Stat(git); err == nil {
			if !info.IsDir() {
				// A linked work tree names its folder.
				to, ok := strings.CutPrefix(head(git), "gitdir: ")
				if !ok {
					return ""
				}
				if !filepath.IsAbs(to) {
					to = filepath.Join(dir, to)
				}
				git = to
			}
			at := head(filepath.Join(git, "HEAD"))
			if ref, ok := strings.CutPrefix(at, "ref: "); ok {
				return strings.TrimPrefix(ref, "refs/heads/")
			}
			if at == "" {
				return ""
			}
			return "HEAD"
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// head gives the first line of a small file, "" when there is none.
func head(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHead {
		return ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.ToValidUTF8(strings.TrimSpace(first), "")
}
