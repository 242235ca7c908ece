package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/settingsfile"
	"dsh/sdkproto/wirejson"
)

// trustName is the list of trusted folders in the data folder.
const trustName = "trust.json"

// TrustFile is the path of the list of trusted folders.
func TrustFile(home string) string { return filepath.Join(home, trustName) }

// Trusted lists the folders that the user trusts, with all that is below them,
// as the file has them. Without a file there are none.
func Trusted(home string) ([]string, error) { return readTrust(TrustFile(home)) }

func readTrust(file string) ([]string, error) {
	d, err := settingsfile.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list of trusted folders: %w", err)
	}
	var list struct {
		Folders []string `json:"folders"`
	}
	if err := wirejson.Unmarshal(d.JSON(), &list); err != nil {
		return nil, fmt.Errorf("list of trusted folders: %s:%w", file, d.Locate(err))
	}
	return list.Folders, nil
}

// Trust puts a folder, links followed, into the list; added is false when the
// list covers it already.
func Trust(ctx context.Context, home, folder string) (real string, added bool, err error) {
	if real, err = realFolder(folder); err != nil {
		return "", false, err
	}
	err = editTrust(ctx, home, func(folders []string) []string {
		if covers(folders, real) {
			return folders
		}
		added = true
		return append(folders, real)
	})
	return real, added, err
}

// Distrust takes a folder out of the list; removed is false when the list does
// not name it.
func Distrust(ctx context.Context, home, folder string) (removed bool, err error) {
	names := []string{folder}
	if abs, err := filepath.Abs(folder); err == nil {
		names = append(names, abs)
	}
	if real, err := realFolder(folder); err == nil {
		names = append(names, real)
	}
	err = editTrust(ctx, home, func(folders []string) []string {
		kept := slices.DeleteFunc(slices.Clone(folders), func(f string) bool {
			return slices.Contains(names, f) || slices.Contains(names, filepath.Clean(f))
		})
		removed = len(kept) < len(folders)
		return kept
	})
	return removed, err
}

func editTrust(ctx context.Context, home string, change func([]string) []string) error {
	const private = 0o600
	file := TrustFile(home)
	return settingsfile.Edit(ctx, file, private, func(d *settingsfile.Document) error {
		var list struct {
			Folders []string `json:"folders"`
		}
		if err := wirejson.Unmarshal(d.JSON(), &list); err != nil {
			return fmt.Errorf("list of trusted folders: %s:%w", file, d.Locate(err))
		}
		changed := change(list.Folders)
		if slices.Equal(changed, list.Folders) {
			return nil
		}
		return d.Set(changed, "folders")
	})
}

func realFolder(folder string) (string, error) {
	abs, err := filepath.Abs(folder)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("folder %q: %w", folder, err)
	}
	info, err := contextfile.Find(abs)
	if err == nil && (info == nil || !info.IsDir()) {
		err = errors.New("it is no folder")
	}
	if err != nil {
		return "", fmt.Errorf("folder %q: %w", folder, err)
	}
	return abs, nil
}

// covers reports whether a folder is one of a list, or below one.
func covers(folders []string, real string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return filepath.IsAbs(f) && contextfile.Below(filepath.Clean(f), real)
	})
}

// trusted is the list as this process sees it.
type trusted struct {
	file    string
	log     *slog.Logger
	folders contextfile.Cache[[]string]
}

func newTrusted(home string, log *slog.Logger) *trusted {
	return &trusted{file: TrustFile(home), log: log}
}

// has reports whether a working directory is trusted. What cannot be found out
// is not.
func (t *trusted) has(cwd string) bool {
	info, err := contextfile.Find(t.file)
	if err != nil || info == nil {
		return false
	}
	folders := t.folders.Get(t.file, info, func() []string {
		folders, err := readTrust(t.file)
		if err != nil {
			t.log.Warn("no folder is trusted", "error", err)
		}
		var real []string
		for _, f := range folders {
			if r, err := filepath.EvalSymlinks(f); err == nil {
				real = append(real, r)
			}
		}
		return real
	})
	real, err := filepath.EvalSymlinks(cwd)
	return err == nil && covers(folders, real)
}
