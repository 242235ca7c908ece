package contextfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// File is a Markdown file that was found.
type File struct {
	// Path is where it was found, Real where that leads, Stem the name without .md.
	Path, Real, Stem string
	Info             fs.FileInfo
}

// Markdown lists the Markdown files of a folder by name, at most so many; a path
// that is such a file is that file. Nothing is there is no error. Links must not
// lead out of root, unless that is "". What is left out goes to leave.
func Markdown(path, root string, most int, leave func(file string, err error)) (list []File) {
	add := func(file string) {
		info, err := Find(file)
		if info == nil && err == nil {
			return
		}
		real := ""
		if err == nil {
			real, err = Inside(root, file)
		}
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no file")
		}
		if err != nil {
			leave(file, err)
			return
		}
		list = append(list, File{file, real, strings.TrimSuffix(filepath.Base(file), ".md"), info})
	}
	if strings.HasSuffix(path, ".md") {
		add(path)
		return list
	}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		leave(path, err)
		return nil
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".md") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if len(list) >= most {
			leave(path, fmt.Errorf("a folder may have %d files; the rest is not read", most))
			break
		}
		add(filepath.Join(path, e.Name()))
	}
	return list
}
