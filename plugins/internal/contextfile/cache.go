package contextfile

import (
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Same reports whether a file is as it was: the same file, of the same size and
// time of change.
func Same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

const (
	// mostCached bounds the entries of a cache.
	mostCached = 1024
	// settling is how old the last change of a file must be for its time to tell
	// it from the next one.
	settling = 100 * time.Millisecond
)

// Cache keeps what was made of files for as long as those stay the same. The
// zero value is empty; it may be used from any goroutine.
type Cache[T any] struct {
	mu      sync.Mutex
	entries map[string]cached[T]
}

type cached[T any] struct {
	info  fs.FileInfo
	value T
}

// Get gives what load makes of the file at path, which info describes. load may
// run in several goroutines for one file.
func (c *Cache[T]) Get(path string, info fs.FileInfo, load func() T) T {
	c.mu.Lock()
	old, ok := c.entries[path]
	c.mu.Unlock()
	if ok && Same(old.info, info) {
		return old.value
	}
	began := time.Now()
	value := load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= mostCached {
		c.entries = map[string]cached[T]{}
	}
	if began.Sub(info.ModTime()) > settling {
		c.entries[path] = cached[T]{info, value}
	}
	return value
}

// Notices logs what is wrong with files, each thing once and not again at every
// turn. Its methods may be called from any goroutine.
type Notices struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]string
}

// NewNotices makes an empty one.
func NewNotices(log *slog.Logger) *Notices { return &Notices{log: log} }

// Warn logs a problem of a file unless it was the last one said of it.
func (n *Notices) Warn(msg, path string, err error) {
	n.mu.Lock()
	said := n.last[path] == err.Error()
	if n.last == nil || len(n.last) >= mostCached {
		n.last = map[string]string{}
	}
	n.last[path] = err.Error()
	n.mu.Unlock()
	if !said {
		n.log.Warn(msg, "file", path, "error", err)
	}
}
