package external

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"

	"dsh/kernel"
	"dsh/kernel/profile"
)

// stamp tells whether an executable was replaced: a reload starts the new one then.
func stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "missing" // its start says why
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

// find gives the absolute path of the executable that a row names. The file need
// not be there if `use` is a path: that a plugin is missing is the failure of its
// row. A bare name that no file in dir has is kernel.ErrNoPlugin.
func find(dir string, e *profile.Entry) (string, error) {
	use := e.Use
	switch {
	case filepath.IsAbs(use):
		return filepath.Clean(use), nil
	case strings.ContainsRune(use, '/') || strings.ContainsRune(use, filepath.Separator):
		if e.UseDir == "" {
			return "", rowError(e, "use", "%q is a relative path, and there is no file whose folder it could start at; give an absolute path, or put the executable into %s and use its name", use, dir)
		}
		return filepath.Join(e.UseDir, filepath.FromSlash(use)), nil
	case dir == "" || use == "." || use == "..":
		return "", kernel.ErrNoPlugin
	}
	path := filepath.Join(dir, use)
	names := []string{path}
	if runtime.GOOS == "windows" {
		names = []string{path + ".exe", path}
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			return filepath.Abs(name)
		}
	}
	return "", kernel.ErrNoPlugin
}

// executable says what is wrong with a file that is to be started.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s; build or install the plugin, or correct the path", path)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name the executable in it", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable; run: chmod +x %s", path, path)
	}
	return nil
}

// verify compares a file with a row's checksum, "sha256:" and 64 hex digits; ""
// pins nothing. It says what the file is, not what it does.
func verify(path, checksum string) error {
	if checksum == "" {
		return nil
	}
	want, err := parseChecksum(checksum)
	if err != nil {
		return err
	}
	same, err := (&goplugin.SecureConfig{Checksum: want, Hash: sha256.New()}).Check(path)
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	if !same {
		is, err := Checksum(path)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is not the pinned file: its checksum is %s; if it is the one you want, put that into the row", path, is)
	}
	return nil
}

// Checksum gives the checksum of a file in the form that a row takes.
func Checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

func parseChecksum(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "sha256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%q is not a checksum; write sha256: and 64 hex digits", text)
	}
	return sum, nil
}

// rowError is an error about a row; key names its member, "" for the row.
func rowError(e *profile.Entry, key, format string, args ...any) error {
	pos, path := e.Pos, "plugins."+e.ID
	if key == "use" {
		pos = e.UsePos
	}
	if key != "" {
		path += "." + key
	}
	return &profile.Error{Pos: pos, Path: path, Msg: fmt.Sprintf(format, args...)}
}
