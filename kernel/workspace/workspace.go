// Package workspace resolves the paths that a model names. It is the one place
// that a policy later scopes (decision D14); today nothing is refused.
package workspace

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ErrEmptyPath: the model named no path.
var ErrEmptyPath = errors.New("the path is empty")

// Resolve gives the absolute, cleaned form of a path that is relative to cwd or
// absolute. Links are not followed here: a tool that replaces a file decides
// itself whether it means the link or its target.
func Resolve(cwd, path string) (string, error) {
	if strings.TrimSpace(path) == "" {
		return "", ErrEmptyPath
	}
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("the path %q contains a NUL byte", path)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	return filepath.Clean(path), nil
}

// Real is Resolve with all links followed, for a path that exists; the part of
// a path that does not exist is kept as it is.
func Real(cwd, path string) (string, error) {
	abs, err := Resolve(cwd, path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := abs; ; {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = parent
	}
}
