// Package contextfile finds and reads files that say something to a model or
// about a workspace: instructions, skills, commands, settings. Such a file may
// come with a checkout, so its size, its kind and the target of its links are
// never taken on trust.
package contextfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"dsh/plugins/internal/textfile"
)

// ErrBinary: the file holds no text.
var ErrBinary = errors.New("it is no text file")

// Folder gives the absolute path of a folder of the user's that a row names:
// relative to the data folder, absolute, or ~ and ~/x for the user's home.
func Folder(home, name string) (string, error) {
	if rest, ok := strings.CutPrefix(filepath.ToSlash(name), "~"); ok && (rest == "" || rest[0] == '/') {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("folder %q: %w", name, err)
		}
		return filepath.Join(user, filepath.FromSlash(rest)), nil
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	return filepath.Join(home, name), nil
}

// Find describes what is at a path, links followed; nil when nothing is. A link
// that leads nowhere is an error: somebody meant something to be there.
func Find(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink == 0:
		return info, nil
	}
	info, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is a link that leads nowhere; mend it or remove it", path)
	}
	return info, err
}

// Root is the folder that a workspace's files belong to: the nearest one, from
// cwd upwards, that holds .git, else cwd itself. Links are followed.
func Root(cwd string) string {
	real, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return filepath.Clean(cwd)
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return real
		}
	}
}

// Inside gives the real path of a file, or an error when its links lead out of
// root: a checkout must not put a file of the user's, such as a key, before a
// model. root is a real path, "" refuses nothing.
func Inside(root, path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if root != "" && !Below(root, real) {
		return "", fmt.Errorf("%s leads out of %s, to %s, and is not read", path, root, real)
	}
	return real, nil
}

// Below reports whether path is root or in it; both are absolute and clean.
func Below(root, path string) bool {
	if root == path {
		return true
	}
	if !os.IsPathSeparator(root[len(root)-1]) {
		root += string(filepath.Separator)
	}
	return strings.HasPrefix(path, root)
}

// Read gives the text of a regular file, at most the first most bytes of it as
// UTF-8: marks and UTF-16 are understood, what is no character becomes U+FFFD.
// cut says that there is more. A file without text is ErrBinary.
func Read(path string, most int) (text string, cut bool, err error) {
	f, _, err := textfile.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, textfile.SniffLen)
	head, err := r.Peek(textfile.SniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false, err
	}
	encoding := textfile.Sniff(head)
	if encoding == textfile.Binary || encoding == textfile.UTF8 && textfile.Garbled(head) {
		return "", false, fmt.Errorf("%s: %w", path, ErrBinary)
	}
	if _, err := r.Discard(len(encoding.BOM())); err != nil {
		return "", false, err
	}
	data, err := io.ReadAll(io.LimitReader(encoding.Reader(r), int64(most)+1))
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", path, err)
	}
	text, cut = Cut(string(data), most)
	text, _ = textfile.Printable([]byte(text))
	return text, cut, nil
}

// Cut shortens text to at most most bytes and never inside a character.
func Cut(text string, most int) (short string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}
