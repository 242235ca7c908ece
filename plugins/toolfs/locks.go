package toolfs

import (
	"context"
	"sync"
)

// locks keeps two calls, of whatever sessions, from changing one file at the
// same time, so that no edit is lost. A file is known by its path without
// links. Nothing is kept for a file that nobody holds.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	turn  chan struct{}
	users int
}

// lock waits until the caller may change the file; unlock must then be called.
func (l *locks) lock(ctx context.Context, file string) (unlock func(), err error) {
	l.mu.Lock()
	k := l.held[file]
	if k == nil {
		k = &lock{turn: make(chan struct{}, 1)}
		l.held[file] = k
	}
	k.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, file)
		}
	}
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
