package checkpoint

import (
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Kinds of files that are covered.
const (
	regular = 'f'
	link    = 'l'
)

// state is what a rewind restores of a file.
type state struct {
	kind byte
	// perm are the permission bits of a regular file, 0 for a link.
	perm fs.FileMode
	// id is git's id of the content, which for a link is its target, in hex; or what
	// opaque makes, for a content that is not kept.
	id string
	// size is that of the content.
	size int64
}

// opaque stands for a content that is not kept: it is compared by size and time.
func opaque(s stamp) string {
	return "?" + strconv.FormatInt(s.size, 10) + "-" + strconv.FormatInt(s.mtime, 10)
}

func (s *state) isOpaque() bool { return s != nil && strings.HasPrefix(s.id, "?") }

// same compares what nil is for a file that is not there.
func same(a, b *state) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// stamp is what tells without reading that a content is still the same. Times are
// in nanoseconds of the epoch.
type stamp struct {
	size, mtime, ctime int64
	ino                uint64
}

// Clocks of file systems stand still between two ticks: what changes within a tick
// of being read may look as if it had not.
const (
	tick       = 50 * time.Millisecond
	coarseTick = 2 * time.Second
)

// isYoung reports whether a content that was read at a time may change without a
// change of its stamp.
func (s stamp) isYoung(read time.Time) bool {
	last, step := max(s.mtime, s.ctime), tick
	if s.mtime%int64(time.Second) == 0 && s.ctime%int64(time.Second) == 0 {
		step = coarseTick
	}
	return last > read.Add(-step).UnixNano()
}

// entry is a file as a snapshot found it.
type entry struct {
	state
	stamp stamp
	// young: the next snapshot reads it again.
	young bool
	// seen is the number of the last walk that met it.
	seen uint32
}

// change is what two snapshots have different in one file; nil is no file.
type change struct {
	path     string
	old, new *state
}

// delta are the changes between two snapshots.
type delta struct {
	// own: they happened while calls of the session were at work.
	own     bool
	changes []change
}
