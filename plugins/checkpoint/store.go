package checkpoint

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// store keeps contents in a folder, each in a file that is named by its id. It may
// be used from any goroutine.
type store struct {
	dir string
	// long: ids are SHA-256.
	long bool
	most int64
	used atomic.Int64
}

// errFull says that a session keeps as much as it may.
var errFull = errors.New("the checkpoints need more room than they may take")

func (s *store) path(id string) string { return filepath.Join(s.dir, id[:2], id[2:]) }

func (s *store) has(id string) bool { return exists(s.path(id)) }

// hasher computes the id of a content of a size.
func (s *store) hasher(size int64) hash.Hash {
	var h hash.Hash
	if s.long {
		h = sha256.New()
	} else {
		h = sha1.New()
	}
	h.Write(strconv.AppendInt([]byte("blob "), size, 10))
	h.Write([]byte{0})
	return h
}

func (s *store) idOf(content []byte) string {
	h := s.hasher(int64(len(content)))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// put keeps a content.
func (s *store) put(id string, content []byte) error {
	if s.has(id) {
		return nil
	}
	if s.used.Add(int64(len(content))) > s.most {
		return fmt.Errorf("%w: %d bytes", errFull, s.most)
	}
	path := s.path(id)
	err := s.write(path, content)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = s.write(path, content)
		}
	}
	return err
}

// write makes a file that is there as a whole or not at all.
func (s *store) write(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, remove(f.Name()))
	}
	return nil
}

// get gives a content; one that is damaged is an error.
func (s *store) get(id string) ([]byte, error) {
	content, err := os.ReadFile(s.path(id))
	if err != nil {
		return nil, err
	}
	if s.idOf(content) != id {
		return nil, fmt.Errorf("%s is damaged", s.path(id))
	}
	return content, nil
}

// measure counts what is kept.
func (s *store) measure() error {
	var used int64
	err := filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			used += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s.used.Store(used)
	return err
}

// errTooLarge says that a content is not kept because of its size.
var errTooLarge = errors.New("the file is too large")

// readFile reads a file of a work tree, with what it is at that moment.
func readFile(path string, most int64) (content []byte, i item, err error) {
	f, err := open(path)
	if err != nil {
		return nil, item{}, err
	}
	defer f.Close()
	i, err = stampOf(f)
	if err != nil {
		return nil, item{}, err
	}
	if i.kind != regular {
		return nil, i, fmt.Errorf("%s is no regular file any more", path)
	}
	if i.stamp.size > most {
		return nil, i, errTooLarge
	}
	var b bytes.Buffer
	b.Grow(int(i.stamp.size) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, i, err
	}
	if int64(b.Len()) > most {
		return nil, i, errTooLarge
	}
	return b.Bytes(), i, nil
}
