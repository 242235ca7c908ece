package attachmentlocal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"dsh/kernel/attachment"
)

// idPrefix stands before the digest in an attachment's id (spec jsonrpc 9.7).
const idPrefix = "sha256:"

// Store is an attachment.Store in a folder. A file in objects is whole from the
// moment it is there; it is named by the digest of its bytes and never changes.
type Store struct {
	objects, staging string
	room             *semaphore.Weighted
}

var _ attachment.Store = (*Store)(nil)

// NewStore makes a store in a folder, which the first image creates. Several
// processes may share it.
func NewStore(dir string) *Store {
	return &Store{
		objects: filepath.Join(dir, "objects"), staging: filepath.Join(dir, "staging"),
		room: semaphore.NewWeighted(maxFootprint),
	}
}

// object is one file of the store. Its name is the digest in hexadecimal.
type object struct {
	name string
	data []byte
	// staged is its file until it is in place, "" when it is there already.
	staged string
}

func newObject(data []byte) object {
	sum := sha256.Sum256(data)
	return object{name: hex.EncodeToString(sum[:]), data: data}
}

// Read implements attachment.Store. It checks what it read: bytes that are not
// those of the digest are an error, and not ErrNotFound.
func (s *Store) Read(ctx context.Context, id string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	name, ok := strings.CutPrefix(id, idPrefix)
	if !ok || !isDigest(name) {
		return nil, fmt.Errorf("attachment %q: %w", clip(id), attachment.ErrNotFound)
	}
	data, err := os.ReadFile(filepath.Join(s.objects, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("attachment %s: %w", id, attachment.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("attachment %s: %w", id, err)
	case newObject(data).name != name:
		return nil, fmt.Errorf("attachment %s: the stored file is damaged", id)
	}
	return data, nil
}

// isDigest keeps an id from naming a file elsewhere.
func isDigest(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// write brings objects to the disk, all or none as far as that shows: nothing
// is put in place before everything is written.
func (s *Store) write(ctx context.Context, objects []object) (err error) {
	if len(objects) == 0 {
		return nil
	}
	if err := s.prepare(); err != nil {
		return err
	}
	defer func() {
		for _, o := range objects {
			if o.staged != "" {
				err = errors.Join(err, os.Remove(o.staged))
			}
		}
	}()
	for i := range objects {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.stage(&objects[i]); err != nil {
			return err
		}
	}
	for i := range objects {
		if objects[i].staged == "" {
			continue
		}
		// Another process may have been faster; its file is the same.
		if err := os.Rename(objects[i].staged, s.path(objects[i])); err != nil {
			return err
		}
		objects[i].staged = ""
	}
	// Also for those that were there: whoever put them there may not be done.
	return syncDir(s.objects)
}

func (s *Store) path(o object) string { return filepath.Join(s.objects, o.name) }

// stage writes an object that is not there yet to a file of its own.
func (s *Store) stage(o *object) error {
	if info, err := os.Stat(s.path(*o)); err == nil && info.Size() == int64(len(o.data)) {
		return nil
	}
	f, err := os.CreateTemp(s.staging, o.name[:16]+"-*")
	if err != nil {
		return err
	}
	o.staged = f.Name()
	_, err = f.Write(o.data)
	return errors.Join(err, f.Sync(), f.Close())
}

// abandoned is the age of a staged file that no living process waits for.
const abandoned = time.Hour

// prepare makes the folders, and clears what a crash has left.
func (s *Store) prepare() error {
	if info, err := os.Stat(s.objects); err != nil || !info.IsDir() {
		if err := os.MkdirAll(s.objects, 0o700); err != nil {
			return err
		}
		dir := filepath.Dir(s.objects)
		if err := errors.Join(syncDir(dir), syncDir(filepath.Dir(dir))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.staging, 0o700); err != nil {
		return err
	}
	left, err := os.ReadDir(s.staging)
	if err != nil {
		return err
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			// Another process may do the same at this moment.
			_ = os.Remove(filepath.Join(s.staging, e.Name()))
		}
	}
	return nil
}
