package settingsfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"dsh/plugins/internal/textfile"
)

// MaxBytes bounds a settings file.
const MaxBytes = 4 << 20

// Read reads a file; the error names it and, where it can, the line and column.
// A file that is not there gives an error of fs.ErrNotExist.
func Read(path string) (*Document, error) {
	f, _, err := textfile.Open(path)
	var kind *textfile.KindError
	switch {
	case errors.As(err, &kind):
		return nil, fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return nil, err // it names the file
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("%s: the file is larger than %d bytes", path, MaxBytes)
	}
	d, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return d, nil
}

const (
	// lockLimit is how long an edit waits for those of other processes.
	lockLimit = 5 * time.Second
	lockPause = 10 * time.Millisecond
)

// errLocked: another process edits a file of the folder.
var errLocked = errors.New("another process is editing a file of this folder")

// Edit changes a settings file as change says, whole or not at all. Edits of
// several processes follow each other (not so on Windows, where the last one
// wins). A file that is not there is made with the mode perm, with the folders
// above it; one that cannot be read is an error and stays as it is. A link stays
// a link: its target is written.
func Edit(ctx context.Context, path string, perm fs.FileMode, change func(*Document) error) error {
	if _, err := os.Lstat(path); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fmt.Errorf("edit settings: %w", err)
		}
	}
	dir := filepath.Dir(path)
	folder := fs.FileMode(0o755)
	if perm&0o077 == 0 {
		folder = 0o700
	}
	if err := os.MkdirAll(dir, folder); err != nil {
		return fmt.Errorf("edit settings: %w", err)
	}
	unlock, err := lockFolder(ctx, dir)
	if err != nil {
		return fmt.Errorf("edit %s: %w", path, err)
	}
	defer unlock()
	d, err := Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d = New()
	case err != nil:
		return fmt.Errorf("%w; mend the file first", err)
	default:
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("edit settings: %w", err)
		}
		perm = info.Mode().Perm()
	}
	before, err := d.Bytes()
	if err != nil {
		return fmt.Errorf("edit %s: %w", path, err)
	}
	if err := change(d); err != nil {
		return err
	}
	after, err := d.Bytes()
	if err != nil {
		return fmt.Errorf("edit %s: %w", path, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	if err := replaceFile(path, after, perm); err != nil {
		return fmt.Errorf("edit %s: %w", path, err)
	}
	return nil
}

func replaceFile(path string, data []byte, perm fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text()+".tmp")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockLimit, fmt.Errorf("%w for more than %v; try again", errLocked, lockLimit))
	defer cancel()
	for {
		unlock, err = lock(dir)
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
