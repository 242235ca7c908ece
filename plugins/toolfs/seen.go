package toolfs

import (
	"container/list"
	"hash/maphash"
	"io"
	"io/fs"
	"sync"
	"time"
)

// seen remembers in what state a session last read or left a file, so that a
// change by somebody else is noticed. It forgets what was not asked for the longest
// time: then, and after a restart, nothing is noticed, which hinders nobody.
type seen struct {
	seed maphash.Seed

	mu    sync.Mutex
	of    map[seenKey]*list.Element
	order *list.List // of *seenFile, the last used in front
}

// maxSeen bounds the files that are remembered, over all sessions: about a megabyte.
const maxSeen = 4096

type seenKey struct{ session, path string }

type seenFile struct {
	key   seenKey
	state fileState
}

func newSeen() *seen {
	return &seen{seed: maphash.MakeSeed(), of: map[seenKey]*list.Element{}, order: list.New()}
}

// fileState is a file at one time.
type fileState struct {
	size     int64
	modified time.Time
	// sum is of all that the file holds, if whole.
	sum   uint64
	whole bool
}

func stateOf(info fs.FileInfo) fileState {
	return fileState{size: info.Size(), modified: info.ModTime()}
}

// same compares by content where both sides have it: a file may be written anew with
// what it had.
func (s fileState) same(now fileState) bool {
	if s.whole && now.whole {
		return s.sum == now.sum
	}
	return s.size == now.size && s.modified.Equal(now.modified)
}

// hold remembers a state.
func (s *seen) hold(key seenKey, state fileState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, known := s.of[key]; known {
		e.Value.(*seenFile).state = state
		s.order.MoveToFront(e)
		return
	}
	s.of[key] = s.order.PushFront(&seenFile{key, state})
	if s.order.Len() > maxSeen {
		oldest := s.order.Back()
		s.order.Remove(oldest)
		delete(s.of, oldest.Value.(*seenFile).key)
	}
}

// changed reports that a file is no more what the session saw of it.
func (s *seen) changed(key seenKey, now fileState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.of[key]
	return known && !e.Value.(*seenFile).state.same(now)
}

// summing counts and sums what is read.
type summing struct {
	r   io.Reader
	sum maphash.Hash
	n   int64
}

func (s *seen) summing(r io.Reader) *summing {
	t := &summing{r: r}
	t.sum.SetSeed(s.seed)
	return t
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n]) // never fails
	s.n += int64(n)
	return n, err
}
